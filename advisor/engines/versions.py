"""Version texts -> catalogued releases, and llama.cpp's builds: of two snapshots the older one
stands, and `also` names the newer, so that what arrived in between is not unknown.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.domain.versions import release
from advisor.engines.base import VersionMatch

_RELEASE = lazy_re(
    r"v?(\d+\.\d+\.\d+)(\.post\d+)?((?:a|b|rc|\.?dev)\d*[\w.]*)?(?:[-+._](.*))?$", re.ASCII
)

_UNFIXED = lazy_re(
    r"nightly|dev|rc\d|preview|main|master|branch|patch|custom|git|sha|^pr[-_ ]?\d", re.IGNORECASE
)


def parts(version: str) -> tuple[int, ...]:
    """The numbers of a catalogued release. Raises AdvisorError for what is none."""
    found = release(version)
    if found is None:
        raise AdvisorError(f"'{version}' is no release number, such as 0.25.1")
    return found


def resolve_release(engine: str, versions: Sequence[str], text: str | None) -> VersionMatch:
    """Exact releases, their post and build variants and a sibling patch (where one of each minor is
    catalogued) are pinned; others are read as the nearest, not pinned.
    """
    if not text:
        return _unread("")
    asked = text.strip()
    found = _RELEASE.match(asked)
    if found is None:
        return _unread(f"'{asked}' pins no {engine} release")
    base, post, pre, rest = found.groups()
    if pre or (rest and _UNFIXED.search(rest)):
        note, old = "is a pre-release or development build, not a", parts(base) < parts(versions[0])
        return VersionMatch(None, False, f"'{asked}' {note} {engine} release", too_old=old)
    if base in versions:
        return VersionMatch(base, True, f"{asked} is read as {engine} {base}" if post else "")
    return _neighbour(engine, versions, asked, parts(base))


def _unread(note: str) -> VersionMatch:
    return VersionMatch(None, False, note)


def _neighbour(
    engine: str, versions: Sequence[str], asked: str, wanted: tuple[int, ...]
) -> VersionMatch:
    if wanted > parts(versions[-1]):
        return _unread(
            f"{engine} {asked} is newer than the catalogue, which ends at {versions[-1]}"
        )
    if wanted < parts(versions[0]) and parts(versions[0])[:2] != wanted[:2]:
        note = f"{engine} {asked} is older than the catalogue, which begins at {versions[0]}"
        return VersionMatch(None, False, note, too_old=True)
    same = [v for v in versions if parts(v)[:2] == wanted[:2]]
    if len(same) == 1:
        note = f"{engine} {asked} is read as {same[0]}, its minor release"
        return VersionMatch(same[0], True, note)
    below = [v for v in versions if parts(v) <= wanted]
    near = below[-1] if below else versions[0]
    return VersionMatch(near, False, f"{engine} {asked} is not catalogued; read as {near}")


_BUILD = lazy_re(r"(?:^|[-_:/@.])b?(\d{4,6})(?=$|[-_@.])")
_PLAIN = lazy_re(r"b\d{4,6}")
_COMMIT = lazy_re(r"(?:^|[-_:/@ ])([0-9a-f]{7,40})(?=$|[-_@. ])")
_SEMANTIC = lazy_re(r"v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:-dev)?")
Row = Mapping[str, Any]


def resolve_build(rows: Sequence[Row], text: str | None) -> VersionMatch:
    """The snapshot that a build, a commit or a semantic version stands for; see `later_build`."""
    if not text:
        return _unread("")
    asked = text.strip().lower()
    found, semantic, commit = (form.search(asked) for form in (_BUILD, _SEMANTIC, _COMMIT))
    if any(asked == row["id"] for row in rows):
        return VersionMatch(asked, True, "")
    if found is not None:
        return _build(rows, int(found[1]), text)
    if semantic is not None:
        return _semantic(rows, tuple(int(part) for part in semantic.groups()), text)
    if commit is None:
        return _unread(f"'{text}' pins no llama.cpp build")
    for row in rows:
        known = str(row.get("commit", ""))
        if known and (known.startswith(commit[1]) or commit[1].startswith(known)):
            return VersionMatch(str(row["id"]), True, "")
    return _unread(
        f"the commit {commit[1][:9]} is not in the build table: give its build number (bNNNN)"
    )


def name_build(asked: str | None, match: VersionMatch, version: str | None) -> str | None:
    """The build asked for by its number, where `version` stands for it; else that."""
    plain = asked is not None and _PLAIN.fullmatch(asked) is not None
    return asked if plain and match.version == version else version


def later_build(rows: Sequence[Row], match: VersionMatch) -> str | None:
    """The next snapshot, for a build that lies between two of them."""
    if match.version is None or not match.note:
        return None
    ids = [str(row["id"]) for row in rows]
    at = ids.index(match.version)
    return ids[at + 1] if at + 1 < len(ids) else None


def _build(rows: Sequence[Row], number: int, text: str) -> VersionMatch:
    if number < rows[0]["from"]:
        note = f"{text} is older than the catalogue, which begins at {rows[0]['id']}"
        return VersionMatch(None, False, note, too_old=True)
    if number > rows[-1]["build"]:
        return _unread(f"{text} is newer than the catalogue, which ends at b{rows[-1]['build']}")
    at = max(index for index, row in enumerate(rows) if row["from"] <= number)
    found = str(rows[at]["id"])
    if number == rows[at].get("build") or at + 1 == len(rows):
        return VersionMatch(found, True, "")
    note = f"{text} is not catalogued itself; it is read as {_between(rows, at)}"
    return VersionMatch(found, True, note)


def _between(rows: Sequence[Row], at: int) -> str:
    return f"{rows[at]['id']}, and what {rows[at + 1]['id']} has counts as known"


def _semantic(rows: Sequence[Row], wanted: tuple[int, ...], text: str) -> VersionMatch:
    """The newest snapshot of that version or of the last one before it."""
    known = [(index, parts(str(row["base"]))) for index, row in enumerate(rows) if "base" in row]
    if wanted > known[-1][1]:
        end = rows[-1]["id"]
        return _unread(f"llama.cpp {text} is newer than the catalogue, which ends at {end}")
    at = max((index for index, base in known if base <= wanted), default=known[0][0] - 1)
    found = str(rows[at]["id"])
    if at + 1 < len(rows):
        note = f"llama.cpp {text} is not catalogued itself; it is read as {_between(rows, at)}"
        return VersionMatch(found, False, note)
    note = "" if text.removeprefix("v") == found else f"{text} is read as {found}"
    return VersionMatch(found, not note and any(base == wanted for _, base in known), note)
