"""Calls of make's user-defined functions: `$(call NAME,argument,...)` stands for the text between
`define NAME` and `endef`, with the arguments in place of `$(1)`, `$(2)`, ...
"""

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.mapped import EMPTY, Mapped, join, replace_matches

MAX_CALLS, MAX_BODY = 500, 10_000
_CALL = lazy_re(r"\$\(call[ \t]+([\w.-]{1,100}),((?:[^()\n]|\([^()\n]{0,200}\)){0,4000})\)")
_COMMA = lazy_re(r",(?![^(]*\))")
_BORDER = lazy_re(
    r"^[ \t]*(?:define[ \t]+([\w.-]{1,100})[ \t]*[:+?]?=?|endef\b[^\n]*)[ \t]*$", re.M
)
_PLACE = lazy_re(r"\$(?:\((\d)\)|\{(\d)\}|(\d))")


def with_calls(text: Mapped) -> Mapped:
    """The text with each call replaced by what it stands for, and without what was called."""
    calls = list(_CALL.finditer(text.text))
    places = _places(text) if len(calls) <= MAX_CALLS else {}
    bodies = {call[1]: text.part(*places[call[1]]) for call in calls if call[1] in places}

    parts, done = [], 0
    for start, end in (*sorted(places[name] for name in bodies), (len(text), len(text))):
        parts.append(_fill_call(text.part(done, start), bodies))
        done = end
    return join(parts)


def _fill_call(text: Mapped, bodies: dict[str, Mapped]) -> Mapped:
    def body_of(call: re.Match[str], _: int) -> Mapped | None:
        body = bodies.get(call[1])
        if body is None:
            return None
        given, at = text.part(*call.span(2)), 0
        arguments = []
        for comma in (*(one.start() for one in _COMMA.finditer(given.text)), len(given)):
            arguments.append(given.part(at, comma))
            at = comma + 1

        def argument(place: re.Match[str], _: int) -> Mapped:
            number = int(place[1] or place[2] or place[3])
            return arguments[number - 1] if 0 < number <= len(arguments) else EMPTY

        return replace_matches(body, _PLACE, argument)

    return replace_matches(text, _CALL, body_of)


def _places(text: Mapped) -> dict[str, tuple[int, int]]:
    places: dict[str, tuple[int, int]] = {}
    name, start = "", 0
    for line in _BORDER.finditer(text.text):
        if line[1]:
            name, start = line[1], line.end() + 1
        elif name:
            short = line.start() - start <= MAX_BODY and name not in places
            places[name] = (start, line.start() if short else start)
            name = ""
    return {name: place for name, place in places.items() if place[1] > place[0]}
