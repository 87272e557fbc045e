"""Numbers of releases, of tags, builds and sentences that name one, for comparisons."""

from functools import cache, lru_cache

from advisor.domain.patterns import lazy_re

Release = tuple[int, ...]
_BUILD = lazy_re(r"(?:^|[^0-9a-z])b(\d{4,6})(?![0-9a-f])")
_TAG = lazy_re(r"(?<![\d.])v?(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?!\d)(?:\.?post(\d{1,9}))?")


@cache
def release(text: str | None) -> Release | None:
    """(0, 25, 1) of "v0.25.1" and of "0.25.1rc2"; None for a build, a commit or a branch."""
    if not text:
        return None
    parts = text.removeprefix("v").split(".")
    plain = all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)
    if len(parts) > 1 and plain:
        return tuple(map(int, parts))
    from packaging.version import Version  # start-up: only for the other forms

    try:
        return Version(text).release
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        return None


def before(text: str | None, bound: str) -> bool:
    """Whether a release is older than another; what names no release counts as new."""
    found, than = release(text), release(bound)
    return found is not None and than is not None and found < than


@lru_cache(maxsize=256)
def parse_release(text: str | None) -> Release | None:
    """Numbers of "0.25.1", "v0.25.1-cu130", "0.5.10.post1" (a fourth number) or "b9235"."""
    if not text or "nightly" in text or "branch" in text:
        return None
    build = _BUILD.search(text)
    if build:
        return (0, int(build[1]))
    match = _TAG.search(text)
    if match is None:
        return None
    return tuple(int(part) for part in match.groups() if part is not None)
