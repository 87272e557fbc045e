"""Where llama-server's `--override-tensor` puts the experts of a mixture.

The engine splits the value at commas, takes each part as PATTERN=BUFFER, and searches a tensor's
name for the patterns in their order: the first that matches decides. The same is done here for the
three expert tensors of every layer. A pattern may come from anybody's file, and a matcher that
tries one reading after the other can take hours over it: one with too many readings is not tried.
Source: llama.cpp common/arg.cpp (parse_tensor_buffer_overrides), src/llama-model-loader.cpp
(create_tensor), b10605.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from math import prod

from advisor.domain.patterns import lazy_re
from advisor.domain.records import NamedTuple

TENSORS = ("gate", "up", "down")  # of one size each
MAX_LAYERS, MAX_TEXT = 128, 10_000  # no launch has more
MAX_READINGS = 100_000  # of one name by all patterns
_NAME_LENGTH = 30
_CHARACTER = lazy_re(r"\\[dDwWsS\W_]|\[\^?\]?(?:\\[dDwWsS\W_]|[^\\\]])*\]")
_GROUP = lazy_re(r"\((?:\?:)?([^()?][^()]*)\)(?![*+?{])")


class Override(NamedTuple):
    """One pattern, whether its buffer is the machine's memory, below which layer (None: any)."""

    pattern: str
    host: bool
    below: int | None = None


ALL_EXPERTS = Override("_exps", host=True)


def read_overrides(value: str) -> Iterator[Override]:
    """The overrides of a value of the option, in their order. A buffer is the machine's memory if
    it is CPU, or a device's window into it (CUDA_Host).
    """
    for part in value[:MAX_TEXT].split(","):
        pattern, equals, buffer = part.partition("=")
        if equals:
            yield Override(pattern, buffer.startswith("CPU") or buffer.endswith("_Host"))


@lru_cache(maxsize=256)
def host_layers(told: tuple[Override, ...], first: int, count: int) -> float:
    """Layers whose experts lie in the machine's memory; a part of one where only some of its three
    tensors do. A pattern that is not tried counts as one that matches: nothing is then said to be
    too large.
    """
    patterns, left = [], MAX_READINGS
    for one in told:
        left -= _readings(one.pattern)
        patterns.append((_compile(one.pattern) if left >= 0 else None, one))
    moved = 0
    for layer in range(first, first + min(count, MAX_LAYERS)):
        for tensor in TENSORS:
            name = f"blk.{layer}.ffn_{tensor}_exps.weight"
            for pattern, one in patterns:
                inside = one.below is None or layer < one.below
                if inside and (pattern is None or pattern.search(name)):
                    moved += one.host
                    break
    return round(moved / len(TENSORS), 6)


def _readings(pattern: str) -> int:
    """Bound on the ways to read one name: of a group that is repeated or stands in another one, and
    of a look ahead, beyond any limit.
    """
    plain = _CHARACTER.sub("x", pattern)
    parts = [*_GROUP.findall(plain), _GROUP.sub("x", plain)]
    if re.search(r"[()\\]", parts[-1]):
        return MAX_READINGS + 1
    repeated = len(re.findall(r"[*+]|\{(?!\d\})", plain))
    optional = plain.replace("(?:", "").count("?")
    ways = prod(part.count("|") + 1 for part in parts) << min(optional, _NAME_LENGTH)
    return int(ways * _NAME_LENGTH ** (min(repeated, 8) + 1))


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str] | None:
    """The pattern; None where it cannot be read."""
    try:
        return re.compile(pattern)
    except re.error:
        return None
