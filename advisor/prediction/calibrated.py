"""Predictions for one machine with its own runs: shifted, narrower near them, baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from advisor.domain.sourced import sourced
from advisor.perf import arrays
from advisor.perf.arrays import Floats, Ints, Mask
from advisor.perf.encoding.own_cases import RunCases
from advisor.prediction import own_runs
from advisor.prediction.decision import ESTIMATED
from advisor.prediction.intervals import Predicted
from advisor.prediction.model import Model
from advisor.prediction.own_runs import Observations, Places
from advisor.prediction.step_terms import HELD_SD

OWN_SHARE = sourced(
    0.7, "share", "Of the prior spread that own runs leave: below it, measured", "chosen"
)

TOLD = sourced(
    0.19, "share of the variance", "own choice: a tenth off the spread, as if measured", "chosen"
)
LEAST_NOISE = sourced(
    0.02, "log ratio", "Of an own gain, whose sd holds what single runs scatter by", "chosen"
)
# of a level without speculation: load and context; model, quantisation and engine
EVEN = sourced(
    0.5, "correlation, probability", "rather the same than another; a sign that is open", "chosen"
)
LEVEL_MEASURES = [*range(own_runs.LOG_K), *range(own_runs.MODEL, own_runs.WHOLE)]
LEVEL_FADE = sourced(
    np.array([0.5, 0.5, 2.0, 2.0, 2.0]), "exponent", "own choice: of another model little", "chosen"
)


class Level(NamedTuple):
    """How a measured level without speculation moves the computed one. (N,) each."""

    log: Floats  # by which the computed one moves
    share: Floats  # of what is known that was measured: nearly 1 at a load that was run
    sd: Floats  # of `log`, by the noise of the measurements


class Priced(NamedTuple):
    """What is computed of P points: predictions and levels without speculation by metric."""

    points: arrays.Points
    full: arrays.Points
    found: Mapping[str, Predicted]
    baselines: Mapping[str, Floats]
    crowded: Mask  # where memory holds fewer requests with speculation than without

    def take(self, rows: Ints | slice) -> Priced:
        """Those of some of the points."""
        at = np.arange(len(self.points))[rows]
        return Priced(
            self.points.take(rows),
            self.full.take(rows),
            {name: found.take(at) for name, found in self.found.items()},
            {name: value[rows] for name, value in self.baselines.items()},
            self.crowded[rows],
        )

    def places(self, name: str) -> Places:
        """Where the predictions of one metric lie."""
        metric = np.full(len(self.points), arrays.METRICS.index(name), dtype=np.int16)
        where = own_runs.places(self.points, self.full.replace(metric=metric))
        sd = np.sqrt(np.maximum(self.found[name].sd ** 2 - self.open_room(name) ** 2, 0.0))
        return Places(where, self.found[name].open, sd)

    def open_room(self, name: str) -> Floats:
        """The part of the spread of one metric by which it is open how many requests run."""
        return np.where(self.crowded & (name == "output_tok_s"), float(HELD_SD), 0.0)


def with_own_runs(
    own: RunCases, priced: Priced, model: Model
) -> tuple[dict[str, Predicted], dict[str, Floats], dict[str, Level], Floats, Floats]:
    """The predictions of one machine once its own runs are known, shifted and narrower near them,
    baselines and levels by metric; by how much log tokens per step move, and the share of the
    variance of the output tok/s gain that the own runs explain, (N,) each. `priced`: the N cases
    and then `own.points`.
    """
    asked = priced.take(slice(0, len(own.context)))
    found, tokens, told = dict(asked.found), np.zeros(len(own.context)), np.zeros(len(own.context))
    levels = {name: Level(*np.zeros((3, len(tokens)))) for name in ESTIMATED}
    for context in range(int(own.context.max()) + 1):
        rows = np.flatnonzero(own.context == context)
        here, seen = asked.take(rows), observe(own, priced, context)
        for name in ESTIMATED:
            level = _level(own, name, here, priced.take(own.ran(context)), context)
            for column, part in zip(levels[name], level, strict=True):
                column[rows] = part
            if seen is None:
                continue
            made = own_runs.update(here.places(name), seen, held=here.open_room(name))
            own_found = _shift(here.found[name], made, model)
            found[name] = found[name].put(rows, _held_beside(own_found, here.places(name), seen))
            if name == "tpot":
                tokens[rows] = made.accepted
            if name == "output_tok_s":
                told[rows] = made.told
    measured = {name: asked.baselines[name] * np.exp(level.log) for name, level in levels.items()}
    return found, measured, levels, tokens, told


def observe(own: RunCases, priced: Priced, context: int) -> Observations | None:
    """What own runs say of the model's misses in one context: each gain as a whole, and the part of
    it that their own acceptance explains. None where no run has a gain that can be predicted.
    """
    ran, stated = priced.take(own.ran(context)), priced.take(own.ran(context + len(own.busy)))
    parts = []
    for name in ESTIMATED:
        log, noise = _values([run.gains for run in own.runs], name)
        found, places = ran.found[name], ran.places(name)
        known = np.array([bool(run.accepted_length) for run in own.runs]) & (name != "ttft")
        accepted = np.where(known, stated.found[name].mean - found.mean, np.nan)
        usable = (found.sd > 0) & np.isfinite(log - found.mean)
        rows = np.flatnonzero(usable & np.isfinite(places.where).all(axis=1))
        miss, noise = log - found.mean, np.maximum(noise, LEAST_NOISE)
        columns = (*places, miss, noise, accepted, ran.open_room(name), log)
        parts.append([column[rows] for column in columns])
    where, left_open, sd, *rest = map(np.concatenate, zip(*parts, strict=True))
    return Observations(Places(where, left_open, sd), *rest) if len(where) else None


def _values(rows: Sequence[Sequence[tuple[str, float, float]]], name: str) -> Floats:
    """Value and sd of one metric in each row, NaN where it has none (2, M)."""
    return np.array(
        [next((part[1:] for part in row if part[0] == name), (np.nan, np.nan)) for row in rows]
    ).T


def _shift(found: Predicted, made: own_runs.Update, model: Model) -> Predicted:
    """A prediction with its mean moved and its interval narrowed."""
    off = found.sd == 0
    own = ~off & (made.scale < OWN_SHARE)
    scaled = {name: getattr(found, name) * made.scale for name in ("sd", "below", "above")}
    new = found.restate(
        ~off,
        model.p_gain,
        **scaled,
        mean=found.mean + made.shift,
        evidence=found.evidence * made.scale * made.kept,
        closeness=np.where(own, 1.0, found.closeness),
        basis=np.where(own, 0, found.basis).astype(np.int8),
        # the posterior itself holds what was measured
        measured_gain=np.fmax(found.measured_gain * made.kept, np.fmin(made.told / TOLD, 1.0)),
    )
    return new._replace(evidence=found.evidence)


def _held_beside(found: Predicted, there: Places, seen: Observations) -> Predicted:
    """The first token's gains with what was measured nearby within their intervals."""
    gap = own_runs.distances(there.where, seen.at.where)
    same = seen.at.where[:, own_runs.FIRST] * (gap[..., own_runs.METHOD :] == 0).all(axis=-1)
    near = same * np.exp(-gap[..., : own_runs.WORKLOAD].sum(axis=-1) / 2)
    toward = np.where(near.max(axis=1) > EVEN, np.exp(seen.log[near.argmax(axis=1)]), found.p50)
    return found._replace(
        p10=np.fmin(found.p10, toward),
        p90=np.fmax(found.p90, toward),
        p_gain=np.where((toward < found.p10) | (toward > found.p90), EVEN, found.p_gain),
    )


