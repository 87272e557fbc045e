"""Plain arms clearly faster than their hardware can read weights and compute at peak rates: prompts
from a cache, another quantisation, or a rate of something else.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from advisor.lab.arrays import Floats
from advisor.lab.measurements.schema import Problem, Row
from advisor.perf import arrays, imputation, rates
from advisor.perf.encoding import encode_rows

# published peaks and sizes are true to about a tenth; boost clocks and overlap give the rest
MARGIN = 1.3


def problems(rows: Iterable[Row]) -> list[Problem]:
    """Training rows of plain arms that ran more than MARGIN times as fast as their hardware can."""
    plain = [row for row in rows if row.run.use == "train" and row.run.spec_method == "none"]
    found = []
    for row, factor in zip(plain, factors(plain), strict=True):
        if factor > MARGIN:
            reason = (
                f"{row.run.run_id} is {factor:.1f} times as fast as its hardware can be at peak "
                f"rates: state the cached part of "
                "the prompts (prefix_share), the quantisation or the right metric, or set use=eval"
            )
            found.append(Problem(row.file, row.line, reason))
    return found


def factors(rows: Sequence[Row]) -> Floats:
    """Measured speed over the hardware's limit, of N rows (N,); 0 where a row has no rate."""
    if not rows:
        return np.zeros(0)
    table, _ = encode_rows.from_rows([row.raw for row in rows])
    p = imputation.impute(table)
    runs = [row.run for row in rows]
    # A stand-in for what a row does not say is no bound: such a row, or the part that needs it, is
    # left out.
    lengths = np.array(
        [run.input_tokens is not None and run.output_tokens is not None for run in runs]
    )
    known = np.array(
        [bool(run.quant) and run.hardware != "unknown" and run.model is not None for run in runs]
    )
    known &= np.isfinite(table.bw) & np.isfinite(table.total_params)
    server = np.array(
        [run.output_tok_s or np.nan if run.concurrency is not None else np.nan for run in runs]
    )
    request = np.array([run.request_tok_s or np.nan for run in runs])
    read, operations = least_seconds(p)
    prompt = np.where(lengths, p.input_tokens * (1 - p.prefix_share) / p.output_tokens, 0.0)
    of_server = server * np.fmax(read / p.concurrency, operations * (1 + prompt))
    return np.asarray(
        np.where(known, np.nan_to_num(np.fmax(of_server, request * read)), 0.0), dtype=np.float64
    )


def least_seconds(p: arrays.Points) -> tuple[Floats, Floats]:
    """Seconds to read and to compute a token at peak rates, of N imputed points, (N,) each."""
    mixer, ffn, routed = rates.params(p)
    mixer_rate, ffn_rate = (
        np.fmax(rate, np.nan_to_num(p.int8)) for rate in rates.tensor_rates(p)
    )  # GGUF: int8
    devices = np.fmax(p.gpus, p.tp)
    read = (
        mixer * p.bytes_mixer + (routed + ffn) * p.bytes_ffn + p.lm_head_params * p.bytes_lm_head
    ) / (p.bw * devices)
    operations = 2 * (mixer / mixer_rate + (ffn + routed) / ffn_rate) / devices
    return np.asarray(read), np.asarray(operations)
