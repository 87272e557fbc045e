"""Why: the verdict in sentences, each with its source: measured pairs, step-time terms, rule
findings and the deciding step, strongest first. What would change the answer is said by `what_if`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from advisor.advice.decide import (
    LENGTHS,
    UNPRICED,
    Verdict,
    effects,
    goal_interval,
    meets,
    p_objective,
    vetoes,
)
from advisor.advice.explain import caveats
from advisor.advice.explain.difference import Told, without_acceptance
from advisor.advice.explain.measured import from_evidence, whole_percent
from advisor.advice.explain.no_method import from_drafter, no_method
from advisor.advice.judge import estimate_questions
from advisor.advice.plans import placement
from advisor.domain.nouns import (
    Candidate,
    Estimate,
    Facts,
    Finding,
    Goal,
    MemoryBill,
    Plan,
    Reason,
)
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.perf.prompt_cost import GRAPH_TOKENS
from advisor.prediction import estimates

PHYSICS = "physics core"
SURE = sourced(0.995, "probability", "no chance is printed as a certainty", "chosen")
EXPECTED = "The expected change for the goal"  # so begins the reason that repeats the estimate
FEWER = tuple(sorted({round(2 ** (step / 3)) for step in range(37)}))  # requests at once to try
SAME_GAIN = sourced(
    0.05,
    "log ratio",
    "below it the gain is that of decoding, and nothing else is named",
    "chosen",
)


def explain(facts: Facts, verdict: Verdict, asked: Told) -> tuple[Reason, ...]:
    """Reasons for the verdict, strongest first; `asked`: what was asked beside the estimates."""
    if verdict.best is None:
        known = ("knowledge/llms", "knowledge/drafters") if facts.drafters else ("knowledge/llms",)
        why = Reason(text=no_method(facts, verdict.candidates[0].plan), sources=known, weight=1.0)
        told = [
            why,
            *_from_memory(facts, verdict.candidates[0].plan),
            *caveats.around(facts, verdict.candidates[0].plan),
        ]
        return tuple(sorted(told, key=lambda reason: -reason.weight))
    best = verdict.candidates[verdict.best]
    goal: Goal = facts.goal or "balanced"
    told = [
        *_from_rules(facts, best, verdict),
        *(from_evidence(facts, goal, best, asked) if verdict.rule != "one_token" else ()),
        *_from_step(facts, best, asked.of_lengths(best.plan)),
        *from_drafter(facts, best.plan),
        *_from_other_k(facts, verdict, best, goal),
        _from_decision(facts, verdict, best, goal),
    ]
    told += [*_from_objectives(facts, verdict, best), *_from_queue(facts, verdict, best)]
    if (layout := placement.choice(asked.layouts)) is not None:
        told.append(layout)
    told += _from_memory(facts, verdict.candidates[0].plan)
    told += caveats.around(facts, verdict.candidates[0].plan)
    if verdict.decision != "off" and (unseen := caveats.head(facts, best.plan)) is not None:
        told.append(unseen)
    if verdict.rule == UNPRICED and (open_ := caveats.open_part(facts, best.plan)) is not None:
        told.append(open_)
    return tuple(sorted(told, key=lambda reason: -reason.weight))


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


def _from_rules(facts: Facts, best: Candidate, verdict: Verdict) -> list[Reason]:
    weights = {"veto": 3.0, "k_max": 0.9, "caution": 1.2, "support": 1.3}
    if without_acceptance(facts) is not facts:
        weights["support"] = 0.3  # a gain at what was accepted there, not at what is stated
    told = []
    for finding in best.findings:
        weight = weights.get(finding.effect or "", 0.0)
        if finding.severity == "error":
            weight = 3.0
        if finding.k_max is not None and finding.k_max < best.plan.k:
            weight = 1.3  # the answer goes beyond what was published, which must be read
        if weight:
            text = f"{finding.message} [{finding.code}]"
            if finding.effect == "support" and without_acceptance(facts) is not facts:
                text = f"At another acceptance than yours: {text}"
            told.append(Reason(text=text, sources=finding.sources, weight=weight))
    others = [
        f for i, c in enumerate(verdict.candidates) if i != verdict.best for f in vetoes(c.findings)
    ]
    known = {f.code for f in best.findings}
    for code, finding in {f.code: f for f in others if f.code not in known}.items():
        told.append(
            Reason(
                text=f"Other k excluded: {finding.message} [{code}]",
                sources=finding.sources,
                weight=0.4,
            )
        )
    return told


def _from_step(facts: Facts, best: Candidate, varied: Estimate | None) -> list[Reason]:
    estimate = best.estimate
    if estimate is None:
        return []
    terms, length = estimate.terms, estimate.accepted_length
    base, cycle = terms.get("base_step_ms"), terms.get("cycle_ms")
    if not base or not cycle:
        return []
    decoding = length.p50 * base / cycle
    text = (
        f"A draft-and-verify cycle at k={best.plan.k} costs {cycle / base:.2f} baseline steps and "
        f"yields {length.p50:.2f} tokens ({length.p10:.2f} to {length.p90:.2f}), {decoding:.2f}x "
        f"while decoding{_what_else(best, decoding)}{_varied_lengths(best, varied)}"
    )
    stated = without_acceptance(facts) is not facts
    taken = [value for field, value, _ in facts.defaults if field == "acceptance_k"]
    at = f" (taken as measured at k={taken[0]}: --acceptance-k)" if taken else ""
    text = f"With the acceptance that you state{at}, a{text[1:]}" if stated else text
    return [Reason(text=text, sources=(PHYSICS,), weight=2.7 if stated else 1.4)]


def _varied_lengths(best: Candidate, varied: Estimate | None) -> str:
    """What is expected of answers whose lengths vary, where random text makes them equal and that
    matters: a joint start lets all prompts meet, and then fewer steps save less.
    """
    if varied is None or best.estimate is None:
        return ""
    other = varied.output_tok_s.speedup.p50
    if abs(log(other / best.estimate.output_tok_s.speedup.p50)) < SAME_GAIN:
        return ""
    return f" (random text: answers of one length; {other:.2f}x if their lengths vary)"


def _what_else(best: Candidate, decoding: float) -> str:
    """What makes the whole gain another one than that of decoding, by name; nothing where it does
    not.
    """
    estimate = best.estimate
    if estimate is None or abs(log(estimate.output_tok_s.speedup.p50 / decoding)) < SAME_GAIN:
        return ""
    terms = estimate.terms
    crowded = terms.get("requests_verify", 1) < terms.get("requests_base", 1)
    lost = {f.code: f.effect for f in best.findings if f.effect in ("loss", "caution")}
    what = "documented losses" if "loss" in lost.values() else "losses documented nearby"
    beyond = best.plan.engine == "vllm" and (
        terms.get("requests_verify", 1) * (best.plan.k + 1) > GRAPH_TOKENS
    )
    alone = beyond and estimate.output_tok_s.speedup.p50 > decoding
    parts = [
        "steps that hold prompts, which no CUDA graph serves in either run" if alone else "",
        f"{terms['requests_verify']:.0f} instead of {terms['requests_base']:.0f} requests at once"
        if crowded
        else "",
        "prefill and nearby benchmarks",
        f"{what} ({', '.join(sorted(lost))})" if lost else "",
    ]
    said = " and ".join(part for part in parts if part)
    return f"; with {said}, {estimate.output_tok_s.speedup.p50:.2f}x overall"


def _from_other_k(facts: Facts, verdict: Verdict, best: Candidate, goal: Goal) -> list[Reason]:
    """Where published profiles or sweeps chose k, and the estimate by itself clearly prefers
    another: both are said.
    """
    free = [c for c in verdict.candidates if c.estimate is not None and not vetoes(c.findings)]
    free = [c for c in free if meets(facts.request, c.estimate)] or free
    chose = [f for f in best.findings if f.effect == "support" and f.k_best == best.plan.k]
    if not free:
        return []
    rival = min(free, key=lambda c: (c.regret, c.plan.k))
    limits = [f for f in effects(rival.findings, "k_max") if f.k_max and f.k_max < rival.plan.k]
    chose += sorted(limits, key=lambda f: f.k_max or 0)
    if not chose:
        return []
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
        f"The estimate alone prefers k={rival.plan.k} ({whole_percent(there)} against "
        f"{whole_percent(here)} for the goal '{goal}'), but "
        f"{chose[0].code} {said}; published results take precedence: benchmark both before choosing"
    )
    return [Reason(text=text, sources=("models/speedup.md", *chose[0].sources), weight=1.2)]


def _from_decision(facts: Facts, verdict: Verdict, best: Candidate, goal: Goal) -> Reason:
    interval = goal_interval(best.estimate, goal)
    span = f"{whole_percent(interval.p10)} to {whole_percent(interval.p90)}"
    chance = best.estimate.p_gain if best.estimate is not None else 0.5
    share = ">99" if chance >= SURE else "<1" if chance <= 1 - SURE else f"{100 * chance:.0f}"
    gain = f"P(gain) {share} %"
    expected = f"{EXPECTED} '{goal}' is {whole_percent(interval.p50)} ({span}, {gain})"
    texts = {
        "rule": "A rule forbids speculation here",
        "objective": _objective_text(facts, best) + _load_that_meets(facts, verdict, best),
        "one_token": "An answer of one token ends with the prompt: there is no step that "
        "speculation could shorten",
        "unsure": f"{expected}: too uncertain to choose without a benchmark",
        "estimate": expected,
        UNPRICED: f"{expected}, without what is not priced",
        LENGTHS: f"{expected} with answers of one length: --output-spread 0.5 says that they vary, "
        "--output-spread 0 that they do not",
        "unseen_head": f"{expected}, if the checkpoint keeps the MTP head",
        "unknown_hardware": "This accelerator is unknown: the ratio is that of other "
        "accelerators, and absolute speeds cannot be predicted",
    }
    # what no other reason says comes first
    weight = {
        "one_token": 3.0,
        "objective": 3.0,
        "unknown_hardware": 3.0,
        "unsure": 1.5,
        "estimate": 1.5,
        "unseen_head": 1.5,
        UNPRICED: 1.5,
        LENGTHS: 2.6,
    }
    return Reason(
        text=texts[verdict.rule],
        sources=("models/speedup.md",),
        weight=weight.get(verdict.rule, 0.8),
    )


def _from_objectives(facts: Facts, verdict: Verdict, best: Candidate) -> list[Reason]:
    """What the latency objectives do not decide, where they were asked for and do not: how likely
    each run is to meet them.
    """
    if verdict.rule == "objective" or not (text := _objective_text(facts, best)):
        return []
    neither = not any(meets(facts.request, best.estimate, run) for run in ("value", "baseline"))
    why = "neither is likely to meet it" if neither else "the two hardly differ"
    return [
        Reason(
            text=f"{text}: {why}, so it does not decide{_load_that_meets(facts, verdict, best)}",
            sources=("models/speedup.md",),
            weight=2.8,
        )
    ]


def _from_queue(facts: Facts, verdict: Verdict, best: Candidate) -> list[Reason]:
    """What quicker tokens cost where fewer requests run for them, and the answer is on."""
    one = best.estimate
    if one is None or verdict.decision != "on" or one.output_tok_s.speedup.p50 >= 1:
        return []
    now, then = (round(one.terms[name]) for name in ("requests_base", "requests_verify"))
    if now == then:
        return []
    limit = facts.request and facts.request.model_copy(update={"max_num_seqs": then})
    (alike,) = estimates.estimate(facts.model_copy(update={"request": limit}), [best.plan])
    text = (
        f"Quicker tokens at a price: {then} instead of {now} requests run at once, the others wait "
        f"longer, and output tok/s is {one.output_tok_s.speedup.p50:.2f}x; with {then} at once in "
        f"both launches TPOT is {alike.tpot_ms.speedup.p50:.2f}x, the rest is that limit's"
    )
    return [Reason(text=text, sources=("memory bill",), weight=2.9)]


def _objective_text(facts: Facts, best: Candidate) -> str:
    on, off = (p_objective(facts.request, best.estimate, run) for run in ("value", "baseline"))
    if on is None or off is None:
        return ""
    request = facts.request
    limits = (
        ("TPOT", request.max_tpot_ms if request is not None else None),
        ("TTFT", request.max_ttft_ms if request is not None else None),
    )
    asked = " and ".join(f"{name} of {limit:g} ms" for name, limit in limits if limit is not None)
    return (
        f"{asked} at most: met with a chance of {100 * on:.0f} % with speculation, "
        f"{100 * off:.0f} % without"
    )


def _load_that_meets(facts: Facts, verdict: Verdict, best: Candidate) -> str:
    """How many requests at once the run to start would keep the objectives with, where it probably
    misses them with as many as were asked for.
    """
    run = "value" if verdict.decision == "on" else "baseline"
    asked, request = facts.concurrency or 1, facts.request
    if asked == 1 or meets(request, best.estimate, run):
        return ""
    loads = [n for n in FEWER if n < asked]
    fewer = [facts.model_copy(update={"concurrency": n}) for n in loads]
    told = estimate_questions([(one, (best.plan,), ()) for one in fewer])
    kept = [n for n, made in zip(loads, told, strict=True) if meets(request, made()[0], run)]
    if not kept:
        return "; one request at a time would probably miss it too"
    return f"; with about {max(kept)} at once it would probably be met"


def strongest(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings by severity, errors first."""
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(findings, key=lambda f: (order[f.severity], f.code)))
