"""`advisor bench`: measure step costs on your own GPU."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.domain.nouns import AdvisorError
from advisor.lab.bench import step_cost as driver
from advisor.lab.bench.cells import sweep
from advisor.lab.bench.rows import import_folder
from advisor.lab.measurements import files
from advisor.lab.measurements.schema import measurements_dir


@click.group()
def bench() -> None:
    """Measure a machine, so that predictions for it rest on data."""


@bench.command("step-cost")
@click.option(
    "--model",
    default="qwen3.6-35b-a3b",
    show_default=True,
    help="Model shape to measure (random weights).",
)
@click.option("--quant", type=click.Choice(["fp8", "bf16"]), default="fp8", show_default=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("step-cost"),
    show_default=True,
    help="Folder of rows.",
)
@click.option(
    "--gpus", default="0", show_default=True, help="Comma list of GPU indices, one engine on each."
)
@click.option(
    "--minutes", type=click.FloatRange(min=1), help="Stop before this time; a later call goes on."
)
@click.option(
    "--turns",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Take every point this often.",
)
@click.option("--only", multiple=True, help="Labels to measure (see --list).")
@click.option(
    "--list", "list_only", is_flag=True, help="Print the engine starts and points, run nothing."
)
def step_cost(
    model: str,
    quant: str,
    out: Path,
    gpus: str,
    minutes: float | None,
    turns: int,
    only: tuple[str, ...],
    list_only: bool,
) -> None:
    """Step time of vLLM over k, concurrency and context: 3 to 8 minutes per engine start.
    Resumable.
    """
    from advisor.lab.bench.shapes import config

    config(model, quant)
    jobs = tuple(job for job in sweep(model, quant, turns) if not only or job.label in only)
    if list_only:
        for job in jobs:
            click.echo(
                f"{job.label:44} {len(job.points):3} points" + (f" x {turns}" if turns > 1 else "")
            )
        return
    _run(jobs, out, tuple(gpus.split(",")), minutes)


def _run(jobs: tuple, out: Path, gpus: tuple[str, ...], minutes: float | None) -> None:  # type: ignore[type-arg]
    from importlib.util import find_spec

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    if find_spec("vllm") is None:
        raise AdvisorError(
            "vLLM cannot be imported here: run `advisor bench step-cost` in the environment that "
            "serves with it"
        )
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    ) as bar:
        state = driver.progress(jobs, out)
        task = bar.add_task("measuring", total=state.total, completed=state.done)
        last = driver.run(
            jobs,
            out,
            gpus=gpus,
            seconds=minutes * 60 if minutes else float("inf"),
            tell=lambda p: bar.update(task, completed=p.done, description=p.note),
        )
    click.echo(
        f"{last.done} of {last.total} points in {out}; run the same command again for the rest."
    )


@bench.command("import")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--id", "source", help="Source id, starts with `bench-`; default: about.yaml of the folder."
)
@click.option("--hardware", help="Hardware id; default: about.yaml of the folder.")
@click.option(
    "--date", help="Day of the measurement, YYYY-MM-DD; default: about.yaml of the folder."
)
@click.option(
    "--into", type=click.Path(path_type=Path), help="Measurements folder; default: the shipped one."
)
@click.option("--replace", is_flag=True, help="Write this source anew if it is there.")
def import_rows(
    folder: Path,
    source: str | None,
    hardware: str | None,
    date: str | None,
    into: Path | None,
    replace: bool,
) -> None:
    """Take the points of a sweep into the measured runs, as one source with a sidecar."""
    where = into or measurements_dir()
    name, count = import_folder(
        folder, where, {"id": source, "hardware": hardware, "date": date}, replace
    )
    files.write_index(where)
    click.echo(
        f"{count} arms in {where / 'runs' / name}.csv; next: advisor data check, advisor train"
    )
