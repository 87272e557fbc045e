"""`advisor train` and `advisor evaluate`: thin doors to the learning half."""

from pathlib import Path

import click

from advisor.cli.base import option, path_type, say
from advisor.lab.evaluation.evaluate import run
from advisor.lab.training import train as train_module


@click.command()
@option("check", "Train again and compare with the shipped artefact; exit 1 if it differs.", bool)
@option("quick", "With --check: only measured values and a probe of predictions (seconds).", bool)
@option("out", "Where to write; default: the shipped artefact.", path_type())
def train(check: bool, quick: bool, out: Path | None) -> None:
    """Fit the model to the measured runs and write models/speedup.json (deterministic)."""
    if check:
        reasons = train_module.stale() if quick else train_module.check()
        for reason in reasons:
            say(reason, err=True)
        raise SystemExit(1 if reasons else 0)
    say(train_module.run(out))


@click.command()
@option("out", "Folder for the card; default: models/.", path_type())
@option("fast", "Primary split only.", bool)
def evaluate(out: Path | None, fast: bool) -> None:
    """Score the model on sources it has not seen and write the model card."""
    say(run(out, fast=fast))
