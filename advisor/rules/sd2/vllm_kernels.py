"""vLLM's kernels, KV cache and token budget."""

from advisor.domain.nouns import Case
from advisor.rules import Hits, rule, when
from advisor.rules.kit.relations import relate

CHUNKED = "--enable-chunked-prefill"
KV, BACKEND = "--kv-cache-dtype", "--attention-backend"


@rule("SD222", "warning", "vllm", defect="vllm-fp8kv-disables-prefix-caching", unsure="silent")
@when(options=KV, parts="hybrid")
def fp8_kv_prefix_caching(case: Case) -> Hits:
    """An fp8 KV cache with which some vLLM 0.25 builds drop prefix caching on hybrids in silence.

    Why: the hit rate is 0.0 %, and an agent computes its whole context at every step.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    return relate(case, "SD222")


@rule("SD223", "error", "vllm", defect="vllm-e5m2-refused", unsure="error", at=KV)
def fp8_e5m2_refused(case: Case) -> Hits:
    """An fp8_e5m2 KV cache with an FP8 checkpoint or the TRITON_ATTN backend.

    Why: vLLM raises a ValueError at start; e4m3 is the kind they take.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --kv-cache-dtype fp8_e5m2
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --kv-cache-dtype fp8_e4m3
    """
    return relate(case, "SD223")


@rule("SD224", "error", "vllm", defect="vllm-flashinfer-fp8kv-sm120", unsure="silent", at=BACKEND)
def flashinfer_fp8kv_sm120(case: Case) -> Hits:
    """FlashInfer attention with an fp8 KV cache and NVFP4 weights on sm_120.

    Why: an illegal memory access even for a request of 16 tokens.
    Bad (version=0.27.1): vllm serve nvidia/Qwen3.6-35B-A3B-NVFP4 --kv-cache-dtype fp8
        --attention-backend FLASHINFER
    Good (version=0.27.1): with TRITON_ATTN for FLASHINFER
    """
    return relate(case, "SD224")


@rule("SD278", "error", "vllm", data="relations.SD278")
@when(needs="model")
def cache_type_of_model(case: Case) -> Hits:
    """A KV cache type that vLLM's class for this model does not take.

    Why: the attention of DeepSeek-V4 keeps its cache in fp8 alone; before 0.29 auto was 16 bits.
    Bad (version=0.25.1): vllm serve deepseek-ai/DeepSeek-V4-Flash --tensor-parallel-size 4
    Good (version=0.33.0): the same
    """
    return relate(case, "SD278")


@rule("SD247", "warning", "vllm", defect="vllm-gb10-deepgemm", unsure="silent")
@when(needs="hardware")
def gb10_deepgemm(case: Case) -> Hits:
    """A block-FP8 checkpoint on GB10 with vLLM 0.24 and DeepGEMM left on.

    Why: loading stops with "Unknown SF transformation".
    Bad (version=0.24.0, hw=gb10): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.25.1, hw=gb10): the same
    """
    return relate(case, "SD247")


@rule("SD252", "error", "vllm", at=CHUNKED)
@when(options=CHUNKED, parts="hybrid")
def chunked_prefill_off(case: Case) -> Hits:
    """Prefix caching on a hybrid with chunked prefill switched off.

    Why: align mode needs chunked prefill and asserts it at start.
    Bad: vllm serve Qwen/Qwen3.6-27B --enable-prefix-caching --no-enable-chunked-prefill
    Good: vllm serve Qwen/Qwen3.6-27B --enable-prefix-caching --enable-chunked-prefill
    Sources: vllm 0.19.1 and 0.25.1 vllm/model_executor/models/config.py
    """
    return relate(case, "SD252")
