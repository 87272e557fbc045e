"""A resumable sweep of step costs: one engine process per job, spread over the GPUs in sight.

What it does: writes each job to a file, runs `advisor.lab.bench.worker` for it with its own GPU and
caches, and keeps every row in one JSON-lines file per job, so that a second call does only what is
missing. What it does not know: real acceptance and real routing; weights are random (see
worker.py).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from advisor.lab.bench import worker
from advisor.lab.bench.jobs import Job
from advisor.lab.processes import EngineProcess

POLL_S = 0.2
HANG_S = 3600.0  # an engine that has not started by then never will


@dataclass(frozen=True)
class Progress:
    """What has been measured of what was asked, in points; `note` is the last thing that
    happened.
    """

    done: int
    total: int
    note: str


def missing_jobs(jobs: Iterable[Job], folder: Path) -> tuple[Job, ...]:
    """The jobs that still lack points in `folder`."""
    return tuple(
        job for job in jobs if worker.missing_points(job.as_dict(), rows_file(folder, job))
    )


def rows_file(folder: Path, job: Job) -> Path:
    """Return the file to which a job writes its rows."""
    return folder / f"{job.label}.jsonl"


def progress(jobs: Iterable[Job], folder: Path, note: str = "") -> Progress:
    """Return how many rows of the jobs are measured, and how many there will be."""
    listed = list(jobs)
    total = sum(job.turns * len({p.key for p in job.points}) for job in listed)
    left = sum(len(worker.missing_points(job.as_dict(), rows_file(folder, job))) for job in listed)
    return Progress(total - left, total, note)


def run(
    jobs: Iterable[Job],
    folder: Path,
    *,
    gpus: tuple[str, ...] = ("0",),
    seconds: float = float("inf"),
    start_s: float = 240.0,
    together: int = 1,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Measure what is missing, one engine per GPU at a time, until done or `seconds` have passed.

    `together` engines start side by side on a GPU (jobs must then give their `kv_gib`); they take
    their times one after the other, the rest idle. Starts take most of a sweep's time, and most of
    a start is work of a few cores.

    GPUs work in rounds: nothing is timed before every engine of the round has warmed its shapes,
    and no engine starts before all have finished. On an H200 an engine that started beside another
    made the other's prompts 10 to 40 % longer.
    `start_s`: a job is not begun when less time than an engine start is left. A job that fails is
    reported in its
    .log file and left for the next call; the sweep goes on.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = tuple(jobs)
    deadline = time.time() + seconds
    left = list(missing_jobs(listed, folder))

    started: list[Engine] = []

    def begin() -> list[Engine]:
        """The next round: an engine per GPU, importing only."""
        if time.time() + start_s >= deadline:
            return []
        seats = [gpu for _ in range(together) for gpu in gpus]
        taken = [left.pop(0) for _ in seats if left]
        for job, gpu in zip(taken, seats, strict=False):
            started.append(Engine.spawn(job, folder, gpu, deadline, alone=together == 1))
        return started[len(started) - len(taken) :]

    def say(note: str) -> None:
        tell(progress(listed, folder, note))

    try:
        following = begin()
        while following:
            following = _round(following, folder, begin, say)
            if time.time() + start_s >= deadline:
                break
    finally:
        for engine in started:
            engine.process.end()
    return progress(listed, folder, "finished")


def _round(
    engines: list[Engine],
    folder: Path,
    begin: Callable[[], list[Engine]],
    say: Callable[[str], None],
) -> list[Engine]:
    """Measure with the engines of a round while those of the next one import; the next ones."""
    for engine in engines:
        engine.release()
    _wait(engines, worker.BOOT)
    following = begin()
    _wait(engines, worker.WARM)
    _wait(following, worker.IMPORTED)
    written = _row_bytes(engines, folder)
    for turn in _turns(engines):
        for engine in turn:
            engine.measure()
        while any(engine.process.poll() is None for engine in turn):
            time.sleep(POLL_S)  # a look at sizes only: what is measured is bound by this host
            if _row_bytes(engines, folder) != written:
                written = _row_bytes(engines, folder)
                say("measuring")
    for engine in engines:
        code = engine.process.returncode
        say(f"{engine.job.label}: {'done' if code == 0 else f'stopped with status {code}'}")
        engine.process.end()
    return following or begin()


def _turns(engines: Iterable[Engine]) -> list[list[Engine]]:
    """The engines of a round in turns, one of each GPU at a time."""
    turns: list[list[Engine]] = []
    for engine in engines:
        free = (turn for turn in turns if engine.gpu not in {one.gpu for one in turn})
        turn = next(free, None)
        if turn is None:
            turns.append([engine])
        else:
            turn.append(engine)
    return turns


def _row_bytes(engines: Iterable[Engine], folder: Path) -> int:
    """Bytes in the rows of a round."""
    files = (rows_file(folder, engine.job) for engine in engines)
    return sum(file.stat().st_size for file in files if file.exists())


def _wait(engines: Iterable[Engine], mark: str) -> None:
    """Until every engine has said `mark` or ended; one that hangs is ended."""
    waiting, end = list(engines), time.monotonic() + HANG_S
    while waiting:
        if time.monotonic() > end:
            for engine in waiting:
                engine.process.end()
        waiting = [
            engine
            for engine in waiting
            if engine.process.poll() is None and not engine.has_said(mark)
        ]
        time.sleep(POLL_S)


@dataclass(frozen=True)
class Engine:
    """A worker process: it imports the engine at once, starts it when it is released, and takes its
    times when told to.

    Imports take about 40 s of one core and no GPU, so the next engine's happen while the present
    one warms its shapes: on an H200 a start took 70 to 95 s that way instead of 140 to 200 s.
    """

    job: Job
    process: EngineProcess
    go: Path
    start_timing: Path
    log: Path
    said: int  # bytes in the log before this start
    gpu: str = "0"

    @classmethod
    def spawn(cls, job: Job, folder: Path, gpu: str, deadline: float, alone: bool = True) -> Engine:
        """Start the worker of a job on one GPU."""
        task, go, measure, log = (
            folder / f"{job.label}.{end}" for end in ("job.json", "go", "time", "log")
        )
        task.write_text(json.dumps(job.as_dict()))
        go.unlink(missing_ok=True)
        measure.unlink(missing_ok=True)
        caches = {
            # engines that compile at the same time must not write one folder
            "VLLM_CACHE_ROOT": str(
                folder / f"cache-{gpu}" / ("vllm" if alone else f"vllm-{job.label}")
            ),
            "TRITON_CACHE_DIR": str(folder / f"cache-{gpu}" / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / f"cache-{gpu}" / "inductor"),
        }
        environment = {**os.environ, **caches, "CUDA_VISIBLE_DEVICES": gpu}
        command = [
            sys.executable,
            "-m",
            "advisor.lab.bench.worker",
            "--job",
            str(task),
            "--out",
            str(rows_file(folder, job)),
        ]
        command += ["--go", str(go), "--time", str(measure)]
        if deadline < float("inf"):
            command += ["--deadline", str(deadline)]
        said = log.stat().st_size if log.exists() else 0
        with log.open("ab") as sink:
            process = EngineProcess(command, sink, environment)
        return cls(job, process, go, measure, log, said, gpu)

    def release(self) -> None:
        """Let the worker load its model."""
        self.go.touch()

    def measure(self) -> None:
        """Let the worker begin to measure."""
        self.start_timing.touch()

    def has_said(self, mark: str) -> bool:
        """Whether this start has written `mark` (worker.BOOT: it serves; worker.WARM: every shape
        ran once) to its log.
        """
        with self.log.open("rb") as source:
            source.seek(self.said)
            return mark.encode() in source.read()
