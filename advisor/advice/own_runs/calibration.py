"""From benchmark files to own runs of a machine, and what they change of an answer."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from advisor import engines
from advisor.advice import adaptive, judge
from advisor.advice.own_runs import cells
from advisor.advice.own_runs import machine as machines
from advisor.advice.own_runs.ab_reasons import tokens_per_step
from advisor.advice.own_runs.machine import MOST_SD, Machine, MachineRun, MetricGain
from advisor.advice.own_runs.setting import OwnSetting, setting
from advisor.advice.resolve import facts_for_request
from advisor.domain.facts import OwnRun
from advisor.domain.nouns import (
    Advice,
    AdvisorError,
    Facts,
    Interval,
    Plan,
    Reason,
    Request,
    UnknownFact,
)
from advisor.domain.printable import excerpt
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.knowledge.age import today
from advisor.perf import reads
from advisor.perf.encoding.encode_plans import from_plans
from advisor.perf.imputation import impute
from advisor.readers.results import arms
from advisor.readers.results.run import BenchmarkRun

FAR = sourced(
    3.0, "ratio", "own choice: levels without speculation scatter by 0.2 to 0.4 in log", "chosen"
)
FASTER = sourced(
    1.15, "ratio", "own choice: clocks above the published ones, sizes that are rounded", "chosen"
)


def runs_of(
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
    setting: OwnSetting,
    counters: Sequence[BenchmarkRun] = (),
) -> list[MachineRun]:
    """The own runs of files, one a load. Raises AdvisorError where they are no A/B."""
    if setting.request is None:
        raise AdvisorError(f"to calibrate, {setting.problem}")
    if not on:
        if any(run.speculates for run in off):
            raise AdvisorError(
                "this run drafts, and there is nothing to compare it with: give OFF, the run "
                "without speculation, first"
            )
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
    setting: OwnSetting,
    counters: Sequence[BenchmarkRun],
) -> MachineRun:
    one, request = off[0], setting.request
    assert request is not None  # else `runs_of` has refused
    facts = facts_for_request(request)
    levels = {name: level for name in arms.METRICS if (level := arms.level(off, name))}
    gains = arms.gains(off, on) if on else ()
    accepted = next((run.acceptance for run in (*on, *counters) if run.acceptance), None)
    if on and not setting.k:
        raise AdvisorError(
            "how many tokens were drafted a step? give --k, or --launch with the file that ran"
        )
    slots = next((run.slots for run in (*on, *off) if run.slots), None)
    dates = (re.match(r"(20\d\d)-?(\d\d)-?(\d\d)", run.date or "") for run in (*off, *on))
    streams = one.concurrency
    if not streams and "output_tok_s" in levels and "tpot" in levels:
        # those that the throughput takes at its time per token (Little's law)
        streams = max(1.0, float(round(levels["output_tok_s"].value * levels["tpot"].value / 1e3)))
    plan = {"max_num_seqs": slots} if slots else {}

    def state_of(name: str) -> Any:
        return getattr(request, name) if name in setting.stated else None

    measured = MachineRun(
        date=max(("-".join(date.groups()) for date in dates if date), default=today()),
        model=request.model,
        engine=facts.engine or "vllm",
        engine_version=state_of("engine_version"),
        quant=facts.quant.id if facts.quant and "quant" in setting.stated else None,
        method=setting.method if on else "none",
        k=setting.k or 0 if on else 0,
        tp=facts.tp,
        gpus=state_of("gpus"),
        plan=plan | (machines.plan_fields(setting.launch) if setting.launch is not None else {}),
        concurrency=streams or request.concurrency,
        input_tokens=one.input_tokens or state_of("ctx_tokens"),
        output_tokens=one.output_tokens or state_of("output_tokens"),
        output_spread=state_of("output_spread") if one.output_spread is None else one.output_spread,
        workload=state_of("workload"),
        temperature=one.temperature,
        gains={
            gain.metric: MetricGain(log=gain.log, sd=min(max(gain.sd, 1e-3), MOST_SD))
            for gain in gains
        },
        baseline={name: level.value for name, level in levels.items()},
        baseline_sd={
            name: round(min(max(level.sd, 1e-3), MOST_SD), 4) for name, level in levels.items()
        },
        accepted_length=tokens_per_step([*on, *counters], setting.k) if on else None,
        accepted_by_position=accepted.by_position if accepted else (),
        inputs_sha256=tuple({r.sha256: None for r in (*off, *on, *counters) if r.sha256}),
    )
    both = {name: [level.value] for name, level in levels.items()}
    both |= {gain.metric: [gain.off, gain.on] for gain in gains}
    check_bandwidth(both, measured.concurrency, facts, measured.tokens_per_step())
    return measured


def check_bandwidth(
    levels: Mapping[Any, Sequence[float]], requests: float, facts: Facts, tokens: float | None
) -> None:
    """Raise AdvisorError for levels of each arm beyond what all devices together can read, the
    second one's with so many tokens a step; None: not known. `facts` are of the run; where the
    bandwidth is not known, nothing is refused.
    """
    hardware = facts.hardware
    if hardware is None or hardware.memory_bandwidth_gb_s is None or facts.model is None:
        return
    points = impute(from_plans(facts, [Plan.model_construct(engine=facts.engine)]))
    # tokens/s where each step takes the time to read its weights at the published bandwidth
    most, lone = (
        count * facts.gpus * float(points.bw[0] / reads.least_bytes(points, np.array([count]))[0])
        for count in (requests, 1.0)
    )
    for i, step in enumerate((1.0, tokens or math.inf)):
        speed, token = ([*levels.get(m, ()), 0.0, 0.0][i] for m in ("output_tok_s", "tpot"))
        if speed > step * most * FASTER:
            beyond = f"{speed:.4g} tok/s at {requests:g} requests, where {step * most:.4g}"
        elif 0 < token * step * lone * FASTER < 1e3:
            beyond = f"{token:.3g} ms a token, where {1e3 / (step * lone):.3g}"
        else:
            continue
        quant = facts.quant.id if facts.quant is not None else "these"
        many = f"{facts.gpus} x {hardware.id}" if facts.gpus > 1 else hardware.id
        arm = f"with {step:.3g} tokens a step" if i else "without speculation"
        raise AdvisorError(
            f"{arm} {beyond} is what the bandwidth of {many} permits for the {quant} weights of "
            f"{facts.model.id}: check --hw, --gpus, --model, --quant and the units"
        )


def own_runs_for(machine: Machine, facts: Facts) -> tuple[OwnRun, ...]:
    """The machine's own runs for a question. Raises AdvisorError for other hardware."""
    asked = facts.hardware.id if facts.hardware else machine.hardware
    if asked != machine.hardware:
        raise AdvisorError(
            f"{machine.label} is a {machine.hardware}, the question is about {asked}"
        )
    if not machine.runs:
        raise AdvisorError(f"{machine.label} has no runs: measure with 'advisor bench plan'")
    for run in machine.runs:
        where = f"{machine.label}, run of {run.date}"
        if run.engine not in engines.ENGINES:
            raise AdvisorError(f"{where}: no predicted engine is called '{excerpt(run.engine)}'")
        try:
            knowledge.llm_by_name(run.model)
        except UnknownFact as error:
            raise AdvisorError(f"{where}: {error}") from None
    return adaptive.add_fixed_blocks(machine.own_runs())


