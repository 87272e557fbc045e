"""Where the shipped facts and the artefact are, in a wheel or a checkout; and the hash by which a
generated file is told from one that was cut off or edited.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from typing import TYPE_CHECKING, Any
from zipimport import ZipImportError, zipimporter

from advisor.domain.nouns import AdvisorError

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


_HEAD = re.compile(r'\{\s*"generated":\s*"[^"\n]*",\n')

_SEAL = re.compile(rb'\{\s*"generated":\s*"[^"\n]*",\n"sha256":\s*"([0-9a-f]{64})",\n')


def seal(text: str) -> str:
    """A JSON object's text: how it is generated, then the hash of what follows as second key."""
    head = _HEAD.match(text)
    assert head is not None, "a generated file says so in line one"
    rest = text[head.end() :]
    return f'{head.group()}"sha256": "{hashlib.sha256(rest.encode()).hexdigest()}",\n{rest}'


def unseal(data: bytes, name: str, remedy: str) -> dict[str, Any]:
    """The object of a sealed file. Raises AdvisorError where the hash is missing or another one."""
    found = _SEAL.match(data)
    if found is None:
        raise AdvisorError(f"{name} is damaged, or of another release (it has no hash): {remedy}")
    if hashlib.sha256(memoryview(data)[found.end() :]).hexdigest().encode() != found.group(1):
        raise AdvisorError(f"{name} is damaged (its content does not match its hash): {remedy}")
    try:
        made: dict[str, Any] = json.loads(data)
    except ValueError:
        raise AdvisorError(f"{name} is damaged (it is no JSON): {remedy}") from None
    del made["sha256"]
    return made
