from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import k_flag
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import sources


@rule(
    severity="warning",
    speculative=True,
    engines=("llama-server", "ik_llama.cpp"),
    sources=sources("regime", "dflash_gguf_k_max"),
)
def dflash_too_long(case: Case) -> Iterator[Hit]:
    """DFlash in llama.cpp with long drafts.

    Why: on an RTX 3090 two to four draft tokens gain 17 to 27 %, six lose 9 %, eight 15 % and
    sixteen 47 %: acceptance falls from 0.73 to 0.21 while every token is verified.
    Bad: llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -md Qwen3.6-35B-A3B-DFlash.gguf -c 16384
        --parallel 1
        --spec-type draft-dflash --spec-draft-n-max 16
    Good: llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -md Qwen3.6-35B-A3B-DFlash.gguf -c 16384
        --parallel 1
        --spec-type draft-dflash --spec-draft-n-max 2
    """
    limit = int(number("regime", "dflash_gguf_k_max"))
    if case.plan.method != "dflash" or case.plan.k <= limit:
        return
    yield Hit(
        f"DFlash with {case.plan.k} draft tokens: the measured order on an RTX 3090 is +17 to +27 "
        f"% at 2, +17 to +19 % at 4, "
        f"-9 % at 6, -15 % at 8, -47 % at 16",
        flag=k_flag(case),
        fix=k_fix(case, 2, f"Draft 2 tokens, {limit} at most."),
        conflicts=("a GB10 fork reports 1.3x to 1.8x at 14 tokens, without a baseline run",),
        effect="k_max",
        k_max=limit,
    )
