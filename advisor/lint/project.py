"""A project's own settings: `[tool.advisor]` of a pyproject.toml, or an advisor.toml, the nearest
one at or above a file, up to the folder that holds .git.

Keys are those of the options of `advisor validate`; `[tool.advisor.per-path."GLOB"]` has the same
keys for the files that match, relative to the settings. What the command line says wins; what is
ignored adds up. `engine-version` is the release of files that name none, for one engine each.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from advisor.domain.files import read_bytes_safely
from advisor.domain.nouns import AdvisorError
from advisor.domain.records import NamedTuple
from advisor.domain.spelling import nearest_word
from advisor.lint.report import Given

MAX_BYTES, MAX_LEVELS = 1_000_000, 64
_NUMBERS = ("gpus", "concurrency", "ctx", "output-tokens")
_WORDS = ("hw", "workload")
_CODES = ("select", "ignore")
_VERSIONS, _PATHS = "engine-version", "per-path"
_GIVEN = (*_NUMBERS, *_WORDS, _VERSIONS)
_KEYS = (*_GIVEN, *_CODES, _PATHS)
_ENGINES = ("vllm", "sglang", "llama-server", "ik_llama.cpp")


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
    for _ in range(MAX_LEVELS):
        if (found := _read(folder)) is not None:
            name = os.path.relpath(path, folder).replace(os.sep, "/")
            paths = [row for glob, row in found.get(_PATHS, {}).items() if _matches(name, glob)]
            yield from (*reversed(paths), found)
            return
        above = os.path.dirname(folder)
        if above == folder or os.path.exists(os.path.join(folder, ".git")):
            return
        folder = above


def _matches(name: str, glob: str) -> bool:
    from fnmatch import fnmatchcase  # start-up: only with settings by path

    return fnmatchcase(name, glob)


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
        if key == _PATHS and isinstance(value, dict):
            for glob, settings in value.items():
                _check(settings, f"{where} ({glob})", True)
        elif not _fits(key, value):
            kind = (
                "a whole number from 1 on" if key in _NUMBERS
                else "a text" if key in _WORDS
                else "a list of codes" if key in _CODES
                else "a table of paths and their settings" if key == _PATHS
                else f"a table of {', '.join(_ENGINES)} and their releases"
            )  # fmt: skip
            raise AdvisorError(f"{where}: {key} is {kind}")
    return row


def _fits(key: str, value: Any) -> bool:
    if key in _NUMBERS:
        return type(value) is int and 1 <= value <= 10_000_000
    if key in _WORDS:
        return isinstance(value, str)
    if key in _CODES:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return isinstance(value, dict) and all(
        engine in _ENGINES and isinstance(release, str) for engine, release in value.items()
    )
