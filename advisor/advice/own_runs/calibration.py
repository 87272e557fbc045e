"""From benchmark files to own runs of a machine, what they change of an answer, and what to
measure next.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from advisor.advice import judge
from advisor.advice.own_runs import machine as machines
from advisor.advice.own_runs.ab_test import question, tokens_per_step
from advisor.advice.own_runs.machine import Machine, MachineRun, MetricGain, today
from advisor.advice.own_runs.setting import Setting, setting
from advisor.advice.resolve import facts_for_request
from advisor.domain.facts import OwnRun
from advisor.domain.nouns import Advice, AdvisorError, Facts, Interval, Plan, Reason, Request
from advisor.domain.sourced import sourced
from advisor.prediction import estimates
from advisor.prediction.own_runs import LEAST_SD
from advisor.readers.results import arms
from advisor.readers.results.run import BenchmarkRun

LOADS = (1, 4, 16, 64)

WORTH = sourced(
    0.98,
    "share of the width",
    "a measurement that narrows the interval less is not worth naming",
    "chosen",
)

ENOUGH = sourced(
    0.2,
    "log width of the 80 % interval",
    "below it another run decides nothing",
    "chosen",
)


def runs_of(
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
    setting: Setting,
    counters: Sequence[BenchmarkRun] = (),
) -> list[MachineRun]:
    """The own runs of files, one a load. Raises AdvisorError where the arms are no A/B or the
    setting is unknown.
    """
    if setting.request is None:
        raise AdvisorError("to calibrate, give " + " and ".join(setting.missing))
    if not on:
        return [_run(arm, (), setting, counters) for arm in arms.by_load(off).values()]
    arms.check_order(off, on)
    out = []
    for left, right in arms.pairs(off, on):
        if unlike := arms.unlike(left, right):
            raise AdvisorError("the two runs differ in more than speculation: " + "; ".join(unlike))
        out.append(_run(left, right, setting, counters))
    return out


def _run(
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
    setting: Setting,
    counters: Sequence[BenchmarkRun],
) -> MachineRun:
    request = setting.request
    if request is None:
        raise AdvisorError("to calibrate, give the setting")
    one = off[0]
    facts = facts_for_request(request)
    values = {name: one.value(name) for name in arms.METRICS}
    accepted = next((run.acceptance for run in (*on, *counters) if run.acceptance), None)
    if on and not setting.k:
        raise AdvisorError(
            "how many tokens were drafted a step? give --k, or --launch with the file that ran"
        )
    return MachineRun(
        date=_date((*off, *on)),
        model=request.model,
        engine=facts.engine or "vllm",
        engine_version=facts.engine_version,
        quant=facts.quant.id if facts.quant else None,
        method=setting.method if on else "none",
        k=setting.k or 0 if on else 0,
        tp=facts.tp,
        concurrency=one.concurrency or request.concurrency,
        input_tokens=one.input_tokens or request.ctx_tokens,
        output_tokens=one.output_tokens or request.output_tokens,
        workload=request.workload,
        gains={
            made.metric: MetricGain(log=made.log, sd=max(made.sd, 1e-3))
            for made in arms.gains(off, on)
        }
        if on
        else {},
        baseline={name: value for name, value in values.items() if value},
        accepted_length=tokens_per_step([*on, *counters], setting.k) if on else None,
        accepted_by_position=accepted.by_position if accepted else (),
        inputs_sha256=tuple(
            dict.fromkeys(run.sha256 for run in (*off, *on, *counters) if run.sha256)
        ),
    )


def _date(runs: Sequence[BenchmarkRun]) -> str:
    """The newest day that the files state; today where they state none."""
    found = [re.match(r"(20\d\d)-?(\d\d)-?(\d\d)", run.date or "") for run in runs]
    return max(("-".join(day.groups()) for day in found if day), default=today())


class GainChange(NamedTuple):
    """The gain of an answer's plan in one metric without and with own runs."""

    metric: str
    before: Interval
    after: Interval


def gain_changes(advice: Advice) -> list[GainChange]:
    """What the own runs of an advice changed: the same plan estimated without them."""
    if advice.candidate is None or advice.estimate is None or not advice.facts.own_runs:
        return []
    bare = advice.facts.model_copy(update={"own_runs": ()})
    before, after = (
        estimates.estimate(facts, [advice.candidate])[0] for facts in (bare, advice.facts)
    )
    names = (("output tok/s", "output_tok_s"), ("TPOT", "tpot_ms"), ("TTFT", "ttft_ms"))
    return [
        GainChange(label, getattr(before, name).speedup, getattr(after, name).speedup)
        for label, name in names
    ]


def own_runs_for(machine: Machine, facts: Facts) -> tuple[OwnRun, ...]:
    """The own runs of a machine for a question. Raises AdvisorError where it is about other
    hardware.
    """
    asked = facts.hardware.id if facts.hardware else machine.hardware
    if asked != machine.hardware:
        raise AdvisorError(
            f"machine '{machine.name}' is a {machine.hardware}, the question is about {asked}"
        )
    if not machine.runs:
        raise AdvisorError(
            f"machine '{machine.name}' has no runs: 'advisor calibrate OFF ON --name "
            f"{machine.name}'"
        )
    return machine.own_runs()


