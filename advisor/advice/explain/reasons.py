"""Why: the verdict in sentences, each with its source, strongest first."""

from collections.abc import Sequence
from math import log

from advisor import engines
from advisor.advice.decide import LENGTHS, UNPRICED, Verdict, effects, goal_interval, vetoes
from advisor.advice.explain import caveats
from advisor.advice.explain.difference import Beside, without_acceptance
from advisor.advice.explain.measured import from_evidence
from advisor.advice.explain.what_if import no_method
from advisor.advice.judge import estimate_plans
from advisor.advice.objectives import meets
from advisor.advice.plans import placement
from advisor.advice.wording import name_of, reason, span, whole_percent
from advisor.domain.nouns import Candidate, Estimate, Facts, Finding, Goal, Plan, Reason
from advisor.domain.shell import shell_words
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.knowledge import drafters
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.rules.registry import get_defect

DEFECT = "vllm-mtp-prefix-caching-accuracy"
BRIEF = "drafts switch the prefix cache off here; both together: --explain"
SUFFIX = "Suffix decoding needs arctic-inference beside vLLM: pip install arctic-inference==0.1.1"
PHYSICS = "physics core"
SAME_GAIN = sourced(
    0.05, "log ratio", "below it the gain is that of decoding, and nothing else is named", "chosen"
)
OTHER_GAIN = sourced(
    0.2, "log ratio", "beyond it the price of a step alone would mislead a reader", "chosen"
)

DECIDED = {  # what is said of a deciding step
    "one_token": "An answer of one token ends with the prompt: speculation has no step to shorten",
    LENGTHS: "This is for answers of one length: --output-spread 0.5 says that they vary, "
    "--output-spread 0 that they do not",
    "unknown_hardware": (
        "This accelerator is unknown: the ratio is that of others, and no speed is predicted"
    ),
}


def explain(facts: Facts, verdict: Verdict, beside: Beside) -> tuple[Reason, ...]:
    """Reasons for the verdict, strongest first; `beside`: what was asked beside the estimates."""
    base, best, goal = verdict.candidates[0].plan, verdict.best_candidate, facts.aim
    reasons: list[Reason | None]
    plan = base  # without speculation nothing is said of heads and tails
    if best is None:
        known = ("knowledge/llms", "knowledge/drafters") if facts.drafters else ("knowledge/llms",)
        reasons = [reason(no_method(facts, base), *known, weight=1.5)]
    else:
        reasons = [
            *_from_rules(facts, best, verdict),
            *(from_evidence(facts, goal, best, beside) if verdict.rule != "one_token" else ()),
            _from_step(facts, best),
            *_from_drafter(facts, best.plan),
            _from_other_k(facts, verdict, best, goal),
        ]
        if verdict.rule in DECIDED:
            why, lengths = DECIDED[verdict.rule], verdict.rule == LENGTHS
            reasons.append(reason(why, "models/speedup.md", weight=2.6 if lengths else 3.0))
        reasons.append(_from_cache(facts, base, best))
        plan = best.plan
    on = verdict.decision != "off"
    reasons += [
        caveats.tails(facts, plan) if on else None,
        placement.choice(beside.layouts),
        _from_memory(facts, base),
        *caveats.around(facts, base),
        caveats.head(facts, plan) if on else None,
        caveats.open_part(facts, plan) if verdict.rule == UNPRICED else None,
    ]
    return tuple(sorted((r for r in reasons if r is not None), key=lambda r: -r.weight))


def _from_drafter(facts: Facts, plan: Plan) -> list[Reason]:
    """Which published drafter the plan uses, and what is said of it elsewhere."""
    known, asked = drafters.of_plan(facts, plan), facts.question
    if known is None:
        return [reason(SUFFIX, "vllm-0.33-source", weight=1.25)] if asked.method == "suffix" else []
    how = f"{drafters.TITLES[known.method]}'s in general, not its own"
    more = "; pass --acceptance or --acceptance-length to use your own"
    if (asked.acceptance or asked.acceptance_length) is not None:
        how, more = "as you gave it", ""
    name = f"inside {known.repository}" if known.inside else known.repository
    publisher, _, _ = known.repository.partition("/")
    who = "" if known.target.startswith(f"{publisher}/") else f", published by {publisher}"
    terms = f"; licence: {known.licence}" if known.licence else ""
    text = f"Drafter {name}{who}; acceptance {how}; made for {known.target}{more}{terms}"
    reasons = [reason(text, *known.sources[:1], weight=1.15)]
    usable = (row for row in drafters.usable(facts) if row.target == known.target)
    others = ", ".join(row.repository for row in usable if row is not known)
    k = known.k if known.k != plan.k else None
    parts = (
        f"reported: {known.reported}" if known.reported else "",
        f"served with {k} draft token{'s' if k != 1 else ''}" if k else "",
        known.note,
        *(f"other evidence: {conflict}" for conflict in known.conflicts),
        f"also published: {others}" if others else "",
    )
    if note := "; ".join(part for part in parts if part):
        reasons.append(reason(f"Of this drafter: {note}", *known.sources, weight=0.45))
    return reasons


