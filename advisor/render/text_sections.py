"""Below the first screen: bill, reasons, findings, defaults, evidence, runners-up, A/B, sources."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from math import isfinite, log

from advisor.advice.explain.measured import by_run, evidence_text
from advisor.domain.normal import Z10, cdf
from advisor.domain.nouns import (
    Advice,
    Candidate,
    Estimate,
    Evidence,
    Finding,
    Interval,
    MemoryBill,
    Plan,
    Source,
)
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits
from advisor.engines.vllm import verifies_adaptively
from advisor.knowledge import store as knowledge
from advisor.perf.sizes.pools import shares_context
from advisor.render.layout import Paper, columns, heading, number, pack_command, pack_launch

METHOD_NAMES = {
    "mtp": "MTP",
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "draft_model": "draft model",
    "ngram": "n-gram",
    "dflash": "DFlash",
    "dspark": "DSpark",
}
STATES_BIND = sourced(
    0.5, "share of the pool's tokens", "below it something else bounds the requests", "chosen"
)
GAP = sourced(0.02, "probability", "from it on a chance is said to end at its bound", "chosen")


def chance_words(gain: Interval, estimate: Estimate) -> str:
    """The chance of a gain in whole percent, never certain, "at least" where only bounded."""
    chance = estimate.p_gain
    if not isfinite(chance):
        return "unknown"
    if bound := _bound_words(gain, chance):
        return f"{bound} {round(chance * 100)} %"
    return share_words(chance)


def share_words(chance: float) -> str:
    """A probability in whole percent; nothing is certain."""
    share = round(chance * 100)
    return "over 99 %" if share == 100 else "under 1 %" if share == 0 else f"{share} %"


def _bound_words(gain: Interval, chance: float) -> str:
    """What bounds the chance, "at least" or "at most": where it stands at the largest or smallest
    that is claimed without a benchmark near, and the interval by itself says more.
    """
    side = gain.p50 / gain.p10 if gain.p50 > 1 else gain.p90 / gain.p50
    alone = cdf(Z10 * log(gain.p50) / max(log(side), 1e-9))
    least, most = (knowledge.threshold(name).value for name in ("chance_least", "chance_most"))
    if abs(chance - most) < GAP / 2 and alone > chance + GAP:
        return "at least"
    return "at most" if abs(chance - least) < GAP / 2 and alone < chance - GAP else ""


def beyond(gain: Interval, estimate: Estimate) -> str:
    """Why the chance is not the interval's: no benchmark near, or pairs that move the odds."""
    if _bound_words(gain, estimate.p_gain):
        return " (no benchmark near)"
    if estimate.p_gain > 0.9 and gain.p10 < 1:
        return " (similar benchmarks gained)"
    return " (similar benchmarks lost)" if estimate.p_gain < 0.1 and gain.p90 > 1 else ""


def details(
    advice: Advice, paper: Paper, source_of: Callable[[str], Source | None] | None
) -> list[str]:
    """All sections that have something to say, each after a blank line."""
    estimate = advice.estimate
    terms, notes = (estimate.terms, estimate.notes) if estimate is not None else ({}, ())
    rows = [[name.replace("_", " "), number(value)] for name, value in terms.items()]
    ordered = sorted(advice.reasons, key=lambda r: -r.weight)

    def items(texts: Iterable[str]) -> Iterator[str]:
        return chain.from_iterable(map(paper.item, texts))

    commands = chain.from_iterable(pack_command(x, paper.width) for x in advice.measure_with)
    reasons = chain.from_iterable(paper.item(r.text, r.sources) for r in ordered)
    sections = (
        _section("Measure it on your machine", commands),
        _section("Why, in full", reasons),
        _section("What would change the answer", items(advice.would_change)),
        _findings(advice.findings, paper),
        *_basis(advice, paper),
        _off_launch(advice, paper),
        _section("Parts of the estimate", [*columns(rows, paper, "  "), *items(notes)]),
        _sources(advice, paper, source_of),
    )
    return [line for section in sections if section for line in ("", *section)]


def basis_text(advice: Advice, paper: Paper) -> str:
    """Memory, defaults, runners-up and benchmarks, without the rest of `details`."""
    return paper.text([line for part in _basis(advice, paper) if part for line in ("", *part)][1:])


def _basis(advice: Advice, paper: Paper) -> tuple[list[str], ...]:
    newest = f" (newest {advice.evidence_newest})" if advice.evidence_newest else ""
    others = chain.from_iterable(paper.item(candidate_words(one)) for one in advice.runners_up)
    return (
        _memory(advice, paper),
        _section("Defaults", columns(advice.facts.defaults, paper, "  ")),
        _section("Runners-up", others),
        _section(f"Similar benchmarks{newest}", run_lines(advice.facts.evidence, paper)),
    )


def run_lines(rows: Sequence[Evidence], paper: Paper) -> list[str]:
    """An item for each measured run, with its source."""
    lines = (paper.item(evidence_text(run), (run[0].source,)) for run in by_run(rows))
    return list(chain.from_iterable(lines))


def _section(title: str, lines: Iterable[str]) -> list[str]:
    body = list(lines)
    return [heading(title), *body] if body else []


def _findings(findings: Sequence[Finding], paper: Paper) -> list[str]:
    lines: list[str] = []
    order = {"error": 0, "warning": 1, "info": 2}
    for found in sorted(findings, key=lambda f: (order[f.severity], f.code)):
        lines += paper.item(found.message, found.sources, mark=f"{found.code} {found.severity}: ")
        if found.fix is not None:
            lines += paper.wrap(found.fix.text, "  fix: ")
        for conflict in found.conflicts:
            lines += paper.wrap(conflict, "  other evidence: ")
    return _section("Findings", lines)


