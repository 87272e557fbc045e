from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, model_text
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("vllm-e5m2-refused")


@rule(severity="error", engines=("vllm",), versioned=True, sources=DEFECT.sources)
def fp8_e5m2_refused(case: Case) -> Iterator[Hit]:
    """An fp8_e5m2 KV cache with an FP8 checkpoint or the TRITON_ATTN backend.

    Why: vLLM raises a ValueError at start; e4m3 is the kind they take.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --kv-cache-dtype fp8_e5m2
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --kv-cache-dtype fp8_e4m3
    """
    if case.plan.kv_cache_dtype != "fp8_e5m2" or affects(DEFECT, case) is False:
        return
    backend = (case.plan.attention_backend or "").upper()
    checkpoint = "fp8" in model_text(case).lower() or case.plan.quantization == "fp8"
    if checkpoint or backend == "TRITON_ATTN":
        yield Hit(
            f"fp8_e5m2 KV is refused "
            f"{'with an FP8 checkpoint' if checkpoint else 'by TRITON_ATTN'}",
            flag=flag(case, "--kv-cache-dtype"),
            fix=set_fix(
                case,
                flag(case, "--kv-cache-dtype"),
                "fp8_e4m3",
                "Use --kv-cache-dtype fp8_e4m3 (fp8).",
            ),
            versions=DEFECT.versions,
        )
