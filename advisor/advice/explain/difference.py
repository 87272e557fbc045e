"""Why an estimate is another number than a measured run, by cause and share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import log, prod
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from advisor.advice.decide import crowds
from advisor.advice.plans.placement import Layout
from advisor.advice.wording import whole_percent
from advisor.domain.nouns import Candidate, Estimate, Evidence, Facts, Plan, Reason
from advisor.domain.question import USUAL_PROMPT
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf import arrays, imputation
from advisor.perf.encoding.encode_plans import from_questions
from advisor.prediction.predict import Medians

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
T = TypeVar("T")
Case = tuple[Facts, Plan]


class Share(NamedTuple):
    """A cause and the ratio that it makes."""

    cause: str
    ratio: float
    joined: bool = False  # to the cause before it, with "and"
    shown: bool = False  # however little it makes


class Steps(NamedTuple, Generic[T]):
    """What holds on each step from a question to a run: as asked, without a stated acceptance, with
    the run's lengths, its text, its load, its k, and with what it accepted.
    """

    asked: T
    unsaid: T
    lengths: T
    read: T
    there: T
    own: T
    accepted: T


class Beside(NamedTuple):
    """What a batch is asked beside its plans (batch sizes of every plan, measured loads of one) and
    what it said of them; with the layouts, and what else is published (`rivals.explain`).
    """

    facts: Facts
    plans: Sequence[Plan]
    layouts: Sequence[Layout]
    sizes: Sequence[int]
    loads: Sequence[Case]
    medians: Medians = Medians(np.empty(0), {}, {})
    rival: Callable[[Candidate], Reason | None] = lambda _: None
    adaptive: Reason | None = None  # what is said of adaptive verification

    def points(self, own: arrays.Points) -> arrays.Points | None:
        """The points to add to those of the plans; None where nothing is asked."""
        parts = []
        if self.sizes:
            rows = np.tile(np.arange(len(self.plans)), len(self.sizes))
            batch = np.repeat(np.array(self.sizes, dtype=np.float64), len(self.plans))
            parts.append(own.take(rows).replace(concurrency=batch))
        if self.loads:
            by_facts = groupby(self.loads, key=itemgetter(0))
            parts.append(from_questions([(f, [plan for _, plan in row]) for f, row in by_facts]))
        return arrays.concat(parts) if parts else None

    def of_sizes(self, plans: Sequence[Plan]) -> Mapping[int, Mapping[int, float]]:
        """The goal's median speed-up by batch size and k, of some of the plans."""
        logs = self.medians.goal_logs(self.facts.goal or "balanced")
        wanted, count = {id(plan) for plan in plans}, len(self.plans)
        places = [(i, plan.k) for i, plan in enumerate(self.plans) if id(plan) in wanted]
        return {
            size: {k: float(np.exp(logs[row * count + i])) for i, k in places}
            for row, size in enumerate(self.sizes)
        }

    def of_load(self, facts: Facts, plan: Plan) -> tuple[float, Mapping[str, float]]:
        """Tokens a step and the gain of each metric of one plan under a measured load."""
        first = len(self.sizes) * len(self.plans)
        return self.medians.at(first + self.loads.index((facts, plan)))


def towards(facts: Facts, row: Evidence, plan: Plan) -> Steps[Case]:
    """From the question to a measured run, a step each."""
    unsaid, spread = without_acceptance(facts), row.output_spread
    if spread is None and row.workload in (None, facts.workload):
        spread = facts.output_spread
    elif spread is None:  # as is usual of its text
        spread = 0.0 if row.workload == "random" else imputation.value("output_spread")
    lengths = unsaid.model_copy(update={"output_spread": spread})
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
        then = plan.model_copy(update={"prefix_caching": shared > 0, "plain_caching": None})
    own = then if row.k in (None, plan.k) else then.model_copy(update={"k": row.k})
    accepted = there
    if row.accepted and there.request is not None:
        stated = {"acceptance_length": row.accepted, "acceptance_k": own.k}
        accepted = there.model_copy(update={"request": there.request.model_copy(update=stated)})
    texts = (facts, plan), (unsaid, plan), (lengths, plan), (read, plan)
    return Steps(*texts, (there, then), (there, own), (accepted, own))


