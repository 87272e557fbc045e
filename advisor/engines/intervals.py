"""States by release <-> one record with what was different until when, for the catalogue."""

from collections.abc import Mapping, Sequence
from typing import Any

Record = dict[str, Any]


def fold(states: Mapping[str, Record], versions: Sequence[str]) -> Record:
    """One record of a history: the last state, `span`, `was` for earlier differences."""
    have = [v for v in versions if v in states]
    record = dict(states[have[-1]])
    was: list[list[Any]] = []
    for newer, older in zip(reversed(have), list(reversed(have))[1:], strict=False):
        new, old = states[newer], states[older]
        change = {k: old.get(k) for k in sorted({*new, *old}) if old.get(k) != new.get(k)}
        if change:
            was.append([older, change])
    if was:
        record["was"] = was
    if (have[0], have[-1]) != (versions[0], versions[-1]):
        record["span"] = [have[0], have[-1]]
    within = versions[versions.index(have[0]) : versions.index(have[-1])]
    if gaps := [v for v in within if v not in states]:
        record["absent"] = gaps
    return record


def unfold(record: Mapping[str, Any], versions: Sequence[str]) -> dict[str, Record]:
    """The states of one record by release: the inverse of `fold`."""
    first, last = record.get("span", (versions[0], versions[-1]))
    newest = {k: v for k, v in record.items() if k not in ("was", "span", "absent", "neg")}
    states = {}
    for at in range(versions.index(first), versions.index(last) + 1):
        if versions[at] in record.get("absent", ()):
            continue
        state = dict(newest)
        for until, change in record.get("was", ()):
            if at <= versions.index(until):
                state |= change
        states[versions[at]] = without_none(state)
    return states


def intervals(tables: Sequence[Mapping[str, Record]], versions: Sequence[str]) -> dict[str, Record]:
    """Return each name's record with the releases in which each of its states holds."""
    return {
        n: fold({v: t[n] for v, t in zip(versions, tables, strict=True) if n in t}, versions)
        for n in sorted({name for table in tables for name in table})
    }


def unfold_table(
    table: Mapping[str, Record], versions: Sequence[str]
) -> dict[str, dict[str, Record]]:
    """Return the table of each release; the inverse of `intervals`."""
    rows = {name: unfold(record, versions) for name, record in table.items()}
    return {
        version: {name: states[version] for name, states in rows.items() if version in states}
        for version in versions
    }


def without_none(row: Mapping[str, Any]) -> Record:
    """Return the row without its empty values."""
    return {key: value for key, value in row.items() if value is not None}
