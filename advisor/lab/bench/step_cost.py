"""A resumable sweep of vLLM's step costs: one engine start after the other, each in a process.
`python -m advisor.lab.bench.step_cost SWEEP.json FOLDER [MINUTES]`, where vLLM is installed.

A sweep file is JSON: a list of entries with the fields of `Job`. `k` may be a list: one engine
start each. Points are objects with the fields of `TimedPoint`, or lists in their order. Each start
keeps its rows in a JSON-lines file, so that a second call does only what is missing.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from advisor.domain.nouns import AdvisorError
from advisor.lab.processes import EngineProcess

BLOCK_RATES = (0.08, 0.06, 0.045, 0.034, 0.025, 0.019, 0.014)  # of positions beyond eight
# Unconditional acceptance by position that the synthetic sampler is told to produce: the GB10
# seed's two positions, then a geometric tail. Acceptance is an input of the sweep, never a result.
RATES = (0.816, 0.635, 0.48, 0.36, 0.27, 0.2, 0.15, 0.11, *BLOCK_RATES)
START_S = 240.0  # no engine is started when a sweep has less time left
HANG_S = 3600.0  # an engine that has written no row for so long never will
POLL_S = 0.2


@dataclass(frozen=True)
class TimedPoint:
    """A closed loop: `concurrency` clients, at least `rounds` x concurrency prompts."""

    concurrency: int
    input_tokens: int
    output_tokens: int
    prefix_share: float = 0.0
    rounds: int = 4

    @property
    def key(self) -> str:
        """The load as text, the key of its rows."""
        return f"{self.concurrency}:{self.input_tokens}:{self.output_tokens}:{self.prefix_share:g}"


@dataclass(frozen=True)
class Job:
    """One start of vLLM and its points."""

    label: str
    model: str
    quant: str
    config: str  # the model's config.json
    k: int
    points: tuple[TimedPoint, ...]
    prefix_caching: bool = False
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 8192
    max_model_len: int = 32_960
    env: dict[str, str] = field(default_factory=dict)
    rates: tuple[float, ...] = RATES
    method: str = "mtp"  # or "eagle3", "dflash", "dspark", "ngram"
    kv_cache_dtype: str = "auto"
    graph_sizes: tuple[int, ...] = ()  # tokens of captured CUDA graphs; empty: the engine's own
    draft_config: str = ""  # of a drafter that is a model of its own
    gpus: str = ""  # by index ("0,1"); empty: those in sight


class SweepProgress(NamedTuple):
    """What has been measured of what was asked, in points, and the last thing that happened."""

    done: int
    total: int
    note: str


def read_sweep(path: Path) -> tuple[Job, ...]:
    """The engine starts of a sweep file. Raises AdvisorError where it is no list."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        jobs = tuple(Job(**entry) for listed in entries for entry in _each_k(listed))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AdvisorError(f"{path} is no sweep: {error}") from error
    if len({job.label for job in jobs}) < len(jobs):
        raise AdvisorError(f"{path} has two engine starts of one label")
    return jobs


def _each_k(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One entry for each draft length; a label holds `{k}` where there are several."""
    names = [known.name for known in fields(TimedPoint)]
    loads = (
        load if isinstance(load, dict) else dict(zip(names, load, strict=False))
        for load in entry["points"]
    )
    points = tuple(TimedPoint(**load) for load in loads)
    for k in entry["k"] if isinstance(entry["k"], list) else [entry["k"]]:
        yield {**entry, "label": entry["label"].replace("{k}", str(k)), "points": points, "k": k}


def rows_file(folder: Path, job: Job) -> Path:
    """The file to which a job writes its rows."""
    return folder / f"{job.label}.jsonl"


def remaining_points(job: Job, folder: Path) -> list[TimedPoint]:
    """The points that a job still lacks in `folder`."""
    path = rows_file(folder, job)
    lines = path.read_text().splitlines() if path.exists() else ()
    measured = {json.loads(line)["key"] for line in lines if line.strip()}
    return [point for point in job.points if point.key not in measured]


def progress(jobs: Iterable[Job], folder: Path, note: str = "") -> SweepProgress:
    """How many points of the jobs are measured, and how many there will be."""
    parts = [(len(job.points), len(remaining_points(job, folder))) for job in jobs]
    total, left = (sum(counts) for counts in zip(*parts, strict=True))
    return SweepProgress(total - left, total, note)


def run(
    jobs: Iterable[Job],
    folder: Path,
    seconds: float = float("inf"),
    tell: Callable[[SweepProgress], None] = lambda _: None,
) -> SweepProgress:
    """Measure what is missing, one engine at a time, until done or `seconds` have passed: another
    engine on the machine makes prompts 10 to 40 % longer (H200). A job that fails is told with its
    log and left for the next call.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed, deadline = tuple(jobs), time.time() + seconds
    for job in listed:
        if remaining_points(job, folder) and time.time() + START_S < deadline:
            status = _start(job, folder, deadline, lambda: tell(progress(listed, folder, "run")))
            log = f"stopped with status {status}, see {job.label}.log" if status else "done"
            tell(progress(listed, folder, f"{job.label}: {log}"))
    return progress(listed, folder, "finished")


def _start(job: Job, folder: Path, deadline: float, wrote: Callable[[], None]) -> int | None:
    """Run a job's worker to its end; `wrote` is called after each row. Returns the exit status."""
    task, rows = folder / f"{job.label}.job.json", rows_file(folder, job)
    left = [asdict(point) | {"key": point.key} for point in remaining_points(job, folder)]
    task.write_text(json.dumps(asdict(job) | {"points": left}))
    command = [sys.executable, "-m", "advisor.lab.bench.worker", str(task), str(rows)]
    gpus = {"CUDA_VISIBLE_DEVICES": job.gpus} if job.gpus else {}
    with (folder / f"{job.label}.log").open("ab") as log:
        process = EngineProcess([*command, str(deadline)], log, os.environ | gpus)
    size, last = rows.stat().st_size if rows.exists() else 0, time.monotonic()
    try:
        while process.poll() is None and time.monotonic() < last + HANG_S:
            time.sleep(POLL_S)  # a look at the size only: what is measured is bound by this host
            if rows.exists() and rows.stat().st_size != size:
                size, last = rows.stat().st_size, time.monotonic()
                wrote()
    finally:
        process.end()
    return process.returncode


if __name__ == "__main__":
    sweep, place, *minutes = sys.argv[1:]
    seconds = 60 * float(minutes[0]) if minutes else float("inf")
    run(read_sweep(Path(sweep)), Path(place), seconds, print)
