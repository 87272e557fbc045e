"""Where the shipped facts and the trained artefact are: inside the package in a wheel, at the top
in a checkout.
"""

from __future__ import annotations

import os
from pathlib import Path

_HERE = Path(__file__).resolve().parents[1]


def data_root() -> Path:
    """The folder that holds `knowledge/` and `models/`."""
    packed = _HERE / "_data"
    return packed if packed.is_dir() else _HERE.parent


def knowledge_dir() -> Path:
    """Return the folder of hardware, model, engine and rule facts."""
    return data_root() / "knowledge"


def models_dir() -> Path:
    """Return the folder of the trained model."""
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
