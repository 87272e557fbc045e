from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import is_hybrid, spec_flag
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("sglang-extra-buffer-crash")


@rule(
    severity="warning",
    engines=("sglang",),
    speculative=True,
    versioned=True,
    sources=DEFECT.sources,
)
def sglang_mamba_crash(case: Case) -> Iterator[Hit]:
    """MTP with extra_buffer on SGLang 0.5.13 and 0.5.13.post1.

    Why: scheduler exceptions in the Mamba path, and about one start in five fails.
    Bad (version=0.5.13): python3 -m sglang.launch_server --model-path Qwen/Qwen3.5-9B
        --mamba-scheduler-strategy extra_buffer --speculative-algorithm NEXTN
        --speculative-num-steps 3
        --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    Good (version=0.5.14): python3 -m sglang.launch_server --model-path Qwen/Qwen3.5-9B
        --mamba-radix-cache-strategy extra_buffer --speculative-algorithm NEXTN
        --speculative-num-steps 3
        --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    """
    affected = affects(DEFECT, case)
    strategy = case.plan.mamba_strategy or (
        "extra_buffer" if case.launch.emitted else ""
    )  # the emitter adds it
    if not is_hybrid(case) or not strategy.startswith("extra_buffer") or affected is False:
        return
    yield Hit(
        "MTP with extra_buffer on SGLang 0.5.13 and 0.5.13.post1: scheduler exceptions, about "
        "one start in five fails",
        flag=spec_flag(case),
        severity=None if affected else "info",
        fix=Fix(text="Use another release, 0.5.14 or newer."),
        versions=DEFECT.versions,
    )
