"""`advisor data`: the measured runs; no training is loaded for them."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from advisor.advice.own_runs import receipt as receipts
from advisor.cli.base import option, path_type, say
from advisor.domain.nouns import AdvisorError
from advisor.lab.measurements import files
from advisor.lab.measurements.columns import RUN_COLUMNS
from advisor.lab.measurements.schema import known_ids, measurements_dir
from advisor.render.receipt import rows_of, source_of


@click.group()
def data() -> None:
    """The measured runs: check them, add to them, compile their index."""


@data.command("check")
@click.argument("path", required=False, type=path_type(exists=True))
def data_check(path: Path | None) -> None:
    """Check a measurements folder or one CSV of runs; each bad row with file, line and reason."""
    good, problems = files.check(path or measurements_dir(), known_ids())
    for problem in problems:
        say(str(problem), err=True)
    say(f"{good} good rows, {len(problems)} problems")
    raise SystemExit(1 if problems else 0)


@data.command("add")
@click.argument("runs", type=path_type("file", exists=True))
@option("acceptance", "CSV of acceptance by position.", path_type(exists=True))
@option("sources", "CSV that describes the sources.", path_type(exists=True))
@option("into", "Measurements folder; default: the shipped one.", path_type())
def data_add(runs: Path, acceptance: Path | None, sources: Path | None, into: Path | None) -> None:
    """Add rows, split into one CSV per source with its metadata.

    RUNS is a CSV, or a receipt (JSON), which describes its source itself.
    """
    folder = into or measurements_dir()
    if runs.suffix == ".json":
        made = receipts.read(runs)
        with TemporaryDirectory() as place:
            table = Path(place, f"{made.id}.csv")
            table.write_text(files.csv_text(RUN_COLUMNS, rows_of(made)), encoding="utf-8")
            added = files.add(folder, table, acceptance, source_of(made))
    else:
        added = files.add(folder, runs, acceptance, sources)
    files.write_index(folder)
    say(f"added {len(added)} sources: {', '.join(added)}")


@data.command("index")
def data_index() -> None:
    """Compile index.jsonl, the A/B runs that recommendations look up."""
    folder = measurements_dir()
    if not folder.is_dir():
        raise AdvisorError(f"{folder} is not there; run this in a checkout.")
    say(f"{files.write_index(folder)} A/B runs")
