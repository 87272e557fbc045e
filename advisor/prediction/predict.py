"""models/speedup.json + physics -> predictions of points: of each point's own metric
(`predict_points`), or of all three with what a queue, the user's own runs and documented losses add
(`as_one_story`). A question and a table take the same road, so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from advisor.domain.nouns import Basis
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.perf import arrays, schedule
from advisor.perf.arrays import Floats, Mask
from advisor.perf.regimes.setting import Setting
from advisor.prediction import acceptance as acc
from advisor.prediction import documented, intervals, neighbours, step_terms
from advisor.prediction.artefact import load
from advisor.prediction.cell_pairs import Pull
from advisor.prediction.decision import ESTIMATED
from advisor.prediction.intervals import Predicted, chance, measured_gain, posterior
from advisor.prediction.model import Model, Raw, prepare
from advisor.prediction.spread import REASONS, count_imputed
from advisor.prediction.threads import one_thread, within

if TYPE_CHECKING:
    from advisor.perf.encoding.own_cases import RunCases
    from advisor.prediction import calibrated

BASES: tuple[Basis, ...] = ("measured", "interpolated", "extrapolated", "physics")
PIECE = 32768  # points computed at once in a large table  # pragma: no mutate
FAR = sourced(
    2, "numbers", "Imputed ones from which a measured configuration is extrapolated", "chosen"
)

ERROR_CORRELATION = sourced(
    0.8, "correlation", "Left-out errors of two candidates of a sweep over k", "measured"
)
NO_GAIN = sourced(
    0.1, "probability", "of a gain where requests end before drafts help: by its interval", "chosen"
)


def predict_points(
    points: arrays.Points, model: Model | None = None, hide: bool = False, exact: bool = False
) -> Predicted:
    """Predict each point's own metric. No speculation (method none) is exactly 1. `hide` leaves out
    stated acceptances; `exact` takes them as they are, which is for questions: published ones are
    noisy.
    """
    model = model or load()

    def one(rows: slice) -> Predicted:
        part = points if rows.stop - rows.start >= len(points) else points.take(rows)
        raw = _exact_raw(model, part, [part.metric]) if exact else model.raw(part, hide)
        return _finish(model, part, raw.full, raw)

    return in_pieces(one, len(points))


def in_pieces(predict: Callable[[slice], Predicted], count: int) -> Predicted:
    """What `predict` makes of `count` points, of so many at once that their arrays stay in the
    cache, in two threads: numpy releases the lock.
    """
    if count <= PIECE:
        with one_thread():
            return predict(slice(0, count))
    from concurrent.futures import ThreadPoolExecutor

    starts = range(0, count, PIECE)
    with one_thread(), ThreadPoolExecutor(2, initializer=within) as pool:
        found = list(pool.map(predict, (slice(i, min(i + PIECE, count)) for i in starts)))
    return Predicted(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _finish(model: Model, points: arrays.Points, full: arrays.Points, raw: Raw) -> Predicted:
    """Predictions of each point's metric, (M * N,); the belief in acceptance stays (N,)."""
    times = len(points) // max(len(raw.belief.known), 1)
    mean, sd, known = raw.mean, raw.sd, np.tile(raw.belief.known, times)
    pull = Pull.none(len(mean))._replace(mean=mean)
    if model.nearby is not None:
        keys, where = neighbours.cell_keys(points, full), neighbours.coordinates(points, full)
        pull = model.nearby.pull(keys, where, mean, known)
    mean, evidence, closeness, near, longer = pull
    low, high = model.interval(mean, sd, known)
    # an answer of one token ends with the prompt: no step follows that could be shorter
    steps = (points.metric == arrays.METRICS.index("tpot")) | (
        points.metric == arrays.METRICS.index("request_tok_s")
    )
    ends = full.output_tokens <= 1
    off = (points.method == 0) | (full.k <= 0) | (ends & steps)
    no_gain = ends & (points.metric == arrays.METRICS.index("output_tok_s"))
    mean, low, high = (np.where(no_gain, np.fmin(value, 0.0), value) for value in (mean, low, high))
    mean, low, high = (np.where(off, 0.0, value) for value in (mean, low, high))
    below, above = mean - low, high - mean
    made = posterior(mean, low, high, chance(model.p_gain(mean, sd, known), evidence, closeness))
    p_gain = np.where(off, 0.5, np.where(no_gain, np.fmin(made.p_gain, NO_GAIN), made.p_gain))
    quantiles = (np.where(no_gain, np.fmin(value, 0.0), value) for value in made[:3])
    seen = np.isin(full.path, model.paths_seen) & np.isin(full.method, model.methods_seen)
    far = ~near | (count_imputed(points) >= FAR)
    basis = np.select([closeness >= 1, ~seen, far], [0, 3, 2], default=1).astype(np.int8)
    p10, p50, p90 = (np.exp(np.where(off, 0.0, value)) for value in quantiles)
    sd = np.where(off, 0.0, sd)
    tau = np.tile(raw.belief.tau, times)
    doubt = np.where(off, 0.0, raw.reasons[:, REASONS.index("tokens")])
    return Predicted(
        *(p10, p50, p90, p_gain, basis, tau, mean, sd, evidence, below, above, known),
        *(closeness, measured_gain(np.fmax(closeness, longer), evidence), doubt),
    )