def _memory(advice: Advice, paper: Paper) -> list[str]:
    bill = advice.estimate.memory if advice.estimate is not None else None
    if bill is None:
        return []
    state = ("recurrent state", bill.state_gib)
    parts = [
        ("weights", bill.weights_gib),
        ("speculative part", bill.spec_gib),
        ("overhead", bill.overhead_gib),
        ("KV cache", bill.kv_gib),
        ("available", bill.available_gib),
    ]
    pooled = traits(advice.plan.engine).states_in_pool
    parts.insert(4 if pooled else 2, ("  states in it", bill.state_gib) if pooled else state)
    lines = [f"  {name:16}{gib:9.2f} GiB" for name, gib in parts if gib]
    if bill.kv_tokens is not None:
        asked = -(-advice.request.concurrency // advice.plan.dp)  # of one replica
        lines += paper.wrap(_kv_words(bill, advice.candidate or advice.plan, asked), "  ")
    if bill.fits is False and bill.short_gib:
        lines += paper.wrap(f"It does not fit: {number(bill.short_gib)} GiB short.", "  ")
    return _section("Memory per GPU, with speculation", lines)


def _kv_words(bill: MemoryBill, plan: Plan, asked: int) -> str:
    """What the pool holds: requests or slots, what bounds their number, tokens."""
    tokens, lost = bill.kv_tokens or 0, bill.kv_tokens_lost
    text, beside = "", ""
    if bill.requests is not None and bill.request_tokens is not None:
        slots = traits(plan.engine).pool == "slots"
        size = (plan.max_model_len or bill.request_tokens) if slots else bill.request_tokens
        plain = bill.requests_without
        without = f" ({plain:,} without speculation)" if plain else ""
        noun = ("slot" if slots else "request") + ("s" if bill.requests != 1 else "")
        wait = ": the others are queued" if bill.requests < asked else ""
        text = f"{bill.requests:,} {noun} of {size:,} tokens fit{without}, {asked:,} requested"
        text += f"{wait}; "
        running = plan.max_num_seqs or (1 if shares_context(plan) else asked)
        if shares_context(plan):
            text = f"{running:,} slots share a context of {size:,} tokens; "
            beside = " beside the states of all slots" if bill.state_gib else ""
        elif slots and bill.state_gib:
            states = bill.state_gib / running
            cache = (bill.kv_gib or 0.0) / (plan.max_num_seqs or asked)
            binds = "the recurrent states bind" if states > cache else "the KV cache binds"
            text += f"a slot takes {cache:.2f} GiB of KV cache and {states:.2f} GiB of recurrent "
            text += f"states, so {binds}; "
            beside = f" beside the states of {running:,} slot{'s' if running != 1 else ''}"
        elif not slots and bill.state_gib and bill.requests * size < tokens * STATES_BIND:
            text += "the recurrent states bind, not the KV cache; "
    text += f"room for {tokens:,} KV tokens{beside}"
    if lost is None:
        return text
    before = tokens + lost
    share = f", {lost / before * 100:.1f} %" if before > 0 else ""
    return f"{text}; without speculation {before:,} ({lost:,} fewer with it{share})"


def drafts_note(plan: Plan) -> str:
    """What follows k where the engine chooses how many of the drafts it verifies."""
    return ", adaptive" if verifies_adaptively(plan) else ""


def candidate_words(candidate: Candidate) -> str:
    """One line for a judged plan."""
    plan, estimate = candidate.plan, candidate.estimate
    if plan.method == "none" or estimate is None:
        return "no speculation"
    gain = estimate.output_tok_s.speedup
    first = estimate.ttft_ms
    told = f"{number(first.speedup.p50)}x" if first.predictable else "not predictable"
    text = f"{METHOD_NAMES.get(plan.method, plan.method)} k = {plan.k}{drafts_note(plan)}: "
    text += f"output tok/s {number(gain.p50)}x ({number(gain.p10)} to {number(gain.p90)}), TPOT "
    text += f"{number(estimate.tpot_ms.speedup.p50)}x, TTFT {told}"
    stopped = sorted({f.code for f in candidate.findings if f.severity == "error"})
    return f"{text}; stopped by {', '.join(stopped)}" if stopped else text


def _off_launch(advice: Advice, paper: Paper) -> list[str]:
    if advice.decision == "on":
        return _section("The same without speculation", pack_launch(advice.launch_off, paper.width))
    if advice.launch_on is None:
        return []
    launch = pack_launch(advice.launch_on, paper.width)
    return _section("With speculation, if you want to try it", launch)


def _sources(
    advice: Advice, paper: Paper, source_of: Callable[[str], Source | None] | None
) -> list[str]:
    if source_of is None:
        return []
    named = [*chain.from_iterable(r.sources for r in advice.reasons)]
    named += chain.from_iterable(f.sources for f in advice.findings)
    named += [row.source for row in advice.facts.evidence]
    lines: list[str] = []
    for key in dict.fromkeys(named):
        entry = source_of(key)
        if entry is None:
            continue
        words = ", ".join(part for part in (entry.title, entry.address, entry.date) if part)
        if words:
            lines += paper.wrap(words, f"[{key}] ", "    ")
    return _section("Sources", lines)
