from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, Lacking, rule
from advisor.rules.kit.case import compute_arch, flag, model_text
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("vllm-moe-backend-bf16-hopper")
QUANTISED = ("fp8", "fp4", "awq", "gptq", "int4", "int8", "w4a16", "w8a8", "autoround")


@rule(severity="error", engines=("vllm",), versioned=True, sources=DEFECT.sources)
def moe_backend_bf16_hopper(case: Case) -> Iterator[Hit | Lacking]:
    """A BF16 mixture of experts on Hopper with vLLM 0.18 and the default MoE backend.

    Why: the FlashInfer CUTLASS default faults with an illegal memory access during graph capture.
    Bad (version=0.18.2, hw=h100): vllm serve Qwen/Qwen3.6-35B-A3B
    Good (version=0.18.2, hw=h100): vllm serve Qwen/Qwen3.6-35B-A3B --moe-backend triton
    """
    model = case.facts.model
    if (
        model is None
        or not model.is_moe
        or not affects(DEFECT, case)
        or flag(case, "--moe-backend") is not None
    ):
        return
    if case.plan.quantization or any(word in model_text(case).lower() for word in QUANTISED):
        return
    arch = compute_arch(case)
    if arch is None:
        yield Lacking(("hardware",))
    elif arch.startswith("sm_90"):
        yield Hit(
            "BF16 experts on Hopper fault during graph capture with this release's default "
            "MoE backend",
            fix=Fix(text="Add --moe-backend triton, or use a newer vLLM."),
            versions=DEFECT.versions,
        )
