"""What was measured near the question, beside what is expected of it: runs as reasons."""

from collections.abc import Sequence
from math import log2

import numpy as np

from advisor.advice.decide import GOAL_METRICS
from advisor.advice.explain import difference
from advisor.advice.wording import percent, reason
from advisor.domain.nouns import Candidate, Evidence, Facts, Goal, Method, Plan, Reason
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge

METRIC_NAMES = {
    "output_tok_s": "output tok/s",
    "request_tok_s": "tok/s per request",
    "tpot": "TPOT speed",
    "ttft": "TTFT speed",
}


def from_evidence(
    facts: Facts, goal: Goal, best: Candidate, beside: difference.Beside
) -> list[Reason]:
    """Covering pairs first, all metrics of a run in one reason; else the two nearest."""
    runs = _in_order(_settings(facts, goal, best.plan.method), facts, goal, best.plan)
    covering = [rows for rows in runs if rows[0].covers][:COVERING]
    reasons = []
    for i, rows in enumerate(covering or runs[:2]):
        row = rows[0]
        alike = (covering or not i) and _comparable(facts, row, best.plan)
        text = difference.difference(facts, rows, best, beside) if alike else ""
        same_load = "load" not in _differences_of(facts, best.plan, row)
        first = COVERS if covering else BEFORE_STEP if text and same_load else 1
        if covering and not text:
            other = difference.without_acceptance(facts) is not facts
            accepted = ", at that run's acceptance and not yours" if other else ""
            text = f"Measured here{accepted}{_outside(rows, best)}: "
        if text:
            text += evidence_text(rows, here=True)
        else:
            text = f"Nearest measurement{_elsewhere(facts, best.plan, row)}: "
            text += evidence_text(rows) + _against(facts, row, best)
        brief = _brief(facts, row, best)
        reasons.append(reason(text, row.source, weight=first - 0.1 * i, brief=brief))
    return reasons


def _brief(facts: Facts, row: Evidence, best: Candidate) -> str:
    """A run in one line of a screen, beside what is expected of the same metric."""
    away = _elsewhere(facts, best.plan, row).strip(" ()")
    place = "measured here" if row.covers else f"nearest run ({away})" if away else "nearest run"
    load = f"{row.concurrency or 1:g} x {row.input_tokens:g}" if row.input_tokens else ""
    other = row.workload if row.covers and row.workload != facts.workload else None
    k = f"k={row.k}" if row.covers and row.k not in (None, best.plan.k) else ""
    at = ", ".join(part for part in (load, k, f"{other} text" if other else "") if part)
    metric = "" if row.metric == "output_tok_s" else f" {METRIC_NAMES.get(row.metric, row.metric)}"
    text = f"{place} {row.speedup:.2f}x{metric}{f' ({at})' if at else ''}"
    if row.metric not in difference.PRINTED or best.estimate is None:
        return text
    expected = getattr(best.estimate, difference.PRINTED[row.metric])
    if not expected.predictable:
        return text
    return f"{text}; {expected.speedup.p50:.2f}x expected{' with yours' if other and not k else ''}"


def _against(facts: Facts, row: Evidence, best: Candidate) -> str:
    """How much a run on the other side of 1 than the estimate counts, where that is not plain."""
    printed = difference.PRINTED.get(row.metric)
    if best.estimate is None or printed is None or row.metric == "ttft":
        return ""
    expected = getattr(best.estimate, printed).speedup.p50
    if (expected - 1) * (row.speedup - 1) >= 0:
        return ""
    others = set(_differences_of(facts, best.plan, row)) - {"k"}
    if others == {"quantisation"} and row.clean and expected > 1:
        return "; a loss where a gain is expected: runs with other weights do not move the estimate"
    if others:
        lost = sorted(f.code for f in best.findings if f.effect == "loss" and expected < 1)
        return f"; the documented losses ({', '.join(lost)}) count more here" if lost else ""
    why = "does not count it: too few prompts, or settings that are not stated or not alike"
    if row.clean:
        share = knowledge.threshold("stranger_weight").value
        why = f"follows {100 * share:.0f} % of the miss of such a run"
    return f"; against the estimate, which {why}"


DECODING = "request_tok_s"
WHOLE: tuple[Goal, ...] = ("balanced", "throughput")  # which the prompts are a part of
SETTING = (
    "source", "engine_version", "method", "k", "concurrency", "input_tokens", "workload",
    "output_spread", "prefix_share",
)  # fmt: skip
COVERING = sourced(3, "runs", "of those that cover a question an answer tells as many", "chosen")
BEFORE_STEP = sourced(1.45, "weight", "of a reason before how a step is priced", "chosen")
COVERS = sourced(2.5, "weight", "of a reason from a run that covers the question", "chosen")
OFTEN = sourced(3, "runs", "of one setting say more than a single one with this k", "chosen")
BLOCKS = ("dflash", "dspark")
TWICE = sourced(1.0, "doublings", "from which on a load is called another one", "chosen")


def _others(facts: Facts, row: Evidence) -> list[str]:
    """What is another one in a measured run than in the question, machine and model first."""
    asked = (
        ("machine", facts.device.id, row.hardware),
        ("model", facts.llm.id, row.model),
        ("quantisation", facts.quant.id if facts.quant else None, row.quant),
        ("engine", facts.engine, row.engine),
    )
    return [name for name, ours, theirs in asked if ours != theirs]


def _differences_of(facts: Facts, plan: Plan, row: Evidence) -> list[str]:
    """The same, with a load that is far from the one asked about, and k."""
    names = [*_others(facts, row), *(["method"] if row.method != plan.method else ())]
    pairs = ((row.concurrency, facts.concurrency), (row.input_tokens, facts.ctx_tokens))
    if any(abs(log2(theirs / ours)) > TWICE for theirs, ours in pairs if theirs and ours):
        names.append("load")
    if row.method == plan.method and row.k != plan.k:
        names.append("k")
    return names


