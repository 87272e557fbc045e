"""The sentences of a first screen: how much and how sure, objectives, risks, the A/B."""

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10

from advisor.advice.objectives import EVEN
from advisor.advice.plans import methods
from advisor.advice.wording import span, whole_percent
from advisor.domain.nouns import Advice, Estimate, Evidence, Facts, Plan, Reason
from advisor.domain.question import USUAL_OUTPUT
from advisor.domain.sourced import sourced
from advisor.engines.benchmarks import requests
from advisor.engines.traits import gguf_engine, traits
from advisor.engines.vllm import verifies_adaptively
from advisor.knowledge import store as knowledge
from advisor.perf import kernels
from advisor.render.layout import number
from advisor.render.text_sections import METHOD_NAMES, beyond, chance_words, share_words
from advisor.rules.kit.policy import graphs_end

AB_SEEDS = 2  # runs of each arm
LONG_MS = 1e3  # from here on times are told in seconds
LONGER = sourced(1.5, "ratio", "growth of TTFT that goes with the decision", "chosen")
NEAR = sourced(
    0.12, "probability", "a chance that other answers call enough: the reader compares", "chosen"
)
NEAR_END = sourced(
    1.42, "ratio", "half a doubling of requests to where CUDA graphs end: one of two", "chosen"
)
GRAVE = ("SD268", "SD272", "SD279")  # may not start on the device, or hang or not sample
ROUNDED = 0.005  # what whole percent hide


def verdict(advice: Advice) -> str:
    """By how much, how sure, and what decided where that is not the estimate: one sentence."""
    gain, estimate = advice.gain, advice.estimate
    if advice.decided_by == "spread" and gain is not None:
        lean = "gain" if gain.p50 > 1 else "loss"
        return (
            f"Likely a {lean}: {whole_percent(gain.p50)} in TPOT ({span(gain)}), experts in system "
            "memory: gains and losses were measured."
        )
    if estimate is None or advice.candidate is None:
        if advice.decision == "measure":
            return _unknown_launch(advice)
        own, asked = methods.methods(advice.facts), advice.request.method
        where = "in this layout" if advice.next_layout else "here"
        lack = "No drafter of it runs" if advice.facts.drafters else "No head or drafter is known"
        why = f"{lack} here (--method ngram needs none)"
        why = f"Nothing that drafts by --method {asked} is known to run here" if asked else why
        why = f"{METHOD_NAMES[own[0]]} has no path or no room {where}" if own else why
        return f"{why}, so there is no gain to estimate."
    if gain is None:
        return _first_token(advice, estimate)
    goal = advice.facts.goal or advice.request.goal
    size = f"{whole_percent(gain.p50)} for the goal {goal} ({span(gain)})"
    chance = f"{chance_words(gain, estimate)}{beyond(gain, estimate)}"
    if advice.decision != "measure":
        text = f"Expected {size}, chance of a gain {chance}"
    elif estimate.p_gain >= EVEN:
        text = f"Likely a gain, chance {chance}: {size}"
    else:
        text = f"Likely a loss, chance of a gain {chance}: {size}"
    if advice.decision == "off" and advice.decided_by == "estimate" and gain.p50 > 1:
        least = knowledge.threshold("decision_off_p_gain").value
        return f"{text}: up to {100 * least:.0f} % it stays off, as losses cost more."
    return f"{text}{_because(advice, estimate)}{_price(advice)}."


def _unknown_launch(advice: Advice) -> str:
    """Which way a model leans for whose drafts no launch is known: as others measured."""
    rows = methods.measured_elsewhere(advice.facts) if advice.facts.model is not None else ()
    if not rows:
        return "This model may draft, but no launch for that is known here: no estimate."
    name = METHOD_NAMES.get(rows[0].method, rows[0].method)
    lean = f"Likely a {'gain' if rows[0].median > 1 else 'loss'}: others"
    who = "One owner" if len(rows[0].sources) == 1 else lean  # who is no sign for other machines
    return f"{who} measured {name} at {times(rows[0].median)}; no launch for it is known here."


