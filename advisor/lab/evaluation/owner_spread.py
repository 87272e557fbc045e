"""What owners of one and the same setting measure differently: the part of the error that no
function of a setting can remove.

A setting is card, GPU count, model, quantisation family, engine, method, k, concurrency and metric.
Owners are the units that are left out. Whoever knew the true mean of every setting would still miss
each owner by that owner's own distance from it; with the mean of the n - 1 others in place of the
true one, the expected squared distance is n / (n - 1) times as large, so distances are scaled back
by sqrt((n - 1) / n).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from advisor.domain import normal
from advisor.lab.arrays import Flags, Floats
from advisor.lab.evaluation import metrics
from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import LeftOut
from advisor.prediction import utility
from advisor.prediction.model import prepare

SETTING = ["hardware", "gpus", "model", "quant", "engine", "method", "streams", "metric"]
PREDICTED = ["low", "median", "high", "median_hidden"]
Errors = tuple[int, float, float, float]  # settings, median APE, MAPE, half-width as a factor


class Owners(NamedTuple):
    """How far apart owners are, and how far this model is from them. Shares; errors are averaged
    over owners.
    """

    owners: int
    lines: dict[str, Errors]
    losses: int
    gains: int
    called: dict[str, tuple[int, int]]  # name -> losses called off, gains called off
    sweeps: int
    regret: dict[str, tuple[float, float]]  # name -> mean, 90th percentile


def frame_of(examples: Examples, fit: LeftOut) -> pd.DataFrame:
    """One line for each example: its owner, its setting, what was measured and predicted."""
    _, full = prepare(examples.points)
    return pd.DataFrame(
        {
            "owner": examples.fold,
            "sweep": examples.sweep,
            "hardware": examples.hardware,
            "gpus": full.gpus,
            "model": examples.model,
            "quant": full.quant_family,
            "engine": examples.engine,
            "method": examples.method,
            "streams": full.concurrency,
            "metric": examples.metric,
            "k": full.k,
            "swept_k": examples.points.k,
            "workload": examples.points.workload,
            "value": examples.log_speedup,
            "tau": np.log(fit.tau),
            **{name: getattr(fit, name) for name in PREDICTED},
        }
    )


def shared_settings(frame: pd.DataFrame, setting: list[str]) -> pd.DataFrame:
    """Means of each owner of every setting that two or more owners measured, with the mean of the
    other owners (`others`) and how many there are (`owners`, this one included).
    """
    means = frame.groupby([*setting, "owner"]).mean(numeric_only=True)
    value = means["value"].groupby(level=setting)
    count = value.transform("size")
    others = (value.transform("sum") - means["value"]) / (count - 1)
    means = means.assign(others=others, owners=count)[count > 1]
    return means.rename_axis(index={"owner": "who"}).reset_index()


def floor(shared: pd.DataFrame) -> Floats:
    """Log distance of owners from the setting's true mean, on average of squares (N,)."""
    scale = np.sqrt((shared.owners - 1) / shared.owners)
    return np.asarray((shared.others - shared.value) * scale)


def _errors(shared: pd.DataFrame, setting: list[str], log_error: Floats) -> Errors:
    error, owner = np.abs(np.expm1(log_error)), shared.who.to_numpy(str)
    median, mean = (metrics.group_average(error, owner, r).value for r in (np.median, np.mean))
    spread = np.sqrt(metrics.group_average(log_error**2, owner).value)
    settings = len(shared[setting].drop_duplicates())
    return settings, median, mean, float(np.exp(normal.Z10 * spread))


def compare(examples: Examples, fit: LeftOut, rows: Flags) -> Owners:
    """Floor, other owners and this model on the same owners of the same settings."""
    frame, exact = frame_of(examples, fit)[rows], [*SETTING, "k"]
    shared = shared_settings(frame, exact)
    texts = [*exact, "workload"]
    same_text = shared_settings(frame, texts)
    value = shared.value.to_numpy()
    lines = {
        "the setting's true mean (estimated)": _errors(shared, exact, floor(shared)),
        "mean of the other owners of the setting": _errors(shared, exact, shared.others - value),
        "this model, acceptance unknown": _errors(shared, exact, shared.median_hidden - value),
        "same kind of text, too: its true mean (estimated)": _errors(
            same_text, texts, floor(same_text)
        ),
    }
    stated = frame[fit.known[rows]]
    costs = shared_settings(stated.assign(value=stated.value - stated.tau, y=stated.value), exact)
    if len(costs):
        true_cost = "where acceptance is stated: the true cost of a step (estimated)"
        lines[true_cost] = _errors(costs, exact, floor(costs))
        lines["there: this model"] = _errors(costs, exact, costs["median"] - costs.y)
    lost = value < 0
    called = {
        name: (int((lost & off).sum()), int((~lost & off).sum()))
        for name, off in (
            ("sign of the other owners' mean", shared.others < 0),
            ("this model", shared["median"] < 0),
        )
    }
    losses, owners = int(lost.sum()), shared.who.nunique()
    regrets = _regrets(frame)
    regret = {name: metrics.mean_and_tail(regrets[name].to_numpy()) for name in regrets}
    return Owners(owners, lines, losses, len(lost) - losses, called, len(regrets), regret)


def _regrets(frame: pd.DataFrame) -> pd.DataFrame:
    """Regret over the k that a sweep shares with other owners' sweeps of its setting, three or
    more; off is a choice, too. By who chooses.
    """
    sweep = [*SETTING, "owner", "sweep"]
    means = frame.groupby([*sweep, "swept_k"])[["value", *PREDICTED]].mean()
    means = means[means.groupby(level=sweep)["value"].transform("size") >= 3].reset_index()
    out = []
    for _, setting in means.groupby(SETTING):
        for (owner, _), mine in setting.groupby(["owner", "sweep"]):
            theirs = setting[setting.owner != owner].groupby("swept_k")["value"].mean()
            both = mine.set_index("swept_k").join(theirs.rename("others"), how="inner")
            if len(both) >= 3:
                out.append(_regrets_of(both))
    return pd.DataFrame(out)


def _regrets_of(sweep: pd.DataFrame) -> dict[str, float]:
    value, others = sweep.value.to_numpy(), sweep.others.to_numpy()
    picks = {
        "the other owners' best k": int(others.argmax()) if others.max() > 0 else -1,
        "this model": utility.least_regret(*(sweep[n].to_numpy() for n in PREDICTED[:3])),
    }
    best = max(float(value.max()), 0.0)
    return {
        who: float(1 - np.exp((value[at] if at >= 0 else 0.0) - best)) for who, at in picks.items()
    }
