from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import k_flag
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import concurrent_requests, regime, sources


@rule(
    severity="warning",
    speculative=True,
    engines=("llama-server", "ik_llama.cpp"),
    sources=sources("regime", "kernel_switch_tokens"),
)
def kernel_switch(case: Case) -> Iterator[Hit]:
    """The verify step of llama.cpp crosses from the kernels for few tokens to those for many.

    Why: up to 8 tokens are multiplied as vectors; the ninth moves to tiled kernels that run nearly
    empty on fine-grained experts, and the step costs several baseline steps. The count is
    concurrency x (k + 1).
    Bad: llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf -c 16384 --parallel 1 --spec-type draft-mtp
        --spec-draft-n-max 8
    Good: llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf -c 16384 --parallel 1 --spec-type
        draft-mtp
        --spec-draft-n-max 4
    """
    limit, at_once = int(number("regime", "kernel_switch_tokens")), concurrent_requests(case) or 1
    hw = case.facts.hardware
    tokens = at_once * (case.plan.k + 1)
    if (
        not case.plan.k
        or tokens <= limit
        or at_once > limit
        or (hw is not None and hw.vendor == "apple")
    ):
        return
    best = limit // at_once - 1
    yield Hit(
        f"{at_once} x ({case.plan.k} + 1) = {tokens} verified tokens a step exceed the {limit} "
        f"that llama.cpp's small-batch "
        f"kernels take: on an A100 one stream at k=8 cost 4.7 baseline steps (0.82x), at k=4 "
        f"2.7 (1.49x)",
        flag=k_flag(case),
        severity=None if at_once == 1 else "info",
        fix=k_fix(
            case,
            best,
            f"Draft {best} tokens or fewer at this load."
            if best
            else "Switch speculation off at this load.",
        ),
        conflicts=(
            "the dense 27B still gained at k=8 on an MI210 (1.54x) and an RTX PRO 6000 "
            "Max-Q (2.44x)",
        ),
        effect="k_max" if best else regime(case, losses.kernel_switch).effect,
        k_max=best or None,
    )
