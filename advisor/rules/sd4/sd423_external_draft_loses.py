from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import is_hybrid
from advisor.rules.kit.policy import for_advice, regime, sources


@rule(
    severity="warning",
    speculative=True,
    engines=("llama-server", "ik_llama.cpp"),
    needs=("model",),
    sources=sources("regime", "external_draft_hybrid"),
)
def external_draft_loses(case: Case) -> Iterator[Hit]:
    """A recommendation with a separate draft model for a hybrid target in llama.cpp.

    Why: every partly rejected round saves and restores the recurrent state. On an RTX 3090 a 0.8B
    draft model ran at 0.14 to
    0.29 of the baseline speed over 1 to 32 draft tokens, whatever the acceptance. (SD205 says it of
    a file.)
    Bad (goal=balanced): llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -md
        Qwen3.5-0.8B-Q4_K_M.gguf -c 16384 --parallel 1
        --spec-type draft-simple --spec-draft-n-max 8
    Good (goal=balanced): llama-server -m Qwen3.6-35B-A3B-MTP-UD-Q4_K_XL.gguf -c 16384 --parallel 1
        --spec-type draft-mtp --spec-draft-n-max 2
    """
    if case.plan.method == "draft_model" and is_hybrid(case) and for_advice(case):
        yield Hit(
            "an external draft model on a hybrid target ran at 0.14 to 0.29 of the plain speed "
            "(RTX 3090, n=1 to 32)",
            fix=Fix(text="Use draft-mtp or DFlash with 2 draft tokens, or no speculation."),
            conflicts=(
                "the first tables found 0.40 to 0.61 (seed001), and 122B-A10B users report gains "
                "of 15 to 45 %",
            ),
            effect=regime(case, losses.external_draft).effect,
        )
