"""Why: the verdict in sentences, each with its source.

What it does: turns measured pairs, step-time terms, rule findings and the deciding step into
reasons, strongest first. What would change the answer is said by changes.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from advisor.advice import caveats as circumstances
from advisor.advice.decide import GOAL_METRICS, Verdict, goal_interval, meets, p_objective, vetoes
from advisor.advice.plans import propose
from advisor.advice.plans.memory_relief import shortfall
from advisor.domain.nouns import (
    Candidate,
    Evidence,
    Facts,
    Finding,
    Goal,
    MemoryBill,
    Plan,
    Reason,
)
from advisor.engines.traits import gguf_engine
from advisor.knowledge import drafters as knowledge_drafters
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.prediction import predict

METRIC_NAMES = {
    "output_tok_s": "output tok/s",
    "request_tok_s": "tok/s per request",
    "tpot": "TPOT speed",
    "ttft": "TTFT speed",
}
PHYSICS = "physics core"
EXPECTED = "The expected change for the goal"  # so begins the reason that repeats the estimate
_ASSISTANT_GGUF = (
    ", though builds since June 2026 take a GGUF of it with --model-draft and "
    "--spec-type draft-mtp (llama.cpp#23398)"
)
_MISSED = (
    "Neither with nor without speculation are the latency objectives met here, so they do "
    "not decide"
)


def explain(facts: Facts, verdict: Verdict) -> tuple[Reason, ...]:
    """Reasons for the verdict, strongest first."""
    if verdict.best is None:
        known = ("knowledge/llms", "knowledge/drafters") if facts.drafters else ("knowledge/llms",)
        why = Reason(text=_no_method(facts, verdict.candidates[0].plan), sources=known, weight=1.0)
        told = [
            why,
            *_from_memory(facts, verdict.candidates[0].plan),
            *circumstances.around(facts, verdict.candidates[0].plan),
        ]
        return tuple(sorted(told, key=lambda reason: -reason.weight))
    best = verdict.candidates[verdict.best]
    goal: Goal = facts.goal or "balanced"
    told = [
        *_from_rules(best, verdict),
        *_from_evidence(facts, goal, best),
        *_from_step(best),
        *_from_drafter(facts, best.plan),
        *_from_other_k(facts, verdict, best, goal),
        _from_decision(facts, verdict, best, goal),
    ]
    if not meets(facts.request, best.estimate) and not meets(
        facts.request, best.estimate, "baseline"
    ):
        told.append(Reason(text=_MISSED, sources=("models/speedup.md",), weight=2.0))
    told += _from_memory(facts, verdict.candidates[0].plan)
    told += circumstances.around(facts, verdict.candidates[0].plan)
    return tuple(sorted(told, key=lambda reason: -reason.weight))


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"


def _no_method(facts: Facts, base: Plan) -> str:
    for method in propose.methods(facts):
        refusal = propose.no_path(facts, base, method)
        return refusal or _no_room(facts, propose.with_method(facts, base, method, 1))
    name = facts.model.name or facts.model.id if facts.model else "this model"
    asked = facts.request.method if facts.request is not None else None
    if asked not in (None, "mtp"):
        why = knowledge_drafters.refusal(facts, asked)
        return f"{_title(asked or '')} was asked for: " + (why or f"none is known for {name}")
    if (
        asked in (None, "mtp")
        and gguf_engine(facts.engine)
        and facts.model is not None
        and facts.model.assistant
    ):
        return (
            f"{name} drafts with a separate assistant model; no launch with it is written for "
            f"llama-server here{_ASSISTANT_GGUF}"
        )
    if asked in (None, "mtp") and (since := propose.assistant_since(facts.model, facts.engine)):
        return (
            f"{name} drafts with a separate assistant model, which {facts.engine} takes from "
            f"{since} on"
        )
    if asked is None and (refusal := knowledge_drafters.refusal(facts)):
        return f"{name} has no MTP head, and {refusal}"
    if facts.model is not None and facts.model.assistant_params_b:
        return (
            f"{name} drafts with a separate assistant model, for which no launch on "
            f"{facts.engine} is known here"
        )
    if asked is not None:
        return f"{_title(asked)} was asked for: none is known for {name}"
    return (
        f"{name} has no MTP head and no drafter is known for it here, so there is nothing to "
        "speculate with"
    )


def _no_room(facts: Facts, plan: Plan) -> str:
    """By how much even one draft token does not fit."""
    return f"with {_title(plan.method)}, {shortfall(facts, plan, memory.bill(facts, plan))}"


def _title(method: str) -> str:
    return knowledge_drafters.TITLES.get(method, method.upper())


def _from_drafter(facts: Facts, plan: Plan) -> list[Reason]:
    """Which published drafter the plan uses, that its acceptance is not this drafter's own, and
    what is said of it elsewhere.
    """
    known = knowledge_drafters.named(facts, plan.draft_model)
    if known is None:
        return []
    request = facts.request
    given = request is not None and (
        request.acceptance is not None or request.acceptance_length is not None
    )
    how = "as you gave it" if given else f"{_title(known.method)}'s in general, not its own"
    more = "" if given else "; --acceptance or --acceptance-length puts yours in its place"
    text = f"Drafter {known.repository}; acceptance {how}; made for {known.target}{more}"
    told = [Reason(text=text, sources=known.sources[:1], weight=1.15)]
    others = [
        d.repository
        for d in knowledge_drafters.usable(facts)
        if d is not known and d.target == known.target
    ]
    k = (
        f"served with {known.k} draft token{'s' if known.k != 1 else ''}"
        if known.k and known.k != plan.k
        else ""
    )
    parts = [f"reported: {known.reported}" if known.reported else "", k, known.note]
    parts += [f"other evidence: {conflict}" for conflict in known.conflicts]
    parts += [f"also published: {', '.join(others)}"] if others else []
    if said := "; ".join(part for part in parts if part):
        told.append(Reason(text=f"Of this drafter: {said}", sources=known.sources, weight=0.45))
    return told


def _from_memory(facts: Facts, plan: Plan) -> list[Reason]:
    """What stands in the way of a memory bill, where nobody could say whether the plan fits."""
    bill = memory.bill(facts, plan)
    if bill.fits is not None:
        return _from_room(facts, plan, bill)
    if bill.weights_gib and bill.available_gib is None:
        name = facts.hardware.name or facts.hardware.id if facts.hardware else "this hardware"
        return [Reason(text=f"Whether it fits was not checked: the memory of {name} is not "
                            "known here",
                       sources=("knowledge/hardware",), weight=0.9)]  # fmt: skip
    name = facts.model.name or facts.model.id if facts.model else "this model"
    what = "the KV cache" if bill.weights_gib else "the size"
    return [Reason(text=f"Whether it fits was not checked: {what} of {name} is not known here",
                   sources=("knowledge/llms",), weight=0.9)]  # fmt: skip


def _from_room(facts: Facts, plan: Plan, bill: MemoryBill) -> list[Reason]:
    """That not all requests run at once, where the memory holds fewer than were asked for."""
    asked = memory.replica(facts, plan).concurrency or 1
    if bill.requests is None or bill.requests >= asked:
        return []
    text = (
        f"The memory holds {bill.requests:,} of {asked:,} requests of "
        f"{bill.request_tokens or 0:,} tokens at once, without speculation: the others wait"
    )
    return [Reason(text=text, sources=("memory bill",), weight=1.35)]


def _from_rules(best: Candidate, verdict: Verdict) -> list[Reason]:
    weights = {"veto": 3.0, "k_max": 0.9, "caution": 1.2, "support": 1.3}
    told = []
    for finding in best.findings:
        weight = weights.get(finding.effect or "", 0.0)
        if finding.severity == "error":
            weight = 3.0
        if weight:
            text = f"{finding.message} [{finding.code}]"
            told.append(Reason(text=text, sources=finding.sources, weight=weight))
    others = [
        f for i, c in enumerate(verdict.candidates) if i != verdict.best for f in vetoes(c.findings)
    ]
    known = {f.code for f in best.findings}
    for code, finding in {f.code: f for f in others if f.code not in known}.items():
        told.append(
            Reason(
                text=f"Other k set aside: {finding.message} [{code}]",
                sources=finding.sources,
                weight=0.4,
            )
        )
    return told


def _from_evidence(facts: Facts, goal: Goal, best: Candidate) -> list[Reason]:
    """Covering pairs first, all metrics of a run in one reason; else the two nearest."""
    plan = best.plan
    wanted = [
        e
        for e in facts.evidence
        if e.metric in GOAL_METRICS[goal] or e.metric in ("output_tok_s", "ttft")
    ]
    wanted = [e for e in wanted if e.method == plan.method] or wanted
    runs: dict[str, list[Evidence]] = {}
    for row in sorted(wanted, key=lambda e: (not e.covers, e.k != plan.k)):
        runs.setdefault(row.run_id, []).append(row)
    covering = [rows for rows in runs.values() if rows[0].covers]
    if covering:
        return [
            Reason(
                text=_other_text(facts, rows, best)
                or f"Measured here{_outside(rows, best)}: {evidence_text(rows)}",
                sources=(rows[0].source,),
                weight=2.5 - 0.1 * i,
            )
            for i, rows in enumerate(covering[:3])
        ]
    return [
        Reason(
            text=f"Nearest measurement, of another load or setting: {evidence_text(rows)}",
            sources=(rows[0].source,),
            weight=1.0 - 0.1 * i,
        )
        for i, rows in enumerate(list(runs.values())[:2])
    ]


_PRINTED = {"output_tok_s": "output_tok_s", "tpot": "tpot_ms", "ttft": "ttft_ms"}


def _outside(rows: Sequence[Evidence], best: Candidate) -> str:
    """Which measured gains of this very k the printed intervals do not hold, by name; nothing where
    they hold all.
    """
    names = []
    for row in rows:
        printed = _PRINTED.get(row.metric)
        if best.estimate is None or printed is None or row.k != best.plan.k:
            continue
        told = getattr(best.estimate, printed).speedup
        if not told.p10 <= row.speedup <= told.p90:
            names.append(METRIC_NAMES[row.metric])
    return (
        f" (other prompts or settings: {', '.join(names)} not within the interval above)"
        if names
        else ""
    )


_FAR = 0.095  # log ratio: a tenth


def _other_text(facts: Facts, rows: Sequence[Evidence], best: Candidate) -> str:
    """Why the estimate differs from what was measured here with another kind of text; nothing where
    it lies near or the text is the same.
    """
    row, estimate = rows[0], best.estimate
    printed = _PRINTED.get(row.metric)
    if estimate is None or printed is None or row.k != best.plan.k or row.metric == "ttft":
        return ""
    expected = getattr(estimate, printed).speedup.p50
    if (
        not row.workload
        or row.workload == facts.workload
        or abs(log(expected / row.speedup)) < _FAR
    ):
        return ""
    here = facts.workload or "this"
    then = predict.tokens_per_step(facts.model_copy(update={"workload": row.workload}), best.plan)
    now = estimate.accepted_length.p50
    return (
        f"Measured {row.speedup:.2f}x here with {row.workload} text ({then:.2f} tokens/step); "
        f"{expected:.2f}x is expected as {here} text accepts {now:.2f} (--workload "
        f"{row.workload} if yours does not)"
    )


def evidence_text(rows: Sequence[Evidence]) -> str:
    """The metrics of one measured run in one line."""
    row = rows[0]
    gains = ", ".join(f"{percent(e.speedup)} {METRIC_NAMES.get(e.metric, e.metric)}" for e in rows)
    streams = f"{row.concurrency or 1:g} stream{'s' if (row.concurrency or 1) > 1 else ''}"
    load = (
        f"{row.concurrency or 1:g} x {row.input_tokens:g} tokens" if row.input_tokens else streams
    )
    version = f" {row.engine_version}" if row.engine_version else ""
    k = f" k={row.k}" if row.k else ""
    model = f"{row.model} {row.quant}".strip()
    return f"{row.method}{k} gave {gains} ({row.hardware}, {model}, {row.engine}{version}, {load})"


def _from_step(best: Candidate) -> list[Reason]:
    estimate = best.estimate
    if estimate is None:
        return []
    terms, length = estimate.terms, estimate.accepted_length
    base, cycle = terms.get("base_step_ms"), terms.get("cycle_ms")
    if not base or not cycle:
        return []
    decoding = length.p50 * base / cycle
    text = (
        f"A draft-and-verify cycle at k={best.plan.k} costs {cycle / base:.2f} plain steps and "
        f"yields {length.p50:.2f} tokens ({length.p10:.2f} to {length.p90:.2f}), {decoding:.2f}x "
        f"while decoding{_what_else(best, decoding)}"
    )
    return [Reason(text=text, sources=(PHYSICS,), weight=1.4)]


def _what_else(best: Candidate, decoding: float) -> str:
    """What makes the whole gain another one than that of decoding, by name; nothing where it does
    not.
    """
    estimate = best.estimate
    if estimate is None or abs(log(estimate.output_tok_s.speedup.p50 / decoding)) < _FAR / 2:
        return ""
    terms = estimate.terms
    crowded = terms.get("requests_verify", 1) < terms.get("requests_base", 1)
    codes = sorted({f.code for f in best.findings if f.effect in ("loss", "caution")})
    parts = [
        f"{terms['requests_verify']:.0f} instead of {terms['requests_base']:.0f} requests at once"
        if crowded
        else "",
        "the prompts and runs measured nearby",
        f"documented losses ({', '.join(codes)})" if codes else "",
    ]
    said = " and ".join(part for part in parts if part)
    return f"; with {said}, {estimate.output_tok_s.speedup.p50:.2f}x in all"


def _from_other_k(facts: Facts, verdict: Verdict, best: Candidate, goal: Goal) -> list[Reason]:
    """Where published profiles or sweeps chose k, and the estimate by itself clearly prefers
    another: both are said.
    """
    free = [c for c in verdict.candidates if c.estimate is not None and not vetoes(c.findings)]
    free = [c for c in free if meets(facts.request, c.estimate)] or free
    chose = [f for f in best.findings if f.effect == "support" and f.k_best == best.plan.k]
    chose += [
        f
        for c in free
        for f in c.findings
        if f.effect == "k_max" and f.k_max and f.k_max < c.plan.k
    ]
    if not free or not chose:
        return []
    rival = min(free, key=lambda c: (c.regret, c.plan.k))
    here, there = (goal_interval(c.estimate, goal).p50 for c in (best, rival))
    if (
        verdict.decision == "off"
        or there / here < 1 + 2 * knowledge.threshold("replicate_noise").value
    ):
        return []
    said = (
        f"allows k={chose[0].k_max} at most"
        if chose[0].effect == "k_max"
        else f"names k={best.plan.k}"
    )
    text = (
        f"The estimate alone prefers k={rival.plan.k} ({percent(there)} against {percent(here)} "
        f"for the goal '{goal}'), but "
        f"{chose[0].code} {said} and what is published goes first: measure both before you settle"
    )
    return [Reason(text=text, sources=("models/speedup.md", *chose[0].sources), weight=1.2)]


def _from_decision(facts: Facts, verdict: Verdict, best: Candidate, goal: Goal) -> Reason:
    interval = goal_interval(best.estimate, goal)
    span = f"{percent(interval.p10)} to {percent(interval.p90)}"
    gain = f"P(gain) {best.estimate.p_gain:.0%}" if best.estimate is not None else ""
    expected = f"{EXPECTED} '{goal}' is {percent(interval.p50)} ({span}, {gain})"
    texts = {
        "rule": "A finding forbids speculation here",
        "objective": _objective_text(facts, best),
        "one_token": "An answer of one token ends with the prompt: there is no step that "
        "speculation could shorten",
        "unsure": f"{expected}: too uncertain to choose without a benchmark",
        "estimate": expected,
        "unknown_hardware": "Nothing is known of this accelerator: the ratio is that of "
        "others, and "
        "no speed can be told",
    }
    # what no other reason says comes first
    weight = {
        "one_token": 3.0,
        "objective": 3.0,
        "unknown_hardware": 3.0,
        "unsure": 1.5,
        "estimate": 1.5,
    }
    return Reason(
        text=texts[verdict.rule],
        sources=("models/speedup.md",),
        weight=weight.get(verdict.rule, 0.8),
    )


def _objective_text(facts: Facts, best: Candidate) -> str:
    on, off = (p_objective(facts.request, best.estimate, run) for run in ("value", "baseline"))
    if on is None or off is None:
        return ""
    return (
        f"The latency objective is met with a probability of {on:.0%} with speculation and "
        f"{off:.0%} without"
    )


def strongest(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings by severity, errors first."""
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(findings, key=lambda f: (order[f.severity], f.code)))
