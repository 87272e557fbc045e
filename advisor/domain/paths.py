"""Where the shipped facts and the artefact are, in a wheel or a checkout; and the checksum by which
a generated file is told from one that was cut off or edited.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from zipimport import ZipImportError, zipimporter

from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PACKED = "_data.zip"  # in the package


def data_root() -> Path:
    """The folder that holds `knowledge/` and `models/` in a checkout."""
    from pathlib import Path  # start-up: questions read by name alone

    return Path(_PACKAGE).parent


def read_data(name: str) -> bytes:
    """Return one shipped file by its path in the repository, such as "knowledge/index.json"."""
    packed = os.path.join(_PACKAGE, PACKED)
    if not os.path.isfile(packed):
        with open(os.path.join(os.path.dirname(_PACKAGE), name), "rb") as stream:
            return stream.read()
    try:
        # loaded with the interpreter, where importing `zipfile` would cost a start 7 ms
        return zipimporter(packed).get_data(name.replace("/", os.sep))
    except (ZipImportError, ValueError, EOFError, zlib.error) as error:
        raise OSError(f"{packed} is damaged: {error}") from error


def knowledge_dir() -> Path:
    """Return the folder of hardware, model, engine and rule facts of a checkout."""
    return data_root() / "knowledge"


def models_dir() -> Path:
    """Return the folder of the trained model of a checkout."""
    return data_root() / "models"


def user_dirs() -> tuple[str, ...]:
    """Folders with the user's hardware/ and llms/ files: $ADVISOR_KNOWLEDGE or by default."""
    asked = os.environ.get("ADVISOR_KNOWLEDGE")
    if asked:
        return tuple(part for part in asked.split(os.pathsep) if part)
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return (os.path.join(base, "advisor"),)


_HEAD = lazy_re(r'\{\s*"generated":\s*"[^"\n]*",\n')
_SEAL = re.compile(rb'\{\s*"generated":\s*"[^"\n]*",\n"crc32":\s*(\d+),\n')


def seal(text: str) -> str:
    """A JSON object's text: how it is generated, then the CRC-32 of what follows as second key."""
    head = _HEAD.match(text)
    assert head is not None, "a generated file says so in line one"
    rest = text[head.end() :]
    return f'{head.group()}"crc32": {zlib.crc32(rest.encode())},\n{rest}'


def unseal(data: bytes, name: str, remedy: str) -> Entries:
    """The object of a sealed file. Raises AdvisorError where it is not what was sealed."""
    found = _SEAL.match(data)
    if found is None:
        raise AdvisorError(f"{name} is damaged, or of another release (no checksum): {remedy}")
    if zlib.crc32(memoryview(data)[found.end() :]) != int(found.group(1)):
        raise AdvisorError(f"{name} is damaged (its checksum is another one): {remedy}")
    return Entries(data[found.end() :].decode())


class Entries(Mapping[str, Any]):
    """A JSON object with an entry a line, each parsed when it is first asked for; an entry of
    several lines is such an object again, indented by one blank more.
    """

    def __init__(self, text: str, indent: str = "") -> None:
        lines = f"\n{text}".rpartition("\n}")[0].split(f'\n{indent}"')[1:]
        parts = (line.partition('":') for line in lines)
        self._texts = {name: value.removesuffix(",") for name, _, value in parts}
        self._values: dict[str, Any] = {}
        self._indent = indent

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            text = self._texts[name]
            several = text.startswith("{\n")
            self._values[name] = Entries(text, f"{self._indent} ") if several else json.loads(text)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
