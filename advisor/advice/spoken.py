"""Names as people say them: "2x3090", "M4 Max 128", "NVIDIA H100 80GB HBM3", "vllm@0.32.0"."""

import re
from functools import cache
from types import ModuleType

from advisor import engines
from advisor.domain.nouns import LIMITS, AdvisorError, Hardware, UnknownFact
from advisor.domain.patterns import lazy_re
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge

_BEFORE = lazy_re(r"(\d{1,4}) ?[x*\u00d7] ?(\S.*)", re.IGNORECASE)
# after a digit or a space only: "ai max 395" is no number of machines
_AFTER = lazy_re(r"(\S.*(?:\d|(?<! ) ))[x*\u00d7] ?(\d{1,4})", re.IGNORECASE)
_NUMBERS = ("", "single one", "dual two twin", "triple three", "quad four", "five", "six", "seven",
            "eight")  # fmt: skip
_WORDS = {word: count for count, words in enumerate(_NUMBERS) for word in words.split()}
_MEMORY = lazy_re(r"(\S.*?)[ -](\d{1,4}) ?gi?b(?: (?:unified|v?ram|memory))?", re.IGNORECASE)
_BARE = lazy_re(r"(\S.*?) (\d{1,3})")  # "M4 Max 128"
_MAC = lazy_re(r"(?:apple )?i?mac(?:book)?(?: (?:pro|studio|mini|air))?[ ,:]+(\S.*)", re.IGNORECASE)
MEMORY_SLACK = sourced(
    0.1, "share", "own choice: GB and GiB, and sizes that vendors round", "assumed"
)


def split_count(name: str) -> tuple[str, int | None]:
    """A name and its number of GPUs, 1 to 1024: "2x3090", "dual 3090", "3090 x2"; else None."""
    text = name.strip()
    word, _, rest = text.partition(" ")
    if rest and word.lower() in _WORDS:
        return rest.removeprefix("x ").strip(), _WORDS[word.lower()]
    before, after = _BEFORE.fullmatch(text), _AFTER.fullmatch(text)
    # "3090x2" reads both ways: what stands behind the sign is a machine, or what stands before it
    if before is not None and (after is None or not _find(after[1].strip())):
        part, count = before[2], int(before[1])
    elif after is not None and not _find(text):
        part, count = after[1].strip(), int(after[2])
    else:
        return name, None
    return (part, count) if 1 <= count <= LIMITS["gpus"][1] else (name, None)


def strip_size(name: str) -> str:
    """The name without the kind of Mac before it and the memory behind it, where it is known only
    without them. Raises AdvisorError where that machine is known with another size.
    """
    text = name.strip()
    if _find(text):
        return name
    if (mac := _MAC.fullmatch(text)) is not None:
        text = mac[1]
        chip = _MEMORY.fullmatch(text) or _BARE.fullmatch(text)
        known = _find(chip[1] if chip else text)
        if known is None or known.vendor != "apple":
            return name
    sized = _MEMORY.fullmatch(text)
    bare = _BARE.fullmatch(text) if sized is None and not _find(text) else None
    if (sized := sized or bare) is None:
        return text
    known = _find(sized[1])
    if known is None or (bare is not None and known.vendor != "apple"):
        return name  # a bare number is a part of most names
    memory = known.memory_gb.value if known.memory_gb is not None else None
    if int(sized[2]) in known.other_memory_gb:
        return f"{known.id}@{sized[2]}gb"
    if memory is not None and abs(int(sized[2]) - memory) > MEMORY_SLACK * memory:
        raise AdvisorError(
            f"{known.name or known.id} is known with {memory:g} GB, not {sized[2]}: name the "
            f"nearest of `advisor hardware list`, or add a file with your size (docs/"
            f"your-hardware.md)"
        )
    return known.id


@cache
def _find(name: str) -> Hardware | None:
    try:
        return knowledge.hardware(name)
    except UnknownFact:
        return None


_RELEASED = lazy_re(r"([a-z][a-z._ -]*?)(?:-cpp)?[ @:=-]+v?((?:b\d{4,5}|\d+\.\d[\w.+-]*))", re.I)
_IMAGE = lazy_re(r"(?:[\w.-]+/)+([\w.-]+?)(?:-openai)?:(?:server-(?:[a-z]+-)?)?([\w.-]+)")


def split_engine(text: str) -> tuple[str, str]:
    """Name and version ("" if unsaid) of "vllm@0.25.1", "llama.cpp b9976" or an image."""
    text = text.strip()
    name, at, version = text.partition("@")
    if at or engines.canonical(name) is not None:
        return name, version
    named = _IMAGE.fullmatch(text) or _RELEASED.fullmatch(text)
    if named is not None and engines.canonical(named[1]) is not None:
        return named[1].strip(), named[2]
    return text, ""


def engine_and_release(text: str, release: str | None) -> tuple[str, str | None]:
    """Name and release, said with the name or beside it. Raises AdvisorError where both differ."""
    name, version = split_engine(text)
    if version and release not in (None, version):
        raise AdvisorError(
            "the engine's version is given twice: use either --engine NAME@VERSION or "
            "--engine-version"
        )
    return name, version or release


def id_of_driver_name(name: str) -> str:
    """The id of what a driver calls "NVIDIA H100 80GB HBM3"; other names as they are."""
    hardware = detection().match(name) if _find(name) is None else None
    return name if hardware is None else str(hardware.id)


def detection() -> ModuleType:
    """The module that asks this machine."""
    from advisor.knowledge import detect  # start-up: only where the machine is asked

    return detect
