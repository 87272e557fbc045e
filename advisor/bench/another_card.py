"""An H100 against what was predicted for it: no row of one had been trained on when the predictions were written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from advisor.bench import rows
from advisor.bench.markdown import table
from advisor.bench.rows import Measured
from advisor.measurements import measurements_dir
from advisor.paths import models_dir

FOLDER, REGISTERED = "h100-vllm-0251", "predictions_h100.json"
MACHINES = ("second", "third")  # suffixes of labels; the first machine's has none
GAINS = ("output tok/s", "TPOT", "decode speed")


def _plain_label(label: str) -> str:
    """The label under which a start was predicted: without its machine."""
    head, _, tail = label.rpartition("-")
    return head if tail in MACHINES else label


def gains(row: Measured, plain: Measured) -> tuple[float, float, float]:
    """Speed-ups by output tok/s, TPOT and the median decode step."""
    steps = plain["decode_step_p50_ms"] / row["decode_step_p50_ms"]
    tokens = row["acceptance_length"] / plain.get("acceptance_length", 1.0)
    return row["output_tok_s"] / plain["output_tok_s"], plain["tpot_ms"] / row["tpot_ms"], steps * tokens


def told_gains(told: dict[str, Any], plain: dict[str, Any], tokens: float) -> tuple[float, float, float]:
    """The same, as predicted, at the acceptance length that was measured."""
    steps = plain["decode_step_ms"] / told["decode_step_ms"]
    return told["output_tok_s"] / plain["output_tok_s"], plain["tpot_ms"] / told["tpot_ms"], steps * tokens


def another_card_text() -> str:
    """One line a point that speculates and was predicted, and the mean errors by model and k."""
    measured = rows.read_rows(measurements_dir() / "raw" / FOLDER)
    cells = {(c["label"], c["key"]): c for c in json.loads((models_dir() / REGISTERED).read_text())["cells"]}
    plain = {(rows.campaign(row["label"]), row["key"]): row for row in measured if row["k"] == 0}
    lines: list[list[Any]] = []
    errors: dict[tuple[str, int], list[list[float]]] = {}
    for row in sorted(measured, key=_order):
        told = cells.get((_plain_label(row["label"]), row["key"]))
        if row["k"] == 0 or told is None:
            continue
        step = told["decode_step_ms"] / row["decode_step_p50_ms"] - 1
        cells_of_line: list[Any] = [
            row["model"], f"{row['input_tokens']} x {row['concurrency']}", row["k"],
            f"{row['decode_step_p50_ms']:.2f}", f"{told['decode_step_ms']:.2f}",
        ]  # fmt: skip
        off = plain.get((rows.campaign(row["label"]), row["key"]))
        found = [step, np.nan, np.nan, np.nan]
        if off is None:
            cells_of_line += ["-"] * len(GAINS)
        else:
            told_off = cells[_plain_label(off["label"]), off["key"]]
            pairs = list(zip(gains(row, off), told_gains(told, told_off, row["acceptance_length"]), strict=True))
            found = [step, *(guess / true - 1 for true, guess in pairs)]
            cells_of_line += [f"{true:.2f} / {guess:.2f}" for true, guess in pairs]
        errors.setdefault((row["model"], row["k"]), []).append(found)
        lines.append(cells_of_line)
    head = ("model", "prompt x requests", "k", "step, ms", "predicted", *(f"gain of {name}" for name in GAINS))
    return summary(errors) + "\n\n" + table(head, lines)


def _order(row: Measured) -> tuple[Any, ...]:
    return row["model"], row["k"], row["input_tokens"], row["concurrency"], row["label"]


def summary(errors: Mapping[tuple[str, int], list[list[float]]]) -> str:
    """Mean absolute and mean error, %, of steps and gains, by model and k."""
    lines = []
    for (model, k), values in sorted(errors.items()):
        share = 100 * np.array(values)
        size, mean = np.nanmean(np.abs(share), axis=0), np.nanmean(share, axis=0)
        lines.append([model, k, len(values), *(f"{s:.1f} ({m:+.1f})" for s, m in zip(size, mean, strict=True))])
    return table(("model", "k", "points", "decode step, %", *(f"gain of {name}, %" for name in GAINS)), lines)
