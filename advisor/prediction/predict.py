"""models/speedup.json + physics -> estimates. Numpy only; the artefact is read once.

Two doors: `estimate` for one question and some plans, `predict_points` for arrays (predict_table
brings rows of a table there). Both take the same road, so a batch and a recommendation cannot
disagree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.domain.normal import Z10
from advisor.domain.nouns import (
    Basis,
    Estimate,
    Facts,
    Goal,
    Interval,
    MemoryBill,
    MetricEstimate,
    Plan,
)
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf import arrays, memory, schedule
from advisor.perf.encode_plans import from_questions
from advisor.prediction import acceptance as acc
from advisor.prediction import calibrated, neighbours, step_terms
from advisor.prediction.artefact import load
from advisor.prediction.decision import PLAIN_SD
from advisor.prediction.goals import ESTIMATED, GOAL_WEIGHTS, goal_chances, judged_goal
from advisor.prediction.intervals import Predicted, chance, posterior
from advisor.prediction.model import Model, Raw, log_physics, of_metric, prepare
from advisor.prediction.spread import REASONS, count_imputed
from advisor.prediction.threads import one_thread

Floats = npt.NDArray[np.float64]

BASES: tuple[Basis, ...] = ("measured", "interpolated", "extrapolated", "physics")
PIECE = 16384  # points computed at once in a large table
FAR = sourced(
    2,
    "numbers",
    "Imputed numbers from which a row of a measured configuration still counts as extrapolated",
    "chosen",
)


# Two candidates of one machine and model share most of the error: correlation of left-out errors
# within sweeps over k.
ERROR_CORRELATION = sourced(
    0.8,
    "correlation",
    "Left-out errors within sweeps over k, see above",
    "measured",
)


def predict_points(
    points: arrays.Points, model: Model | None = None, hide: bool = False
) -> Predicted:
    """Predict each point's own metric. `hide` ignores stated acceptances. No speculation (method
    none) is exactly 1.
    """
    model = model or load()
    if len(points) <= PIECE:
        with one_thread():
            return _finish(model, points, model.raw(points, hide))
    from concurrent.futures import ThreadPoolExecutor

    starts = range(0, len(points), PIECE)
    parts = [points.take(np.arange(i, min(i + PIECE, len(points)))) for i in starts]
    with (
        one_thread(),
        ThreadPoolExecutor(2) as pool,
    ):  # numpy releases the lock; pieces also stay in the cache
        found = list(pool.map(lambda part: _finish(model, part, model.raw(part, hide)), parts))
    return Predicted(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _finish(model: Model, points: arrays.Points, raw: Raw) -> Predicted:
    mean, sd, known = raw.mean, raw.sd, raw.belief.known
    closeness, near = np.zeros(len(mean)), np.zeros(len(mean), dtype=bool)
    evidence = np.zeros(len(mean))
    if model.nearby is not None:
        keys = neighbours.cell_keys(points, raw.full)
        pull = model.nearby.pull(keys, neighbours.coordinates(points, raw.full), mean)
        mean, evidence, closeness, near = pull
    low, high = model.interval(mean, sd, known)
    # an answer of one token ends with the prompt: no step follows that could be shorter
    steps = (points.metric == arrays.METRICS.index("tpot")) | (
        points.metric == arrays.METRICS.index("request_tok_s")
    )
    ends = raw.full.output_tokens <= 1
    off = (points.method == 0) | (raw.full.k <= 0) | (ends & steps)
    no_gain = ends & (points.metric == arrays.METRICS.index("output_tok_s"))
    mean, low, high = (np.where(no_gain, np.fmin(value, 0.0), value) for value in (mean, low, high))
    mean, low, high = (np.where(off, 0.0, value) for value in (mean, low, high))
    below, above = mean - low, high - mean
    made = posterior(mean, low, high, chance(model.p_gain(mean, sd, known), evidence, closeness))
    p_gain = np.where(off, 0.5, np.where(no_gain, np.fmin(made.p_gain, 0.1), made.p_gain))
    quantiles = (np.where(no_gain, np.fmin(value, 0.0), value) for value in made[:3])
    basis = _basis(model, raw, points, closeness >= 1, near)
    p10, p50, p90 = (np.exp(np.where(off, 0.0, value)) for value in quantiles)
    sd = np.where(off, 0.0, sd)
    tau = raw.belief.tau
    doubt = np.where(off, 0.0, raw.reasons[:, REASONS.index("tokens")])
    return Predicted(
        p10, p50, p90, p_gain, basis, tau, mean, sd, evidence, below, above, known, closeness, doubt
    )


def _basis(
    model: Model,
    raw: Raw,
    points: arrays.Points,
    covered: npt.NDArray[np.bool_],
    near: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int8]:
    seen = np.isin(raw.full.path, model.paths_seen) & np.isin(raw.full.method, model.methods_seen)
    far = ~near | (count_imputed(points) >= FAR)
    return np.select([covered, ~seen, far], [0, 3, 2], default=1).astype(np.int8)


# ---------------------------------------------------------------- one question


def estimate(facts: Facts, plans: Sequence[Plan], model: Model | None = None) -> list[Estimate]:
    """One estimate per plan, in order. Raises AdvisorError where the model file is missing."""
    return estimate_many([(facts, plan) for plan in plans], model)


def estimate_many(
    cases: Sequence[tuple[Facts, Plan]], model: Model | None = None
) -> list[Estimate]:
    """One estimate per (facts, plan): loads and plans may differ."""
    if not cases:
        return []
    batch = predict_batch(cases, model)
    return [batch.estimate(i) for i in range(len(cases))]


def medians(
    cases: Sequence[tuple[Facts, Plan]], model: Model | None = None
) -> tuple[Floats, dict[str, Floats]]:
    """What `estimate` says of some cases in the middle, without the rest of an estimate: tokens per
    step (N,), and the speed-up of each metric (N,), a ratio; keys as in `ESTIMATED`. Nothing that
    is documented beside measured runs is taken in.
    """
    found, _, belief = _all_metrics(_points(cases), model or load())
    return belief.tau[: len(cases)], {name: one.p50 for name, one in found.items()}


class Batch(NamedTuple):
    """What was computed for N cases at once. Each is said as an Estimate when it is asked for: of
    many nobody asks.
    """

    cases: Sequence[tuple[Facts, Plan]]
    found: Mapping[str, Predicted]  # by metric
    baselines: Mapping[str, Floats]
    lengths: tuple[Floats, Floats, Floats]  # 10th, 50th and 90th percentile of the tokens per step
    known: npt.NDArray[np.bool_]  # whether an acceptance was stated
    chances: Floats  # of a gain, for the goal of each case
    terms: Mapping[str, Floats]

    def estimate(self, i: int, bill: MemoryBill | None = None) -> Estimate:
        """What is expected of one case; `bill`, where it is at hand, is its memory bill."""
        facts, plan = self.cases[i]
        made = {}
        for name in ESTIMATED:
            speedup, base = _interval(self.found[name], i), float(self.baselines[name][i])
            made[name] = with_levels(name, speedup, base)
        basis = BASES[min(int(self.found[name].basis[i]) for name in ("output_tok_s", "tpot"))]
        low, middle, high = (float(length[i]) for length in self.lengths)
        return Estimate(
            output_tok_s=made["output_tok_s"],
            tpot_ms=made["tpot"],
            ttft_ms=made["ttft"],
            accepted_length=Interval(p10=low, p50=middle, p90=high),
            p_gain=float(self.chances[i]),
            memory=bill if bill is not None else memory.bill(facts, plan),
            basis=basis,
            terms={name: round(float(value[i]), 4) for name, value in self.terms.items()},
            notes=_notes(facts, bool(self.known[i])),
            closeness=float(self.found["output_tok_s"].closeness[i]),
        )


def with_levels(name: str, speedup: Interval, base: float) -> MetricEstimate:
    """A speed-up with the level of both runs and their 80 % intervals; `base` is the run without
    speculation, in the metric's unit.
    """
    value = base * speedup.p50 if name == "output_tok_s" else base / speedup.p50
    plain = knowledge.threshold(PLAIN_SD["ttft" if name == "ttft" else "tpot"]).value
    ratio = float(np.log(speedup.p90 / speedup.p10)) / (2 * Z10)
    return MetricEstimate(
        speedup=speedup,
        baseline=base,
        value=value,
        baseline_range=_around(base, plain),
        value_range=_around(value, float(np.hypot(plain, ratio))),
    )


def _around(value: float, sd: float) -> Interval:
    """The 80 % interval of a level whose log has this sd."""
    factor = float(np.exp(Z10 * sd))
    return Interval(p10=value / factor, p50=value, p90=value * factor)


def predict_batch(cases: Sequence[tuple[Facts, Plan]], model: Model | None = None) -> Batch:
    """All that is computed for at least one (facts, plan), in one go."""
    model = model or load()
    points = _points(cases)
    found, full, belief = _all_metrics(points, model)
    base = schedule.replay(full, model.speeds, belief.tau[: len(cases)], "base")
    baselines = {
        "output_tok_s": base.output_tok_s,
        "tpot": base.tpot_s * 1e3,
        "ttft": base.ttft_s * 1e3,
    }
    lengths = (belief.tau_at(-1.2816), belief.tau, belief.tau_at(1.2816))
    if cases[0][0].own_runs:
        own = calibrated.with_own_runs(
            cases[0][0].own_runs, found, baselines, points, full, model, predict_points
        )
        found, baselines = own.found, own.baselines
        low, middle, high = (
            np.clip(length[: len(cases)] * np.exp(own.tokens), 1.0, full.k + 1)
            for length in lengths
        )
        lengths = (low, middle, high)
    tau = belief.tau[: len(cases)]
    terms = step_terms.terms(full, model, tau)
    found |= step_terms.crowded_gains(found, baselines, full, terms, tau, model)
    crowded = terms["requests_verify"] < terms["requests_base"]
    goals = [
        judged_goal(facts.goal or "balanced", bool(waits))
        for (facts, _), waits in zip(cases, crowded, strict=True)
    ]
    chances = goal_chances(goals, found)
    return Batch(cases, found, baselines, lengths, belief.known, chances, terms)


def _all_metrics(
    points: arrays.Points, model: Model
) -> tuple[dict[str, Predicted], arrays.Points, acc.Acceptance]:
    """The prediction of each of the three metrics (N,), the filled points (N,), and what is
    believed of acceptance (3N,).

    All metrics go through in one call, one below the other: for a few points the number of calls is
    what costs.
    """
    count = len(points)
    metric = np.repeat([arrays.METRICS.index(name) for name in ESTIMATED], count).astype(np.int16)
    asked = points.take(np.tile(np.arange(count), len(ESTIMATED))).replace(metric=metric)
    ready, full = prepare(asked)
    with one_thread():
        belief = acc.believe(model.acceptance, ready)
        by_metric = log_physics(full, model.constants, belief.tau)
        whole = _finish(
            model,
            asked,
            model.with_doubt(asked, full, belief, of_metric(by_metric, full.metric)),
        )
    found = {name: _part(whole, i * count, (i + 1) * count) for i, name in enumerate(ESTIMATED)}
    return found, full.take(np.arange(count)), belief


def _part(whole: Predicted, start: int, stop: int) -> Predicted:
    columns: Any = (column[start:stop] for column in whole)
    return Predicted(*columns)


def goal_medians(points: arrays.Points, goal: Goal, model: Model | None = None) -> Floats:
    """Median speed-up of N points for a goal (balanced: the weighted geometric mean): what a search
    over loads asks.
    """
    return np.asarray(np.exp(goal_logs(points, goal, model)[1]), dtype=np.float64)


def goal_logs(
    points: arrays.Points, goal: Goal, model: Model | None = None
) -> tuple[Floats, Floats, Floats]:
    """10th, 50th and 90th percentile of the log speed-up of N points for a goal, each (N,)."""
    found, _, _ = _all_metrics(points, model or load())

    def mix(column: str) -> Floats:
        parts = zip(GOAL_WEIGHTS[goal], ESTIMATED, strict=True)
        return np.asarray(
            sum(w * np.log(getattr(found[name], column)) for w, name in parts), dtype=np.float64
        )

    return mix("p10"), mix("p50"), mix("p90")


def _points(cases: Sequence[tuple[Facts, Plan]]) -> arrays.Points:
    parts: list[tuple[Facts, list[Plan]]] = []
    start = 0
    for stop in range(1, len(cases) + 1):
        if stop == len(cases) or cases[stop][0] is not cases[start][0]:
            parts.append((cases[start][0], [plan for _, plan in cases[start:stop]]))
            start = stop
    return from_questions(parts)


def _interval(found: Predicted, i: int) -> Interval:
    return Interval(p10=float(found.p10[i]), p50=float(found.p50[i]), p90=float(found.p90[i]))


def _notes(facts: Facts, known: bool) -> tuple[str, ...]:
    out = []
    if not known:
        out.append("acceptance is a prior from published measurements, not measured on this load")
    elif facts.request is not None:
        out.append("acceptance as given was combined with the prior")
    return tuple(out)
