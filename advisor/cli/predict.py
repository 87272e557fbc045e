"""`advisor predict`: a table of rows in, the same rows with predictions out."""

from pathlib import Path

import click

from advisor.advice.rows.predict import predict_rows
from advisor.cli.base import option, path_type, say
from advisor.prediction.predict_rows import is_stream

_STANDARD = (Path("/dev/stdin"), Path("/dev/stdout"))


@click.command()
@option(
    "rows",
    "The table: CSV with commas, UTF-8, column names in the first line; - for standard input.",
    path_type("file", exists=True, allow_dash=True),
    required=True,
)
@option(
    "out",
    "Where the result goes; - for standard output.",
    path_type("file", allow_dash=True),
    required=True,
)
def predict(rows: Path, out: Path) -> None:
    """Predict the speed-up of every row of a CSV (the columns of the measured runs).

    The columns spec_method and model (or total_params_b) are required; speedup_metric defaults to
    output_tok_s, or to what a column goal names. All other columns and values may be missing. A row
    without a result (speedup, output_tok_s, request_tok_s, tpot_ms, ttft_ms) and without run_id and
    source_id is a question: what it leaves blank is as `recommend` has it (quantisation, engine,
    release, layout, limits, prefix caching), but for concurrency, which stays open, and what
    `recommend` refuses is an error. In a row that was run, unknown values widen the interval.
    Hardware that is not in the catalogue is said on standard error, and its decision is measure, as
    is that of mtp on a model without a known head. Beside those columns are read memory_fraction
    (of the device, for the engine) and max_model_len (of a llama-server slot), since memory says
    how many requests run. The output adds speedup_p10, speedup_p50, speedup_p90, p_gain, decision
    (on, off or measure, by the row's metric, where recommend weighs several; not on where the
    weights do not fit), basis and error, which says why a row cannot be predicted.

    Exit status: 0 done, 1 every row has an error, 2 unusable input.
    """
    rows, out = (_STANDARD[i] if str(path) == "-" else path for i, path in enumerate((rows, out)))
    done = predict_rows(rows, out)
    say(f"{done.rows} rows, {done.errors} with an error, written to {out}", err=is_stream(out))
    for name in done.strange:
        say(name, err=True)
    if done.rows and done.errors == done.rows:
        say(f"Error: no row could be predicted; the first: {done.first}", err=True)
        click.get_current_context().exit(1)
