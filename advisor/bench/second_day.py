"""The second day on H200s: side questions beside their own plain arms, and the predictions that were written before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.bench import fit, rows
from advisor.bench.markdown import table
from advisor.bench.rows import Measured
from advisor.paths import models_dir

Floats = npt.NDArray[np.float64]
SECOND = "predictions_h200_second.json"


def registered_label(row: Measured) -> str:
    """The label under which a row's cell was registered."""
    return str(row["label"]).removesuffix("-single").removesuffix("-two")


def side_text(everything: Sequence[Measured]) -> str:
    """The arms of the side questions, each beside its own plain arm."""
    names = ("-bf16-", "-27b-", "-prefix-two", "-mnbt2048")
    side = [row for row in everything if any(name in row["label"] for name in names)]
    order = sorted(side, key=lambda row: (rows.campaign(row["label"]), *fit.cell_of(row), row["key"], row["k"]))
    base = {(rows.campaign(row["label"]), row["key"]): row for row in side if row["k"] == 0}
    lines = []
    for row in order:
        off = base.get((rows.campaign(row["label"]), row["key"]))
        gains = ["", ""]
        if row["k"] and off:
            gains = [f"{row['output_tok_s'] / off['output_tok_s']:.2f}", f"{off['tpot_ms'] / row['tpot_ms']:.2f}"]
        shared = ", half shared" if row.get("prefix_share") else ""
        lines.append(
            [rows.campaign(row["label"]), f"{row['input_tokens']} x {row['concurrency']}{shared}", row["k"],
             f"{row['decode_step_p50_ms']:.2f}", float(row["output_tok_s"]), f"{row['tpot_ms']:.2f}", float(row["ttft_ms"]), *gains]
        )  # fmt: skip
    head = (
        "run",
        "prompt x requests",
        "k",
        "decode step, ms",
        "output tok/s",
        "TPOT, ms",
        "TTFT, ms",
        "output",
        "TPOT gain",
    )
    return table(head, lines)


def second_text(everything: Sequence[Measured]) -> str:
    """The shipped model's speed-ups, written down before the second day's points, against them."""
    cells = {(c["label"], c["key"]): c for c in json.loads((models_dir() / SECOND).read_text())["cells"]}
    newer = [row for row in everything if second_day(row)]
    plain = {(rows.campaign(row["label"]), row["key"]): row for row in everything if row["k"] == 0}
    lines = []
    for label in dict.fromkeys(row["label"] for row in newer if row["k"]):
        mine = [row for row in newer if row["label"] == label]
        pairs = [
            (row, plain[rows.campaign(label), row["key"]])
            for row in mine
            if (rows.campaign(label), row["key"]) in plain
        ]
        errors = [_gain_errors(pairs, cells, metric) for metric in ("output_tok_s", "tpot", "request_tok_s")]
        step = [
            cells[registered_label(row), row["key"]]["decode_step_ms"] / row["decode_step_p50_ms"] - 1 for row in mine
        ]
        lines.append(
            [
                registered_label(mine[0]),
                len(pairs),
                *(f"{100 * np.mean(np.abs(e)):.1f}" for e in (*errors, np.array(step))),
            ]
        )
    head = ("engine start", "pairs", "output tok/s", "TPOT", "decode speed", "decode step itself (physics)")
    return f"Mean absolute error in percent of `{SECOND}`:\n\n" + table(head, lines)


def second_day(row: Measured) -> bool:
    return rows.plain_elsewhere(row) or any(n in row["label"] for n in ("-bf16-", "-27b-", "-two", "k2-mnbt2048"))


def _gain_errors(
    pairs: Sequence[tuple[Measured, Measured]], cells: Mapping[tuple[str, str], Any], metric: str
) -> Floats:
    """Predicted over measured speed-up, less 1, of each pair."""
    out = []
    for on, off in pairs:
        gain = {
            "output_tok_s": on["output_tok_s"] / off["output_tok_s"],
            "tpot": off["tpot_ms"] / on["tpot_ms"],
            "request_tok_s": off["decode_step_p50_ms"] * on["acceptance_length"] / on["decode_step_p50_ms"],
        }[metric]
        if metric != "request_tok_s" or not rows.decode_is_biased(on):
            out.append(cells[registered_label(on), on["key"]]["speedup"][metric] / gain - 1)
    return np.array(out)
