"""The second and third day on H200s: side questions beside their own plain arms, and the predictions written before them."""

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
SECOND, THIRD = "predictions_h200_second.json", "predictions_h200_third.json"
SIDE_RUNS = ("-bf16-", "-27b-", "-prefix-two", "-mnbt2048-two", "-routing-")


def registered_label(row: Measured) -> str:
    """The label under which a row's cell was registered."""
    return str(row["label"]).removesuffix("-single").removesuffix("-two").removesuffix("-three")


def side_text(everything: Sequence[Measured]) -> str:
    """The arms of the side questions, each beside its own plain arm."""
    side = [row for row in everything if any(name in row["label"] for name in SIDE_RUNS)]
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
    return _registered(everything, [row for row in everything if second_day(row)], SECOND)


def third_text(everything: Sequence[Measured]) -> str:
    """The same for the third day, whose predictions were written by the model that had seen the second."""
    return _registered(everything, [row for row in everything if third_day(row)], THIRD)


def _registered(everything: Sequence[Measured], newer: Sequence[Measured], file: str) -> str:
    cells = {(c["label"], c["key"]): c for c in json.loads((models_dir() / file).read_text())["cells"]}
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
    return f"Mean absolute error in percent of `{file}`:\n\n" + table(head, lines)


def second_day(row: Measured) -> bool:
    return rows.plain_elsewhere(row) or any(n in row["label"] for n in ("-bf16-", "-27b-", "-two"))


def third_day(row: Measured) -> bool:
    return str(row["label"]).endswith("-three") or row["label"] == "qwen3.6-35b-a3b-fp8-k0-mnbt2048-two"


def repeat_text(everything: Sequence[Measured]) -> str:
    """k = 0 and 2 of the third day, and the simulated routings, over the first machine's figures."""
    first = {(row["k"], row["key"]): row for row in everything if row["label"].endswith("-single")}
    lines = []
    for name in ("-three", "-routing-uniform-three", "-routing-skewed-three"):
        for k in (0, 2):
            mine = [row for row in everything if row["label"].endswith(f"fp8-k{k}{name}") and (k, row["key"]) in first]
            mine = [row for row in mine if not rows.decode_is_biased(row) and (k, row["key"]) != (2, "1:2048:128:0")]
            ratios = [
                np.array([row[column] / first[k, row["key"]][column] for row in mine]) - 1
                for column in ("decode_step_p50_ms", "output_tok_s", "ttft_ms")
            ]
            label = name.removesuffix("-three").removeprefix("-").replace("-", ", ") or "as it comes"
            lines.append([label, k, len(mine), *(f"{100 * np.mean(x):+.1f} ({100 * np.mean(np.abs(x)):.1f})" for x in ratios)])
    head = ("routing", "k", "points", "decode step, %", "output tok/s, %", "TTFT, %")
    return table(head, lines)


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
