"""Speculating steps of an H100 against what was predicted for them, with the H200's beside: no row of it was trained on."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from advisor.bench import rows
from advisor.bench.markdown import table
from advisor.bench.rows import Measured
from advisor.measurements import measurements_dir
from advisor.paths import models_dir

FOLDER, REGISTERED = "h100-vllm-0251", "predictions_h100.json"


def another_card_text(beside: Sequence[Measured]) -> str:
    """One line a cell; `beside`: rows of an H200 in the same cells at the same k."""
    measured = rows.read_rows(measurements_dir() / "raw" / FOLDER)
    cells = {(c["label"], c["key"]): c for c in json.loads((models_dir() / REGISTERED).read_text())["cells"]}
    there = {(row["k"], row["key"]): row["decode_step_p50_ms"] for row in beside}
    lines, errors = [], []
    for row in measured:
        step, told = row["decode_step_p50_ms"], cells[row["label"], row["key"]]["decode_step_ms"]
        errors.append(told / step - 1)
        h200 = there[row["k"], row["key"]]
        cell, error = f"{row['input_tokens']} x {row['concurrency']}", f"{100 * errors[-1]:+.0f}"
        lines.append([cell, row["k"], f"{step:.2f}", f"{told:.2f}", error, f"{h200:.2f}", f"{step / h200:.2f}"])
    head = ("prompt x requests", "k", "H100 step, ms", "predicted", "error, %", "H200 step, ms", "H100 / H200")
    summary = f"Mean absolute error {100 * np.abs(errors).mean():.1f} %, mean error {100 * np.mean(errors):+.1f} %."
    return table(head, lines) + "\n\n" + summary
