"""`advisor train`, `advisor evaluate` and `advisor data`: thin doors to the learning half."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli.base import say
from advisor.domain.nouns import AdvisorError
from advisor.lab.evaluation.evaluate import run, run_calibrated
from advisor.lab.measurements import files
from advisor.lab.measurements.schema import known_ids, measurements_dir
from advisor.lab.training import train as train_module


@click.command()
@click.option(
    "--check",
    is_flag=True,
    help="Train again and compare with the shipped artefact; exit 1 if it differs.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="With --check: compare the measured values and a fixed probe of predictions only "
    "(seconds).",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Where to write; default: the shipped artefact."
)
def train(check: bool, quick: bool, out: Path | None) -> None:
    """Fit the model to the measured runs and write models/speedup.json (deterministic)."""
    if check:
        reasons = train_module.stale() if quick else train_module.check()
        for reason in reasons:
            say(reason, err=True)
        raise SystemExit(1 if reasons else 0)
    say(train_module.run(out))


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder for the card; default: models/.",
)
@click.option("--plots", type=click.Path(path_type=Path), help="Draw the figures into this folder.")
@click.option("--fast", is_flag=True, help="Primary split only.")
@click.option(
    "--calibrated",
    "own",
    is_flag=True,
    help="Instead: score predictions calibrated with one and three runs of each source.",
)
def evaluate(out: Path | None, fast: bool, plots: Path | None, own: bool) -> None:
    """Score the model on sources it has not seen and write the model card."""
    if own:
        say(run_calibrated())
        return
    say(run(out, fast=fast, plots=plots))


@click.group()
def data() -> None:
    """The measured runs: check them, add to them, compile their index."""


@data.command("check")
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
def data_check(path: Path | None) -> None:
    """Check a measurements folder or one CSV of runs; each bad row with file, line and reason."""
    good, problems = files.check(path or measurements_dir(), known_ids())
    for problem in problems:
        say(str(problem), err=True)
    say(f"{good} good rows, {len(problems)} problems")
    raise SystemExit(1 if problems else 0)


@data.command("add")
@click.argument("runs", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--acceptance",
    type=click.Path(exists=True, path_type=Path),
    help="CSV of acceptance by position.",
)
@click.option(
    "--sources",
    type=click.Path(exists=True, path_type=Path),
    help="CSV that describes the sources.",
)
@click.option(
    "--into", type=click.Path(path_type=Path), help="Measurements folder; default: the shipped one."
)
def data_add(runs: Path, acceptance: Path | None, sources: Path | None, into: Path | None) -> None:
    """Add rows, split into one CSV per source with its metadata."""
    added = files.add(into or measurements_dir(), runs, acceptance, sources)
    files.write_index(into or measurements_dir())
    say(f"added {len(added)} sources: {', '.join(added)}")


@data.command("index")
def data_index() -> None:
    """Compile index.jsonl, the A/B runs that recommendations look up."""
    folder = measurements_dir()
    if not folder.is_dir():
        raise AdvisorError(f"{folder} is not there; run this in a checkout.")
    say(f"{files.write_index(folder)} A/B runs")
