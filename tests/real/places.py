"""Docker and systemd as the places where an emitted file is started, and whether they are here.

Docker is used where a daemon answers and docker compose is found (`.ci/with-docker` brings both).
systemd is started as a manager of its own, in namespaces over a copy-on-write view of this machine,
with no unit but the emitted one: that needs root and systemd, and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OWN = f"advisor-test-{os.getpid()}-{time.time_ns()}"  # tests of other processes go on beside these
IMAGE = f"{OWN}/llama-server:local"
COMMIT = "0" * 40  # of the one snapshot in the cache of Hugging Face's layout
MANAGER_S = 180.0  # of wall time, for a manager without units
_ASK = (
    "import sys, urllib.request as u; body = sys.argv[2].encode() or None; "
    "sys.stdout.buffer.write(u.urlopen(u.Request(sys.argv[1], data=body), timeout=300).read())"
)


class Absent(Exception):
    """This place is not to be had here; the text says why."""


def say_direct(place: str, absent: Absent) -> str:
    """How a file was started whose place is not here: in CI an error, unless ADVISOR_SKIP names the
    place.
    """
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


def wait_until(ready: Callable[[], bool], limit_s: float = 300.0) -> None:
    """Until a server says so. Raises OSError: what it said last."""
    until = time.monotonic() + limit_s
    while True:
        try:
            if ready():
                return
        except OSError:
            if time.monotonic() > until:
                raise
        time.sleep(0.2)


def cache_model(hub: Path, repository: str, file: str, model: Path) -> None:
    """Put a model where `-hf REPOSITORY` looks for it without a network."""
    folder = hub / f"models--{repository.replace('/', '--')}"
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(COMMIT)
    shutil.copy(model, folder / "snapshots" / COMMIT / file)


# docker ------------------------------------------------------------------------------------------


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


# systemd -----------------------------------------------------------------------------------------

# Targets that units refer to, empty: nothing of this machine is started.
_TARGETS = ("sysinit", "basic", "shutdown", "network-online", "multi-user", "nothing")
# $1: a folder of this test, with units/, the program and a cache; $2: 1 or 2, the cgroup layout
_BOOT = """
set -eu
ip link set lo up
mount -t tmpfs over "$1/over"
mkdir "$1/over/up" "$1/over/work" "$1/over/root"
mount -t overlay over -o "lowerdir=/,upperdir=$1/over/up,workdir=$1/over/work" "$1/over/root"
cd "$1/over/root"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs run run
mount --rbind /dev dev
if [ "$2" = 2 ]; then
  mount -t cgroup2 cgroup2 sys/fs/cgroup
else
  mount -t tmpfs cgroup sys/fs/cgroup
  mkdir sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
mkdir -p usr/local/bin var/cache
cp "$1/llama-server" usr/local/bin/llama-server
cp -r "$1/cache" var/cache/llama-server
cp -r "$1/units" run/units
export SYSTEMD_UNIT_PATH=/run/units container=advisor-test
exec chroot . "$3" --system --unit=nothing.target --log-target=console --show-status=no
"""


@dataclass(frozen=True)
class Systemd:
    version: str
    pid: int

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """systemctl beside this manager."""
        inside = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net", "--root"]
        return call([*inside, "systemctl", *words])

    def ask(self, port: int, path: str, body: dict[str, Any] | None = None) -> Any:
        """The answer of a server in the manager's network namespace. Raises OSError."""
        inside = ["nsenter", "--target", str(self.pid), "--net", sys.executable, "-c", _ASK]
        data = json.dumps(body) if body is not None else ""
        made = call([*inside, f"http://127.0.0.1:{port}{path}", data])
        if made.returncode:
            raise OSError(made.stderr[-300:])
        return json.loads(made.stdout)


def write_units(folder: Path, name: str, unit: str, drop_in: str) -> None:
    """The folder of units that the manager sees: the emitted one, its drop-in, empty targets."""
    units = folder / "units"
    (units / f"{name}.d").mkdir(parents=True)
    (units / name).write_text(unit)
    (units / f"{name}.d" / "test.conf").write_text(drop_in)
    for target in _TARGETS:
        (units / f"{target}.target").write_text("[Unit]\nDefaultDependencies=no\n")


def _child(pid: int) -> int:
    """The first process in a namespace that `unshare --fork` made."""
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    found = listed.read_text().split() if listed.is_file() else []
    return int(found[0]) if found else 0


@contextmanager
def systemd(folder: Path, cgroups: int | None = None) -> Iterator[Systemd]:
    """A manager whose units `write_units` has written to the folder. Raises Absent."""
    manager = next(filter(os.path.exists, ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")), "")
    tools = ("systemctl", "unshare", "nsenter", "ip", "mount")
    lacking = [tool for tool in tools if shutil.which(tool) is None]
    if not manager or lacking:
        raise Absent(f"no {', '.join(lacking) or 'systemd'}")
    if os.geteuid() != 0:
        raise Absent("only root may start a manager in namespaces")
    unified = Path("/sys/fs/cgroup/cgroup.controllers").is_file()
    layout = cgroups or (2 if unified else 1)
    (folder / "over").mkdir()
    log = folder / "systemd.log"
    spaces = ["--net", "--mount", "--pid", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child"]
    boot = ["bash", "-c", _BOOT, "boot", str(folder), str(layout), manager]
    clean = {"PATH": f"/usr/sbin:/sbin:{os.environ['PATH']}"}
    with log.open("wb") as out:
        process = subprocess.Popen(["unshare", *spaces, "--", *boot], stdout=out, stderr=out,
                                   env=clean)  # fmt: skip
    try:
        made = Systemd("", 0)
        until = time.monotonic() + MANAGER_S
        while not made.version:
            if process.poll() is not None or time.monotonic() > until:
                raise Absent(f"no manager starts here: {log.read_text(errors='replace')[-300:]}")
            time.sleep(0.2)
            if pid := _child(process.pid):
                made = Systemd("", pid)
                shown = made.ctl("show", "--property=Version", "--value")
                made = Systemd(shown.stdout.strip() if not shown.returncode else "", pid)
        yield made
    finally:
        process.kill()
        process.wait(timeout=120)
