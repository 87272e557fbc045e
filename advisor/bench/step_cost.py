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
from queue import SimpleQueue

from advisor.bench.cells import Job
from advisor.bench.worker import finished


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
    free: SimpleQueue[str] = SimpleQueue()
    for gpu in gpus:
        free.put(gpu)

    def one(job: Job) -> None:
        gpu = free.get()
        try:
            if time.time() + start_s < deadline:
                code = start(job, folder, gpu, deadline)
                tell(progress(listed, folder, f"{job.label}: {'done' if code == 0 else f'stopped with status {code}'}"))
        finally:
            free.put(gpu)

    with ThreadPoolExecutor(max_workers=len(gpus)) as pool:
        list(pool.map(one, missing(listed, folder)))
    return progress(listed, folder, "finished")


def start(job: Job, folder: Path, gpu: str, deadline: float) -> int:
    """Run one worker to its end; returns its exit status."""
    task = folder / f"{job.label}.job.json"
    task.write_text(json.dumps(job.as_dict()))
    caches = {
        "VLLM_CACHE_ROOT": str(folder / f"cache-{gpu}" / "vllm"),
        "TRITON_CACHE_DIR": str(folder / f"cache-{gpu}" / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / f"cache-{gpu}" / "inductor"),
    }
    environment = {**os.environ, **caches, "CUDA_VISIBLE_DEVICES": gpu}
    command = [sys.executable, "-m", "advisor.bench.worker", "--job", str(task), "--out", str(rows_file(folder, job))]
    if deadline < float("inf"):
        command += ["--deadline", str(deadline)]
    with (folder / f"{job.label}.log").open("a") as log:
        return subprocess.run(command, env=environment, stdout=log, stderr=log, check=False).returncode
