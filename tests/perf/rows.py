"""Rows that the tests of the physics begin from, and their points."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from advisor.perf import arrays as P
from advisor.perf import imputation, schedule
from advisor.perf.encoding import encode_rows
from advisor.perf.physics import Constants
from tests.tables import cells

ROW = cells(
    "model=qwen3.6-35b-a3b quant=fp8 hardware=h200 engine=vllm engine_version=0.25.1 "
    "spec_method=mtp k=2 concurrency=1 input_tokens=2048 output_tokens=512 workload=random "
    "speedup_metric=output_tok_s"
)
GB10 = {**ROW, "hardware": "gb10", "engine_version": "0.19.1", "kv_cache_dtype": "fp8_e4m3"}
DENSE = cells(
    "model=qwen3-32b quant=fp8 hardware=h200 engine=vllm engine_version=0.25.1 spec_method=mtp "
    "k=3 concurrency=4 input_tokens=2048 output_tokens=512 speedup_metric=output_tok_s"
)


def points(*changes: Mapping[str, object], base: Mapping[str, str] = ROW) -> P.Points:
    """Imputed points, one for each change of the base row."""
    made, errors = encode_rows.from_rows(
        [{**base, **{key: str(value) for key, value in change.items()}} for change in changes]
    )
    assert errors == [None] * len(changes)
    return imputation.impute(made)


def speedups(
    made: P.Points, constants: Constants, tau: npt.NDArray[np.float64]
) -> dict[str, npt.NDArray[np.float64]]:
    """Speculation against none for every metric; above 1 is faster, also of TPOT and TTFT."""
    filled = imputation.impute(made)
    spec, base = (schedule.replay(filled, constants, tau, arm) for arm in ("spec", "base"))  # type: ignore[arg-type]
    return {
        "output_tok_s": spec.output_tok_s / base.output_tok_s,
        "request_tok_s": spec.request_tok_s / base.request_tok_s,
        "tpot": base.tpot_s / spec.tpot_s,
        "ttft": base.ttft_s / spec.ttft_s,
    }
