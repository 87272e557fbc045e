"""Why an estimate is another number than a measured run, by cause and share.

What it does not know: what a run does not say. What is left then is told apart by how much the
errors of other runs shrink where the acceptance is stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log, prod
from typing import Generic, NamedTuple, Protocol, TypeVar

from advisor.advice.plans.placement import Layout
from advisor.domain.nouns import Candidate, Estimate, Evidence, Facts, Plan
from advisor.domain.question import USUAL_PROMPT
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf import imputation

PRINTED = {
    "output_tok_s": "output_tok_s",
    "request_tok_s": "tpot_ms",
    "tpot": "tpot_ms",
    "ttft": "ttft_ms",
}
FAR = sourced(
    log(1.05),
    "log ratio",
    "from it on a measured run near the question is said to differ from what is expected",
    "chosen",
)
LOAD = ("concurrency", "ctx_tokens", "output_tokens")
OTHER_K_FAR = sourced(log(1.1), "log ratio", "the same of a run at another k", "chosen")
ACCEPTED_PART = sourced(
    0.4,
    "share of the log ratio",
    "left-out errors of 16.7 % with the acceptance that a source states and 22.2 % without "
    "(models/speedup.md): 1 - (16.7 / 22.2)^2, rounded",
    "derived",
)
Share = tuple[str, float]  # a cause, and the ratio that it makes
T = TypeVar("T")


class Steps(NamedTuple, Generic[T]):
    """What holds on each step from a question to a run: as asked, without a stated acceptance, with
    answers whose lengths vary as the run's, with its text, under its load, at its k, and with what
    it accepted.
    """

    asked: T
    unsaid: T
    lengths: T
    read: T
    there: T
    own: T
    accepted: T


Case = tuple[Facts, Plan]


class Told(Protocol):
    """What the model says of a plan under a load that was measured (advice/judge.py)."""

    @property
    def layouts(self) -> Sequence[Layout]:
        """Those that fit, the one of the plans first."""

    def of_load(self, facts: Facts, plan: Plan) -> tuple[float, Mapping[str, float]]:
        """Tokens a step, and the gain of each metric."""

    def of_lengths(self, plan: Plan) -> Estimate | None:
        """The estimate for answers of varied lengths, where that was asked."""


def towards(facts: Facts, row: Evidence, plan: Plan) -> Steps[Case]:
    """From the question to a measured run, a step each."""
    unsaid = without_acceptance(facts)
    lengths = unsaid.model_copy(update={"output_spread": _spread_of(row, facts)})
    read = lengths.model_copy(update={"workload": row.workload})
    load = {
        "concurrency": int(row.concurrency or facts.concurrency or 1),
        "ctx_tokens": int(row.input_tokens or facts.ctx_tokens or USUAL_PROMPT),
        "output_tokens": int(row.output_tokens or facts.output_tokens or 0) or None,
    }
    there, then = read.model_copy(update=load), plan
    shared = row.prefix_share or 0.0
    if there.request is not None and there.request.prefix_share != shared:
        other = there.request.model_copy(update={"prefix_share": shared})
        there = there.model_copy(update={"request": other, "prefix_share": shared})
        then = plan.model_copy(update={"prefix_caching": shared > 0})
    own = then if row.k in (None, plan.k) else then.model_copy(update={"k": row.k})
    told = {"acceptance_length": row.accepted, "acceptance_k": own.k}
    accepted = there
    if row.accepted and there.request is not None:
        accepted = there.model_copy(update={"request": there.request.model_copy(update=told)})
    texts = (facts, plan), (unsaid, plan), (lengths, plan), (read, plan)
    return Steps(*texts, (there, then), (there, own), (accepted, own))


def difference(facts: Facts, rows: Sequence[Evidence], best: Candidate, told: Told) -> str:
    """Why the estimate is not what was measured here, by cause and share: text, load, k, and what
    is left, so that the measured gain times all shares is the expected one. Nothing where it
    lies near.
    """
    row, estimate, plan = rows[0], best.estimate, best.plan
    if estimate is None:
        return ""
    expected = getattr(estimate, PRINTED[row.metric]).speedup.p50
    other_k = row.k not in (None, plan.k)
    if abs(log(expected / row.speedup)) < (OTHER_K_FAR if other_k else FAR):
        return ""
    cases = towards(facts, row, plan)
    found = [told.of_load(*case) for case in cases]
    gains = Steps(*(each[row.metric] for _, each in found))
    tokens = Steps(*(tau for tau, _ in found))
    ran = gains.own / gains.accepted if row.accepted else 1.0
    # a text's share and its opposite for what the run accepted are one cause
    cancel = not other_k and log(tokens.lengths / tokens.read) * log(ran) < 0
    bare = row.metric == "request_tok_s"  # while no prompt is computed, and TPOT has them between
    between = found[0][1]["tpot"] / gains.asked if bare else 1.0
    shares = [
        ("prompts between the steps, which the run leaves out", between),
        *_text_shares(facts, cases, tokens, gains, (row.accepted if cancel else None, ran)),
        *_load_shares(facts, cases, gains),
        *_regime_shares(best, expected / (gains.asked * between)),
    ]
    if other_k:
        shares.append((f"k={plan.k} instead of {row.k}", gains.there / gains.own))
    if row.accepted and not cancel:
        what = f"the run accepted {row.accepted:.2f}, {tokens.own:.2f} expected"
        shares.append((what, ran))
    # what a reader does not miss is a part of what is left, or not told
    shares = [
        (what, ratio)
        for what, ratio in shares
        if abs(log(ratio)) >= FAR / 2 or (cancel and " accepts " in what)
    ]
    left = expected / (row.speedup * prod(ratio for _, ratio in shares))
    shares += _rest_shares(row, left) if abs(log(left)) >= FAR / 2 else []
    parts = [f"{what} ({_share(ratio)})" for what, ratio in shares]
    how = f" with {row.workload} text" if row.workload else ""
    how += " while decoding" if abs(log(between)) >= FAR / 2 else ""
    why, place = "; ".join(parts).replace("; and ", " and "), "here" if row.covers else "nearest"
    return f"Measured {row.speedup:.2f}x {place}{how}, {expected:.2f}x expected: {why}. The run: "


def _text_shares(
    facts: Facts,
    cases: Steps[Case],
    tokens: Steps[float],
    gains: Steps[float],
    run: tuple[float | None, float],
) -> list[Share]:
    """What the stated acceptance and the kind of text make; prompts that do not say it are taken
    for what is usual. `run` is what the run accepted, where that makes up for its text, and the
    ratio that it makes.
    """
    unsaid, read = cases.unsaid[0], cases.read[0]
    ours = tokens.unsaid
    shares: list[Share] = []
    if unsaid is not facts:
        what = f"the acceptance that you state gives {tokens.asked:.2f} instead of {ours:.2f}"
        shares.append((f"{what} tokens a step", gains.asked / gains.unsaid))
    vary = "had one length" if read.output_spread == 0 else "varied in length"
    shares.append((f"the run's answers {vary}", gains.unsaid / gains.lengths))
    if read.workload == facts.workload:
        return shares
    theirs, whole = tokens.read, gains.lengths / gains.read
    text = facts.workload or "this"
    what = f"{text} text accepts {ours:.2f} instead of {theirs:.2f} tokens a step"
    what += "" if read.workload else " of a text that the run does not name"
    if run[0]:
        theirs, whole = run[0], whole * run[1]
        what = f"{text} text accepts {ours:.2f} tokens a step, the run accepted {theirs:.2f}"
    accepts = round(ours, 2) / round(theirs, 2)
    rest = whole / accepts
    beside = f"and {_beside_acceptance(facts, read, accepts, rest)}"
    return [*shares, (what, accepts), (beside, rest)]


def _beside_acceptance(facts: Facts, read: Facts, accepts: float, rest: float) -> str:
    """What another text changes beside what is accepted: random tokens share no experts of a
    mixture, and prompts gain nothing by more accepted tokens.
    """
    random = [one.workload == "random" for one in (facts, read)]
    sparse = facts.model is not None and facts.model.is_moe
    if sparse and random[0] != random[1] and random[1] == (rest > 1):
        if random[1]:
            return f"{facts.workload} text reaches fewer experts a step than random tokens"
        return "random tokens reach more experts a step"
    if (accepts - 1) * (rest - 1) < 0:
        return "prompts take their time all the same"
    return f"{facts.workload or 'this'} text's steps cost {'less' if rest > 1 else 'more'}"


def _load_shares(facts: Facts, cases: Steps[Case], gains: Steps[float]) -> list[Share]:
    there, ratio = cases.there[0], gains.read / gains.there
    if cases.there[1] is not cases.read[1]:
        shared = "with" if cases.there[1].prefix_caching else "without"
        return [(f"the load is another, {shared} a shared prefix", ratio)]
    if all(getattr(there, name) == getattr(facts, name) for name in LOAD):
        return []
    # requests and prompts stand with the run
    tokens = there.output_tokens if there.output_tokens != facts.output_tokens else None
    answers = f", with answers of {tokens:,} tokens" if tokens else ""
    return [(f"the load is another{answers}", ratio)]


def _spread_of(row: Evidence, facts: Facts) -> float | None:
    """How much the lengths of the run's answers vary: as it says, as those asked about where the
    text is the same or not said, and else as is usual of its text.
    """
    if row.output_spread is not None:
        return row.output_spread
    if row.workload in (None, facts.workload):
        return facts.output_spread
    return 0.0 if row.workload == "random" else imputation.value("output_spread")


def _regime_shares(best: Candidate, ratio: float) -> list[Share]:
    """What losses that are documented, or requests that wait, make of the gain of the steps."""
    codes = sorted({f.code for f in best.findings if f.effect in ("loss", "caution")})
    terms = best.estimate.terms if best.estimate is not None else {}
    waits = terms.get("requests_verify", 1) < terms.get("requests_base", 1)
    if ratio > 1 or not (codes or waits):  # the pairs nearby moved the median: it is what is left
        return []
    what = f"documented losses ({', '.join(codes)})" if codes else "the requests that wait"
    return [(what, ratio)]


def _rest_shares(row: Evidence, left: float) -> list[Share]:
    """What no number of the run explains, by what it can be: how its two runs were made, what its
    steps cost where it says what was accepted, and else both.
    """
    if abs(log(left)) < FAR:
        return [("runs of one setting scatter", left)]
    if not row.clean:
        return [("its two sides differ in more, or do not state their settings", left)]
    spread = knowledge.threshold("owner_sd_same_regime").value
    rare = "" if abs(log(left)) <= spread else " by more than owners of one setting usually differ"
    fewer, dearer = ("fewer", "more") if left > 1 else ("more", "less")
    if row.accepted:
        return [(f"its own steps cost {dearer} than expected{rare}", left)]
    accepted = left**ACCEPTED_PART
    what = f"the run probably accepted {fewer} than expected, which it does not say"
    return [(what, accepted), (f"and its own steps cost {dearer}{rare}", left / accepted)]


def without_acceptance(facts: Facts) -> Facts:
    """The facts as if no acceptance had been stated; the same ones where none was."""
    request = facts.request
    if request is None or (request.acceptance is None and request.acceptance_length is None):
        return facts
    bare = {"acceptance": None, "acceptance_length": None, "acceptance_k": None}
    return facts.model_copy(update={"request": request.model_copy(update=bare)})


def _share(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %"
