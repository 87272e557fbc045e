"""What a name tells: of a model by published families whether it has its own MTP head and hybrid
layers; of an engine that we cannot launch what to run instead.
"""

import json
import re
from functools import cache, lru_cache
from typing import Any

from advisor.domain.paths import read_data

# Families that are published with multi-token-prediction layers inside the checkpoint.
_OWN_MTP = (
    r"qwen[-_. ]?3[._-]?[5-9](?!\d|b(?![a-z]))|qwen[-_. ]?3[-_. "
    r"]?next|qwen3[-_]coder[-_]next|qwen[-_. ]?4"
    r"|qwopus[-_. ]?3[._]?[5-9]|deepseek[-_. ]?(v3|v4|r1(?!.*(distill|qwen)))|glm[-_. "
    r"]?(4[._][5-9]|5)"
    r"|mimo[-_. ]?(7b|v2)|ernie[-_. ]?4[._]5|longcat|minimax[-_. ]?m[2-9]|nemotron[-_. ]?3"
    r"|exaone[-_. ]?(4[._]5|moe)|step[-_. ]?3[._]5|ornith[-_. ]?1|(?<![a-z])mtp(?![a-z])"
)

_HYBRID = (
    r"qwen[-_. ]?3[._-]?[5-9](?!\d|b(?![a-z]))|qwen[-_. ]?3[-_. "
    r"]?next|qwen3[-_]coder[-_]next|qwen[-_. ]?4|qwopus[-_. ]?3[._]?[5-9]"
    r"|kimi[-_. ]?linear|nemotron[-_. ]?(h|3|nano[-_. ]?v?2|nano[-_. ]?9b)|granite[-_. "
    r"]?4|falcon[-_. ]?h1|jamba|bamba|zamba"
    r"|mamba|ring[-_. ]?2[._]5|minimax[-_. ]?text|ornith[-_. ]?1"
)


@lru_cache(maxsize=1024)
def own_mtp(model: str) -> bool:
    """Whether the name belongs to a family that ships its own MTP head."""
    return re.search(_OWN_MTP, model, re.IGNORECASE) is not None


@lru_cache(maxsize=1024)
def hybrid(model: str) -> bool:
    """Whether the name belongs to a family with recurrent layers beside attention."""
    return re.search(_HYBRID, model, re.IGNORECASE) is not None


@cache
def _table() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(read_data("knowledge/engines/other_engines.json"))
    return data


def row(name: str) -> dict[str, Any] | None:
    """What is known of an engine by name, e.g. ollama; None if the engine is not in the table."""
    key = "".join(ch for ch in name.lower() if ch.isalnum())
    found: dict[str, Any] | None = _table()["engines"].get(_table()["aliases"].get(key, key))
    return found


def answer(name: str) -> str | None:
    """The answer for an engine by name; None if the engine is not in the table."""
    known = row(name)
    if known is None:
        return None
    said = " ".join(known[part] for part in ("state", "cost", "instead") if part in known)
    return f"{said} ({', '.join(known['sources'])})"
