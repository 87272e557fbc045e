from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("sglang-pd-mtp")


@rule(
    severity="error",
    engines=("sglang",),
    speculative=True,
    versioned=True,
    sources=DEFECT.sources,
)
def sglang_pd_mtp(case: Case) -> Iterator[Hit]:
    """Prefill/decode disaggregation with MTP on a hybrid, in SGLang releases of early 2026.

    Why: a change of the Mamba radix cache broke the transfer; requests fail.
    Bad (version=0.5.8): python3 -m sglang.launch_server --model-path
        Qwen/Qwen3-Next-80B-A3B-Instruct-FP8
        --disaggregation-mode decode --speculative-algorithm NEXTN
    Good (version=0.5.20): python3 -m sglang.launch_server --model-path
        Qwen/Qwen3-Next-80B-A3B-Instruct-FP8
        --disaggregation-mode decode --speculative-algorithm NEXTN
    """
    place, affected = flag(case, "--disaggregation-mode"), affects(DEFECT, case)
    if (
        place is None
        or (place.value or "null") == "null"
        or not is_hybrid(case)
        or affected is False
    ):
        return
    yield Hit(
        "prefill/decode disaggregation with MTP on a hybrid failed in releases of early 2026",
        flag=place,
        severity=None if affected else "info",
        fix=Fix(text="Use SGLang 0.5.9 or newer, or switch speculation off."),
        versions=DEFECT.versions,
    )
