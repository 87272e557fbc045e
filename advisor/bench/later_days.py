"""Later runs on H200s: side questions beside their plain arms, predictions written before, and how far machines agree."""

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
SECOND, THIRD, FOURTH, FIFTH, SEVENTH, EIGHTH = (
    f"predictions_h200_{name}.json" for name in ("second", "third", "fourth", "fifth", "seventh", "eighth")
)
SIDE_RUNS = ("-bf16-", "-27b-", "-prefix-two", "-prefix-four", "-mnbt2048-two", "-routing-")
TWICE = ("-seven", "-seven-again2", "-seven-start2")  # one machine alone: twice in one engine start, once in another
THRICE = ("-eight", "-eight-again2", "-eight-again3")  # one machine alone, three times in one engine start; k = 4 twice
RUNS = ("-single", "-two", "-three", "-four", "-five", "-six", *TWICE, *THRICE)
AGAIN_RUNS = ("-five", "-six")  # two more machines, one engine each and nothing beside


def registered_label(row: Measured) -> str:
    """The label under which a row's cell was registered."""
    label = str(row["label"])
    return next((label.removesuffix(run) for run in RUNS if label.endswith(run)), label)


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


def fourth_text(everything: Sequence[Measured]) -> str:
    """And for the fourth run, predicted by a model that had seen the three before."""
    return _registered(everything, [row for row in everything if fourth_run(row)], FOURTH)


def fifth_text(everything: Sequence[Measured]) -> str:
    """And for the two machines alone, predicted by a model that had seen the four runs before."""
    return _registered(everything, [row for row in everything if alone_again(row)], FIFTH)


def seventh_text(everything: Sequence[Measured]) -> str:
    """And for the machine that took its points three times, predicted by a model that had seen all runs before."""
    return _registered(everything, [row for row in everything if str(row["label"]).endswith(TWICE)], SEVENTH)


def eighth_text(everything: Sequence[Measured]) -> str:
    """And for the last machine, by a model that had seen these cells on seven."""
    return _registered(everything, [row for row in everything if str(row["label"]).endswith(THRICE)], EIGHTH)


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
        pairs = [pair for pair in pairs if (registered_label(pair[0]), pair[0]["key"]) in cells]
        errors = [_gain_errors(pairs, cells, metric) for metric in GAINS]
        step = [
            cells[registered_label(row), row["key"]]["decode_step_ms"] / row["decode_step_p50_ms"] - 1
            for row in mine
            if (registered_label(row), row["key"]) in cells
        ]
        lines.append(
            [
                label,
                len(pairs),
                *(f"{100 * np.mean(np.abs(e)):.1f}" for e in (*errors, np.array(step))),
            ]
        )
    head = ("engine start", "pairs", "output tok/s", "TPOT", "decode speed", "decode step itself (physics)")
    return f"Mean absolute error in percent of `{file}`:\n\n" + table(head, lines)


def second_day(row: Measured) -> bool:
    side = any(n in row["label"] for n in ("-bf16-", "-27b-", "-two"))
    return rows.plain_elsewhere(row) or (side and not fourth_run(row))


def third_day(row: Measured) -> bool:
    return str(row["label"]).endswith("-three") or row["label"] == "qwen3.6-35b-a3b-fp8-k0-mnbt2048-two"


def fourth_run(row: Measured) -> bool:
    return str(row["label"]).endswith("-four")


def alone_again(row: Measured) -> bool:
    return str(row["label"]).endswith(AGAIN_RUNS)


def repeat_text(everything: Sequence[Measured]) -> str:
    """k = 0, 2 and 4 of later runs, and the simulated routings, over the first machine's figures."""
    first = {(row["k"], row["key"]): row for row in everything if row["label"].endswith("-single")}
    lines = []
    for name, drafts in (
        ("-three", (0, 2)),
        ("-four", (0, 2, 4)),
        ("-five", (0, 2)),
        ("-six", (0, 4)),
        ("-seven", (0, 2, 4)),
        ("-seven-again2", (0, 2)),
        ("-seven-start2", (0, 2)),
        ("-eight", (0, 2, 4)),
        ("-eight-again2", (0, 2, 4)),
        ("-eight-again3", (0, 2)),
        ("-eight-threads", (2,)),
        ("-routing-uniform-three", (0, 2)),
        ("-routing-skewed-three", (0, 2)),
    ):
        for k in drafts:
            mine = [row for row in everything if row["label"].endswith(f"a3b-fp8-k{k}{name}") and (k, row["key"]) in first]
            mine = [row for row in mine if not rows.decode_is_biased(row) and (k, row["key"]) != (2, "1:2048:128:0")]
            ratios = [
                np.array([row[column] / first[k, row["key"]][column] for row in mine]) - 1
                for column in ("decode_step_p50_ms", "output_tok_s", "ttft_ms")
            ]
            label = name.removesuffix("-three").removeprefix("-").replace("-", ", ") or "three"
            label = label if "routing" in label else f"as it comes, run {label}"
            lines.append([label, k, len(mine), *(f"{100 * np.mean(x):+.1f} ({100 * np.mean(np.abs(x)):.1f})" for x in ratios)])
    head = ("routing", "k", "points", "decode step, %", "output tok/s, %", "TTFT, %")
    return table(head, lines)


