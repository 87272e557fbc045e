"""An engine that a measurement started is ended with its workers."""

import os
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


@pytest.mark.parametrize("how", ["", "deaf"])
def test_an_engine_is_ended_with_its_workers(how: str, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    with (tmp_path / "log").open("ab") as log:
        engine = EngineProcess([sys.executable, "-c", ENGINE, str(note), how], log)
    assert until(lambda: note.is_file() and len(note.read_text().split()) == 2)
    head, worker = map(int, note.read_text().split())
    assert engine.pid == head and os.getpgid(worker) == head
    engine.end(seconds=1)
    assert until(lambda: not alive(head) and not alive(worker))
    engine.end()  # once more does no harm


def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "log").open("ab") as log, pytest.raises(OSError, match="nowhere"):
        EngineProcess(["/nowhere/engine"], log)