def calibrated_reason(machine: Machine, advice: Advice) -> Reason:
    """One sentence on the machine and on what its runs changed: median and 80 % interval, before
    and after.
    """
    count = len(machine.runs)
    head = (
        f"Calibrated with machine '{machine.name}' ({count} own run{'s' if count > 1 else ''}, "
        f"newest {machine.newest})"
    )
    made = [
        f"{name} gain {_interval_text(after)}, {_interval_text(before)} without them"
        for name, before, after in gain_changes(advice)[:2]
    ]
    return Reason(text=f"{head}: {'; '.join(made)}." if made else f"{head}.", weight=100.0)


def _interval_text(interval: Interval) -> str:
    return f"{interval.p50:.2f}x ({interval.p10:.2f} to {interval.p90:.2f})"


class Next(NamedTuple):
    """The A/B that would narrow the gain most: its load and k, and the 80 % width of the gain now
    and then.
    """

    concurrency: int
    k: int
    now: float
    then: float


def next_measurement(machine: Machine, request: Request, setting: Setting) -> Next | None:
    """The single A/B whose result is expected to narrow the predicted gain of the question most."""
    facts, plan = question(request, setting)
    facts = facts.model_copy(update={"own_runs": machine.own_runs()})
    now = _width(facts, plan)
    if now < ENOUGH:
        return None
    plans = [p for p in judge.candidate_plans(facts).plans if p.method == plan.method][:8]
    loads = sorted({*LOADS, request.concurrency})
    best: Next | None = None
    for load in loads:
        for k in sorted({p.k for p in plans} | {plan.k}):
            then = _width(
                facts.model_copy(
                    update={"own_runs": (*facts.own_runs, _expected_run(facts, plan, load, k))}
                ),
                plan,
            )
            if best is None or then < best.then:
                best = Next(load, k, now, then)
    return best if best is not None and best.then < WORTH * now else None


def _width(facts: Facts, plan: Plan) -> float:
    made = estimates.estimate(facts, [plan])[0].output_tok_s.speedup
    return math.log(made.p90 / made.p10)


def _expected_run(facts: Facts, plan: Plan, concurrency: int, k: int) -> OwnRun:
    """A run that finds what is expected: it narrows and does not shift, which is all that its
    value rests on.
    """
    there = facts.model_copy(update={"concurrency": concurrency})
    found = estimates.estimate(there, [plan.model_copy(update={"k": k})])[0]
    gains = (
        ("output_tok_s", math.log(found.output_tok_s.speedup.p50), LEAST_SD),
        ("tpot", math.log(found.tpot_ms.speedup.p50), LEAST_SD),
    )
    request = facts.request
    return OwnRun(
        hardware=request.hardware if request else "",
        model=facts.model.id if facts.model else "",
        engine=facts.engine or "vllm",
        engine_version=facts.engine_version,
        method=plan.method,
        k=k,
        gpus=facts.gpus,
        quant=facts.quant.id if facts.quant else None,
        tp=facts.tp,
        concurrency=concurrency,
        input_tokens=facts.ctx_tokens,
        output_tokens=facts.output_tokens,
        workload=facts.workload,
        gains=gains,
    )


class Addition(NamedTuple):
    """What was added: how many runs, to which machine, for which question, and what comes next."""

    runs: int
    machine: Machine
    request: Request
    next: Next | None


def add_runs(
    name: str,
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
    counters: Sequence[BenchmarkRun],
    asked: Mapping[str, Any],
    plan: Plan | None = None,
) -> Addition:
    """Add an A/B, or a run without speculation alone, to the machine of a name, and save it.

    `asked` are options by field of Request, plus `method` and `k`; `plan` is of the launch that
    ran. Raises AdvisorError for a name that could be a path, for what is missing, and for runs of
    other hardware than the machine's.
    """
    path = machines.path_of(name)
    old = machines.load(name) if path.is_file() else None
    told = dict(asked)
    if old is not None and not told.get("hardware"):
        told["hardware"] = old.hardware
    found = setting(off, [*on, *counters] if on else on, told, plan)
    made = runs_of(off, on, found, counters)
    request = found.request
    if request is None:
        raise AdvisorError("to calibrate, give " + " and ".join(found.missing))
    machine = old or Machine(name=name, hardware=request.hardware, gpus=request.gpus)
    if machine.hardware != request.hardware:
        raise AdvisorError(
            f"machine '{name}' is a {machine.hardware}, these runs are of a {request.hardware}"
        )
    for run in made:
        machine = machines.with_run(machine, run)
    machines.save(machine)
    return Addition(
        len(made), machine, request, next_measurement(machine, request, found) if on else None
    )