def _first_token(advice: Advice, estimate: Estimate) -> str:
    """Which way a goal leans that is not predictable: as measured here, else as tokens go."""
    if (row := ttft_pair(advice)) is not None:
        lean = "gain" if row.speedup > 1 else "loss"
        seen = times(row.speedup)
        return f"Likely a {lean}: TTFT was measured {seen} here; it cannot be predicted for yours."
    rate = estimate.output_tok_s.speedup.p50
    return (
        f"Likely a {'gain' if rate > 1 else 'loss'} in output tok/s ({whole_percent(rate)}); "
        "TTFT cannot be predicted here."
    )


def _price(advice: Advice) -> str:
    """What the first token pays where the answer is on."""
    estimate = advice.estimate
    if advice.decision != "on" or estimate is None or not estimate.ttft_ms.predictable:
        return ""
    longer = 1 / estimate.ttft_ms.speedup.p50
    if longer < LONGER:
        return ""
    now, then = (round(estimate.terms.get(f"requests_{run}", 0)) for run in ("base", "verify"))
    fewer = f" ({then} instead of {now} requests run at once)" if then < now else ""
    return f"; the time to first token is {two_digits(longer)} times as long{fewer}"


def _because(advice: Advice, estimate: Estimate) -> str:
    """What decided where that is not the estimate, and the bound where the chance lies near it."""
    least = knowledge.threshold("decision_on_p_gain").value
    near = not estimate.own_share and least - NEAR <= estimate.p_gain < least + ROUNDED
    if advice.decided_by == "estimate" and advice.decision == "on" and near:
        return ", enough where a gain was measured" if estimate.p_gain < least else ""
    if advice.decided_by == "unsure" and near:
        return f"; without a benchmark of this setting it takes {ceil(100 * least)} %"
    if advice.decided_by == "objective" and advice.decision == "off":
        return "; the latency objective decides"
    return _BECAUSE.get(advice.decided_by, "")


_BECAUSE = {
    "rule": "; a rule forbids it nevertheless",
    "one_token": "; an answer of one token has no step to shorten",
    "lengths": "; more if the lengths of answers vary",
    "unknown_hardware": "; this accelerator is unknown",
}


def objective_words(advice: Advice) -> str:
    """Whether the latency limits are met: chance with and without, and users within them."""
    asked = advice.objective
    if asked is None:
        return ""
    limits = ", ".join(
        f"{name} {x:g} ms" if x < LONG_MS else f"{name} {x / LONG_MS:g} s"
        for name, x in (("TPOT", asked.max_tpot_ms), ("TTFT", asked.max_ttft_ms))
        if x is not None
    )
    arms = [
        (asked.chance, asked.users, "with"),
        (asked.chance_without, asked.users_without, "without"),
    ]
    if advice.decision != "on":  # the run to start goes first
        arms.reverse()
    parts: list[str] = []
    for chance, users, how in arms:
        if chance is not None:
            sure = "" if parts else " at 90 %"
            many = "user" if users == 1 else "users"
            count = f" ({number(users)} {many}{sure})" if users is not None else ""
            parts.append(f"{share_words(chance)} {how}{count}")
    met = {True: "met", False: "missed", None: "not known"}[asked.met]
    return f"Objective {limits} {met}: {', '.join(parts) or 'no speed is predicted here'}."


def risks(advice: Advice) -> list[str]:
    """What could go wrong, the weightiest first: above all, of how the device runs it."""
    starts = [x for x in advice.findings if x.code in GRAVE and not x.effect]
    flagged = [f"{x.message} [{x.code}]" for x in starts]
    flagged += [r.brief or r.text for r in strongest(advice.reasons) if r.risk]
    end = kernel_words(advice.facts, advice.candidate, advice.request.concurrency)
    return [risk for risk in (*flagged[:1], end, _acceptance_risk(advice)) if risk]


