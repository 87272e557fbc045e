"""`advisor predict`: a table of rows in, the same rows with predictions out."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--rows", "rows", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", "out", required=True, type=click.Path(dir_okay=False, path_type=Path))
def predict(rows: Path, out: Path) -> None:
    """Predict the speed-up of every row of a CSV (the columns of the measured runs; all optional)."""
    from advisor.predictor_rows import predict_rows

    done = predict_rows(rows, out)
    click.echo(f"{done.rows} rows, {done.errors} with an error, written to {out}")
