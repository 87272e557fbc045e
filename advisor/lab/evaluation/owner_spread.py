"""What owners of one and the same setting measure differently: the part of the error that no
function of a setting can remove.

A setting is card, GPU count, model, quantisation family, engine, method, k, concurrency and metric.
Owners are the units that are left out. Whoever knew the true mean of every setting would still miss
each owner by that owner's own distance from it; with the mean of the n - 1 others in place of the
true one, the expected squared distance is n / (n - 1) times as large, so distances are scaled back
by sqrt((n - 1) / n).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from advisor.domain import normal
from advisor.lab.evaluation import metrics
from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import LeftOut
from advisor.prediction import utility
from advisor.prediction.model import prepare

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.str_]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SharedSettings:
    """One entry for every owner of every setting that several owners measured. All (N,); values are
    means of logs.

    `others`: mean of the other owners of the setting; `owners`: how many there are, this one
    included.
    """

    owner: Words
    value: Floats
    others: Floats
    owners: Floats
    rows: npt.NDArray[np.object_]  # indices of the owner's examples
    settings: int

    def floor(self) -> Floats:
        """Log distance of owners from the setting's true mean, on average of squares (N,).

        Returns
        -------
        Floats
            (N,)
        """
        scaled: Floats = (self.others - self.value) * np.sqrt((self.owners - 1) / self.owners)
        return scaled


def settings_of(examples: Examples, with_k: bool = True) -> list[tuple[Hashable, ...]]:
    """What makes two rows one setting, for each row.

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    with_k : bool
        Count another k as another setting.

    Returns
    -------
    list of tuple
        One hashable key a row.
    """
    _, full = prepare(examples.points)
    columns = [
        examples.hardware,
        full.gpus,
        examples.model,
        full.quant_family,
        examples.engine,
        examples.method,
        full.concurrency,
        examples.metric,
    ]
    return list(
        zip(*(c.tolist() for c in (*columns, full.k if with_k else full.gpus)), strict=True)
    )


def shared_settings(
    values: Floats, owner: Words, setting: Sequence[Hashable], rows: Flags
) -> SharedSettings:
    """Owners of settings that two or more owners measured. values, owner, rows: (M,).

    Parameters
    ----------
    values : Floats
        (M,)
    owner : Words
        Who measured each row. (M,)
    setting : Sequence[Hashable]
        Key of the setting of each row.
    rows : Flags
        Which rows count. (M,)

    Returns
    -------
    SharedSettings
        One entry for every owner of every shared setting.
    """
    cells: dict[Hashable, dict[str, list[int]]] = {}
    for i in np.flatnonzero(rows).tolist():
        cells.setdefault(setting[i], {}).setdefault(str(owner[i]), []).append(i)
    names, mine, rest, count, index = [], [], [], [], []
    several = [owners for owners in cells.values() if len(owners) > 1]
    for owners in several:
        means = {name: float(np.mean(values[i])) for name, i in owners.items()}
        for name, held_rows in owners.items():
            names.append(name)
            mine.append(means[name])
            rest.append((sum(means.values()) - means[name]) / (len(means) - 1))
            count.append(float(len(means)))
            index.append(held_rows)
    held = np.empty(len(index), dtype=object)
    held[:] = index
    return SharedSettings(
        np.array(names, dtype=np.str_),
        np.array(mine),
        np.array(rest),
        np.array(count),
        held,
        len(several),
    )


@dataclass(frozen=True)
class Owners:
    """How far apart owners are, and how far this model is from them. Shares; errors are averaged
    over owners.

    `lines`: settings, median APE, MAPE, and the half-width, as a factor, of an interval that would
    hold 80 %.
    """

    owners: int
    lines: Mapping[str, tuple[int, float, float, float]]
    losses: int
    gains: int
    called: Mapping[str, tuple[int, int]]  # name -> losses called off, gains called off
    sweeps: int
    regret: Mapping[str, tuple[float, float]]  # name -> mean, 90th percentile


def _errors(found: SharedSettings, log_error: Floats) -> tuple[int, float, float, float]:
    error = np.abs(np.expm1(log_error))
    spread = np.sqrt(metrics.group_average(log_error**2, found.owner).value)
    errors = (
        metrics.group_average(error, found.owner, np.median).value,
        metrics.group_average(error, found.owner).value,
    )
    return found.settings, *errors, float(np.exp(normal.Z10 * spread))


def _means(values: Floats, found: SharedSettings) -> Floats:
    return np.array([float(np.mean(values[i])) for i in found.rows])


def compare(examples: Examples, out: LeftOut, rows: Flags) -> Owners:
    """Floor, other owners and this model on the same owners of the same settings.

    Parameters
    ----------
    examples : Examples
        Measured pairs, M rows.
    out : LeftOut
        Left-out predictions of the same rows.
    rows : Flags
        Which rows count. (M,)

    Returns
    -------
    Owners
        Errors of each predictor on the same owners.
    """
    y, setting = examples.log_speedup, settings_of(examples)
    found = shared_settings(y, examples.fold, setting, rows)
    text = [
        (*cell, kind) for cell, kind in zip(setting, examples.points.workload.tolist(), strict=True)
    ]
    same_text = shared_settings(y, examples.fold, text, rows)
    lines = {
        "the setting's true mean (estimated)": _errors(found, found.floor()),
        "mean of the other owners of the setting": _errors(found, found.others - found.value),
        "this model, acceptance unknown": _errors(
            found, _means(out.median_hidden, found) - found.value
        ),
        "same kind of text, too: its true mean (estimated)": _errors(same_text, same_text.floor()),
    }
    told = shared_settings(y - np.log(out.tau), examples.fold, setting, rows & out.known)
    if len(told.value):
        lines["where acceptance is stated: the true cost of a step (estimated)"] = _errors(
            told, told.floor()
        )
        lines["there: this model"] = _errors(told, _means(out.median - y, told))
    lost = found.value < 0
    called = {
        "sign of the other owners' mean": _wrong_decisions(lost, found.others < 0),
        "this model": _wrong_decisions(lost, _means(out.median, found) < 0),
    }
    sweeps = _sweeps(examples, out, rows)
    regret = {
        name: (float(r.mean()), float(np.quantile(r, 0.9))) for name, r in sweeps.items() if len(r)
    }
    owners = len(set(found.owner.tolist()))
    count = len(next(iter(sweeps.values())))
    return Owners(owners, lines, int(lost.sum()), int((~lost).sum()), called, count, regret)


def _wrong_decisions(lost: Flags, off: Flags) -> tuple[int, int]:
    return int((lost & off).sum()), int((~lost & off).sum())


def _sweeps(examples: Examples, out: LeftOut, rows: Flags) -> dict[str, Floats]:
    """Regret over the k that a sweep shares with other owners' sweeps of its setting, three or
    more; off is a choice, too.
    """
    tables: dict[Hashable, dict[tuple[str, str], dict[float, list[int]]]] = {}
    for i, setting in enumerate(settings_of(examples, with_k=False)):
        if rows[i]:
            sweep = (str(examples.fold[i]), str(examples.sweep[i]))
            tables.setdefault(setting, {}).setdefault(sweep, {}).setdefault(
                float(examples.points.k[i]), []
            ).append(i)
    found: dict[str, list[float]] = {"the other owners' best k": [], "this model": []}
    for table in tables.values():
        full = {name: ks for name, ks in table.items() if len(ks) >= 3}
        for name, ks in full.items():
            others = [other for key, other in full.items() if key[0] != name[0]]
            common = [k for k in sorted(ks) if any(k in other for other in others)]
            if len(common) >= 3:
                for who, lost in _regret_of(examples, out, ks, others, common).items():
                    found[who].append(lost)
    return {name: np.array(values) for name, values in found.items()}


def _regret_of(
    examples: Examples,
    out: LeftOut,
    ks: Mapping[float, list[int]],
    others: list[dict[float, list[int]]],
    common: list[float],
) -> dict[str, float]:
    y = examples.log_speedup
    mine = np.array([y[ks[k]].mean() for k in common])
    theirs = np.array(
        [np.mean([y[other[k]].mean() for other in others if k in other]) for k in common]
    )
    ours = (
        np.array([values[ks[k]].mean() for k in common])
        for values in (out.low, out.median, out.high)
    )
    picks: dict[str, Callable[[], int]] = {
        "the other owners' best k": lambda: int(theirs.argmax()) if theirs.max() > 0 else -1,
        "this model": lambda: utility.least_regret(*ours),
    }
    best = max(float(mine.max()), 0.0)
    lost = {}
    for who, pick in picks.items():
        at = pick()
        lost[who] = float(1 - np.exp((mine[at] if at >= 0 else 0.0) - best))
    return lost
