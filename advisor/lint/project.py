"""A project's own settings: `[tool.advisor]` of a pyproject.toml, or an advisor.toml, the nearest
one at or above a file, up to the folder that holds .git.

Keys are those of the options of `advisor validate`; `[tool.advisor.per-path."GLOB"]` has the same
keys for the files that match, relative to the settings. What the command line says wins; what is
ignored adds up. `engine-version` is the release of files that name none, for one engine each.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from advisor.domain.files import read_bytes_safely
from advisor.domain.nouns import AdvisorError
from advisor.domain.records import NamedTuple
from advisor.domain.spelling import nearest_word
from advisor.lint.report import Given

MAX_BYTES, MAX_LEVELS = 1_000_000, 64
_PATHS = "per-path"
_ENGINES = ("vllm", "sglang", "llama-server", "ik_llama.cpp")
# what a key takes, in words and as a test
_NUMBER = "a whole number from 1 on", lambda x: type(x) is int and 1 <= x <= 10_000_000
_WORD = "a text", lambda x: isinstance(x, str)
_CODES = "a list of codes", lambda x: isinstance(x, list) and all(isinstance(y, str) for y in x)
_RELEASES = (
    f"a table of {', '.join(_ENGINES)} and their releases",
    lambda x: (
        isinstance(x, dict) and all(k in _ENGINES and isinstance(v, str) for k, v in x.items())
    ),
)
_GIVEN: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("gpus", "concurrency", "ctx", "output-tokens"), _NUMBER),
    **dict.fromkeys(("hw", "workload"), _WORD),
    "engine-version": _RELEASES,
}
_KEYS = {
    **_GIVEN,
    **dict.fromkeys(("select", "ignore"), _CODES),
    _PATHS: ("a table of paths and their settings", lambda x: isinstance(x, dict)),
}


class Judging(NamedTuple):
    """What a file is judged by: what the caller tells, and which rules are asked."""

    given: Given
    select: Sequence[str] | None = None
    ignore: Sequence[str] | None = None


def with_settings(asked: Judging, path: str) -> Judging:
    """What was asked, with the settings of the project that a file belongs to. Raises AdvisorError
    for settings that cannot be read or hold a key or value that is none.
    """
    full = os.path.abspath(path)  # of "-": a name in the folder that the command runs in
    for row in _rows(os.path.dirname(full), full):
        own = {name.replace("-", "_"): row[name] for name in _GIVEN if name in row}
        values = {name: value for name, value in asked.given._asdict().items() if value is not None}
        asked = Judging(
            Given(**{**own, **values}),
            asked.select or row.get("select"),
            (*(asked.ignore or ()), *row.get("ignore", ())),
        )
    return asked


def _rows(folder: str, path: str) -> Iterator[Mapping[str, Any]]:
    """The settings for a file, those of its path before the general ones."""
    from fnmatch import fnmatchcase  # start-up: only with settings by path

    for _ in range(MAX_LEVELS):
        if (found := _read(folder)) is not None:
            name = os.path.relpath(path, folder).replace(os.sep, "/")
            paths = [row for glob, row in found.get(_PATHS, {}).items() if fnmatchcase(name, glob)]
            yield from (*reversed(paths), found)
            return
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            return
        folder = above


@cache
def _read(folder: str) -> dict[str, Any] | None:
    for name in ("advisor.toml", "pyproject.toml"):
        path = os.path.join(folder, name)
        if not os.path.isfile(path):
            continue
        text = read_bytes_safely(path, MAX_BYTES)
        if name == "pyproject.toml" and b"advisor" not in text:
            continue  # most say nothing of us
        import tomllib  # start-up: only with a file of settings

        try:
            data = tomllib.loads(text.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            if name == "pyproject.toml":
                continue  # another program's matter
            raise AdvisorError(f"{path}: no TOML ({error})") from None
        own = data if name == "advisor.toml" else data.get("tool", {}).get("advisor")
        if own is not None:
            return _check(own, path)
    return None


def _check(row: Any, where: str, inner: bool = False) -> dict[str, Any]:
    """The settings, each of its type. Raises AdvisorError."""
    if not isinstance(row, dict):
        raise AdvisorError(f"{where}: the settings are a table of keys and values")
    for key, value in row.items():
        if key not in _KEYS or (inner and key == _PATHS):
            near = nearest_word(key, _KEYS, "setting")
            raise AdvisorError(f"{where}: no setting '{key}'" + (f"; '{near}'?" if near else ""))
        kind, fits = _KEYS[key]
        if not fits(value):
            raise AdvisorError(f"{where}: {key} is {kind}")
        for glob, settings in value.items() if key == _PATHS else ():
            _check(settings, f"{where} ({glob})", True)
    return row
