from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import compute_arch, flag, fp8_kv, model_text
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("vllm-flashinfer-fp8kv-sm120")


@rule(severity="error", engines=("vllm",), versioned=True, sources=DEFECT.sources)
def flashinfer_fp8kv_sm120(case: Case) -> Iterator[Hit]:
    """FlashInfer attention with an fp8 KV cache and NVFP4 weights on sm_120.

    Why: an illegal memory access even for a request of 16 tokens.
    Bad (version=0.27.1): vllm serve nvidia/Qwen3.6-35B-A3B-NVFP4 --kv-cache-dtype fp8
        --attention-backend FLASHINFER
    Good (version=0.27.1): vllm serve nvidia/Qwen3.6-35B-A3B-NVFP4 --kv-cache-dtype fp8
        --attention-backend TRITON_ATTN
    """
    arch, affected = compute_arch(case), affects(DEFECT, case)
    if (
        (case.plan.attention_backend or "").upper() != "FLASHINFER"
        or not fp8_kv(case)
        or not affected
    ):
        return
    if "nvfp4" in model_text(case).lower() and (arch is None or arch.startswith("sm_120")):
        yield Hit(
            "FlashInfer attention with fp8 KV and NVFP4 weights faults on sm_120"
            + ("" if arch else " (give --hw to know whether this machine is one)"),
            flag=flag(case, "--attention-backend"),
            severity=None if arch else "warning",
            fix=set_fix(
                case,
                flag(case, "--attention-backend"),
                "TRITON_ATTN",
                "Use --attention-backend TRITON_ATTN.",
            ),
            versions=DEFECT.versions,
        )
