from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, open_value, spec_flag
from advisor.rules.kit.policy import hardware_name, sources
from advisor.rules.kit.releases import between, release, version_label


@rule(
    severity="warning",
    speculative=True,
    versioned=True,
    engines=("vllm",),
    needs=("hardware",),
    sources=sources("regime", "piecewise_flashinfer"),
)
def graphs_piecewise(case: Case) -> Iterator[Hit]:
    """Speculation costs the full CUDA graphs: FlashInfer attention on SM12x up to vLLM 0.27.1.

    Why: its decode kernels there take one token per request, so the engine falls back to PIECEWISE
    graphs for the verify step, and every layer pays its launches. Part of the gain is lost; the
    documented gains on a GB10 contain this loss. An fp8 KV cache selects FlashInfer by itself.
    Bad (hw=gb10, version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --gpu-memory-utilization 0.75 --kv-cache-dtype fp8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, version=0.28.0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --gpu-memory-utilization 0.75 --kv-cache-dtype fp8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    row, hw = table("regime")["piecewise_flashinfer"], case.facts.hardware
    if (
        hw is None
        or hw.arch not in row["archs"]
        or between(release(case), None, row["until"]) is False
    ):
        return
    backend, kv = (case.plan.attention_backend or "").upper(), case.plan.kv_cache_dtype or ""
    if open_value(case, "--attention-backend"):
        return
    if backend != "FLASHINFER" and (backend or not kv.startswith("fp8")):
        return
    yield Hit(
        f"vLLM {version_label(case)} verifies with PIECEWISE graphs on {hardware_name(case)}: "
        f"FlashInfer "
        f"{'is chosen' if backend else 'follows from the fp8 KV cache'}",
        flag=flag(case, "--attention-backend", "--kv-cache-dtype") or spec_flag(case),
        fix=Fix(text="Use vLLM 0.28.0 or later, or a bf16 KV cache with FLASH_ATTN."),
        versions="releases up to 0.27.1",
    )
