"""Where llama-server's `--override-tensor` puts the experts of a mixture.

The engine splits the value at commas, takes each part as PATTERN=BUFFER, and searches a tensor's
name for the patterns in their order: the first that matches decides. The same is done here for the
three expert tensors of every layer.

A pattern may come from anybody's file, and a matcher that tries one reading after the other can
take hours over it. This one follows all readings in all names at once, as the set of places that
they have reached (the bits of a number): its work is bounded by the lengths of pattern and name.
What it does not know: look-ahead, back references, classes by name (`[[:digit:]]`).
Source: llama.cpp common/arg.cpp (parse_tensor_buffer_overrides), src/llama-model-loader.cpp
(create_tensor), b10605.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from advisor.domain.patterns import lazy_re

TENSORS = ("gate", "up", "down")  # of one size each
MAX_LAYERS, MAX_TEXT, MAX_PATTERN, MAX_DEPTH = 1000, 10_000, 300, 2  # no launch has more
_ANY = 99  # more places than a name has
_TOKEN = lazy_re(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{[1-9]\}|.", re.S)
_ESCAPE = lazy_re(r"\\[dDwWsS\W_]")
_NO_CLASS = lazy_re(r"\[\^?\]$|.\[|--|&&|~~|\|\|")  # what Python may read in another way


class Override(NamedTuple):
    """One pattern, whether its buffer is the machine's memory, below which layer (None: any)."""

    pattern: str
    host: bool
    below: int | None = None


ALL_EXPERTS = Override("_exps", host=True)


class _PatternPart(NamedTuple):
    """A character, or alternatives in brackets, and how often it stands there."""

    node: str | Sequence[Sequence[_PatternPart]]
    least: int = 1
    most: int = 1


class _Names(NamedTuple):
    """Names behind each other: places of characters, starts, ends, of each and all, as bits."""

    chars: dict[str, int]
    starts: int
    ends: int
    each: tuple[int, ...]
    all: int


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
    tensors do. A pattern that cannot be read counts as one that matches: nothing is then said to be
    too large.
    """
    names = _names(first, min(count, MAX_LAYERS))
    moved = [False] * len(names.each)
    open_names = set(range(len(moved)))
    for one in told:
        alternatives = _read(one.pattern)
        hits = -1 if alternatives is None else _ends(alternatives, names, names.all)
        for n in tuple(open_names):
            if names.each[n] & hits and (one.below is None or first + n // 3 < one.below):
                moved[n] = one.host
                open_names.discard(n)
    return round(sum(moved) / len(TENSORS), 6)


@lru_cache(maxsize=32)
def _names(first: int, count: int) -> _Names:
    chars: dict[str, int] = {}
    starts = ends = at = 0
    each = []
    for layer in range(first, first + count):
        for tensor in TENSORS:
            name = f"blk.{layer}.ffn_{tensor}_exps.weight"
            for n, char in enumerate(name, at):
                chars[char] = chars.get(char, 0) | 1 << n
            each.append(((1 << len(name) + 1) - 1) << at)
            starts |= 1 << at
            at += len(name) + 1  # no character stands at the end, so that no match goes beyond
            ends |= 1 << at - 1
    return _Names(chars, starts, ends, tuple(each), sum(each))


@lru_cache(maxsize=512)
def _read(pattern: str) -> Sequence[Sequence[_PatternPart]] | None:
    """A pattern taken apart; None for one that is too long, too deep or not of the known kind."""
    tokens = _TOKEN.findall(pattern)[::-1]
    try:
        whole = _alternatives(tokens, 0)
    except (ValueError, re.error):
        return None
    return None if tokens or len(pattern) > MAX_PATTERN else whole


def _alternatives(tokens: list[str], depth: int) -> Sequence[Sequence[_PatternPart]]:
    """What stands up to the end or a closing bracket. Raises ValueError."""
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    found: list[list[_PatternPart]] = [[]]
    while tokens and tokens[-1] != ")":
        token = tokens.pop()
        if token == "|":
            found.append([])
            continue
        node: str | Sequence[Sequence[_PatternPart]] = token
        if token == "(":
            if tokens[-2:] == [":", "?"]:
                del tokens[-2:]
            node = _alternatives(tokens, depth + 1)
            if not tokens:
                raise ValueError("left open")
            tokens.pop()
        elif token not in ("^", "$"):
            node = _character(token)
        found[-1].append(_PatternPart(node, *_count(tokens)))
    return found


def _character(token: str) -> str:
    """The pattern of one character. Raises ValueError or re.error."""
    if token in ("*", "+", "?") or (token[0] == "\\" and not _ESCAPE.fullmatch(token)):
        raise ValueError(token)
    if token[0] == "[" and (len(token) < 3 or _NO_CLASS.search(token)):
        raise ValueError(token)
    pattern = token if token == "." or len(token) > 1 else re.escape(token)
    re.compile(pattern)
    return pattern


def _count(tokens: list[str]) -> tuple[int, int]:
    """How often what stands before may be repeated; whether greedily makes no difference here."""
    times = {"*": (0, _ANY), "+": (1, _ANY), "?": (0, 1)}.get(tokens[-1]) if tokens else None
    if tokens and len(tokens[-1]) == 3 and tokens[-1][0] == "{":
        times = int(tokens[-1][1]), int(tokens[-1][1])
    if times is None:
        return 1, 1
    tokens.pop()
    if tokens[-1:] == ["?"]:
        tokens.pop()
    return times


def _ends(node: str | Sequence[Sequence[_PatternPart]], names: _Names, at: int) -> int:
    """The places that a node reaches from places."""
    if isinstance(node, str):
        if node in ("^", "$"):
            return at & (names.starts if node == "^" else names.ends)
        return (at & _places(node, names)) << 1
    reached = 0
    for parts in node:
        now = at
        for part in parts:
            now = _repeat(part, names, now)
        reached |= now
    return reached


def _repeat(part: _PatternPart, names: _Names, at: int) -> int:
    """The places behind a part that may be repeated; each is gone on from once."""
    reached, times = at if part.least == 0 else 0, 0
    while at and times < part.most:
        at, times = _ends(part.node, names, at), times + 1
        if times >= part.least:
            at &= ~reached
            reached |= at
    return reached


def _places(pattern: str, names: _Names) -> int:
    """Where a character of this kind stands."""
    one, found = re.compile(pattern), 0
    for char, places in names.chars.items():
        if one.fullmatch(char):
            found |= places
    return found