def difference(facts: Facts, rows: Sequence[Evidence], best: Candidate, beside: Beside) -> str:
    """Why the estimate is not what was measured here, by cause and share, so that the measured gain
    times all shares is the expected one; "" where it lies near.
    """
    row, estimate, plan = rows[0], best.estimate, best.plan
    if estimate is None:
        return ""
    expected = getattr(estimate, PRINTED[row.metric]).speedup.p50
    other_k = row.k not in (None, plan.k)
    if abs(log(expected / row.speedup)) < (OTHER_K_FAR if other_k else FAR):
        return ""
    cases = towards(facts, row, plan)
    medians = [beside.of_load(*case) for case in cases]
    gains = Steps(*(gain[row.metric] for _, gain in medians))
    tokens = Steps(*(length for length, _ in medians))
    ran = gains.own / gains.accepted if row.accepted else 1.0
    # a text's share and its opposite for what the run accepted are one cause
    cancel = not other_k and log(tokens.lengths / tokens.read) * log(ran) < 0
    bare = row.metric == "request_tok_s"  # while no prompt is computed, and TPOT has them between
    between = medians[0][1]["tpot"] / gains.asked if bare else 1.0
    shares = [
        Share("prompts between the steps, which the run leaves out", between),
        *_text_shares(facts, cases, tokens, gains, (row.accepted if cancel else None, ran)),
        *_load_shares(facts, cases, gains),
        *_regime_shares(best, estimate, expected / (gains.asked * between)),
    ]
    if other_k:
        shares.append(Share(f"k={plan.k} instead of {row.k}", gains.there / gains.own))
    if row.accepted and not cancel:
        cause = f"the run accepted {row.accepted:.2f}, {tokens.own:.2f} expected"
        shares.append(Share(cause, ran))
    # what a reader does not miss is a part of what is left, or not told
    shares = [s for s in shares if abs(log(s.ratio)) >= FAR / 2 or (cancel and s.shown)]
    left = expected / (row.speedup * prod(share.ratio for share in shares))
    shares += _rest_shares(row, left) if abs(log(left)) >= FAR / 2 else []
    how = f" with {row.workload} text" if row.workload else ""
    how += " while decoding" if abs(log(between)) >= FAR / 2 else ""
    place, why = "here" if row.covers else "nearest", ""
    for share in shares:
        joint = (" and " if share.joined else "; ") if why else "and " if share.joined else ""
        why += f"{joint}{share.cause} ({whole_percent(share.ratio)})"
    return f"Measured {row.speedup:.2f}x {place}{how}, {expected:.2f}x expected: {why}. The run: "


def _text_shares(
    facts: Facts,
    cases: Steps[Case],
    tokens: Steps[float],
    gains: Steps[float],
    run: tuple[float | None, float],
) -> list[Share]:
    """What the stated acceptance and the kind of text make; `run`: its acceptance and ratio."""
    unsaid, read = cases.unsaid[0], cases.read[0]
    ours = tokens.unsaid
    shares: list[Share] = []
    if unsaid is not facts:
        cause = f"the acceptance that you state gives {tokens.asked:.2f} instead of {ours:.2f}"
        shares.append(Share(f"{cause} tokens a step", gains.asked / gains.unsaid))
    vary = "had one length" if read.output_spread == 0 else "varied in length"
    shares.append(Share(f"the run's answers {vary}", gains.unsaid / gains.lengths))
    if read.workload == facts.workload:
        return shares
    theirs, whole = tokens.read, gains.lengths / gains.read
    text = facts.workload or "this"
    cause = f"{text} text accepts {ours:.2f} instead of {theirs:.2f} tokens a step"
    cause += "" if read.workload else " of a text that the run does not name"
    if run[0]:
        theirs, whole = run[0], whole * run[1]
        cause = f"{text} text accepts {ours:.2f} tokens a step, the run accepted {theirs:.2f}"
    accepts = round(ours, 2) / round(theirs, 2)
    rest = whole / accepts
    beside = Share(_beside_acceptance(facts, read, accepts, rest), rest, joined=True)
    return [*shares, Share(cause, accepts, shown=True), beside]


def _beside_acceptance(facts: Facts, read: Facts, accepts: float, rest: float) -> str:
    """What another text changes beside what is accepted: experts, or time of prompts."""
    random = [side.workload == "random" for side in (facts, read)]
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
        return [Share(f"the load is another, {shared} a shared prefix", ratio)]
    if all(getattr(there, name) == getattr(facts, name) for name in LOAD):
        return []
    # requests and prompts stand with the run
    tokens = there.output_tokens if there.output_tokens != facts.output_tokens else None
    answers = f", with answers of {tokens:,} tokens" if tokens else ""
    return [Share(f"the load is another{answers}", ratio)]


def _regime_shares(best: Candidate, estimate: Estimate, ratio: float) -> list[Share]:
    """What losses that are documented, or requests that wait, make of the gain of the steps."""
    codes = sorted({f.code for f in best.findings if f.effect in ("loss", "caution")})
    # else the pairs nearby moved the median: it is what is left
    if ratio > 1 or not (codes or crowds(estimate)):
        return []
    cause = f"documented losses ({', '.join(codes)})" if codes else "the requests that wait"
    return [Share(cause, ratio)]


def _rest_shares(row: Evidence, left: float) -> list[Share]:
    """What no number of the run explains, by what it can be: settings, steps, acceptance."""
    if abs(log(left)) < FAR:
        return [Share("runs of one setting scatter", left)]
    if not row.clean:
        return [Share("its two sides differ in more, or do not state their settings", left)]
    spread = knowledge.threshold("owner_sd_same_regime").value
    rare = "" if abs(log(left)) <= spread else " by more than owners of one setting usually differ"
    fewer, dearer = ("fewer", "more") if left > 1 else ("more", "less")
    if row.accepted:
        return [Share(f"its own steps cost {dearer} than expected{rare}", left)]
    accepted = left**ACCEPTED_PART
    cause = f"the run probably accepted {fewer} than expected, which it does not say"
    steps = Share(f"its own steps cost {dearer}{rare}", left / accepted, joined=True)
    return [Share(cause, accepted), steps]


def without_acceptance(facts: Facts) -> Facts:
    """The facts as if no acceptance had been stated; the same ones where none was."""
    request = facts.request
    if request is None or (request.acceptance is None and request.acceptance_length is None):
        return facts
    bare = {"acceptance": None, "acceptance_length": None, "acceptance_k": None}
    return facts.model_copy(update={"request": request.model_copy(update=bare)})
