from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import env, model_text
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("vllm-gb10-deepgemm")


@rule(
    severity="warning",
    engines=("vllm",),
    needs=("hardware",),
    versioned=True,
    sources=DEFECT.sources,
)
def gb10_deepgemm(case: Case) -> Iterator[Hit]:
    """A block-FP8 checkpoint on GB10 with vLLM 0.24 and DeepGEMM left on.

    Why: loading stops with "Unknown SF transformation".
    Bad (version=0.24.0, hw=gb10): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.24.0, hw=gb10):
        export VLLM_USE_DEEP_GEMM=0
        vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    if case.facts.hardware is None or case.facts.hardware.id != "gb10" or not affects(DEFECT, case):
        return
    if "fp8" in model_text(case).lower() and env(case, "VLLM_USE_DEEP_GEMM") != "0":
        yield Hit(
            "vLLM 0.24 on GB10 needs VLLM_USE_DEEP_GEMM=0 for this FP8 checkpoint",
            flag="VLLM_USE_DEEP_GEMM",
            fix=Fix(text="Set VLLM_USE_DEEP_GEMM=0."),
            versions=DEFECT.versions,
        )
