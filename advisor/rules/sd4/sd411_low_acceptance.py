from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Request
from advisor.domain.question import LIMITS
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import k_flag
from advisor.rules.kit.policy import matches, sources

DEEPEST_K = int(LIMITS["acceptance_k"][1])  # nobody drafts more, so nothing more is advised


@rule(severity="info", speculative=True, sources=sources("regime", "low_acceptance_rate"))
def low_acceptance(case: Case) -> Iterator[Hit]:
    """Less than half of the tokens that an MTP head drafted are accepted, by the user's own
    measurement.

    Why: a rejected token costs its draft pass and its place in the verify step. Below one half the
    author of a measurement with short MTP drafts calls it overhead, above 60 % profitable. The
    estimate counts what is accepted against the price of the cycle, and takes nothing off for this
    rule of thumb. Longer drafts and other methods gain at a smaller share.
    Bad (acceptance=0.42, k=1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    Good (acceptance=0.82, k=1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    """
    row, request = table("regime")["low_acceptance_rate"], case.facts.request
    floor = row["value"]
    rate = mean_rate(request, case.plan.k) if request is not None else None
    if request is None or rate is None or rate >= floor or not matches(row, case):
        return
    fewer = range(1, min(case.plan.k, DEEPEST_K + 1))
    best = max((k for k in fewer if (mean_rate(request, k) or 0.0) >= floor), default=0)
    rival = f"k={best}, where it is {mean_rate(request, best):.0%}" if best else "speculation off"
    yield Hit(
        f"the measured acceptance gives {rate:.0%} of the drafted tokens at k={case.plan.k}, "
        f"below {floor:.0%}",
        flag=k_flag(case),
        fix=Fix(text=f"Compare it with {rival}."),
        conflicts=tuple(row["conflicts"]),
    )


def mean_rate(request: Request, k: int) -> float | None:
    """Mean share of accepted tokens among k drafted ones, from what the user measured; None where
    it does not say.

    Conditional acceptances by position are extended by their last value; an accepted length counts
    only at its own k.
    """
    if k < 1:
        return None
    if request.acceptance:
        alive, total = 1.0, 0.0
        for rate in request.acceptance[:k]:
            alive *= rate
            total += alive
        more = k - len(request.acceptance)
        if more > 0:  # a geometric series
            total += alive * (more if rate == 1 else rate * (1 - rate**more) / (1 - rate))
        return total / k
    if request.acceptance_length is not None and (request.acceptance_k or k) == k:
        return (request.acceptance_length - 1.0) / k
    return None
