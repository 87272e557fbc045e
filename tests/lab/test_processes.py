"""An engine that a measurement started ends with it, however the measurement ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from advisor.lab.processes import EngineProcess

# an engine with a worker of its own, as vLLM and SGLang have; it takes SIGTERM where told to
ENGINE = """
import os, signal, subprocess, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""
PARENT = """
import sys, time
from advisor.lab.processes import EngineProcess
with open(sys.argv[1] + ".log", "ab") as log:
    engine = EngineProcess([sys.executable, "-c", {engine!r}, sys.argv[1]], log)
open(sys.argv[1] + ".held", "w").close()
{then}
time.sleep(600)
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def until(done: object, seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if done():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False


def pids(note: Path) -> list[int]:
    assert until(lambda: note.is_file() and len(note.read_text().split()) == 2)
    return [int(word) for word in note.read_text().split()]


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_no_engine_outlives_what_started_it(sign: signal.Signals | None, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    go = tmp_path / "go"
    # no signal: the parent leaves by itself once its engine is seen to run
    then = f"import os\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\nos._exit(3)"
    then = "" if sign else then
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(engine=ENGINE, then=then), str(note)],
        stderr=subprocess.DEVNULL,
        # a job in the background of a shell ignores Ctrl-C, and what it starts does as well
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    engines = pids(note)
    assert until(note.with_name("pids.held").is_file), "the leash knows the engine by then"
    assert all(map(alive, engines))
    if sign:
        parent.send_signal(sign)
    else:
        go.touch()
    parent.wait(120)
    assert until(lambda: not any(map(alive, engines))), "an engine runs on"


@pytest.mark.parametrize("how", ["", "deaf"])
def test_an_engine_is_ended_with_its_workers(how: str, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    with (tmp_path / "log").open("ab") as log:
        engine = EngineProcess([sys.executable, "-c", ENGINE, str(note), how], log)
    head, worker = pids(note)
    assert engine.pid == head and os.getpgid(worker) == head
    engine.end(seconds=1)
    assert until(lambda: not alive(head) and not alive(worker))
    assert engine.leash.poll() == 0
    engine.end()  # once more does no harm


def test_a_program_that_is_not_there_leaves_no_leash(tmp_path: Path) -> None:
    before = set(Path("/proc").glob("[0-9]*"))
    with (tmp_path / "log").open("ab") as log, pytest.raises(OSError):
        EngineProcess(["/nowhere/engine"], log)
    left = [p for p in set(Path("/proc").glob("[0-9]*")) - before if _is_leash(p)]
    assert left == []


def _is_leash(process: Path) -> bool:
    try:
        about = (process / "status").read_text()
        return f"PPid:\t{os.getpid()}\n" in about and b"leash" in (process / "cmdline").read_bytes()
    except OSError:
        return False
