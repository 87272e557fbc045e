"""One server of an emitted launch on a machine with a GPU; copied beside `gpu_starts.py`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ENV = {
    "VLLM_USE_DEEP_GEMM": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "2",
}
ADDED = ["--host", "127.0.0.1", "--load-format", "dummy", "--gdn-prefill-backend", "triton"]
ADDED += ["--kv-cache-memory-bytes", "8G"]
SHARE = "0.05"  # of the card's memory that must be free; the cache's size is given
COUNTERS = tuple(
    f"vllm:spec_decode_num_{what}_total" for what in ("drafts", "draft_tokens", "accepted_tokens")
)


def model_path(folder: Path, row: dict[str, Any], short: bool = False) -> str:
    return str(folder / "models" / f"{row['model']}-{row['form']}{'-short' if short else ''}")


def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def put(argv: list[str], name: str, value: str) -> list[str]:
    """The arguments with one option's value replaced, or added."""
    argv = list(argv)
    if name in argv:
        argv[argv.index(name) + 1] = value
        return argv
    return [*argv, name, value]


class Server:
    """One `vllm serve` of a launch on this machine."""

    counters_wanted = COUNTERS
    drafts_counter = COUNTERS[1]  # above zero where drafts were made
    tokens = 48  # asked for

    def __init__(self, folder: Path, row: dict[str, Any], log: Path, short: bool = True) -> None:
        self.row, self.log, self.port = row, log, port()
        argv = [model_path(folder, row, short), *row["argv"][3:], *ADDED]
        argv = put(put(argv, "--port", str(self.port)), "--gpu-memory-utilization", SHARE)
        argv += ["--served-model-name", "m"]
        if row["model"] != "qwen3-next-80b-a3b":
            argv += ["--language-model-only"]  # the picture tower's processor is not at hand
        self.argv = argv
        self.begin = time.monotonic()

    def start(self) -> None:
        self.spawn([sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", *self.argv], ENV)

    def spawn(self, command: list[str], env: dict[str, str]) -> None:
        self.begin = time.monotonic()
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=out,
                env={**os.environ, **env, **self.row["env"]},
                start_new_session=True,
            )

    def ask(self, path: str, body: dict[str, Any] | None = None) -> str:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=data,
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=90) as answer:
            return answer.read().decode()

    def wait(self, until: float) -> None:
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"left with status {self.process.returncode}")
            try:
                self.ask("/health")
                return
            except OSError:
                time.sleep(1)
        raise TimeoutError("not up when the time was over")

    def counters(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for line in self.ask("/metrics").splitlines():
            name = line.split("{")[0].split(" ")[0]
            if name in self.counters_wanted:
                found[name] = found.get(name, 0.0) + float(line.rsplit(" ", 1)[1])
        return found

    def stop(self) -> int | None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, 9)
                self.process.wait(10)
                return None
        return self.process.returncode

    def tail(self, size: int = 2500) -> str:
        return self.log.read_text(errors="replace")[-size:]