class Medians(NamedTuple):
    """Of M points: tokens per step, and the log speed-up of each metric before the chance of a gain
    is known, which causes add up in. (M,) each.
    """

    tau: Floats
    means: Mapping[str, Floats]

    def at(self, i: int) -> tuple[float, dict[str, float]]:
        """Tokens per step and speed-up of each metric of a point, before the chance of a gain."""
        return float(self.tau[i]), {name: float(np.exp(v[i])) for name, v in self.means.items()}


class Story(NamedTuple):
    """What is expected of N points in all three metrics, as one story."""

    found: dict[str, Predicted]  # by metric
    baselines: dict[str, Floats]  # the run without speculation, in the metric's unit
    terms: dict[str, Floats]
    belief: acc.AcceptanceBelief
    beside: Medians  # of the points beside them
    more: Floats  # log of the tokens a step that the own runs add (N,)
    told: Floats  # share of the variance that they explain (N,)
    levels: Mapping[str, calibrated.Level]  # what they say of the baselines; empty without any

    @property
    def queues(self) -> Mask:
        """Where memory holds fewer requests with speculation than without (N,)."""
        return np.asarray(self.terms["requests_verify"] < self.terms["requests_base"])


def as_one_story(
    points: arrays.Points,
    model: Model,
    setting: Callable[[arrays.Points], Setting],
    own: RunCases | None = None,
    beside: arrays.Points | None = None,
) -> Story:
    """The prediction of each metric with the queue where memory holds fewer requests, with the
    user's own runs, and with what is documented of the regime, as far as the own runs leave open.
    `setting` makes the settings of the filled points; of the points `beside` only the medians are
    found.
    """
    count = len(points)
    parts = [points, *((own.points,) if own is not None else ())]
    priced = slice(0, sum(map(len, parts)))
    parts += [beside] if beside is not None else []
    whole = arrays.concat(parts) if len(parts) > 1 else points
    every, full, belief = all_metrics(whole, model)
    rest = slice(priced.stop, len(whole))
    others = Medians(belief.tau[rest], {name: one.mean[rest] for name, one in every.items()})
    full, belief = full.take(priced), belief.take(priced)
    found = {name: one.take(priced) for name, one in every.items()}
    base = schedule.replay(full, model.speeds, belief.tau, "base")
    baselines = {
        "output_tok_s": base.output_tok_s,
        "tpot": base.tpot_s * 1e3,
        "ttft": base.ttft_s * 1e3,
    }
    terms = step_terms.terms(full, model)
    found |= step_terms.crowded_gains(found, baselines, full, terms, belief.tau, model)
    more, told = np.zeros(count), np.zeros(count)
    levels: Mapping[str, calibrated.Level] = {}
    if own is not None:
        from advisor.prediction import calibrated  # start-up: only with own runs

        crowded = np.asarray(terms["requests_verify"] < terms["requests_base"])
        computed = calibrated.Priced(whole.take(priced), full, found, baselines, crowded)
        found, baselines, levels, more, told = calibrated.with_own_runs(own, computed, model)
        rows = slice(0, count)
        full, belief = full.take(rows), belief.take(rows)
        terms = {name: term[rows] for name, term in terms.items()}
    story = Story(found, baselines, terms, belief, others, more, told, levels)
    seen = documented.observe(setting(full), full)
    seen = seen._replace(sd=seen.sd / np.sqrt(1 - told))
    waiting = np.fmax(1 - terms["requests_verify"] / terms["requests_base"], 0.0)
    found = documented.take_in(found, seen, baselines, full, waiting, model)
    return story._replace(
        found={
            name: intervals.within_tokens(one, np.full(count, name == "ttft"), full)
            for name, one in found.items()
        }
    )


def all_metrics(
    points: arrays.Points, model: Model
) -> tuple[dict[str, Predicted], arrays.Points, acc.AcceptanceBelief]:
    """The prediction of each of the three metrics, the filled points and what is believed of
    acceptance, (N,) each.

    What does not depend on the metric is worked out once. From there all metrics go through in one
    call, one below the other: for a few points the number of calls is what costs.
    """
    count = len(points)
    metrics = [np.full(count, arrays.METRICS.index(name), dtype=np.int16) for name in ESTIMATED]
    rows, metric = np.tile(np.arange(count), len(metrics)), np.concatenate(metrics)
    with one_thread():
        raw = _exact_raw(model, points, metrics)
        asked, full = (one.take(rows).replace(metric=metric) for one in (points, raw.full))
        whole = _finish(model, asked, full, raw)
    found = {
        name: whole.take(slice(i * count, (i + 1) * count)) for i, name in enumerate(ESTIMATED)
    }
    return found, raw.full, raw.belief


def _exact_raw(model: Model, points: arrays.Points, metrics: Sequence[arrays.Codes]) -> Raw:
    """`Model.raw` of M metrics of each point, with each stated acceptance exactly as stated."""
    ready, full = prepare(points)
    belief = intervals.pin_acceptance(acc.believe(model.acceptance, ready), ready)
    return model.price(points, full, belief, metrics)
