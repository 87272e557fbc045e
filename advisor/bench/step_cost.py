"""A resumable sweep of step costs: one engine process per job, spread over the GPUs in sight.

What it does: writes each job to a file, runs `advisor.bench.worker` for it with its own GPU and caches, and keeps every row in
one JSON-lines file per job, so that a second call does only what is missing.
What it does not know: real acceptance and real routing; weights are random (see worker.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from advisor.bench import worker
from advisor.bench.cells import Job
from advisor.bench.worker import finished

POLL_S = 0.2


@dataclass(frozen=True)
class Progress:
    """What has been measured of what was asked, in points; `note` is the last thing that happened."""

    done: int
    total: int
    note: str


def missing(jobs: Iterable[Job], folder: Path) -> tuple[Job, ...]:
    """The jobs that still lack points in `folder`."""
    return tuple(job for job in jobs if {p.key for p in job.points} - finished(rows_file(folder, job), job.label))


def rows_file(folder: Path, job: Job) -> Path:
    return folder / f"{job.label}.jsonl"


def progress(jobs: Iterable[Job], folder: Path, note: str = "") -> Progress:
    listed = list(jobs)
    done = sum(len({p.key for p in job.points} & finished(rows_file(folder, job), job.label)) for job in listed)
    return Progress(done, sum(len({p.key for p in job.points}) for job in listed), note)


def run(
    jobs: Iterable[Job],
    folder: Path,
    *,
    gpus: tuple[str, ...] = ("0",),
    seconds: float = float("inf"),
    start_s: float = 240.0,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Measure what is missing, one engine per GPU at a time, until done or `seconds` have passed.

    `start_s`: a job is not begun when less time than an engine start is left. A job that fails is reported in its
    .log file and left for the next call; the sweep goes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = tuple(jobs)
    deadline = time.time() + seconds
    left: SimpleQueue[Job] = SimpleQueue()
    for job in missing(listed, folder):
        left.put(job)

    def take(gpu: str) -> Engine | None:
        if time.time() + start_s >= deadline:
            return None
        try:
            return Engine.spawn(left.get_nowait(), folder, gpu, deadline)
        except Empty:
            return None

    def serve(gpu: str) -> None:
        following = take(gpu)
        while following is not None:
            now, following = following, None
            now.release()
            while now.process.poll() is None:
                if following is None and now.has_started():
                    following = take(gpu)
                time.sleep(POLL_S)
            code = now.process.returncode
            tell(progress(listed, folder, f"{now.job.label}: {'done' if code == 0 else f'stopped with status {code}'}"))
            following = following or take(gpu)
            if following is not None and time.time() + start_s >= deadline:
                following.process.kill()
                following = None

    with ThreadPoolExecutor(max_workers=len(gpus)) as pool:
        list(pool.map(serve, gpus))
    return progress(listed, folder, "finished")


@dataclass(frozen=True)
class Engine:
    """A worker process: it imports the engine at once, and starts it when it is released.

    Imports take about 40 s of one core and no GPU, so the next engine's happen while the present one measures: on an H200
    a start took 70 to 95 s that way instead of 140 to 200 s.
    """

    job: Job
    process: subprocess.Popen[bytes]
    go: Path
    log: Path
    said: int  # bytes in the log before this start

    @classmethod
    def spawn(cls, job: Job, folder: Path, gpu: str, deadline: float) -> Engine:
        task, go, log = (folder / f"{job.label}.{end}" for end in ("job.json", "go", "log"))
        task.write_text(json.dumps(job.as_dict()))
        go.unlink(missing_ok=True)
        caches = {
            "VLLM_CACHE_ROOT": str(folder / f"cache-{gpu}" / "vllm"),
            "TRITON_CACHE_DIR": str(folder / f"cache-{gpu}" / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / f"cache-{gpu}" / "inductor"),
        }
        environment = {**os.environ, **caches, "CUDA_VISIBLE_DEVICES": gpu}
        command = [
            sys.executable,
            "-m",
            "advisor.bench.worker",
            "--job",
            str(task),
            "--out",
            str(rows_file(folder, job)),
        ]
        command += ["--go", str(go)]
        if deadline < float("inf"):
            command += ["--deadline", str(deadline)]
        said = log.stat().st_size if log.exists() else 0
        with log.open("ab") as sink:
            process = subprocess.Popen(command, env=environment, stdout=sink, stderr=sink)
        return cls(job, process, go, log, said)

    def release(self) -> None:
        self.go.touch()

    def has_started(self) -> bool:
        """Whether the engine serves: from here on the machine has a core to spare."""
        with self.log.open("rb") as source:
            source.seek(self.said)
            return worker.BOOT.encode() in source.read()
