"""Figures of the model card, written as SVG beside it. The only importer of matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from advisor.lab.evaluation import metrics, scores
from advisor.lab.evaluation.baselines import fixed_k
from advisor.lab.evaluation.result import Evaluation


def _axes(title: str, x: str, y: str, size: tuple[float, float] = (6.0, 4.5)) -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "advisor"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=size)
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)


def plot_predicted(found: Evaluation, path: Path) -> None:
    """Draw predicted against measured speed-ups of left-out rows."""
    e, o = found.examples, found.shipped
    figure, axes = _axes(
        "Left-out sources: predicted against measured", "measured speed-up", "predicted speed-up"
    )
    for method in sorted(set(e.method.tolist())):
        pick = scores.scored_rows(e) & (e.method == method)
        axes.scatter(
            np.exp(e.log_speedup[pick]), np.exp(o.median[pick]), s=9, alpha=0.5, label=method
        )
    line = np.array([0.15, 3.6])
    axes.plot(line, line, color="black", lw=0.8)
    axes.axvline(1, color="grey", lw=0.5)
    axes.axhline(1, color="grey", lw=0.5)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend(fontsize=7)
    _save(figure, path)


def residuals(found: Evaluation, path: Path) -> None:
    """Draw the log of predicted over measured by left-out group."""
    e, o = found.examples, found.shipped
    rows = scores.scored_rows(e)
    gap = o.median - e.log_speedup
    folds = sorted(
        set(e.fold[rows].tolist()), key=lambda f: float(gap[rows & (e.fold == f)].mean())
    )
    figure, axes = _axes(
        "log(predicted / measured) by left-out group", "log ratio", "", (7.0, 11.0)
    )
    axes.boxplot(
        [gap[rows & (e.fold == f)] for f in folds],
        orientation="horizontal",
        widths=0.6,
        flierprops={"markersize": 2},
    )
    axes.set_yticks(range(1, len(folds) + 1), folds, fontsize=6)
    axes.axvline(0, color="grey", lw=0.6)
    _save(figure, path)


def calibration(found: Evaluation, path: Path) -> None:
    """Draw the share of rows that gained over the predicted probability."""
    e, o = found.examples, found.shipped
    rows = scores.scored_rows(e)
    weight = metrics.group_weight(e.rig)[rows]
    figure, axes = _axes("Chance of a gain", "predicted", "share that gained (one weight per rig)")
    for name, chance in (
        ("acceptance known where stated", o.p_gain),
        ("acceptance ignored", o.p_gain_hidden),
    ):
        curve = metrics.calibration(e.log_speedup[rows], chance[rows], weight)
        axes.plot([p for p, _, _ in curve], [h for _, h, _ in curve], marker="o", label=name)
    axes.plot([0, 1], [0, 1], color="black", lw=0.8)
    axes.legend(fontsize=8)
    _save(figure, path)


def regret(found: Evaluation, path: Path) -> None:
    """Draw the regret of the chosen k over measured sweeps, as a share of the best speed."""
    e, o = found.examples, found.shipped
    rows = scores.scored_rows(e)
    figure, axes = _axes(
        "Regret of the chosen k over measured sweeps",
        "regret (share of the best speed)",
        "share of sweeps",
    )
    for name, rule in (("model", None), ("k = 2", 2.0), ("k = 3", 3.0)):
        each = metrics.regrets(
            e.log_speedup[rows],
            o.median[rows],
            e.points.k[rows],
            e.sweep[rows],
            None if rule is None else fixed_k(rule),
        )
        axes.step(np.sort(each), np.arange(1, len(each) + 1) / len(each), where="post", label=name)
    axes.axvline(metrics.NOISE, color="grey", lw=0.6)
    axes.legend(fontsize=8)
    _save(figure, path)


def intervals(found: Evaluation, path: Path) -> None:
    """Draw the 80 % intervals of left-out rows with their measured values."""
    e, o = found.examples, found.shipped
    rows = np.flatnonzero(scores.scored_rows(e))
    order = rows[np.argsort(o.median[rows], kind="stable")]
    figure, axes = _axes(
        "80 % intervals of left-out rows, in order of the prediction", "row", "speed-up", (8.0, 4.0)
    )
    x = np.arange(len(order))
    axes.fill_between(x, np.exp(o.low[order]), np.exp(o.high[order]), alpha=0.3, lw=0)
    axes.plot(x, np.exp(o.median[order]), lw=0.8)
    axes.scatter(x, np.exp(e.log_speedup[order]), s=3, color="black")
    axes.axhline(1, color="grey", lw=0.6)
    axes.set_yscale("log")
    _save(figure, path)


FIGURES = (
    ("speedup_predicted_measured.svg", "Predicted against measured", plot_predicted),
    ("speedup_residuals.svg", "Residuals by source", residuals),
    ("speedup_calibration.svg", "Calibration of the chance of a gain", calibration),
    ("speedup_regret.svg", "Regret of k", regret),
    ("speedup_intervals.svg", "Intervals", intervals),
)


def draw(found: Evaluation, folder: Path) -> list[tuple[str, str]]:
    """Write all figures; returns (file name, title)."""
    for name, _, make in FIGURES:
        make(found, folder / name)
    return [(name, title) for name, title, _ in FIGURES]
