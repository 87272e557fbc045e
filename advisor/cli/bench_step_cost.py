"""`advisor bench step-cost` and `import`: vLLM's step times over draft length, concurrency and
context, and their way into the measured runs.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from advisor.cli.base import option, path_type, say
from advisor.domain.nouns import AdvisorError
from advisor.lab.bench import step_cost as driver
from advisor.lab.bench.rows import import_folder
from advisor.lab.measurements import files
from advisor.lab.measurements.schema import measurements_dir


@click.command("step-cost")
@option("model", "Name of the model in the rows.", default="unknown")
@option("quant", "Its quantisation, as its config.json has it.", default="bf16")
@option("config", "The model's config.json; nothing else is needed of it.", path_type("file"))
@option("sweep", "JSON list of engine starts with their points.", path_type("file", exists=True))
@option("out", "Folder of rows.", path_type(), default=Path("step-cost"))
@option("minutes", "Stop before this time; a later call resumes.", click.FloatRange(min=1))
@option("only", "Labels to measure (see --list).", multiple=True)
@option("list list_only", "Print the engine starts and points, run nothing.", bool)
def step_cost(
    model: str,
    quant: str,
    config: Path | None,
    sweep: Path | None,
    out: Path,
    minutes: float | None,
    only: tuple[str, ...],
    list_only: bool,
) -> None:
    """Measure vLLM's step time over k, concurrency and context.

    An engine start takes 1 to 8 minutes; the same command again resumes. Weights are random and
    acceptance is forced and an input: only step costs are measured.
    """
    about = {"model": model, "quant": quant} | ({"config": str(config)} if config else {})
    if sweep is not None:
        jobs = driver.read_sweep(sweep, about)
    elif config is not None:
        jobs = driver.default_jobs(**about)
    else:
        raise click.UsageError("give the model's --config, or a --sweep")
    if unknown := set(only) - {job.label for job in jobs}:
        raise AdvisorError(f"no engine start is called {', '.join(sorted(unknown))}; see --list.")
    jobs = tuple(job for job in jobs if not only or job.label in only)
    if list_only:
        for job in jobs:
            say(f"{job.label:44} {len(job.points):3} points")
        return
    if find_spec("vllm") is None:
        raise AdvisorError(
            "vLLM cannot be imported here: run `advisor bench step-cost` in the environment that "
            "serves with it"
        )
    seconds = minutes * 60 if minutes else float("inf")
    last = driver.run(jobs, out, seconds, lambda at: say(f"{at.done} of {at.total}, {at.note}"))
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
