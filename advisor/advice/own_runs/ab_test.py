"""The verdict on an A/B of speculation: what it gained, why, and what to try next."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from advisor.advice import judge
from advisor.advice.decide import METRICS
from advisor.advice.own_runs import ab_reasons
from advisor.advice.own_runs.ab_reasons import tokens_per_step
from advisor.advice.own_runs.calibration import check_bandwidth
from advisor.advice.own_runs.setting import OwnSetting
from advisor.advice.plans import propose
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import AdvisorError, Facts, Goal, Plan, Request
from advisor.domain.sourced import sourced
from advisor.prediction.decision import GOAL_WEIGHTS
from advisor.readers.results import arms
from advisor.readers.results.run import BenchmarkRun, ResultModel

WORTH = sourced(0.03, "log gain", "a predicted gain from which another k is worth a run", "chosen")

# the metric that a goal pays for; balanced: throughput, or TPOT where the load was offered
_LEADS: dict[Goal, arms.Metric] = {"throughput": "output_tok_s", "tpot": "tpot", "ttft": "ttft"}
SHARES = ("p50", "p90", "p99")
Direction = Literal["faster", "slower", "no difference"]
Verdict = Literal["faster", "slower", "no difference", "mixed", "no figure", "not comparable"]


class ComparedGain(ResultModel):
    """One metric: values of both arms, the ratio (above 1 is faster) and its 95 % interval."""

    metric: str
    off: float
    on: float
    gain: float
    low: float
    high: float
    noise: str
    verdict: Direction


class Percentiles(ResultModel):
    """P50, P90 and P99 of a latency in both arms, ms: means over repeats, None where not stated."""

    metric: str
    off: tuple[float | None, float | None, float | None]
    on: tuple[float | None, float | None, float | None]


class LoadVerdict(ResultModel):
    """One load of an A/B."""

    load: str
    differences: tuple[str, ...] = ()
    gains: tuple[ComparedGain, ...] = ()
    percentiles: tuple[Percentiles, ...] = ()
    step: ab_reasons.Step | None = None
    why: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()
    next: str | None = None

    @property
    def comparable(self) -> bool:
        """Whether the two runs differ in nothing but speculation."""
        return not self.differences


class AbReport(ResultModel):
    """The whole answer."""

    verdict: Verdict
    loads: tuple[LoadVerdict, ...]
    setting: str
    notes: tuple[str, ...] = ()


def judge_ab(
    off: Sequence[BenchmarkRun], on: Sequence[BenchmarkRun], setting: OwnSetting
) -> AbReport:
    """The report. Raises AdvisorError where the arms are no A/B, or none that the device can do."""
    arms.check_order(off, on)
    loads = tuple(_load(a, b, setting) for a, b in arms.pairs(off, on))
    notes = []
    if not any(run.speculates for run in on):
        notes.append("neither file records drafts: the second is taken as the run with speculation")
    if setting.problem:
        notes.append(f"not compared with a prediction: {setting.problem}")
    elif setting.k is None:
        notes.append("not compared with a prediction: the files do not say k: give --k N")
    verdicts = {load.gains[0].verdict for load in loads if load.comparable and load.gains}
    verdict: Verdict = "mixed" if len(verdicts) > 1 else next(iter(verdicts), "no figure")
    if not any(load.comparable for load in loads):
        verdict = "not comparable"
    text = "unknown"
    if (request := setting.request) is not None:
        engine, k = request.engine or "default engine", f" k={setting.k}" if setting.k else ""
        text = f"{request.model} on {request.hardware}, {engine}, {setting.method}{k}"
    return AbReport(verdict=verdict, loads=loads, setting=text, notes=tuple(notes))


def _load(
    off: Sequence[BenchmarkRun], on: Sequence[BenchmarkRun], setting: OwnSetting
) -> LoadVerdict:
    load = _load_text(on[0] if on[0].concurrency else off[0], off[0].part == on[0].part)
    if unlike := arms.unlike(off, on):
        return LoadVerdict(load=load, differences=tuple(unlike))
    offered = any(run.request_rate for run in (*off, *on))
    lead: arms.Metric = _LEADS.get(setting.goal) or ("tpot" if offered else "output_tok_s")
    gains = sorted(arms.gains(off, on), key=lambda gain: gain.metric != lead)
    step, facts, plan = _step(on, gains, setting)
    if facts is not None and off[0].concurrency:
        both = {gain.metric: (gain.off, gain.on) for gain in gains}
        check_bandwidth(both, off[0].concurrency, facts, tokens_per_step(on, setting.k))
    compared = []
    for gain in gains:
        low, high = gain.interval()
        same = {name: getattr(gain, name) for name in ("metric", "off", "on", "noise", "verdict")}
        compared.append(ComparedGain(gain=gain.ratio, low=low, high=high, **same))
    return LoadVerdict(
        load=load,
        gains=tuple(compared),
        percentiles=tuple(_percentiles(off, on)),
        step=step,
        why=tuple(ab_reasons.why(off, on, gains, step, plan, setting.goal)),
        weak=tuple(arms.weak_points(off, on)),
        next=_next(on, gains, setting, plan) if plan is not None and step is not None else None,
    )


def _load_text(run: BenchmarkRun, part_is_load: bool) -> str:
    """The load of a run; its part of the file where both arms have one of that name."""
    parts = [
        f"{round(run.concurrency, 1):g} concurrent" if run.concurrency else "",
        f"{run.input_tokens:.0f} prompt" if run.input_tokens else "",
        f"{run.output_tokens:.0f} output tokens" if run.output_tokens else "",
    ]
    text = ", ".join(part for part in parts if part)
    return text or (run.part if part_is_load else "") or "load not stated"


def _percentiles(off: Sequence[BenchmarkRun], on: Sequence[BenchmarkRun]) -> Iterator[Percentiles]:
    for metric in ("ttft", "tpot", "itl"):
        sides: list[Any] = []
        for arm in (off, on):
            times = [time for run in arm if (time := getattr(run, f"{metric}_ms"))]
            stated = ([t for one in times if (t := getattr(one, name))] for name in SHARES)
            sides.append(tuple(sum(row) / len(row) if row else None for row in stated))
        if all(any(side) for side in sides):
            yield Percentiles(metric=metric, off=sides[0], on=sides[1])


def question(request: Request, setting: OwnSetting) -> tuple[Facts, Plan, list[Plan]]:
    """Facts, the plan of the runs, others of the method. Raises AdvisorError if none runs."""
    facts = facts_for_request(request)
    asked = judge.candidate_plans(facts)
    plans = [plan for plan in asked.plans if plan.method == setting.method]
    plan = next((plan for plan in plans if plan.k == setting.k), None)
    if plan is None:
        k = setting.k or (plans[0].k if plans else 2)
        plan = propose.with_method(facts, asked.base.plan, setting.method, k)
    return facts, plan, [other for other in plans if other.k != plan.k]


def _step(
    on: Sequence[BenchmarkRun], gains: Sequence[arms.Gain], setting: OwnSetting
) -> tuple[ab_reasons.Step | None, Facts | None, Plan | None]:
    """A step as measured, and as expected where the setting is known."""
    tokens = tokens_per_step(on, setting.k)
    tpot = next((g for g in gains if g.metric == "tpot"), None)
    cycle = tokens / tpot.ratio if tokens and tpot else None
    measured = ab_reasons.Step(tokens_per_step=tokens, cycle_ratio=cycle)
    with suppress(AdvisorError):
        if setting.request is not None and setting.k is not None:
            facts, plan, _ = question(setting.request, setting)
            estimate = judge.estimate_plans(facts, [plan])[0]
            length, speedup = estimate.accepted_length, estimate.tpot_ms.speedup
            expected = {
                "expected_tokens": (length.p10, length.p50, length.p90),
                "expected_cycle_ratio": length.p50 / speedup.p50,
                "expected_gain": (speedup.p10, speedup.p50, speedup.p90),
            }
            return measured.model_copy(update=expected), facts, plan
    return (measured if tokens else None), None, None


def _next(
    on: Sequence[BenchmarkRun], gains: Sequence[arms.Gain], setting: OwnSetting, plan: Plan
) -> str | None:
    """The draft length with the largest expected gain over the measured one, or off."""
    if setting.request is None:
        return None
    request = setting.request.replace(**acceptance_fields(on, plan.k))
    try:
        facts, _, others = question(request, setting)
        plans = [plan, *(other for other in others if other.k != plan.k)]
        rows = judge.estimate_plans(facts, plans)
    except AdvisorError:
        return None
    weights = dict(zip(METRICS, GOAL_WEIGHTS[setting.goal], strict=True))
    logs = [
        sum(w * math.log(getattr(row, name).speedup.p50) for name, w in weights.items() if w)
        for row in rows
    ]
    best = max(range(len(logs)), key=lambda i: logs[i])
    more = logs[best] - logs[0]
    if gains and gains[0].verdict == "slower" and gains[0].log + max(more, 0.0) < 0:
        return (
            "turn speculation off at this load: no draft length is expected to make up "
            f"{math.exp(-gains[0].log) - 1:.0%}"
        )
    if best == 0 or more < WORTH:
        return None
    gain = f"{math.exp(more) - 1:+.0%}"
    return f"k={plans[best].k} instead of {plan.k}: expected {gain} over this run"


def acceptance_fields(on: Sequence[BenchmarkRun], k: int | None) -> Mapping[str, Any]:
    """The fields of Request that say what was accepted; nothing where the runs do not."""
    for run in on:
        if run.acceptance and run.acceptance.by_position:
            rates = run.acceptance.by_position[:16]
            before = (1.0, *rates[:-1])
            each = tuple(
                min(a / b, 1.0) if b > 0 else 0.0 for a, b in zip(rates, before, strict=True)
            )
            return {"acceptance": each, "acceptance_length": None, "acceptance_k": None}
    length = tokens_per_step(on, k)
    if length is None or (k and length > k + 1):
        return {}
    return {"acceptance": None, "acceptance_length": length, "acceptance_k": k}
