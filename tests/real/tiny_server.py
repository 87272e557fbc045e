"""A llama-server on the CPU with a tiny random model, for the tests that need a real one.

The server is the one that `.ci/llama-server` builds. Where it is missing the tests are skipped,
unless ADVISOR_EXPECT_LLAMA_SERVER is set, as in CI: then they fail.
"""

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VERSION = "0.3.36"  # of the llama-cpp-python archive that .ci/llama-server builds from
QUIET = ("--poll", "0", "--poll-draft", "0")  # no busy waiting on a machine with few cores
START_S = 300.0  # of wall time, on a machine that runs other things


def binary() -> Path:
    root = os.environ.get("ADVISOR_CACHE")
    cache = Path(root) if root else Path.home() / ".cache" / "advisor"
    return cache / "llama-server" / VERSION / "bin" / "llama-server"


@contextmanager
def run_server(server: Path, arguments: list[str], log: Path) -> Iterator[None]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LLAMA_")}
    with log.open("wb") as out:
        process = subprocess.Popen([server, *arguments], stdout=out, stderr=out, env=clean)
        try:
            yield
        finally:
            for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):  # it may hang at the first
                process.send_signal(sign)
                try:
                    process.wait(timeout=10)
                    break
                except subprocess.TimeoutExpired:
                    continue


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
    with urllib.request.urlopen(request, timeout=START_S) as answer:
        return json.load(answer)


def wait(port: int, log: Path) -> None:
    """Until the server says that the model is loaded. Fails with its log."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            if ask(port, "/health")["status"] == "ok":
                return
        except OSError:
            if "exiting due to" in log.read_text(errors="replace"):
                break
            time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")