def kernel_words(facts: Facts, plan: Plan | None, requests: int) -> str:
    """From which load on steps leave vLLM's CUDA graphs, or llama.cpp's kernels for few tokens
    where these were not tuned to cost the same, if so many are near; or "".
    """
    few = kernels.LONGEST
    if plan and gguf_engine(plan.engine) and facts.device.arch not in kernels.TUNED:
        near = few / NEAR_END <= requests <= NEAR_END * few
        jump = f"{few:.0f} tokens a step: speeds jump from {few:.0f} to {few + 1:.0f} requests"
        return f"llama.cpp's kernels for few tokens end at {jump}" if near else ""
    if plan is None or facts.hardware is None or (ends := graphs_end(facts, plan)) is None:
        return ""
    tokens, last = ends
    running = min(requests, (plan.max_num_seqs or requests) * plan.dp)
    if not last / NEAR_END <= running <= NEAR_END * last:
        return ""
    return (
        f"k={plan.k} leaves vLLM's CUDA graphs ({tokens} tokens a step) from {last + 1:,} "
        "requests on: steps are slower there [SD425]"
    )


def _acceptance_risk(advice: Advice) -> str:
    """The acceptance at which steps gain nothing, and what to do there, or ""."""
    plan, estimate, on = advice.candidate, advice.estimate, advice.launch_on
    if plan is None or estimate is None or on is None or advice.decided_by in _NOT_BY_DRAFTS:
        return ""
    if verifies_adaptively(plan) or estimate.tpot_ms.speedup.p90 <= 1:
        return ""  # the engine watches it, or no acceptance gains: so short are the answers
    expected = estimate.accepted_length.p50
    even = expected / estimate.tpot_ms.speedup.p50  # a step costs the same whatever is accepted
    if not 1 < even < plan.k + 1:
        return ""
    level, now = f"{even:.2f} tokens a step", f"{expected:.2f}"
    if traits(plan.engine).gguf:  # its log tells the share
        level, now = (f"{100 * (x - 1) / plan.k:.0f} %" for x in (even, expected))
        level += " of drafts"
    if advice.decision == "off":
        missed = f"a gain is missed if you accept over {level} ({now} expected)"
        return missed if even > expected else ""
    if advice.decision == "measure":  # the launch that is shown has no drafts
        return f"watch acceptance in the A/B: below {level}, drafts do not pay"
    flags = [w for w in on.argv if w.startswith("--spec") and w not in advice.launch_off.argv]
    drop = flags[0] if len(flags) == 1 else f"--{flags[0].split('-')[2]}-*" if flags else ""
    then = f"drop {drop.partition('=')[0]}" if drop else "launch without it (--explain)"
    return f"watch acceptance: below {level}, {then}"


_NOT_BY_DRAFTS = ("rule", "one_token")


def ab_heading(advice: Advice) -> str:
    """How long the A/B of the first screen takes, by the estimate."""
    estimate, facts = advice.estimate, advice.facts
    first = estimate.ttft_ms.baseline if estimate is not None else None
    if not advice.measure_with:
        return "A/B: add a drafter to the launch, measure both, then advisor ab OFF ON"
    then = f" (then {advice.measure_with[1]})"
    if estimate is None or first is None or not estimate.tpot_ms.value:
        return f"A/B{then}"
    users = facts.concurrency or 1
    each = (estimate.tpot_ms.baseline or 0.0) + estimate.tpot_ms.value
    rounds = AB_SEEDS * max(ceil(requests(users) / users), 1) + 1
    minutes = rounds * (2 * first + each * (facts.output_tokens or USUAL_OUTPUT)) / 6e4
    return f"A/B, about {max(round(minutes), 1)} min and two server starts{then}"


def strongest(reasons: Sequence[Reason]) -> list[Reason]:
    """Reasons, the weightiest first."""
    return sorted(reasons, key=lambda r: -r.weight)


def ttft_pair(advice: Advice) -> Evidence | None:
    """What was measured of the first token where this load is covered."""
    rows = [row for row in advice.facts.evidence if row.covers and row.metric == "ttft"]
    k = advice.candidate.k if advice.candidate is not None else None
    return min(rows, key=lambda row: row.k != k, default=None)


def times(ratio: float) -> str:
    """A speed-up as "1.24x"."""
    return f"{number(ratio)}x"


def two_digits(value: float) -> str:
    """A number with two significant digits."""
    if not isfinite(value) or value <= 0:
        return number(value)
    two = float(f"{value:.2g}")
    return f"{two:,.{max(1 - floor(log10(two)), 0)}f}"
