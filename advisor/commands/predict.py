"""`advisor predict`: a table of rows in, the same rows with predictions out."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--rows",
    "rows",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The table: CSV with commas, UTF-8, column names in the first line.",
)
@click.option(
    "--out", "out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Where the result goes."
)
def predict(rows: Path, out: Path) -> None:
    """Predict the speed-up of every row of a CSV (the columns of the measured runs).

    Needed are the columns spec_method and model (or total_params_b). Without a column speedup_metric it is output_tok_s. All
    others may be missing, and a cell may be empty: what is not known widens the interval. A row that cannot be predicted says
    why in the column error.

    Exit status: 0 done, 1 every row has an error, 2 unusable input.
    """
    from advisor.predictor_rows import is_stream, predict_rows

    done = predict_rows(rows, out)
    click.echo(f"{done.rows} rows, {done.errors} with an error, written to {out}", err=is_stream(out))
    if done.rows and done.errors == done.rows:
        click.echo(f"Error: no row could be predicted; the first: {done.first}", err=True)
        click.get_current_context().exit(1)