def _level(own: RunCases, name: str, here: Priced, ran: Priced, context: int) -> Level:
    """Measured over computed baselines of own plain runs, the nearest and surest most: exact but
    for its noise where one was run.
    """
    values, noise = _values([run.baseline for run in own.runs], name)
    shared = own.busy[context] if name == "output_tok_s" else 1.0
    log = np.log(values / shared / ran.baselines[name])
    rows = np.flatnonzero(np.isfinite(log))
    noise = np.maximum(noise[rows], own_runs.LEAST_SD)
    asked, run = here.places(name).where, ran.places(name).where[rows]
    near, gap = _near(asked, run), own_runs.distances(run, run)[..., LEVEL_MEASURES]
    weights = near @ np.linalg.inv(_near(run, run) + np.diag(noise**2))
    share = np.clip((weights * near).sum(axis=1), 0.0, 1.0)
    differ = (near * own_runs.disagreement(gap, log[rows], noise)).max(axis=1, initial=0.0)
    return Level(weights @ log[rows], share, np.sqrt((weights**2 * noise**2).sum(axis=1) + differ))


def _near(a: Floats, b: Floats) -> Floats:
    """How much a level at one place (A, 13) says of that at another (B, 13): 1 of the same."""
    return np.asarray(np.exp(-(own_runs.distances(a, b)[..., LEVEL_MEASURES] @ LEVEL_FADE)))
