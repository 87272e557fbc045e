"""Where the shipped facts and the trained artefact are: in one packed file of the package in a
wheel (`hatch_build.py` writes it), at the top in a checkout.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from zipimport import ZipImportError, zipimporter

_PACKAGE = Path(__file__).resolve().parents[1]
PACKED = "_data.zip"  # in the package


def data_root() -> Path:
    """The folder that holds `knowledge/` and `models/` in a checkout."""
    return _PACKAGE.parent


def read_data(name: str) -> bytes:
    """Return one shipped file by its path in the repository, such as "knowledge/index.json".

    Raises
    ------
    OSError
        It is not there, or what holds it is damaged.
    """
    packed = _PACKAGE / PACKED
    if not packed.is_file():
        return (data_root() / name).read_bytes()
    try:
        # loaded with the interpreter, where importing `zipfile` would cost a start 7 ms
        return zipimporter(str(packed)).get_data(name.replace("/", os.sep))
    except (ZipImportError, ValueError, EOFError, zlib.error) as error:
        raise OSError(f"{packed} is damaged: {error}") from error


def knowledge_dir() -> Path:
    """Return the folder of hardware, model, engine and rule facts of a checkout."""
    return data_root() / "knowledge"


def models_dir() -> Path:
    """Return the folder of the trained model of a checkout."""
    return data_root() / "models"


def user_dirs() -> tuple[Path, ...]:
    """Folders with the user's own hardware/ and llms/ files: $ADVISOR_KNOWLEDGE, else the
    platform's config folder.
    """
    asked = os.environ.get("ADVISOR_KNOWLEDGE")
    if asked:
        return tuple(Path(part) for part in asked.split(os.pathsep) if part)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) / "advisor" if base else Path.home() / ".config" / "advisor",)