FP8 = "qwen3.6-35b-a3b-fp8-k{}"
FLOOR_GROUPS = (
    ("35B-A3B FP8, k = 2, first and fifth, both alone", f"{FP8}-single", f"{FP8}-five", (2,)),
    ("35B-A3B FP8, k = 4, first and sixth, both alone", f"{FP8}-single", f"{FP8}-six", (4,)),
    ("35B-A3B FP8, k = 2 and 4, first and fourth (company)", f"{FP8}-single", f"{FP8}-four", (2, 4)),
    ("35B-A3B FP8, k = 2, fourth and fifth", f"{FP8}-four", f"{FP8}-five", (2,)),
    ("35B-A3B FP8, k = 4, fourth and sixth", f"{FP8}-four", f"{FP8}-six", (4,)),
    ("35B-A3B BF16, k = 2, second and fourth", "qwen3.6-35b-a3b-bf16-k{}", "qwen3.6-35b-a3b-bf16-k{}-four", (2,)),
    ("35B-A3B FP8, k = 2, seventh, twice in one engine start", f"{FP8}-seven", f"{FP8}-seven-again2", (2,)),
    ("35B-A3B FP8, k = 2, seventh, two engine starts", f"{FP8}-seven", f"{FP8}-seven-start2", (2,)),
    ("35B-A3B FP8, k = 2, eighth, first and second turn of one start", f"{FP8}-eight", f"{FP8}-eight-again2", (2,)),
    ("35B-A3B FP8, k = 2, eighth, first and third turn", f"{FP8}-eight", f"{FP8}-eight-again3", (2,)),
    ("35B-A3B FP8, k = 4, eighth, twice in one engine start", f"{FP8}-eight", f"{FP8}-eight-again2", (4,)),
    ("27B FP8, k = 2, second and fourth", "qwen3.6-27b-fp8-k{}", "qwen3.6-27b-fp8-k{}-four", (2,)),
    ("35B-A3B FP8, caching on, k = 2, second and fourth", f"{FP8}-prefix-two", f"{FP8}-prefix-four", (2,)),
)  # fmt: skip
ONE_CELL = ("-single", "-four", "-five", "-six", *TWICE, *THRICE)
GAINS = ("output_tok_s", "tpot", "request_tok_s")


def floor_text(everything: Sequence[Measured]) -> str:
    """How far machines of one kind differ in the same speed-up: what no model can be better than."""
    lines = []
    for name, first, second, drafts in FLOOR_GROUPS:
        gaps = np.concatenate([_gain_gaps(everything, first, second, k) for k in drafts])
        if len(gaps):
            lines.append([name, len(gaps), *(f"{100 * np.nanmean(np.abs(gaps[:, i])):.1f}" for i in range(3))])
    head = ("cells measured on two machines", "pairs", "output tok/s, %", "TPOT, %", "decode speed, %")
    spread = cell_spread(everything)
    lines.append(["spread (sd) of a single measurement, all machines", "", *(f"{100 * sd:.1f}" for sd in spread)])
    # the mean absolute value of a normal error is 0.8 of its sd
    lines.append(["error of a model that knew every cell's mean", "", *(f"{80 * sd:.1f}" for sd in spread)])
    return table(head, lines)


