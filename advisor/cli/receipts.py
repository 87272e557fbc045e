"""`advisor receipt` and `advisor share`: measurements in the form in which they travel."""

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
from advisor.domain.printable import excerpt
from advisor.lab import bench_plan as plans
from advisor.lab import quality
from advisor.readers.results import arms
from advisor.readers.results.formats import read_all
from advisor.readers.results.power import power_in
from advisor.readers.results.run import BenchmarkRun
from advisor.render.receipt import receipt_html

Runs = list[BenchmarkRun]
_out = option("out", "Folder for the two files.", path_type("folder"), default=Path("."))


@click.command(context_settings=HELP)
@click.argument("off", type=path_type(), metavar="DIR|OFF")
@click.argument("on", type=path_type("file"), required=False)
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
    with it. One file that holds both (a public table, a sweep) makes a receipt of each machine and
    draft length in it that is known. `advisor recommend --receipts FOLDER` uses receipts, `advisor
    schema receipt` prints their schema.
    """
    more: dict[str, Any] = {}
    if off.is_dir():
        left, right = (read_all(sorted(off.glob(f"{arm}-seed*.json*"))) for arm in ("off", "on"))
        asked = plans.with_plan(asked, off)
        more["quality"] = quality.of_folder(off)
        seen = {arm: power_in(off / f"power-{arm}.csv") for arm in ("off", "on")}
        more["power"] = {arm: power for arm, power in seen.items() if power}
    elif on is None and not more_on:
        return _write_table(read_all((off, *more_off)), asked, out)
    else:
        left, right = read_all((off, *more_off)), read_all((*([on] if on else []), *more_on))
    plan = settings.plan_of_launch(launch) if launch else None
    _write(receipts.make(left, right, plans.with_plan(asked, launch), plan, **more), out)


@click.command(context_settings=HELP)
@click.argument("name", metavar="MACHINE")
@_out
def share(name: str, out: Path) -> None:
    """Write a machine's runs as a receipt, to contribute them to the measurements.

    Review the files before you send them; they hold what the machine file holds, without its name.
    """
    _write(receipts.of_machine(machines.load(name)), out)


def _write_table(runs: Runs, asked: dict[str, Any], out: Path) -> None:
    """A receipt of each part of a table; says what it lacks of the others."""
    rows: dict[tuple[str | None, ...], Runs] = {}
    for run in runs:
        name = run.part.partition(",")[0] if run.hardware else None
        rows.setdefault((run.hardware, name, run.engine, run.model), []).append(run)
    lacking = []
    for (card, *_), each in rows.items():
        try:
            left, by_k = arms.both_in_one(each)
            for k, right in by_k.items():
                _write(receipts.make(left, right, asked | ({"k": k} if k else {})), out)
        except AdvisorError as error:
            lacking.append(f"{excerpt(card)}: {error}" if card else str(error))
    if len(lacking) == len(rows):
        raise AdvisorError(lacking[0])
    for line in lacking:
        say(f"no receipt of {line}", err=True)


def _write(made: receipts.Receipt, out: Path) -> None:
    """Both files, named by what the receipt holds."""
    out.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".json", made.text()), (".html", receipt_html(made))):
        path = out / f"{made.id}{suffix}"
        path.write_text(text, encoding="utf-8")
        say(str(path))
