"""Flags for another release of the same engine: spellings renamed, removed options dropped, both
said.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from advisor.domain.nouns import Flag
from advisor.engines.base import Option
from advisor.engines.catalogue import Catalogue


def move_flags(
    catalogue: Catalogue,
    flags: Sequence[Flag],
    target: str,
    model: Container[str],
    notes: list[str],
) -> tuple[Flag, ...]:
    """The flags as the release `target` spells them, in their order. What it cannot say is dropped
    and noted in `notes`; flags named in `model` stay.
    """
    moved = [_flag(catalogue, flag, target, model, notes) for flag in flags]
    seen: set[str] = set()
    last: list[Flag] = []
    # a rename may meet the new spelling: the last one wins, as in the engines
    for flag in reversed([flag for flag in moved if flag is not None]):
        if flag.name not in seen or "." in flag.name:
            last.append(flag)
        seen.add(flag.name)
    return tuple(reversed(last))


def _flag(
    catalogue: Catalogue, flag: Flag, target: str, model: Container[str], notes: list[str]
) -> Flag | None:
    if flag.raw == "" and flag.name in model:
        return flag
    base, dot, key = flag.name.partition(".")
    option = catalogue.option(base, target)
    if option is None or option.removed:
        return _rename(catalogue, flag, target, notes)
    if dot:
        return flag.model_copy(
            update={"raw": f"{catalogue.spelling(base, target) or base}.{key}", "known": True}
        )
    negated = flag.value == "false" and option.takes_value is False
    if catalogue.spelling(base, target, negated) is None:
        notes.append(
            f"{flag.raw} dropped: {catalogue.engine} {target} has only the opposite switch, so it "
            f"is the default there"
        )
        return None
    raw = flag.raw
    match = catalogue.match(raw, target) if flag.origin == "cli" else None
    if match is None or match.option.name != base or match.negated != negated or match.abbreviated:
        raw = catalogue.spelling(base, target, negated) or base
        if flag.origin == "cli" and flag.raw != raw and flag.raw.startswith("-"):
            notes.append(f"{flag.raw} is written {raw}")
    value = _value(option, flag, notes)
    if value is _DROP:
        return None
    return flag.model_copy(update={"raw": raw, "value": value, "known": True, "origin": "cli"})


_DROP = "\0drop"


def _value(option: Option, flag: Flag, notes: list[str]) -> str | None:
    """The value in the target's terms: a bare switch that now takes on/off, and the other way
    round.
    """
    value = flag.value
    if option.takes_value is True and value is None and option.choices and "on" in option.choices:
        notes.append(f"{flag.raw} now takes a value: on")
        return "on"
    if (
        option.takes_value is True
        and value == "false"
        and option.choices
        and "off" in option.choices
    ):
        return "off"
    if option.takes_value is False and value in ("on", "auto", "1", "true", "enabled"):
        return None
    if option.takes_value is False and value in ("off", "0", "disabled"):
        notes.append(f"{flag.raw} {value} dropped: off is the default there")
        return _DROP
    closed = (
        option.choices and option.takes_value and not option.many and option.name != "--spec-type"
    )
    if value is not None and closed and value not in (option.choices or ()) and not flag.unresolved:
        notes.append(
            f"{flag.raw} {value} dropped: the release takes {', '.join((option.choices or ())[:8])}"
        )
        return _DROP
    return value


def _rename(catalogue: Catalogue, flag: Flag, target: str, notes: list[str]) -> Flag | None:
    forward = catalogue.replacement(flag.name, target)
    older = catalogue.predecessor(flag.name, target)
    if forward is not None or older is not None:
        spelling, value = forward if forward is not None else (older or "", None)
        notes.append(f"{flag.raw or flag.name} is now {spelling}" + (f" {value}" if value else ""))
        option = catalogue.find(spelling, target)
        update = {
            "name": option.name if option is not None else spelling,
            "raw": spelling,
            "known": True,
            "origin": "cli",
        }
        if option is not None and option.takes_value is False and flag.value != "false":
            return flag.model_copy(update=update | {"value": None})  # a choice that was a switch
        return flag.model_copy(update=update | ({"value": value} if value else {}))
    gone = catalogue.removal(flag.name, target)
    if gone is not None:
        notes.append(f"{flag.raw or flag.name} dropped: {gone.message}")
        return None
    since = catalogue.since(flag.name)
    later = since is not None and catalogue.index(since) > catalogue.index(target)
    why = f"known from {since}" if later else "not an option there"
    notes.append(f"{flag.raw or flag.name} dropped: {why} ({catalogue.engine} {target})")
    return None
