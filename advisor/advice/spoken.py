"""Machines and engines as people say them: "dual 3090", "h200 x8", "m3 ultra 512gb", "vllm 0.25.1",
an image. What is known under a name as written is left as it is.
"""

from __future__ import annotations

import re
from functools import cache

from advisor import engines
from advisor.domain.nouns import LIMITS, AdvisorError, Hardware, UnknownFact
from advisor.domain.patterns import lazy_re
from advisor.knowledge import store as knowledge

_BEFORE = lazy_re(r"(\d{1,4}) ?[x*\u00d7] ?(\S.*)", re.IGNORECASE)
# after a digit or a space only: "ai max 395" is no number of machines
_AFTER = lazy_re(r"(\S.*(?:\d|(?<! ) ))[x*\u00d7] ?(\d{1,4})", re.IGNORECASE)
_WORDS = {"single": 1, "one": 1, "dual": 2, "two": 2, "twin": 2, "three": 3, "triple": 3, "four": 4,
          "quad": 4, "six": 6, "eight": 8}  # fmt: skip
_MEMORY = lazy_re(r"(\S.*?)[ -](\d{1,4}) ?gi?b(?: (?:unified|v?ram|memory))?", re.IGNORECASE)
_MAC = lazy_re(r"(?:apple )?i?mac(?:book)?(?: (?:pro|studio|mini|air))?[ ,:]+(\S.*)", re.IGNORECASE)
MEMORY_SLACK = 0.1  # GB and GiB, and sizes that vendors round


def split_count(name: str) -> tuple[str, int | None]:
    """A name with its number of GPUs apart: "2x3090", "dual 3090" and "3090 x2" are two of "3090".
    None where no number from 1 to 1024 stands beside the name.
    """
    text = name.strip()
    word, _, rest = text.partition(" ")
    if rest and word.lower() in _WORDS:
        return rest.removeprefix("x ").strip(), _WORDS[word.lower()]
    before, after = _BEFORE.fullmatch(text), _AFTER.fullmatch(text)
    if before is not None:
        found, count = before[2], int(before[1])
    elif after is not None and not _known(text):
        found, count = after[1].strip(), int(after[2])
    else:
        return name, None
    return (found, count) if 1 <= count <= LIMITS["gpus"][1] else (name, None)


def without_size(name: str) -> str:
    """The name without the kind of Mac before it and the size of memory behind it, where it is
    known only without them. Raises AdvisorError where that machine is known with another size.
    """
    text = name.strip()
    if _known(text):
        return name
    if (mac := _MAC.fullmatch(text)) is not None:
        chip = _MEMORY.fullmatch(mac[1])
        known = _known(chip[1] if chip else mac[1])
        if known is None or known.vendor != "apple":
            return name
        text = mac[1]
    sized = _MEMORY.fullmatch(text)
    if sized is None:
        return text
    known = _known(sized[1])
    if known is None:
        return name
    memory = known.memory_gb.value if known.memory_gb is not None else None
    if memory is not None and abs(int(sized[2]) - memory) > MEMORY_SLACK * memory:
        raise AdvisorError(
            f"{known.name or known.id} is known with {memory:g} GB, not {sized[2]}: name the "
            f"nearest of `advisor hardware list`, or add a file with your size (docs/"
            f"your-hardware.md)"
        )
    return known.id


@cache
def _known(name: str) -> Hardware | None:
    try:
        return knowledge.hardware(name)
    except UnknownFact:
        return None


_RELEASED = lazy_re(r"([a-z][a-z._ -]*?)(?:-cpp)?[ @:=-]+v?((?:b\d{4,5}|\d+\.\d[\w.+-]*))", re.I)


def split_engine(text: str) -> tuple[str, str]:
    """Name and version ("" where none is said) of "vllm@0.25.1", "vLLM==0.25.1", "llama.cpp b9976"
    or an engine's image.
    """
    text = text.strip()
    if "/" in text and ":" in text and "@" not in text:
        from advisor.readers.images import engine_of_image, split_image, version_in

        engine = engine_of_image(text)
        if engine is not None:
            return engine, version_in(split_image(text)[1]) or ""
    name, at, version = text.partition("@")
    if at or engines.canonical(name) is not None:
        return name, version
    said = _RELEASED.fullmatch(text)
    if said is not None and engines.canonical(said[1]) is not None:
        return said[1].strip(), said[2]
    return text, ""
