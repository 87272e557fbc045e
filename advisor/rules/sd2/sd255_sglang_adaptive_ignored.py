from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_switch, integer
from advisor.rules.kit.fixes import drop_fix, is_release_pinned
from advisor.rules.kit.releases import defect

DEFECT = defect("sglang-adaptive-ignored")


@rule(
    severity="warning",
    engines=("sglang",),
    speculative=True,
    sources=DEFECT.sources,
)
def sglang_adaptive_ignored(case: Case) -> Iterator[Hit]:
    """--speculative-adaptive where SGLang switches it off.

    Why: it works for EAGLE kinds (NEXTN too) with topk 1 and without data-parallel attention;
    otherwise k stays fixed.
    Bad: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm NEXTN
        --speculative-adaptive
        --speculative-num-steps 3 --speculative-eagle-topk 4 --speculative-num-draft-tokens 8
    Good: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm NEXTN
        --speculative-adaptive
        --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    """
    if not has_switch(case, "--speculative-adaptive"):
        return
    topk = flag(case, "--speculative-eagle-topk")
    width = integer(topk.value) if topk is not None else 1
    kind = case.plan.method not in ("mtp", "eagle", "eagle3")
    if kind or (width is not None and width > 1) or has_switch(case, "--enable-dp-attention"):
        yield Hit(
            "--speculative-adaptive is switched off here: it needs an EAGLE kind, topk 1 and no "
            "data-parallel attention",
            flag=flag(case, "--speculative-adaptive"),
            fix=drop_fix(
                case,
                flag(case, "--speculative-adaptive"),
                "Use topk 1, or remove the flag.",
                safe=is_release_pinned(case),
            ),
        )
