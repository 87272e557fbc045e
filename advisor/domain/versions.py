"""Numbers of a release, read by `packaging`, for comparisons."""

from __future__ import annotations

from functools import cache


@cache
def release(text: str | None) -> tuple[int, ...] | None:
    """(0, 25, 1) of "v0.25.1" and of "0.25.1rc2"; None for a build, a commit or a branch."""
    from packaging.version import InvalidVersion, Version  # only where releases are compared

    try:
        return Version(text or "").release
    except InvalidVersion:
        return None


def before(text: str | None, bound: str) -> bool:
    """Whether a release is older than another; what names no release counts as new."""
    found, than = release(text), release(bound)
    return found is not None and than is not None and found < than
