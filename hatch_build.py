"""What an answer reads, packed into one file of the wheel: `advisor/_data.zip`.

Its list is in pyproject.toml. `advisor.domain.paths.read_data` reads it.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Read for every answer, so kept as it is. The model and the index of the measurements are read as
# often, but packed: that costs an answer 0.6 and 1.5 ms, and 400 kB of the wheel if they are not.
PLAIN = ("index.json",)


class PackedData(BuildHookInterface):
    """Adds the packed file to a wheel, not to an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file where the build finds it. Raises ValueError for a pattern without a
        file.
        """
        if version == "editable":
            return
        self.folder = Path(tempfile.mkdtemp())
        root = Path(self.root)
        packed = self.folder / "_data.zip"
        with zipfile.ZipFile(packed, "w") as archive:
            for path in self._files(root):
                # a fixed date, so that equal files give an equal wheel
                entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), (1980, 1, 1, 0, 0, 0))
                entry.compress_type = (
                    zipfile.ZIP_STORED if path.name in PLAIN else zipfile.ZIP_DEFLATED
                )
                archive.writestr(entry, path.read_bytes())
        build_data["force_include"][str(packed)] = "advisor/_data.zip"

    def finalize(self, version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove what the build has taken."""
        if version != "editable":
            shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self, root: Path) -> list[Path]:
        found: list[Path] = []
        for pattern in self.config["files"]:
            matching = sorted(root.glob(pattern))
            if not matching:
                raise ValueError(f"no file matches {pattern}")
            found += matching
        return found
