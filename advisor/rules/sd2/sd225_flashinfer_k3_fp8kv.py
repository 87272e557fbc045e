from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import compute_arch, flag, fp8_kv, k_flag
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("vllm-flashinfer-k3-fp8kv-hopper")


@rule(severity="error", engines=("vllm",), speculative=True, versioned=True, sources=DEFECT.sources)
def flashinfer_k3_fp8kv(case: Case) -> Iterator[Hit]:
    """FlashInfer attention with an fp8 KV cache and k of 3 or more on Hopper with an early release.

    Why: the kernel for four verified tokens does not compile there.
    Bad (version=0.15.0, hw=h100): vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct-FP8 --kv-cache-dtype
        fp8
        --attention-backend FLASHINFER --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1, hw=h100): vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct-FP8 --kv-cache-dtype
        fp8
        --attention-backend FLASHINFER --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    """
    flashinfer = (case.plan.attention_backend or "").upper() == "FLASHINFER"
    if (
        flashinfer
        and fp8_kv(case)
        and case.plan.k >= 3
        and affects(DEFECT, case)
        and compute_arch(case) in ("sm_90", "sm_90a")
    ):
        yield Hit(
            f"FlashInfer with fp8 KV and k={case.plan.k} does not compile on Hopper with "
            f"this release",
            flag=k_flag(case) or flag(case, "--attention-backend"),
            fix=Fix(text="Use k of at most 2, another attention backend, or a newer vLLM."),
            versions=DEFECT.versions,
        )
