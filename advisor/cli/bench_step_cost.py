"""`advisor bench step-cost` and `import`: an engine's step times over draft length, concurrency and
context, and their way into the measured runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from advisor.cli.base import option, path_type, say
from advisor.domain.nouns import AdvisorError
from advisor.engines.traits import gguf_engine
from advisor.lab.bench import jobs as sweeps
from advisor.lab.bench import step_cost as driver
from advisor.lab.bench.jobs import Job, ServedJob, ServedPoint, TimedPoint, read_sweep
from advisor.lab.bench.rows import import_folder
from advisor.lab.bench.served_worker import llama_version
from advisor.lab.bench.shapes import VOCAB
from advisor.lab.measurements import files
from advisor.lab.measurements.schema import measurements_dir


@click.command("step-cost")
@option("engine", "Engine to measure.", ["vllm", "sglang", "llama-server"], default="vllm")
@option("model", "Model shape to measure (random weights).", default="qwen3.6-35b-a3b")
@option("quant", "Of the shape, or of the file.", default="fp8")
@option("gguf", "llama-server: the model file, with an MTP head.", path_type("file", exists=True))
@option("server", "llama-server: the program.", default="llama-server")
@option(
    "vocabulary",
    "llama-server: token ids of prompts stay below it.",
    click.IntRange(min=16),
    default=VOCAB,
)
@option("out", "Folder of rows.", path_type(), default=Path("step-cost"))
@option("gpus", "Comma list of GPU indices, one engine on each.", default="0")
@option("minutes", "Stop before this time; a later call resumes.", click.FloatRange(min=1))
@option("turns", "Repeats of every point.", click.IntRange(min=1), default=1)
@option(
    "sweep",
    "JSON list of engine starts with their points; default: draft lengths over all loads.",
    path_type("file", exists=True),
)
@option(
    "together",
    "Engines that start side by side on one GPU; they are timed one after the other.",
    click.IntRange(1, 16),
    default=1,
)
@option("only", "Labels to measure (see --list).", multiple=True)
@option("list list_only", "Print the engine starts and points, run nothing.", bool)
def step_cost(
    engine: str,
    model: str,
    quant: str,
    gguf: Path | None,
    server: str,
    vocabulary: int,
    out: Path,
    gpus: str,
    minutes: float | None,
    turns: int,
    sweep: Path | None,
    together: int,
    only: tuple[str, ...],
    list_only: bool,
) -> None:
    """Measure an engine's step time over k, concurrency and context.

    An engine start takes 1 to 8 minutes; the same command again resumes.

    vLLM and SGLang start with random weights of the model's shape; llama-server takes the file
    given by --gguf. Acceptance is forced and an input: only step costs are measured.
    """
    version = ""
    if not gguf_engine(engine):
        version = _version(engine, list_only)
    elif gguf is not None:
        version = llama_version(server)
    if gguf_engine(engine) and gguf is None:
        raise AdvisorError("llama-server needs a model file; give --gguf FILE.")
    about: dict[str, Any] = {"model": model, "quant": quant}
    jobs: tuple[Job, ...] | tuple[ServedJob, ...]
    if engine == "vllm":
        jobs = (
            read_sweep(sweep, TimedPoint, partial(Job, **about))
            if sweep
            else sweeps.default_jobs(model, quant, turns)
        )
    else:
        about |= {"version": version}
        make: Callable[..., ServedJob] = sweeps.sglang_job
        if gguf is not None:
            about |= {"gguf": gguf, "server": server, "campaign": gguf.stem}
            about |= {"vocabulary": vocabulary}
            make = sweeps.llama_job
        jobs = (
            read_sweep(sweep, ServedPoint, partial(make, **about))
            if sweep
            else sweeps.llama_sweep(**about)
            if gguf
            else sweeps.sglang_sweep(**about)
        )
    chosen = tuple(job for job in jobs if not only or job.label in only)
    if unknown := set(only) - {job.label for job in jobs}:
        raise AdvisorError(f"no engine start is called {', '.join(sorted(unknown))}; see --list.")
    sweeps.check_together(chosen, together)
    if list_only:
        for job in chosen:
            times = f" x {turns}" if turns > 1 and isinstance(job, Job) else ""
            say(f"{job.label:44} {len(job.points):3} points" + times)
        return
    _run(chosen, out, tuple(gpus.split(",")), minutes, together)


def _version(engine: str, unknown_is_fine: bool) -> str:
    """The version of an engine of this environment."""
    try:
        return metadata.version(engine)
    except metadata.PackageNotFoundError:
        if unknown_is_fine:
            return ""
        raise AdvisorError(
            f"{engine} cannot be imported here: run `advisor bench step-cost` in the environment "
            f"that serves with it"
        ) from None


def _run(
    jobs: tuple[Job | ServedJob, ...],
    out: Path,
    gpus: tuple[str, ...],
    minutes: float | None,
    together: int,
) -> None:
    # drawn only while something is measured: rich costs start-up time
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    seconds = minutes * 60 if minutes else float("inf")
    state = driver.progress(jobs, out)
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    ) as bar:
        task = bar.add_task("measuring", total=state.total, completed=state.done)

        def tell(state: driver.SweepProgress) -> None:
            bar.update(task, completed=state.done, description=state.note)

        last = driver.run(jobs, out, gpus=gpus, seconds=seconds, together=together, tell=tell)
    say(f"{last.done} of {last.total} points in {out}; run the same command again for the rest.")


@click.command("import")
@click.argument("folder", type=path_type("folder", exists=True))
@option("id source", "Source id, starts with `bench-`; default: about.yaml of the folder.")
@option("hardware", "Hardware id; default: about.yaml of the folder.")
@option("date", "Day of the measurement, YYYY-MM-DD; default: about.yaml of the folder.")
@option("into", "Measurements folder; default: the shipped one.", path_type())
@option("replace", "Overwrite the source if it exists.", bool)
def import_rows(
    folder: Path,
    source: str | None,
    hardware: str | None,
    date: str | None,
    into: Path | None,
    replace: bool,
) -> None:
    """Import a sweep into the measured runs, as one source with its metadata."""
    where = into or measurements_dir()
    name, count = import_folder(
        folder, where, {"id": source, "hardware": hardware, "date": date}, replace
    )
    files.write_index(where)
    say(f"{count} runs in {where / 'runs' / name}.csv; next: advisor data check, advisor train")
