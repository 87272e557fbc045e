"""Why an estimate is another number than a measured run, by cause and share."""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from math import log, prod
from operator import itemgetter

from advisor.advice.decide import crowds
from advisor.advice.plans.placement import Layout
from advisor.advice.wording import whole_percent
from advisor.domain.nouns import Candidate, Estimate, Evidence, Facts, Plan, Reason
from advisor.domain.question import USUAL_PROMPT
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
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
    log(1.05), "log ratio", "from it on a run nearby differs from what is expected", "chosen"
)
OTHER_K_FAR = sourced(log(1.1), "log ratio", "the same of a run at another k", "chosen")
Case = tuple[Facts, Plan]


class Beside(NamedTuple):
    """What a batch was asked beside its plans (the loads of measured runs, of all its questions)
    and what it said of them; with the layouts, and what else is published (`rivals.explain`).
    """

    facts: Facts
    layouts: Sequence[Layout]
    loads: Sequence[Case]
    medians: Medians
    rival: Callable[[Candidate], Reason | None] = lambda _: None
    adaptive: Reason | None = None  # what is said of adaptive verification

    def of_load(self, facts: Facts, plan: Plan) -> tuple[float, Mapping[str, float]]:
        """Tokens a step and the gain of each metric of one plan under a measured load."""
        return self.medians.at(self.loads.index((facts, plan)))


def points_of(loads: Sequence[Case]) -> arrays.Points | None:
    """The loads of measured runs as points; None where nothing is asked."""
    asked = [(f, [plan for _, plan in row]) for f, row in groupby(loads, key=itemgetter(0))]
    return from_questions(asked) if asked else None


def towards(facts: Facts, row: Evidence, plan: Plan) -> tuple[Case, ...]:
    """From the question to a measured run: with its text and lengths, load, k and acceptance."""
    spread = row.output_spread
    if spread is None and row.workload in (None, facts.workload):
        spread = facts.output_spread
    elif spread is None:  # as is usual of its text
        spread = 0.0 if row.workload == "random" else imputation.value("output_spread")
    read = without_acceptance(facts).replace(output_spread=spread, workload=row.workload)
    there = read.replace(
        concurrency=int(row.concurrency or facts.load),
        ctx_tokens=int(row.input_tokens or facts.ctx_tokens or USUAL_PROMPT),
        output_tokens=int(row.output_tokens or facts.output_tokens or 0) or None,
    )
    then = plan
    shared = row.prefix_share or 0.0
    if there.request is not None and there.request.prefix_share != shared:
        other = there.request.replace(prefix_share=shared)
        there = there.replace(request=other, prefix_share=shared)
        then = plan.replace(prefix_caching=shared > 0, plain_caching=None)
    own = then if row.k in (None, plan.k) else then.replace(k=row.k)
    accepted = there
    if row.accepted and there.request is not None:
        stated = {"acceptance_length": row.accepted, "acceptance_k": own.k}
        accepted = there.replace(request=there.request.replace(**stated))
    return (facts, plan), (read, plan), (there, then), (there, own), (accepted, own)


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
    metric = "tpot" if row.metric == "request_tok_s" else row.metric
    asked, read, there, own, accepted = (gain[metric] for _, gain in medians)
    tokens, of_text, _, at_k, _ = (length for length, _ in medians)
    if row.accepted and not other_k:  # a text and what was accepted of it are one cause
        accepts = f"your text ({tokens:.2f} tokens a step) for that of the run ({row.accepted:.2f})"
        shares = [(accepts, asked / read * own / accepted)]
    else:
        shares = [(_text_cause(facts, row, tokens, of_text), asked / read)]
        if row.accepted:
            accepts = f"it accepted {row.accepted:.2f}, {at_k:.2f} expected"
            shares.append((accepts, own / accepted))
    shares += [
        (_load_cause(facts, plan, cases[2]), read / there),
        (_regime_cause(best, estimate, expected / asked), expected / asked),
        (f"k={plan.k} instead of {row.k}", there / own),
    ]
    # what a reader does not miss is a part of what is left, or not told
    shares = [(cause, ratio) for cause, ratio in shares if cause and abs(log(ratio)) >= FAR / 2]
    left = expected / (row.speedup * prod(ratio for _, ratio in shares))
    if abs(log(left)) >= FAR / 2:
        rest = "what this run does not tell" if row.clean else "settings that differ or are unknown"
        shares.append((rest, left))
    how = f" with {row.workload} text" if row.workload else ""
    place = "here" if row.covers else "nearest"
    why = "; ".join(f"{cause} ({whole_percent(ratio)})" for cause, ratio in shares)
    return f"Measured {row.speedup:.2f}x {place}{how}, {expected:.2f}x expected: {why}. The run: "


def _text_cause(facts: Facts, row: Evidence, tokens: float, of_text: float) -> str:
    """What another text, or an acceptance that is stated, changes in a step."""
    instead = f"{tokens:.2f} instead of {of_text:.2f} tokens a step"
    if row.workload == facts.workload:
        stated = without_acceptance(facts) is not facts
        return f"the acceptance that you state: {instead}" if stated else "answers of other lengths"
    text = f"{facts.workload or 'this'} text: {instead}"
    return text if row.workload else f"{text} of a text that the run does not name"


def _load_cause(facts: Facts, asked: Plan, of_load: Case) -> str:
    there, plan = of_load
    if plan is not asked:
        shared = "with" if plan.prefix_caching else "without"
        return f"the load is another, {shared} a shared prefix"
    # requests and prompts stand with the run
    tokens = there.output_tokens if there.output_tokens != facts.output_tokens else None
    return f"the load is another{f', with answers of {tokens:,} tokens' if tokens else ''}"


def _regime_cause(best: Candidate, estimate: Estimate, ratio: float) -> str:
    """Documented losses, or requests that wait; "" where the pairs nearby moved the median."""
    codes = sorted({f.code for f in best.findings if f.effect in ("loss", "caution")})
    if ratio > 1 or not (codes or crowds(estimate)):
        return ""
    return f"documented losses ({', '.join(codes)})" if codes else "the requests that wait"


def without_acceptance(facts: Facts) -> Facts:
    """The facts as if no acceptance had been stated; the same ones where none was."""
    if facts.question.acceptance is None and facts.question.acceptance_length is None:
        return facts
    bare = {"acceptance": None, "acceptance_length": None, "acceptance_k": None}
    return facts.replace(request=facts.question.replace(**bare))
