from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import env, spec_flag
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("sglang-spec-v2-off")


@rule(
    severity="info", engines=("sglang",), speculative=True, versioned=True, sources=DEFECT.sources
)
def sglang_spec_v2_off(case: Case) -> Iterator[Hit]:
    """MTP on SGLang 0.5.9 or 0.5.10 without SGLANG_ENABLE_SPEC_V2=1.

    Why: speculation then runs without overlapped scheduling and is slower; later releases have it
    on.
    Bad (version=0.5.10): python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-scheduler-strategy extra_buffer --speculative-algorithm NEXTN
    Good (version=0.5.10):
        export SGLANG_ENABLE_SPEC_V2=1
        python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 \
          --mamba-scheduler-strategy extra_buffer --speculative-algorithm NEXTN
    """
    if case.plan.method not in ("mtp", "eagle", "eagle3") or not affects(DEFECT, case):
        return
    if (env(case, "SGLANG_ENABLE_SPEC_V2") or "0").lower() not in ("1", "true"):
        yield Hit(
            "SGLANG_ENABLE_SPEC_V2 is off by default here: speculation runs without overlapped "
            "scheduling",
            flag=spec_flag(case),
            fix=Fix(text="Set SGLANG_ENABLE_SPEC_V2=1."),
            conflicts=(
                "reports say that a second full model is loaded without it; the source code does "
                "not show that",
            ),
            versions=DEFECT.versions,
        )
