"""Version texts -> catalogued releases: "0.25.1", "v0.25.1-cu130", "0.5.10.post1", "latest"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.domain.versions import release
from advisor.engines.base import OLDER, VersionMatch

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
    """Exact releases and their post and build variants are pinned, and so is a sibling patch
    release where the catalogue has one release for each minor: its options are the same. Another
    release is read as the nearest catalogued one but not pinned; all else is unknown.
    """
    if not text:
        return VersionMatch(None, False, "")
    asked = text.strip()
    found = _RELEASE.match(asked)
    if found is None:
        return VersionMatch(None, False, f"'{asked}' pins no {engine} release")
    base, post, pre, rest = found.groups()
    if pre or (rest and _UNFIXED.search(rest)):
        return VersionMatch(
            None, False, f"'{asked}' is a pre-release or development build, not a {engine} release"
        )
    if base in versions:
        note = f"{asked} is read as {engine} {base}" if post else ""
        return VersionMatch(base, True, note)
    return _neighbour(engine, versions, asked, parts(base))


def _neighbour(
    engine: str, versions: Sequence[str], asked: str, wanted: tuple[int, ...]
) -> VersionMatch:
    if wanted > parts(versions[-1]):
        return VersionMatch(
            None,
            False,
            f"{engine} {asked} is newer than the catalogue, which ends at {versions[-1]}",
        )
    if wanted < parts(versions[0]) and parts(versions[0])[:2] != wanted[:2]:
        note = f"{engine} {asked} {OLDER}, which begins at {versions[0]}"
        return VersionMatch(None, False, note, too_old=True)
    same = [v for v in versions if parts(v)[:2] == wanted[:2]]
    if len(same) == 1:
        return VersionMatch(
            same[0], True, f"{engine} {asked} is read as {same[0]}, its minor release"
        )
    below = [v for v in versions if parts(v) <= wanted]
    near = below[-1] if below else versions[0]
    return VersionMatch(near, False, f"{engine} {asked} is not catalogued; read as {near}")
