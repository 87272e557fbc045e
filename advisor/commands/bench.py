"""`advisor bench`: measure step costs on your own GPU."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def bench() -> None:
    """Measure a machine, so that predictions for it rest on data."""


@bench.command("step-cost")
@click.option("--model", default="qwen3.6-35b-a3b", show_default=True, help="Model shape to measure (random weights).")
@click.option("--quant", type=click.Choice(["fp8", "bf16"]), default="fp8", show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("step-cost"), show_default=True, help="Folder of rows."
)
@click.option("--gpus", default="0", show_default=True, help="Comma list of GPU indices, one engine on each.")
@click.option("--minutes", type=click.FloatRange(min=1), help="Stop before this time; a later call goes on.")
@click.option("--only", multiple=True, help="Labels to measure (see --list).")
@click.option("--list", "list_only", is_flag=True, help="Print the engine starts and points, run nothing.")
def step_cost(
    model: str, quant: str, out: Path, gpus: str, minutes: float | None, only: tuple[str, ...], list_only: bool
) -> None:
    """Step time of vLLM over k, concurrency and context: about 10 minutes per engine start. Resumable."""
    from advisor.bench.cells import sweep
    from advisor.bench.shapes import config

    config(model, quant)
    jobs = tuple(job for job in sweep(model, quant) if not only or job.label in only)
    if list_only:
        for job in jobs:
            click.echo(f"{job.label:44} {len(job.points):3} points")
        return
    _run(jobs, out, tuple(gpus.split(",")), minutes)


def _run(jobs: tuple, out: Path, gpus: tuple[str, ...], minutes: float | None) -> None:  # type: ignore[type-arg]
    from importlib.util import find_spec

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from advisor.bench import step_cost as sweep
    from advisor.types import AdvisorError

    if find_spec("vllm") is None:
        raise AdvisorError(
            "vLLM cannot be imported here: run `advisor bench step-cost` in the environment that serves with it"
        )
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()) as bar:
        state = sweep.progress(jobs, out)
        task = bar.add_task("measuring", total=state.total, completed=state.done)
        last = sweep.run(
            jobs,
            out,
            gpus=gpus,
            seconds=minutes * 60 if minutes else float("inf"),
            tell=lambda p: bar.update(task, completed=p.done, description=p.note),
        )
    click.echo(f"{last.done} of {last.total} points in {out}; run the same command again for the rest.")
