"""`advisor receipt` and `advisor share`: measurements in the form in which they travel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.advice.own_runs import machine as machines
from advisor.advice.own_runs import receipt as receipts
from advisor.advice.own_runs import setting as settings
from advisor.cli.base import HELP, option, path_type, say
from advisor.cli.options import setting_options
from advisor.cli.own_runs import more_runs
from advisor.domain.nouns import AdvisorError
from advisor.lab import bench_plan as plans
from advisor.lab import quality
from advisor.readers.results.formats import read_all
from advisor.readers.results.power import power_in
from advisor.readers.results.run import BenchmarkRun
from advisor.render.receipt import receipt_html

Runs = list[BenchmarkRun]
_out = option("out", "Folder for the two files.", path_type("folder"), default=Path("."))


@click.command(context_settings=HELP)
@click.argument("off", type=path_type(exists=True), metavar="DIR|OFF")
@click.argument("on", type=path_type("file", exists=True), required=False)
@more_runs
@setting_options
@_out
def receipt(
    off: Path,
    on: Path | None,
    more_off: tuple[Path, ...],
    more_on: tuple[Path, ...],
    launch: Path | None,
    out: Path,
    **asked: Any,
) -> None:
    """Write the receipt of an A/B: one JSON and one HTML file, without names, hosts or prompts.

    DIR is a folder of `advisor bench run`; else OFF is the run without speculation, ON the one
    with it. `advisor recommend --receipts FOLDER` uses receipts, `advisor schema receipt` prints
    their schema.
    """
    more: dict[str, Any] = {}
    if off.is_dir():
        left, right = (read_all(sorted(off.glob(f"{arm}-seed*.json*"))) for arm in ("off", "on"))
        stated = {key: value for key, value in asked.items() if value is not None}
        if (off / plans.PLAN).is_file():
            asked = {**asked, **plans.options_of(plans.read(off)), **stated}
        more["quality"] = quality.of_folder(off)
        seen = {arm: power_in(off / f"power-{arm}.csv") for arm in ("off", "on")}
        more["power"] = {arm: power for arm, power in seen.items() if power}
    elif on is None:
        raise AdvisorError("give a folder of 'advisor bench run', or two files: OFF ON")
    else:
        left, right = read_all((off, *more_off)), read_all((on, *more_on))
    plan = settings.plan_of_launch(launch) if launch else None
    _write(receipts.make(left, right, asked, plan, **more), out)


@click.command(context_settings=HELP)
@click.argument("name", metavar="MACHINE")
@_out
def share(name: str, out: Path) -> None:
    """Write a machine's runs as a receipt, to contribute them to the measurements.

    Review the files before you send them; they hold what the machine file holds, without its name.
    """
    _write(receipts.of_machine(machines.load(name)), out)


def _write(made: receipts.Receipt, out: Path) -> None:
    """Both files, named by what the receipt holds."""
    out.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".json", made.text()), (".html", receipt_html(made))):
        path = out / f"{made.id}{suffix}"
        path.write_text(text, encoding="utf-8")
        say(str(path))