def calibrated_reason(machine: Machine, advice: Advice) -> Reason:
    """One sentence on the machine and on what its runs changed."""
    count, estimate, bare = len(machine.runs), advice.estimate, None
    if advice.candidate is not None and estimate is not None and advice.facts.own_runs:
        bare = judge.estimate_plans(advice.facts.replace(own_runs=()), [advice.candidate])[0]
    edited = ", edited by hand since they were measured" if machine.is_edited else ""
    text = (
        f"Calibrated with {machine.label} ({count} own run{'s' if count > 1 else ''}, newest "
        f"{machine.newest}{edited})"
    )
    changes = [
        f"{label} gain {_interval_text(getattr(estimate, name).speedup)}, "
        f"{_interval_text(getattr(bare, name).speedup)} without them"
        for label, name in (("output tok/s", "output_tok_s"), ("TPOT", "tpot_ms"))
        if bare is not None
    ]
    text += f": {'; '.join(changes)}." if changes else "."
    unlike = cells.unlike(advice.facts, advice.candidate) if advice.candidate is not None else ()
    if unlike:
        text += f" What was measured at this load ran with {', '.join(unlike)}, unlike this plan."
    if bare is None or estimate is None:
        return Reason(text=text, weight=100.0)
    then, now = (row.output_tok_s.speedup.p50 for row in (bare, estimate))
    far = [
        (abs(math.log(run.concurrency / advice.facts.load)), number, math.exp(log), run)
        for number, run in enumerate(advice.facts.own_runs)
        for name, log, _ in run.gains
        if name == "output_tok_s" and not cells.measured_here(advice.facts)
    ]
    near = ""
    for _, _, gain, run in sorted(far, key=lambda one: one[:2])[:1]:
        near = f", from {gain:.2f}x at {run.concurrency:g}"
        near += f" x {run.workload} text" if run.workload else " requests"
    brief = f"your own runs{near}: output tok/s {now:.2f}x; {then:.2f}x without them"
    before, after = bare.tpot_ms.baseline, estimate.tpot_ms.baseline
    if before and after and abs(math.log(after / before)) >= math.log(FAR):
        word = "slow" if after > before else "fast"
        brief = ""
        text += (
            f" They make a token without speculation {max(after / before, before / after):.0f} "
            f"times as {word} as expected: check hardware, model and units."
        )
    return Reason(text=text, weight=100.0, brief="" if unlike else brief)


def _interval_text(interval: Interval) -> str:
    return f"{interval.p50:.2f}x ({interval.p10:.2f} to {interval.p90:.2f})"


class Addition(NamedTuple):
    """What was added to which machine, and what was measured there before."""

    runs: int
    machine: Machine
    request: Request
    before: tuple[machines.Before, ...]


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
    ran. Raises AdvisorError for a name that could be a path, missing options, and other hardware.
    """
    old = machines.load(name) if machines.path_of(name).is_file() else None
    stated = dict(asked)
    if old is not None and not stated.get("hardware"):
        stated |= {"hardware": old.hardware, "gpus": stated.get("gpus") or old.gpus}
    known = setting(off, [*on, *counters] if on else on, stated, plan)
    runs, request = runs_of(off, on, known, counters), known.request
    assert request is not None  # else `runs_of` has refused
    machine = old or Machine(name=name, hardware=request.hardware, gpus=request.gpus)
    if machine.hardware != request.hardware:
        raise AdvisorError(
            f"machine '{name}' is a {machine.hardware}, these runs are of a {request.hardware}"
        )
    before = machines.measured_before(machine, runs)
    machine = machines.with_runs(machine, runs)
    machines.save(machine)
    return Addition(len(runs), machine, request, before)