def regret_floor(everything: Sequence[Measured], metric: int) -> Floats:
    """Regret, as a share of the best measured speed, of choosing k in a run by the mean of the other runs of the same cell.

    `metric` indexes GAINS. One figure per cell and run with three or more k that others measured too: what the scatter of single
    runs costs whoever knows everything else.
    """
    found: dict[str, dict[str, dict[int, float]]] = {}
    for run in ONE_CELL:
        for k in (1, 2, 3, 4, 6, 8):
            for key, gains in _gains_of(everything, FP8 + run, k).items():
                found.setdefault(key, {}).setdefault(run, {})[k] = float(gains[metric])
    out = []
    for by_run in found.values():
        for run, mine in by_run.items():
            means = {
                k: float(np.mean(others))
                for k in mine
                if (others := [gains[k] for other, gains in by_run.items() if other != run and k in gains])
            }
            if len(means) >= 3:
                out.append(1 - mine[max(means, key=lambda k: means[k])] / max(1.0, *(mine[k] for k in means)))
    return np.array(out)


def regret_text(everything: Sequence[Measured]) -> str:
    """The floor of the regret of k, in one sentence."""
    parts = []
    for name, metric in (("output tok/s", 0), ("TPOT", 1)):
        each = 100 * regret_floor(everything, metric)
        parts.append(f"{each.mean():.1f} % (90th percentile {np.quantile(each, 0.9):.1f} %, {len(each)} sweeps) of {name}")
    return f"Whoever chose k in each run by the mean of the other runs of the very cell would lose {parts[0]} and {parts[1]}."


def cell_spread(everything: Sequence[Measured]) -> Floats:
    """Standard deviation of one run's log speed-up around its cell's mean, by metric of GAINS, pooled over the cells. (3,)"""
    found: dict[tuple[int, str], list[Floats]] = {}
    for k in (2, 4):
        for run in ONE_CELL:
            for key, gains in _gains_of(everything, FP8 + run, k).items():
                found.setdefault((k, key), []).append(np.log(gains))
    variances = [np.var(np.array(runs), axis=0, ddof=1) for runs in found.values() if len(runs) > 1]
    out: Floats = np.sqrt(np.nanmean(np.array(variances), axis=0))
    return out


def _gain_gaps(everything: Sequence[Measured], first: str, second: str, k: int) -> Floats:
    """log ratio of the speed-ups of two runs, (cells, 3); NaN where the decode step is biased."""
    found = [_gains_of(everything, label, k) for label in (first, second)]
    both = [key for key in found[0] if key in found[1]]
    return np.array([np.log(found[0][key]) - np.log(found[1][key]) for key in both]).reshape(-1, 3)


def _gains_of(everything: Sequence[Measured], label: str, k: int) -> dict[str, Floats]:
    off = {row["key"]: row for row in everything if row["label"] == label.format(0)}
    on = {row["key"]: row for row in everything if row["label"] == label.format(k) and row["key"] in off}
    return {key: np.array([_gain(row, off[key], metric) for metric in GAINS]) for key, row in on.items()}


def _gain(on: Measured, off: Measured, metric: str) -> float:
    """One measured speed-up; NaN for the decode speed where its steps are biased."""
    if metric == "output_tok_s":
        return float(on["output_tok_s"] / off["output_tok_s"])
    if metric == "tpot":
        return float(off["tpot_ms"] / on["tpot_ms"])
    if rows.decode_is_biased(on):
        return float("nan")
    return float(off["decode_step_p50_ms"] * on["acceptance_length"] / on["decode_step_p50_ms"])


def _gain_errors(
    pairs: Sequence[tuple[Measured, Measured]], cells: Mapping[tuple[str, str], Any], metric: str
) -> Floats:
    """Predicted over measured speed-up, less 1, of each pair."""
    out = []
    for on, off in pairs:
        gain = _gain(on, off, metric)
        if not np.isnan(gain):
            out.append(cells[registered_label(on), on["key"]]["speedup"][metric] / gain - 1)
    return np.array(out)


def scatter_text(everything: Sequence[Measured]) -> str:
    """How far the turns of one engine start and two starts of one machine differ, arm by arm: mean absolute difference."""
    lines = []
    for k in (0, 2):
        arms = [{row["key"]: row for row in everything if row["label"] == FP8.format(k) + run} for run in TWICE]
        for name, first, second in (("one start", arms[0], arms[1]), ("two starts", arms[0], arms[2])):
            both = [(first[key], second[key]) for key in first if key in second]
            gaps = [
                np.mean([abs(np.log(a[column] / b[column])) for a, b in both])
                for column in ("decode_step_p50_ms", "output_tok_s", "tpot_ms", "ttft_ms")
            ]
            lines.append([k, name, len(both), *(f"{100 * gap:.1f}" for gap in gaps)])
    return table(("k", "turns of", "points", "decode step, %", "output tok/s, %", "TPOT, %", "TTFT, %"), lines)
