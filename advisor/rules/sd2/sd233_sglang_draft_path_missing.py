from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import is_hybrid, spec_flag
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("sglang-draft-path-missing")


@rule(
    severity="warning",
    engines=("sglang",),
    speculative=True,
    versioned=True,
    sources=DEFECT.sources,
)
def sglang_draft_path_missing(case: Case) -> Iterator[Hit]:
    """NEXTN without a draft path on SGLang 0.5.10.post1.

    Why: the model's own MTP head is not found for Qwen3.5 classes, and the server runs 3 to 40
    times slower in silence.
    Bad (version=0.5.10): python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-scheduler-strategy extra_buffer --speculative-algorithm NEXTN
        --speculative-num-steps 3
        --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    Good (version=0.5.10): python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-draft-model-path Qwen/Qwen3.6-35B-A3B-FP8 --mamba-scheduler-strategy
        extra_buffer
        --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    """
    affected = affects(DEFECT, case)
    if (
        case.plan.method != "mtp"
        or case.plan.draft_model
        or not is_hybrid(case)
        or affected is False
    ):
        return
    yield Hit(
        "without --speculative-draft-model-path SGLang 0.5.10.post1 does not find the model's "
        "own MTP head: 300 fell to "
        "8 to 18 tok/s",
        flag=spec_flag(case),
        severity=None if affected else "info",
        fix=Fix(text="Add --speculative-draft-model-path with the model's own path, or upgrade."),
        conflicts=DEFECT.conflicts,
        versions=DEFECT.versions,
    )
