"""Decisions of a machine with own runs, scored leave-half-out: wrong ones (on and a loss, off and a
gain) and those to measure, without own runs and with them. The bound on P(gain) up to which such a
machine is off is chosen on other owners: the fewest wrong decisions with no more to measure than
without own runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.domain.normal import Z10, cdf
from advisor.lab.evaluation import calibrated
from advisor.lab.evaluation.calibrated import GROUPS, RUNS, Rows
from advisor.lab.training.left_out import group_labels
from advisor.prediction import own_runs
from advisor.prediction.decision import DECISIONS, decide
from advisor.prediction.own_runs import Kernel

Floats = npt.NDArray[np.float64]

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


class _Half(NamedTuple):
    """A tested half: gains and predictions in log, chances, and what own runs tell (T,)."""

    owner: str
    log: Floats
    before: Floats
    p_before: Floats
    after: Floats
    p_after: Floats
    told: Floats

    def without(self) -> Shares:
        return _shares(self.log, decide(np.exp(self.before), self.p_before))

    def with_own(self, bound: float) -> Shares:
        made = decide(np.exp(self.after), self.p_after, own=self.told, off_own=bound)
        return _shares(self.log, made)


def _shares(log: Floats, made: npt.NDArray[np.int8]) -> Shares:
    on, off = made == ON, made == OFF
    return Shares(
        float(np.mean(on & (log < 0))),
        float(np.mean(off & (log > 0))),
        float(np.mean(~on & ~off)),
    )


def decisions(rows: Rows, kernels: Mapping[str, Kernel] | None = None) -> list[Decided]:
    """Score one and three own runs, chosen as `calibrated.exam` chooses them."""
    return [_score_runs(runs, _halves(rows, runs, kernels)) for runs in RUNS]


def _halves(rows: Rows, runs: int, kernels: Mapping[str, Kernel] | None) -> list[_Half]:
    dice, out = np.random.default_rng(0), []
    for owner in sorted(set(rows.owner.tolist())):
        made = kernels[owner] if kernels else own_runs.kernel()
        for own, test in calibrated.splits(rows, owner, runs, True, made, dice):
            seen = calibrated.update(rows, own, test, made)
            mean = rows.mean[test]
            below, above = mean - rows.low[test], rows.high[test] - mean
            after = mean + seen.shift
            out.append(
                _Half(
                    owner, rows.log[test], mean, _chance(mean, below, above), after,
                    _chance(after, below * seen.scale, above * seen.scale), 1 - seen.scale**2,
                )
            )  # fmt: skip
    return out


def _chance(mean: Floats, below: Floats, above: Floats) -> Floats:
    """Probability of a gain of a normal with a half-width of its own on either side."""
    sd = np.maximum(np.where(mean > 0, below, above) / Z10, 1e-9)
    return np.array([cdf(z) for z in (mean / sd).tolist()])


def _score_runs(runs: int, halves: list[_Half]) -> Decided:
    group = group_labels(np.array([half.owner for half in halves]), GROUPS)
    table = {bound: [half.with_own(bound) for half in halves] for bound in BOUNDS}
    before, own, bounds = [half.without() for half in halves], [], []
    for one in sorted(set(group.tolist())):
        here, there = np.flatnonzero(group == one), np.flatnonzero(group != one)
        most = _mean(before, there).measure
        means = {bound: _mean(table[bound], there) for bound in BOUNDS}
        fit = [b for b in BOUNDS if means[b].measure <= most] or [max(BOUNDS)]
        best = min(fit, key=lambda b: means[b].wrong)
        bounds.append(best)
        own += [table[best][i] for i in here.tolist()]
    every = np.arange(len(halves))
    return Decided(runs, _mean(before, every), _mean(own, every), tuple(bounds))


def _mean(shares: list[Shares], index: npt.NDArray[np.intp]) -> Shares:
    return Shares(*np.mean([shares[i] for i in index.tolist()], axis=0).tolist())


def summary(found: list[Decided]) -> str:
    """One line a case."""
    return "\n".join(
        f"decisions with {one.runs} own run{'s' if one.runs > 1 else ''}, chosen: wrong "
        f"{one.without.wrong:.1%} -> {one.own.wrong:.1%} (on and a loss {one.without.loss_on:.1%} "
        f"-> {one.own.loss_on:.1%}), measure {one.without.measure:.1%} -> {one.own.measure:.1%}; "
        f"off up to {', '.join(f'{b:.2f}' for b in one.bounds)} by group of other owners"
        for one in found
    )


def report(rows: Rows, kernels: Mapping[str, Kernel]) -> str:
    """The summary, by kernels fitted without each group of owners, and the kernel of all."""
    text = calibrated.summary(calibrated.exams(rows, kernels), calibrated.reach(rows, kernels))
    text += "\n" + summary(decisions(rows, kernels))
    return text + "\n" + as_thresholds(calibrated.fit_kernel(rows))


def as_thresholds(made: Kernel) -> str:
    """The kernel as knowledge/thresholds.yaml holds it, rounded."""
    numbers = dict(zip(Kernel._fields[:5], made[:5], strict=True))
    for part, measures in (
        ("accepted", own_runs.ACCEPTED_MEASURES),
        ("step", own_runs.STEP_MEASURES),
        ("first", own_runs.FIRST_MEASURES),
    ):
        fades = getattr(made, f"{part}_fade")
        named = zip(measures, fades, strict=True)
        numbers |= {f"{part}_fade_{name}": fade for name, fade in named}
    rounded = (f"own_runs_{name} {float(f'{value:.3g}'):g}" for name, value in numbers.items())
    return "kernel of all owners: " + ", ".join(rounded)
