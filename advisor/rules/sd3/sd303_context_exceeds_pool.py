from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, MemoryBill
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, Lacking, rule
from advisor.rules.kit.case import flag, fp8_kv, open_value
from advisor.rules.kit.policy import bill, sources, unknown_sizes


@rule(
    severity="error",
    engines=("vllm", "sglang"),
    needs=("hardware", "shape", "quant"),
    sources=(
        "advisor memory bill",
        "noonghunna/club-3090",
        *sources("memory", "kv_pool_uncertainty"),
    ),
)
def context_exceeds_pool(case: Case) -> Iterator[Hit | Lacking]:
    """One request of the configured maximum length is longer than the whole KV pool.

    Why: vLLM refuses to start ("needs N GiB KV cache"); SGLang starts and cuts the length that it
    admits.
    Bad (hw=rtx3090): vllm serve Qwen/Qwen3.6-27B-AWQ --max-model-len 262144 --max-num-seqs 2
    Good (hw=h200): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-model-len 32768 --max-num-seqs 8
    """
    if open_sizes := unknown_sizes(case):
        yield Lacking(open_sizes)
        return
    found, length = bill(case), case.plan.max_model_len
    if found is None or found.kv_tokens is None or length is None or found.kv_tokens <= 0:
        return
    if length <= found.kv_tokens:
        return
    unsure = length <= _at_best(found) or not _known_kv(case)
    yield Hit(
        f"a request of the maximum length, {length:,} tokens, does not fit the KV pool of about "
        f"{found.kv_tokens:,}",
        flag=flag(case, "--max-model-len", "--context-length"),
        severity="warning" if unsure or case.plan.engine == "sglang" else None,
        fix=Fix(
            text=f"Lower the maximum length to {found.kv_tokens // 1024 * 1024:,} tokens"
            + (", or give it more memory." if fp8_kv(case) else ", or use an 8-bit KV cache.")
        ),
    )


def _at_best(found: MemoryBill) -> float:
    """Tokens of the pool if the engine needed hardly any buffers: beyond this the request fits
    under no assumption.
    """
    room = (found.available_gib or 0.0) - found.weights_gib - found.spec_gib
    if not found.kv_gib or not found.kv_tokens:
        return 0.0
    return found.kv_tokens / found.kv_gib * room * (1 + number("memory", "kv_pool_uncertainty"))


def _known_kv(case: Case) -> bool:
    """Whether the bill knows how many bytes the KV type takes."""
    dtype = case.plan.kv_cache_dtype
    if open_value(case, "--kv-cache-dtype"):
        return False
    return dtype is None or dtype.startswith(("auto", "bf16", "bfloat16", "fp16", "float16", "fp8"))