def _elsewhere(facts: Facts, plan: Plan, row: Evidence) -> str:
    names = _differences_of(facts, plan, row)
    listed = ", ".join(names[:-2] + [" and ".join(names[-2:])])
    return f" (another {listed})" if names else ""


def _outside(rows: Sequence[Evidence], best: Candidate) -> str:
    """Which measured gains of this very k lie outside the printed intervals, by name."""
    if best.estimate is None:
        return ""
    names = []
    for row in (row for row in rows if row.metric in difference.PRINTED and row.k == best.plan.k):
        gain = getattr(best.estimate, difference.PRINTED[row.metric]).speedup
        names += [] if gain.p10 <= row.speedup <= gain.p90 else [METRIC_NAMES[row.metric]]
    where = f"{', '.join(names)} not within the interval above"
    return f" (other prompts or settings: {where})" if names else ""


def loads(facts: Facts, plans: Sequence[Plan]) -> list[tuple[Facts, Plan]]:
    """What `from_evidence` asks of plans under the loads that were measured nearby, each once."""
    goal: Goal = facts.aim
    of_method = {plan.method: _settings(facts, goal, plan.method) for plan in plans}
    cases: list[tuple[Facts, Plan]] = []
    for plan in plans if facts.evidence else ():
        of_plan: list[tuple[Facts, Plan]] = []
        for i, rows in enumerate(_in_order(of_method[plan.method], facts, goal, plan)[:COVERING]):
            if (rows[0].covers or i == 0) and _comparable(facts, rows[0], plan):
                of_plan += [c for c in difference.towards(facts, rows[0], plan) if c not in of_plan]
        cases += of_plan
    return cases


def _settings(facts: Facts, goal: Goal, method: Method) -> list[list[Evidence]]:
    """The runs of a method that say something for a goal, each with its metrics, in no order; those
    of one owner and setting as one: the median of each metric.
    """
    metrics = (*GOAL_METRICS[goal], "output_tok_s", "ttft")
    wanted = [row for row in facts.evidence if row.metric in metrics]
    alike: dict[tuple[object, ...], list[list[Evidence]]] = {}
    for rows in by_run([row for row in wanted if row.method == method] or wanted):
        one = rows[0]
        setting = tuple(getattr(one, name) for name in SETTING)
        key = (*setting, *(row.metric for row in rows)) if one.covers and one.clean else one.run_id
        alike.setdefault((key,), []).append(rows)
    return [_median_of(each) for each in alike.values()]


def by_run(rows: Sequence[Evidence]) -> list[list[Evidence]]:
    """The metrics of each run together."""
    runs: dict[str, list[Evidence]] = {}
    for row in rows:
        runs.setdefault(row.run_id, []).append(row)
    return list(runs.values())


def _in_order(
    runs: list[list[Evidence]], facts: Facts, goal: Goal, plan: Plan
) -> list[list[Evidence]]:
    """Runs, those that say most of a plan first."""

    def order(rows: list[Evidence]) -> tuple[bool, int, bool, bool, bool, bool, bool]:
        row = rows[0]
        shares = (row.prefix_share or 0.0) != (facts.prefix_share or 0.0)
        decodes = goal in WHOLE and row.metric == DECODING and row.concurrency != 1
        same = not row.covers, len(_others(facts, row)), not row.clean
        return *same, shares, decodes, row.repeats < OFTEN, row.k != plan.k

    return sorted(runs, key=order)


def _median_of(runs: Sequence[list[Evidence]]) -> list[Evidence]:
    if len(runs) == 1:
        return runs[0]
    accepted = [run[0].accepted for run in runs if run[0].accepted]
    both = {"accepted": float(np.median(accepted)) if accepted else None, "repeats": len(runs)}
    rows = []
    for each in zip(*runs, strict=True):  # of one metric
        gains = [row.speedup for row in each]
        own = {"speedup": float(np.median(gains)), "lowest": min(gains), "highest": max(gains)}
        rows.append(each[0].replace(**both, **own))
    return rows


def _comparable(facts: Facts, row: Evidence, plan: Plan) -> bool:
    """Whether a run's first metric can be set beside the plan's estimate."""
    known_k = bool(row.k) or plan.method in BLOCKS  # these draft what their drafter was made for
    same = row.method == plan.method and known_k and (row.covers or not _others(facts, row))
    return same and row.metric in difference.PRINTED and row.metric != "ttft"


def evidence_text(rows: Sequence[Evidence], here: bool = False) -> str:
    """The metrics of a measured run in one line; `here`: its place need not be named."""
    row = rows[0]
    gains = ", ".join(f"{percent(e.speedup)} {METRIC_NAMES.get(e.metric, e.metric)}" for e in rows)
    load = f"{row.concurrency or 1:g} stream{'s' if (row.concurrency or 1) > 1 else ''}"
    if row.input_tokens:
        load = f"{row.concurrency or 1:g} x {row.input_tokens:g} tokens"
    release = f"{row.engine} {row.engine_version}".strip()
    where = "" if here else f"{row.hardware}, {f'{row.model} {row.quant}'.strip()}, "
    run = f"{row.method}{f' k={row.k}' if row.k else ''} gave {gains} ({where}{release}, {load}"
    if row.repeats == 1 or row.lowest is None or row.highest is None:
        return f"{run})"
    apart = f"{percent(row.lowest)} to {percent(row.highest)} {METRIC_NAMES[row.metric]}"
    return f"{run}; median of {row.repeats} runs, {apart})"
