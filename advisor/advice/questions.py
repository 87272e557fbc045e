"""What a person asks, as options: option values -> Request -> Advice.

The command line, the page and the tools for agents share it. Names of hardware and models are left
to the knowledge; what does not go together is refused here, in one sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from advisor import engines
from advisor.advice import recommend
from advisor.domain.nouns import LIMITS, Advice, AdvisorError, Hardware, Request, UnknownFact, clash
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import excerpt
from advisor.domain.shell import is_utf8
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge

if TYPE_CHECKING:
    from advisor.advice.own_runs.machine import Machine


def advice_for(asked: Mapping[str, Any], what_if: bool = True) -> Advice:
    """The answer to options as parsed (`hw`, `concurrency`, ...), `machine` among them.

    Without `what_if` it does not say what would change it. Raises AdvisorError in one sentence.
    """
    request, machine = question(asked)
    return recommend.recommend(request, machine=machine, what_if=what_if)


def question(asked: Mapping[str, Any]) -> tuple[Request, Machine | None]:
    """The request that the options make, and the user's machine where `machine` names one: its
    hardware then need not be told. Raises AdvisorError in one sentence.
    """
    machine = None
    if asked.get("machine"):
        from advisor.advice.own_runs.machine import load  # start-up: pydantic and YAML

        machine = load(asked["machine"])
    asked = {key: value for key, value in asked.items() if key != "machine"}
    if machine is not None and not asked.get("hw"):
        asked |= {"hw": machine.hardware, "gpus": asked.get("gpus") or machine.gpus}
    return request_from(asked), machine


def no_mtp_answer(asked: Mapping[str, Any]) -> str | None:
    """The plain answer for an engine that has no MTP path."""
    if not asked.get("engine"):
        return None
    return engines.no_mtp_answer(split_engine(asked["engine"])[0])


def request_from(asked: Mapping[str, Any]) -> Request:
    """Options as parsed -> Request. Raises AdvisorError for what does not go together."""
    fields = {key: value for key, value in asked.items() if value is not None}
    for name, value in fields.items():
        if isinstance(value, str) and not is_utf8(value):
            raise AdvisorError(
                f"{name} '{excerpt(value)}' is not text in UTF-8, which a launch has to be: "
                "rename it"
            )
    hardware, gpus = _hardware(fields)
    engine, version = split_engine(str(fields.pop("engine", "")))
    if version and "engine_version" in fields:
        raise AdvisorError(
            "the engine's version is given twice: use either --engine NAME@VERSION or "
            "--engine-version"
        )
    rates, length = fields.get("acceptance"), fields.get("acceptance_length")
    if problem := clash(rates, length, fields.get("acceptance_k"), "--acceptance"):
        raise AdvisorError(problem)
    release = version or fields.get("engine_version")
    fields |= {"engine": engine or None, "engine_version": release}
    if "model" in fields:
        fields["model"] = knowledge.model_path(str(fields["model"]))
    return Request(hardware=hardware, gpus=gpus, **fields)


def _hardware(fields: dict[str, Any]) -> tuple[str, int]:
    """Name and number of GPUs; `auto` asks the machine."""
    name = str(fields.pop("hw", "")).strip()
    if not name:
        raise AdvisorError(
            "which hardware? give --hw NAME ('advisor hardware list' shows them), or --hw auto "
            "to ask this machine"
        )
    tp, gpus = fields.get("tp", 1), fields.pop("gpus", None)
    name, count = split_count(name)
    if count is not None:
        if gpus not in (None, count):
            raise AdvisorError(
                f"the number of GPUs is given twice: {count} x {name[:40]} and --gpus {gpus}"
            )
        gpus = count
    if name.lower() == "auto":
        hardware, count = _detection().detect()
        name, gpus = hardware.id, gpus or count
    else:
        name = _id_of_driver_name(strip_size(name))
    gpus = gpus or tp
    if tp > gpus:
        raise AdvisorError(f"--tp {tp} needs at least as many GPUs: --gpus is {gpus}")
    return name, gpus


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


# Chips whose smaller sizes of memory have the bandwidth of the listed one. Not here: M3 Max with 36
# and 96 GB and M4 Max with 36 GB, which have three quarters of it.
SAME_CHIP = sourced(
    {
        "apple-m1": (8, 16),
        "apple-m1-pro": (16, 32),
        "apple-m1-max": (32, 64),
        "apple-m1-ultra": (64, 128),
        "apple-m2": (8, 16, 24),
        "apple-m2-pro": (16, 32),
        "apple-m2-max": (32, 64, 96),
        "apple-m2-ultra": (64, 128, 192),
        "apple-m3": (8, 16, 24),
        "apple-m3-pro": (18, 36),
        "apple-m3-max": (48, 64, 128),
        "apple-m3-ultra": (96, 256, 512),
        "apple-m4": (16, 24, 32),
        "apple-m4-pro": (24, 48, 64),
        "apple-m4-max": (48, 64, 128),
    },
    "GB",
    "M4 chips: a table of their sizes and bandwidths, theguardiantime.com, 2024; older: recall",
    "assumed",
)


def split_count(name: str) -> tuple[str, int | None]:
    """A name with its number of GPUs apart: "2x3090", "dual 3090" and "3090 x2" are two of "3090".
    None where no number from 1 to 1024 stands beside the name.
    """
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
    """The name without the kind of Mac before it and the size of memory behind it, where it is
    known only without them. Raises AdvisorError where that machine is known with another size.
    """
    text = name.strip()
    if _find(text):
        return name
    if (mac := _MAC.fullmatch(text)) is not None:
        chip = _MEMORY.fullmatch(mac[1]) or _BARE.fullmatch(mac[1])
        known = _find(chip[1] if chip else mac[1])
        if known is None or known.vendor != "apple":
            return name
        text = mac[1]
    sized = _MEMORY.fullmatch(text)
    bare = _BARE.fullmatch(text) if sized is None and not _find(text) else None
    if (sized := sized or bare) is None:
        return text
    known = _find(sized[1])
    if known is None or (bare is not None and known.vendor != "apple"):
        return name  # a bare number is a part of most names
    memory = known.memory_gb.value if known.memory_gb is not None else None
    if int(sized[2]) in SAME_CHIP.get(known.id, ()) and int(sized[2]) != memory:
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
    """Name and version ("" where none is said) of "vllm@0.25.1", "vLLM==0.25.1", "llama.cpp b9976"
    or an engine's image.
    """
    text = text.strip()
    name, at, version = text.partition("@")
    if at or engines.canonical(name) is not None:
        return name, version
    named = _IMAGE.fullmatch(text) or _RELEASED.fullmatch(text)
    if named is not None and engines.canonical(named[1]) is not None:
        return named[1].strip(), named[2]
    return text, ""


def _id_of_driver_name(name: str) -> str:
    """The id of what a driver calls "NVIDIA H100 80GB HBM3"; a name that is known, or that nobody
    knows, as it is.
    """
    hardware = _detection().match(name) if _find(name) is None else None
    return name if hardware is None else str(hardware.id)


def _detection() -> ModuleType:
    from advisor.knowledge import detect  # start-up: only where the machine is asked

    return detect
