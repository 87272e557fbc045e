"""A resumable sweep of step costs: one engine process per job, spread over the GPUs in sight.

Every row is kept in one JSON-lines file per job, so that a second call does only what is missing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from advisor.lab.bench import protocol
from advisor.lab.bench.jobs import Job, ServedJob, as_data
from advisor.lab.processes import EngineProcess

POLL_S = 0.2
HANG_S = 3600.0  # an engine that has not started by then never will
Jobs = Iterable[Job | ServedJob]


class SweepProgress(NamedTuple):
    """What has been measured of what was asked, in points, and the last thing that happened."""

    done: int
    total: int
    note: str


def rows_file(folder: Path, job: Job | ServedJob) -> Path:
    """Return the file to which a job writes its rows."""
    return folder / f"{job.label}.jsonl"


def todo_of(job: Job | ServedJob, folder: Path) -> protocol.Todo:
    """The points that a job still lacks in `folder`."""
    return protocol.missing_points(as_data(job), rows_file(folder, job))


def progress(jobs: Jobs, folder: Path, note: str = "") -> SweepProgress:
    """Return how many points of the jobs are measured, and how many there will be."""
    parts = [(job.turns * len({p.key for p in job.points}), todo_of(job, folder)) for job in jobs]
    total = sum(count for count, _ in parts)
    return SweepProgress(total - sum(len(left) for _, left in parts), total, note)


def run(
    jobs: Jobs,
    folder: Path,
    *,
    gpus: tuple[str, ...] = ("0",),
    seconds: float = float("inf"),
    together: int = 1,
    tell: Callable[[SweepProgress], None] = lambda _: None,
) -> SweepProgress:
    """Measure what is missing, one engine per GPU at a time, until done or `seconds` have passed.

    `together` engines start side by side on a GPU and take their times one after the other. GPUs
    work in rounds: nothing is timed before all engines of the round are warm, none starts before
    all have finished: one that started beside another made its prompts 10 to 40 % longer (H200). A
    job that fails is reported in its .log file and left for the next call.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed, deadline = tuple(jobs), time.time() + seconds
    left = [job for job in listed if todo_of(job, folder)]
    seats = [gpu for _ in range(together) for gpu in gpus]
    started: list[Engine] = []

    def begin() -> list[Engine]:
        """The next round: an engine for each seat, importing only."""
        if left and time.time() + left[0].reserve_s >= deadline:
            left.clear()
        taken = [left.pop(0) for _ in seats if left]
        following = [
            Engine(job, folder, gpu, deadline, alone=together == 1)
            for job, gpu in zip(taken, seats, strict=False)
        ]
        started.extend(following)
        return following

    def say(note: str) -> None:
        tell(progress(listed, folder, note))

    try:
        following = begin()
        while following:
            following = _round(following, begin, say)
    finally:
        for engine in started:
            engine.process.end()
    return progress(listed, folder, "finished")


def _round(
    engines: list[Engine], begin: Callable[[], list[Engine]], say: Callable[[str], None]
) -> list[Engine]:
    """Measure with the engines of a round while those of the next one import; the next ones."""
    for engine in engines:
        engine.go.touch()
    _wait(engines, protocol.BOOT)
    following = begin()
    _wait(engines, protocol.WARM)
    _wait(following, protocol.IMPORTED)
    written = _row_bytes(engines)
    for turn in _turns(engines):
        for engine in turn:
            engine.start_timing.touch()
        while any(engine.process.poll() is None for engine in turn):
            time.sleep(POLL_S)  # a look at sizes only: what is measured is bound by this host
            if _row_bytes(engines) != written:
                written = _row_bytes(engines)
                say("measuring")
    for engine in engines:
        code = engine.process.returncode
        status = f"stopped with status {code}, see {engine.log.name}" if code else "done"
        say(f"{engine.job.label}: {status}")
        engine.process.end()
    return following or begin()


def _turns(engines: Iterable[Engine]) -> list[list[Engine]]:
    """The engines of a round in turns, one of each GPU at a time."""
    turns: list[list[Engine]] = []
    for engine in engines:
        cards = {*engine.gpu.split(",")}
        free = (turn for turn in turns if all(cards.isdisjoint(e.gpu.split(",")) for e in turn))
        turn = next(free, None)
        if turn is None:
            turns.append(turn := [])
        turn.append(engine)
    return turns


def _row_bytes(engines: Iterable[Engine]) -> int:
    """Bytes in the rows of a round."""
    return sum(engine.out.stat().st_size for engine in engines if engine.out.exists())


def _wait(engines: Iterable[Engine], mark: str) -> None:
    """Until every engine has written `mark` to its log or ended; one that hangs is ended."""
    waiting, end = list(engines), time.monotonic() + HANG_S
    while waiting:
        if time.monotonic() > end:
            for engine in waiting:
                engine.process.end()
        waiting = [one for one in waiting if one.process.poll() is None and not one.has_said(mark)]
        time.sleep(POLL_S)


class Engine:
    """A worker process: it imports the engine at once, starts it when the file `go` is there, and
    takes its times when `start_timing` is.

    Imports take about 40 s of one core and no GPU, so the next engine's happen while the present
    one warms its shapes: on an H200 a start took 70 to 95 s that way instead of 140 to 200 s.
    """

    def __init__(
        self, job: Job | ServedJob, folder: Path, gpu: str, deadline: float, alone: bool = True
    ) -> None:
        self.job, self.gpu, self.out = job, getattr(job, "gpus", "") or gpu, rows_file(folder, job)
        task, self.go, self.start_timing, self.log = (
            folder / f"{job.label}.{end}" for end in ("job.json", "go", "time", "log")
        )
        task.write_text(json.dumps(as_data(job)))
        self.go.unlink(missing_ok=True)
        self.start_timing.unlink(missing_ok=True)
        # engines that compile at the same time must not write one folder
        cache, vllm = folder / f"cache-{self.gpu}", "vllm" if alone else f"vllm-{job.label}"
        environment = os.environ | {
            "VLLM_CACHE_ROOT": str(cache / vllm),
            "TRITON_CACHE_DIR": str(cache / "triton"),
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "CUDA_VISIBLE_DEVICES": self.gpu,
        }
        files = {"job": task, "out": self.out, "go": self.go, "time": self.start_timing}
        command = [sys.executable, "-m", "advisor.lab.bench.worker", "--deadline", str(deadline)]
        command += [word for name, path in files.items() for word in (f"--{name}", str(path))]
        self.before = self.log.stat().st_size if self.log.exists() else 0  # bytes
        with self.log.open("ab") as sink:
            self.process = EngineProcess(command, sink, environment)

    def has_said(self, mark: str) -> bool:
        """Whether this start has written `mark` (a line of `protocol`) to its log."""
        with self.log.open("rb") as source:
            source.seek(self.before)
            return mark.encode() in source.read()
