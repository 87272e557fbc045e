from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("sglang-backend-downgrade")


@rule(
    severity="warning",
    engines=("sglang",),
    speculative=True,
    versioned=True,
    sources=DEFECT.sources,
)
def sglang_backend_downgrade(case: Case) -> Iterator[Hit]:
    """NEXTN with trtllm_mha attention, which SGLang silently moves to triton.

    Why: long prompts are then slower with speculation than without.
    Bad (version=0.5.21): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --attention-backend
        trtllm_mha
        --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    Good (version=0.5.21): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --attention-backend
        flashinfer
        --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    """
    if (
        case.plan.method == "mtp"
        and case.plan.attention_backend == "trtllm_mha"
        and affects(DEFECT, case) is not False
    ):
        yield Hit(
            "NEXTN silently moves trtllm_mha attention to triton: long prompts get slower than "
            "without speculation",
            flag=flag(case, "--attention-backend"),
            fix=Fix(text="Name a backend that NEXTN keeps, and read the chosen one in the log."),
            versions=DEFECT.versions,
        )
