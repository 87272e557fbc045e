from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge import store as knowledge
from advisor.rules import Hit, rule
from advisor.rules.kit.case import k_flag
from advisor.rules.kit.fixes import k_fix


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    speculative=True,
    sources=("knowledge/drafters",),
)
def drafter_k_too_high(case: Case) -> Iterator[Hit]:
    """More draft tokens than the published drafter was made for.

    Why: NVIDIA's throughput head for gpt-oss-120b drafts one token; with 3 it accepted nearly
    nothing on a DGX Spark and cost 45 % of the speed at 32 requests. A block drafter drafts its
    block and no more.
    Bad: vllm serve openai/gpt-oss-120b
        --speculative-config
        '{"method":"eagle3","num_speculative_tokens":3,
        "model":"nvidia/gpt-oss-120b-Eagle3-throughput"}'
    Good: vllm serve openai/gpt-oss-120b
        --speculative-config
        '{"method":"eagle3","num_speculative_tokens":1,
        "model":"nvidia/gpt-oss-120b-Eagle3-throughput"}'
    """
    found = knowledge.drafter_home(case.plan.draft_model) if case.plan.draft_model else None
    if found is None:
        return
    _, drafter = found
    most = drafter.k_max or (drafter.block or 0) - 1
    if 0 < most < case.plan.k:
        yield Hit(
            f"{drafter.repository} was made for {most} draft token{'s' if most > 1 else ''}, not "
            f"{case.plan.k}",
            flag=k_flag(case),
            fix=k_fix(case, most, f"Draft {most}."),
            sources=drafter.sources,
            conflicts=drafter.conflicts,
        )
