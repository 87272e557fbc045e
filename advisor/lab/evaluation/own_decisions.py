"""Decisions of a machine with own runs, scored leave-half-out: wrong ones (on and a loss, off and a
gain) and those to measure, without own runs and with them. The bound on P(gain) up to which such a
machine is off is chosen on other owners: the fewest wrong decisions with no more to measure than
without own runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from advisor.domain.normal import Z10, cdf
from advisor.lab.arrays import Codes, Floats
from advisor.lab.evaluation import calibrated
from advisor.lab.evaluation.calibrated import GROUPS, RUNS, Half, Kernels, Rows
from advisor.lab.training.left_out import group_labels
from advisor.prediction import own_runs
from advisor.prediction.decision import DECISIONS, decide
from advisor.prediction.own_runs import Kernel

OFF, ON = (DECISIONS.index(name) for name in ("off", "on"))
BOUNDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.65)


class Shares(NamedTuple):
    """Shares of rows, means over the splits of all owners."""

    loss_on: float
    gain_off: float
    measure: float

    @property
    def wrong(self) -> float:
        """Both kinds of wrong decisions."""
        return self.loss_on + self.gain_off


class Decided(NamedTuple):
    """One number of own runs: without them, and with them by a bound chosen on other owners."""

    runs: int
    without: Shares
    own: Shares
    bounds: tuple[float, ...]  # as chosen for each group of owners


def decisions(rows: Rows, kernels: Kernels | None = None) -> list[Decided]:
    """Score one and three own runs, chosen as `calibrated.exam` chooses them."""
    out = []
    for runs in RUNS:
        parts = list(calibrated.halves(rows, runs, True, kernels))
        table = pd.concat([_shares_of(rows, half) for half in parts], keys=range(len(parts)))
        groups = group_labels(np.array([half.owner for half in parts]), GROUPS)
        out.append(_score_runs(runs, table, groups))
    return out


def _shares_of(rows: Rows, half: Half) -> pd.DataFrame:
    """Shares of one tested half, without own runs (bound NaN) and with them for each bound."""
    test, seen = half.test, calibrated.update(rows, half.own, half.test, half.kernel)
    log, mean = rows.log[test], rows.mean[test]
    below, above = mean - rows.low[test], rows.high[test] - mean
    after = mean + seen.shift
    p_after = _chance(after, below * seen.scale, above * seen.scale)
    shares = {np.nan: _shares(log, decide(np.exp(mean), _chance(mean, below, above)))}
    for bound in BOUNDS:
        codes = decide(np.exp(after), p_after, own=1 - seen.scale**2, off_own=bound)
        shares[bound] = _shares(log, codes)
    return pd.DataFrame(shares.values(), index=list(shares), columns=list(Shares._fields))


def _shares(log: Floats, codes: Codes) -> Shares:
    on, off = codes == ON, codes == OFF
    parts = (on & (log < 0), off & (log > 0), ~on & ~off)
    return Shares(*(float(np.mean(part)) for part in parts))


def _chance(mean: Floats, below: Floats, above: Floats) -> Floats:
    """Probability of a gain of a normal with a half-width of its own on either side."""
    sd = np.maximum(np.where(mean > 0, below, above) / Z10, 1e-9)
    return np.array([cdf(z) for z in (mean / sd).tolist()])


def _score_runs(runs: int, table: pd.DataFrame, groups: np.ndarray) -> Decided:
    """`table`: shares by half and bound; `groups`: the group of each half's owner."""
    bound = table.index.get_level_values(1)
    before, by_bound = table[bound.isna()], table[bound.notna()]
    own, chosen = [], []
    for group in np.unique(groups):
        outside = np.flatnonzero(groups != group)
        means = by_bound.loc[outside].groupby(level=1).mean()
        fine = means[means.measure <= before.loc[outside].measure.mean()]
        fine = fine if len(fine) else means.tail(1)
        chosen.append(float((fine.loss_on + fine.gain_off).idxmin()))
        own.append(by_bound.loc[pd.IndexSlice[np.flatnonzero(groups == group), chosen[-1]], :])
    return Decided(runs, Shares(*before.mean()), Shares(*pd.concat(own).mean()), tuple(chosen))


def summary(decided: list[Decided]) -> str:
    """One line for each number of own runs."""
    return "\n".join(
        f"decisions with {one.runs} own run{'s' if one.runs > 1 else ''}, chosen: wrong "
        f"{one.without.wrong:.1%} -> {one.own.wrong:.1%} (on and a loss {one.without.loss_on:.1%} "
        f"-> {one.own.loss_on:.1%}), measure {one.without.measure:.1%} -> {one.own.measure:.1%}; "
        f"off up to {', '.join(f'{b:.2f}' for b in one.bounds)} by group of other owners"
        for one in decided
    )


def as_thresholds(kernel: Kernel) -> str:
    """The kernel as knowledge/thresholds.yaml holds it, rounded."""
    numbers = dict(zip(Kernel._fields[:5], kernel[:5], strict=True))
    for part in ("accepted", "step", "first"):
        measures = getattr(own_runs, f"{part.upper()}_MEASURES")
        fades = zip(measures, getattr(kernel, f"{part}_fade"), strict=True)
        numbers |= {f"{part}_fade_{name}": fade for name, fade in fades}
    rounded = (f"own_runs_{name} {float(f'{value:.3g}'):g}" for name, value in numbers.items())
    return "kernel of all owners: " + ", ".join(rounded)