def _from_cache(facts: Facts, base: Plan, best: Candidate) -> Reason | None:
    """What to change in the launch with drafts, what is expected of it, and what speaks against it;
    None where the cache is on with drafts too, or nobody asked.
    """
    goal, plan = facts.aim, best.plan
    hybrid, asked = facts.llm.is_hybrid, facts.prefix_share or goal == "ttft"
    if not (hybrid and asked and base.prefix_caching) or plan.prefix_caching:
        return None
    adapter = engines.get(plan.engine)
    keeps = plan.replace(prefix_caching=True, plain_caching=None)
    now, then = (adapter.units(adapter.to_launch(one)) for one in (plan, keeps))
    added = [shell_words(unit) for unit in then if unit not in now]
    gone = [shell_words(unit) for unit in now if unit not in then]
    text = "Drafts and prefix cache together: "
    text += f"{' '.join(added) or 'nothing'} in place of {' '.join(gone)}"
    if facts.prefix_share:
        gain = goal_interval(estimate_plans(facts, [keeps])[0], goal)
        text += f", {whole_percent(gain.p50)} expected ({span(gain)})"
    sources: tuple[str, ...] = ("own",)
    note = "compare answers on repeated prompts"
    if traits(plan.engine).states_in_pool:
        sources = get_defect(DEFECT).sources[:2]
        note = "not the answer here, as answers on cache hits can be wrong and no fix is known"
    return reason(f"{text}; {note}", *sources, weight=2.6, brief=BRIEF, risk=True)


def _from_memory(facts: Facts, plan: Plan) -> Reason | None:
    """That not all requests run at once, or what stands in the way of a memory bill."""
    bill = memory.bill(facts, plan)
    unchecked = "Whether it fits was not checked: "
    if bill.fits is None and bill.weights_gib and bill.available_gib is None:
        text = f"{unchecked}the memory of {name_of(facts.hardware, 'this hardware')} is not known"
        return reason(f"{text} here", "knowledge/hardware", weight=0.9)
    if bill.fits is None:
        what = "the KV cache" if bill.weights_gib else "the size"
        text = f"{unchecked}{what} of {name_of(facts.model, 'this model')} is not known here"
        return reason(text, "knowledge/llms", weight=0.9)
    asked = memory.replica(facts, plan).concurrency or 1
    if bill.requests is None or bill.requests >= asked:
        return None
    text = (
        f"The memory holds {bill.requests:,} of {asked:,} requests of "
        f"{bill.request_tokens or 0:,} tokens at once, without speculation: the others wait"
    )
    brief = f"{bill.requests:,} of {asked:,} requests run at once, the others wait"
    return reason(text, "memory bill", weight=1.35, brief=brief, risk=True)


def _from_rules(facts: Facts, best: Candidate, verdict: Verdict) -> list[Reason]:
    weights = {"veto": 3.0, "k_max": 0.9, "caution": 1.2, "support": 1.3}
    stated = without_acceptance(facts) is not facts
    if stated:
        weights["support"] = 0.3  # a gain at what was accepted there, not at what is stated
    reasons = []
    for finding in best.findings:
        weight = 3.0 if finding.severity == "error" else weights.get(finding.effect or "", 0.0)
        if finding.k_max is not None and finding.k_max < best.plan.k:
            weight = 1.3  # the answer goes beyond what was published, which must be read
        if weight:
            other = "At another acceptance than yours: "
            text = other if stated and finding.effect == "support" else ""
            text += f"{finding.message} [{finding.code}]"
            reasons.append(reason(text, *finding.sources, weight=weight))
    known = {f.code for f in best.findings}
    others = (f for c in verdict.candidates if c is not best for f in vetoes(c.findings))
    against = {finding.code: finding for finding in others if finding.code not in known}
    for code, finding in against.items():
        text = f"Other k excluded: {finding.message} [{code}]"
        reasons.append(reason(text, *finding.sources, weight=0.4))
    return reasons


