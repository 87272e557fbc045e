"""Docker as the place where an emitted file is started, and whether it is here: where a daemon
answers and docker compose is found (`.ci/with-docker` brings both).
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWN = f"advisor-test-{os.getpid()}-{time.time_ns()}"  # tests of other processes go on beside these
IMAGE = f"{OWN}/llama-server:local"
COMMIT = "0" * 40  # of the one snapshot in the cache of Hugging Face's layout


class Absent(Exception):
    """This place is not to be had here; the text says why."""


def say_direct(place: str, absent: Absent) -> str:
    """How a file was started whose place is not here: in CI an error, but for ADVISOR_SKIP."""
    if os.environ.get("ADVISOR_EXPECT_LLAMA_SERVER"):
        skipped = os.environ.get("ADVISOR_SKIP", "").split()
        assert place in skipped, f"{absent}; ADVISOR_SKIP={place} goes on without it"
    return f"command line run directly ({absent})"


def call(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False,
                          **options)  # fmt: skip


def environment(**own: str) -> dict[str, str]:
    """This process's environment, with these variables."""
    return {**os.environ, **own}


def logs(compose: list[str], env: dict[str, str]) -> str:
    """The last lines of every container of a project."""
    return call([*compose, "logs", "--tail", "20"], env=env).stdout[-3000:]


def cache_model(hub: Path, repository: str, file: str, model: Path) -> None:
    """Put a model where `-hf REPOSITORY` looks for it without a network."""
    folder = hub / f"models--{repository.replace('/', '--')}"
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    shutil.copy(model, folder / "snapshots" / COMMIT / file)


@dataclass(frozen=True)
class Docker:
    version: str
    compose: tuple[str, ...]


def find_docker() -> Docker:
    """The daemon that answers. Raises Absent."""
    if shutil.which("docker") is None:
        raise Absent("no docker program")
    info = call(["docker", "info", "--format", "{{.ServerVersion}}"])
    if info.returncode or not info.stdout.strip():
        raise Absent("no docker daemon answers")
    own = os.environ.get("DOCKER_COMPOSE")
    compose = (own,) if own else ("docker", "compose")
    if call([*compose, "version"]).returncode:
        raise Absent("no docker compose")
    return Docker(info.stdout.strip(), compose)


def _libraries(program: Path) -> set[Path]:
    """What the dynamic linker loads for a program, itself included."""
    words = call(["ldd", str(program)]).stdout.split()
    return {Path(word) for word in words if word.startswith("/")}


@contextmanager
def image(server: Path, folder: Path) -> Iterator[str]:
    """An image like the published one: it starts llama-server, and has curl. No registry."""
    root = folder / "rootfs"
    curl = Path(shutil.which("curl") or "/usr/bin/curl")
    placed = {server: Path("app/llama-server"), curl: Path("usr/bin/curl")}
    for library in _libraries(server) | _libraries(curl):
        placed[library] = Path(*library.parts[1:])
    for source, target in placed.items():
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, root / target)
    for name in ("root", "tmp", "etc"):
        (root / name).mkdir(exist_ok=True)
    (root / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    archive = shutil.make_archive(str(folder / "rootfs"), "tar", root)
    change = 'ENTRYPOINT ["/app/llama-server"]'
    made = call(["docker", "import", "--change", change, archive, IMAGE])
    assert made.returncode == 0, made.stderr
    try:
        yield IMAGE
    finally:
        call(["docker", "image", "rm", "--force", IMAGE])
