"""llama.cpp's builds: bNNNN, commits and semantic versions -> the catalogued snapshot that
describes them.

Between two snapshots the older one stands, and `also` names the newer, so that an option which
arrived in between is not called unknown. Outside the range: unknown, and said so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain.patterns import lazy_re
from advisor.engines.base import VersionMatch

_BUILD = lazy_re(r"(?:^|[-_:/@.])b?(\d{4,6})(?=$|[-_@.])")
_COMMIT = lazy_re(r"(?:^|[-_:/@ ])([0-9a-f]{7,40})(?=$|[-_@. ])")
_SEMANTIC = lazy_re(r"v?(\d+)\.(\d+)\.(\d+)(?:-dev)?")

Row = Mapping[str, Any]


def resolve(rows: Sequence[Row], text: str | None) -> tuple[VersionMatch, str | None]:
    """(version match, second snapshot whose options count as known too)."""
    if not text:
        return VersionMatch(None, False, ""), None
    asked = text.strip().lower()
    for row in rows:
        if asked == row["id"]:
            return VersionMatch(str(row["id"]), True, ""), None
    found = _BUILD.search(asked)
    if found is not None:
        return _build(rows, int(found[1]), text)
    semantic = _SEMANTIC.search(asked)
    if semantic is not None:
        return _semantic(rows, tuple(int(part) for part in semantic.groups()), text)
    commit = _COMMIT.search(asked)
    if commit is not None:
        for row in rows:
            known = str(row.get("commit", ""))
            if known and (known.startswith(commit[1]) or commit[1].startswith(known)):
                return VersionMatch(str(row["id"]), True, ""), None
        note = (
            f"the commit {commit[1][:9]} is not in the build table: give its build number (bNNNN)"
        )
        return VersionMatch(None, False, note), None
    return VersionMatch(None, False, f"'{text}' pins no llama.cpp build"), None


def also(rows: Sequence[Row], match: VersionMatch) -> str | None:
    """The next snapshot, for a build that lies between two of them."""
    if match.version is None or not match.note:
        return None
    ids = [str(row["id"]) for row in rows]
    at = ids.index(match.version)
    return ids[at + 1] if at + 1 < len(ids) else None


def _build(rows: Sequence[Row], number: int, text: str) -> tuple[VersionMatch, str | None]:
    if number < rows[0]["from"]:
        note = f"{text} is older than the catalogue, which begins at {rows[0]['id']}"
        return VersionMatch(None, False, note, too_old=True), None
    if number > rows[-1]["build"]:
        return VersionMatch(
            None, False, f"{text} is newer than the catalogue, which ends at b{rows[-1]['build']}"
        ), None
    at = max(index for index, row in enumerate(rows) if row["from"] <= number)
    row = rows[at]
    if number == row.get("build"):
        return VersionMatch(str(row["id"]), True, ""), None
    later = rows[at + 1]["id"] if at + 1 < len(rows) else None
    note = (
        f"{text} is not catalogued itself; it is read as {row['id']}, and what {later} has counts "
        f"as known"
        if later
        else ""
    )
    return VersionMatch(str(row["id"]), True, note), later


def _semantic(
    rows: Sequence[Row], wanted: tuple[int, ...], text: str
) -> tuple[VersionMatch, str | None]:
    """The newest snapshot of that version or of the last one before it."""
    known = [(index, _numbers(str(row["base"]))) for index, row in enumerate(rows) if "base" in row]
    if wanted > known[-1][1]:
        return VersionMatch(
            None,
            False,
            f"llama.cpp {text} is newer than the catalogue, which ends at {rows[-1]['id']}",
        ), None
    at = max((index for index, base in known if base <= wanted), default=known[0][0] - 1)
    exact = any(base == wanted for _, base in known)
    found, later = str(rows[at]["id"]), at + 1 < len(rows)
    if exact and not later:
        note = "" if text.removeprefix("v") == found else f"{text} is read as {found}"
        return VersionMatch(found, not note, note), None
    if not later:
        return VersionMatch(found, False, f"{text} is read as {found}"), None
    after = str(rows[at + 1]["id"])
    note = (
        f"llama.cpp {text} is not catalogued itself; it is read as {found}, and what {after} has "
        f"counts as known"
    )
    return VersionMatch(found, False, note), after


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))
