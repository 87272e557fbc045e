"""One question and its plans -> an Estimate each: the predictor's numbers with levels and bills,
also of adaptive verification beside a fixed block of drafts, as published pairs measured it.

vLLM drafts the whole block either way and verifies as many of the likeliest drafts as its table of
step costs pays for: choosing costs a little at each step, and what it saves grows with the tokens
of a step, by which pairs are weighed. Not known: how well a drafter's confidence tells its hits.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from math import exp, hypot, inf, log, sqrt
from typing import Any

import numpy as np

from advisor.domain.normal import Z10, cdf, quantile
from advisor.domain.nouns import Estimate, Facts, Interval, MemoryBill, MetricEstimate, Plan
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.knowledge.rule_data import table
from advisor.perf import arrays, memory
from advisor.perf.arrays import Floats
from advisor.perf.encoding import own_cases
from advisor.perf.encoding.encode_plans import from_questions
from advisor.perf.encoding.things import of_cases
from advisor.perf.sizes import device
from advisor.prediction.artefact import load
from advisor.prediction.decision import goal_chances, plain_sd, token_wait
from advisor.prediction.model import Model
from advisor.prediction.predict import BASES, ERROR_CORRELATION, Story, as_one_story
from advisor.prediction.switches import with_overflow

NARROW = sourced(1.5, "ratio", "own choice: p90 over p10 of a size that is known", "chosen")


def estimate(facts: Facts, plans: Sequence[Plan], model: Model | None = None) -> list[Estimate]:
    """One estimate per plan, in order. Raises AdvisorError where the model file is missing."""
    if not plans:
        return []
    batch = predict_batch([(facts, plan) for plan in plans], model)
    return [batch.estimate(i) for i in range(len(plans))]


class Batch(NamedTuple):
    """What was computed for N cases at once, said as Estimates only when asked for."""

    cases: Sequence[tuple[Facts, Plan]]
    story: Story
    lengths: Floats  # 10th, 50th and 90th percentile of the tokens per step (3, N)
    chances: Floats  # of a gain, for the goal of each case

    def estimate(self, i: int, bill: MemoryBill | None = None) -> Estimate:
        """What is expected of one case; `bill`, where it is at hand, is its memory bill."""
        (facts, plan), story = self.cases[i], self.story
        made = {}
        for name, found in story.found.items():
            quantiles = {part: float(getattr(found, part)[i]) for part in ("p10", "p50", "p90")}
            speedup = Interval(**quantiles)
            base, plain = story.baselines[name][i], self._plain_sd(name, i, plan.tp * plan.pp)
            made[name] = with_levels(speedup, float(base), plain, name)
        basis = BASES[min(int(story.found[name].basis[i]) for name in ("output_tok_s", "tpot"))]
        low, middle, high = self.lengths[:, i].tolist()
        return Estimate(
            output_tok_s=made["output_tok_s"],
            tpot_ms=made["tpot"],
            ttft_ms=made["ttft"],
            accepted_length=Interval(p10=low, p50=middle, p90=high),
            p_gain=float(self.chances[i]),
            memory=bill if bill is not None else memory.bill(facts, plan),
            basis=basis,
            terms={name: round(float(value[i]), 4) for name, value in story.terms.items()},
            notes=_notes(facts, bool(story.belief.known[i])),
            measured_gain=float(story.found["output_tok_s"].measured_gain[i]),
            own_share=float(story.told[i]),
        )

    def _plain_sd(self, name: str, i: int, devices: int) -> float:
        """Sd of the level without speculation of case i, less where it was measured."""
        level = self.story.levels.get(name)
        share, sd = (level.share[i], level.sd[i]) if level is not None else (0.0, 0.0)
        return float(np.sqrt((1 - share) * plain_sd(name, devices) ** 2 + sd**2))


def with_levels(
    speedup: Interval, base: float, plain: float, name: str = "output_tok_s"
) -> MetricEstimate:
    """A speed-up with the level of both runs and their 80 % intervals; `base` is the run without
    speculation, in the metric's unit, and `plain` the sd of its log.
    """
    value = base * speedup.p50 if name == "output_tok_s" else base / speedup.p50
    # a time to first token can be told where the sign of its change is known, or its size
    signed = not speedup.p10 <= 1.0 <= speedup.p90
    return MetricEstimate(
        speedup=speedup,
        predictable=name != "ttft" or signed or speedup.p90 <= NARROW * speedup.p10,
        baseline=base,
        value=value,
        baseline_range=_around(base, plain),
        value_range=_around(value, hypot(plain, log(speedup.p90 / speedup.p10) / (2 * Z10))),
    )


def _around(value: float, sd: float) -> Interval:
    """The 80 % interval of a level whose log has this sd."""
    factor = float(np.exp(Z10 * sd))
    return Interval(p10=value / factor, p50=value, p90=value * factor)


def predict_batch(
    cases: Sequence[tuple[Facts, Plan]],
    model: Model | None = None,
    beside: arrays.Points | None = None,
) -> Batch:
    """All for at least one (facts, plan), in one go; of the points `beside` medians at most."""
    model = model or load()
    parts = [[*rows] for _, rows in groupby(cases, lambda case: id(case[0]))]
    points = from_questions([(rows[0][0], [plan for _, plan in rows]) for rows in parts])
    own = own_cases.of_cases(cases)
    story = as_one_story(points, model, lambda full: of_cases(cases, full), own, beside)
    spill = np.array([overflow_chance(*case) for case in cases]) * (1 - story.told)
    found = {
        name: with_overflow(one, spill) if name != "ttft" else one
        for name, one in story.found.items()
    }
    low, middle, high = story.belief.tau_at(-Z10), story.belief.tau, story.belief.tau_at(Z10)
    lengths = np.clip(np.stack([low, middle, high]) * np.exp(story.more), 1.0, story.belief.k + 1)
    wait = token_wait(story.queues, found["ttft"].p50)
    chances = goal_chances([facts.aim for facts, _ in cases], wait, found)
    return Batch(cases, story._replace(found=found), lengths, chances)


def overflow_chance(facts: Facts, plan: Plan) -> float:
    """The chance that a drafter makes slots overflow a device that holds them without it. A
    mixture's experts then lie in system memory, which physics prices (perf/host_memory.py).
    """
    if plan.method == "none" or not device.reserves(plan) or device.moves_experts(facts, plan):
        return 0.0
    return device.overflow_chance(memory.bill(facts, plan).short_gib or 0.0)


def _notes(facts: Facts, known: bool) -> tuple[str, ...]:
    given = "acceptance as given; later draft positions than it tells are inferred"
    prior = "acceptance is a prior from published measurements, not measured on this load"
    return (prior,) if not known else (given,) if facts.request is not None else ()


# ---------------------------------------------------------------- adaptive verification

OVERHEAD = sourced(
    (-0.06, 0.15),
    "log ratio, and its sd",
    "the middle of 4 to 32 requests in vllm#52362",
    "derived",
)
OWNER_SD = sourced(
    0.09, "log ratio", "between owners at 128 to 512 tokens a step: 0.06 to 0.19 apart", "derived"
)
RUN_SD = sourced(0.05, "log ratio", "noise of a run: 0.4 to 10 % (vllm#52228)", "read")


class Ratio(NamedTuple):
    """Log of adaptive over fixed output speed, with its standard deviation."""

    log: float
    sd: float
    most: float = inf  # gain that the steps of an answer leave room for
    keep: float = 1.0  # share of the other's log and width: 0 leaves what was measured

    def of_share(self, share: float, more: float, most: float = inf) -> "Ratio":
        """The ratio of a time of which it shortens a share, times a log gain of `more`."""
        part, rest = share * exp(-self.log), 1 - share
        return Ratio(more - log(rest + part), self.sd * part / (rest + part), most)

    def beside(self, more: float, other: Interval | None = None) -> float:
        """The probability that a log gain of `more` is one: over the same k, or over another k of a
        curve with this gain, of whose errors they share most.
        """
        own = log(other.p90 / other.p10) / (2 * Z10) if other is not None else 0.0
        return cdf(more / hypot(self.sd, own * sqrt(2 * (1 - ERROR_CORRELATION))))


def adaptive_row() -> Any:
    """The published runs of adaptive verification, its releases and blocks."""
    return table("regime")["adaptive_verification"][0]


@lru_cache(maxsize=1024)
def ratio_at(tokens: float, without: str = "") -> Ratio:
    """What pairs say of fixed steps of so many tokens: the mean of each owner but `without`, pairs
    a factor of two away at 0.6 of the weight.
    """
    runs = adaptive_row()["runs"]
    weights, values = [1 / OVERHEAD[1] ** 2], [OVERHEAD[0]]
    for owner in {each["owner"] for each in runs} - {without}:
        mine = [each for each in runs if each["owner"] == owner]
        pairs = [(n * (each["k"] + 1), y / x) for each in mine for n, x, y in each["tok_s"]]
        size, ratio = np.array(pairs).T
        near = np.exp(-(np.log2(size / tokens) ** 2) / 2)
        weights.append(near.max() / (OWNER_SD**2 + RUN_SD**2 * near.max() / near.sum()))
        values.append(float(np.average(np.log(ratio), weights=near)))
    mean = float(np.average(values, weights=weights))
    return Ratio(mean, hypot(float(sum(weights)) ** -0.5, OWNER_SD))


def times(estimate: Estimate, ratio: Ratio, tpot: Ratio) -> Estimate:
    """The estimate of a fixed block as one of adaptive verification, with the ratios of its output
    tok/s and TPOT; the first token's stays.
    """
    own = log(estimate.output_tok_s.speedup.p90 / estimate.output_tok_s.speedup.p10) / (2 * Z10)
    own *= ratio.keep
    z = quantile(min(max(estimate.p_gain, 1e-6), 1 - 1e-6)) * own + ratio.log
    return estimate.replace(
        output_tok_s=_scale(estimate.output_tok_s, ratio, "output_tok_s"),
        tpot_ms=_scale(estimate.tpot_ms, tpot, "tpot"),
        p_gain=cdf(z / hypot(own, ratio.sd)),
        basis="extrapolated",
    )


def _scale(metric: MetricEstimate, ratio: Ratio, name: str) -> MetricEstimate:
    span, around = metric.speedup, metric.baseline_range
    low, middle, high = ratio.keep * np.log((span.p10, span.p50, span.p90)) + ratio.log
    below, above = (hypot(part, Z10 * ratio.sd) for part in (middle - low, high - middle))
    ends = (middle - below, middle, middle + above)
    p10, p50, p90 = map(float, np.fmin(np.exp(ends), ratio.most))
    speedup = Interval(p10=p10, p50=p50, p90=p90)
    if metric.baseline is None or around is None:
        return metric.replace(speedup=speedup)
    return with_levels(speedup, metric.baseline, log(around.p90 / around.p10) / (2 * Z10), name)