def _from_step(facts: Facts, best: Candidate) -> Reason | None:
    if (estimate := best.estimate) is None:
        return None
    terms, length = estimate.terms, estimate.accepted_length
    base, cycle = terms.get("base_step_ms"), terms.get("cycle_ms")
    if not base or not cycle:
        return None
    decoding = length.p50 * base / cycle
    stated = without_acceptance(facts) is not facts
    taken = [value for field, value, _ in facts.defaults if field == "acceptance_k"]
    at = f" (taken as measured at k={taken[0]}: --acceptance-k)" if taken else ""
    text = (
        f"{f'With the acceptance that you state{at}, a' if stated else 'A'} draft-and-verify cycle "
        f"at k={best.plan.k} costs {cycle / base:.2f} baseline steps and "
        f"yields {length.p50:.2f} tokens ({length.p10:.2f} to {length.p90:.2f}), {decoding:.2f}x "
        f"while decoding{_what_else(best, decoding)}"
    )
    drafts = f"a step with {best.plan.k} draft{'s' if best.plan.k > 1 else ''}"
    brief = f"{drafts} costs {cycle / base:.2f} plain ones and yields {length.p50:.2f} tokens"
    overall = estimate.output_tok_s.speedup.p50
    apart = log(overall / decoding)
    if (lost := loss_words(best.findings)) and apart <= -SAME_GAIN:
        brief = f"{decoding:.2f}x while decoding; {lost} leave {overall:.2f}x"
    elif abs(apart) >= OTHER_GAIN or (decoding < 1 < overall and apart >= SAME_GAIN):
        brief = f"{decoding:.2f}x while decoding{_what_else(best, decoding)}"
    if facts.aim == "tpot" and overall <= 1 < (tpot := estimate.tpot_ms.speedup.p50):
        brief = (
            f"TPOT {tpot:.2f}x, as a step beside prompts yields {length.p50:.2f} tokens; output "
            f"tok/s {overall:.2f}x, so a whole request takes longer"
        )
    return reason(text, PHYSICS, weight=2.7 if stated else 1.4, brief=brief)


def loss_words(findings: Sequence[Finding]) -> str:
    """The documented losses that are in the gain, by their codes; "" where there are none."""
    lost = {f.code: f.effect for f in findings if f.effect in ("loss", "caution")}
    what = "documented losses" if "loss" in lost.values() else "losses documented nearby"
    return f"{what} ({', '.join(sorted(lost))})" if lost else ""


def _what_else(best: Candidate, decoding: float) -> str:
    """What makes the whole gain another one than that of decoding, by name."""
    assert best.estimate is not None  # whose decoding it is
    terms, overall = best.estimate.terms, best.estimate.output_tok_s.speedup.p50
    if abs(log(overall / decoding)) < SAME_GAIN:
        return ""
    now, then = (terms.get(name, 1) for name in ("requests_base", "requests_verify"))
    parts = [
        f"{then:.0f} instead of {now:.0f} requests at once" if then < now else "",
        "prefill and nearby benchmarks",
        loss_words(best.findings),
    ]
    return f"; with {' and '.join(part for part in parts if part)}, {overall:.2f}x overall"


def _from_other_k(facts: Facts, verdict: Verdict, best: Candidate, goal: Goal) -> Reason | None:
    """That documents chose k where the estimate by itself clearly prefers another."""
    free = [c for c in verdict.candidates if c.estimate is not None and not vetoes(c.findings)]
    free = [c for c in free if meets(facts.request, c.estimate)] or free
    if not free or verdict.decision == "off":
        return None
    rival = min(free, key=lambda c: (c.regret, c.plan.k))
    limits = [f for f in effects(rival.findings, "k_max") if f.k_max and f.k_max < rival.plan.k]
    chose = [f for f in best.findings if f.effect == "support" and f.k_best == best.plan.k]
    chose += sorted(limits, key=lambda f: f.k_max or 0)
    here, there = (goal_interval(c.estimate, goal).p50 for c in (best, rival))
    if not chose or there / here < 1 + 2 * knowledge.threshold("replicate_noise").value:
        return None
    limit = chose[0].effect == "k_max"
    choice = f"allows k={chose[0].k_max} at most" if limit else f"names k={best.plan.k}"
    text = (
        f"The estimate alone prefers k={rival.plan.k} ({whole_percent(there)} against "
        f"{whole_percent(here)} for the goal '{goal}'), but {chose[0].code} {choice}; published "
        "results take precedence: benchmark both before choosing"
    )
    return reason(text, "models/speedup.md", *chose[0].sources, weight=1.2)


def one_limit(estimate: Estimate, slots: int, free: bool) -> Reason:
    """That both runs have the requests that fit with drafts; a launch without may be `free`."""
    now, tpot = round(estimate.terms["requests_base"]), estimate.tpot_ms
    rate = estimate.output_tok_s
    text = (
        f"With speculation {slots} instead of {now} requests run at once, the others wait: both "
        f"runs have {slots}, so that the gain is speculation's own. Against {now} at once TPOT is "
        f"{tpot.speedup.p50:.2f}x, most of it by the limit, output tok/s {rate.speedup.p50:.2f}x"
    )
    brief = f"compared with {slots} at once in both runs: so many fit with drafts, {now} without"
    if free and rate.baseline and tpot.baseline:
        speeds = (f"{float(f'{x:.2g}'):,.0f}" for x in (rate.baseline, tpot.baseline))
        brief = f"{brief}; this launch runs {now}: {' tok/s, TPOT '.join(speeds)} ms"
    return reason(text, "memory bill", weight=2.9, brief=brief, risk=True)


def strongest(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Findings by severity, errors first."""
    order = {"error": 0, "warning": 1, "info": 2}
    return tuple(sorted(findings, key=lambda f: (order[f.severity], f.code)))
