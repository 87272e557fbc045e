from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, MemoryBill
from advisor.knowledge.rule_data import number
from advisor.perf.sizes.device import BILL_ERROR_GIB
from advisor.rules import Hit, Lacking, rule
from advisor.rules.kit.case import flag, fp8_kv, integer, open_value, value
from advisor.rules.kit.policy import (
    bill,
    hardware_name,
    leaves_no_pool,
    sources,
    unknown_sizes,
)

ALL_LAYERS = 90  # no known model has more


@rule(
    severity="error",
    engines=("vllm", "sglang", "llama-server"),
    needs=("hardware", "shape", "quant"),
    sources=(
        "advisor memory bill",
        "noonghunna/club-3090",
        *sources("memory", "kv_pool_uncertainty"),
    ),
)
def context_exceeds_pool(case: Case) -> Iterator[Hit | Lacking]:
    """One request of the configured maximum length is longer than the whole KV pool, or the context
    that llama-server reserves for its slots larger than the device.

    Why: vLLM refuses to start ("needs N GiB KV cache"); SGLang starts and cuts the length that it
    admits; with llama-server a part lies in system memory, where drafts lost (0.71x and 0.83x on an
    RX 9070 XT).
    Bad (hw=rtx3090): vllm serve Qwen/Qwen3.6-27B-AWQ --max-model-len 262144 --max-num-seqs 2
    Good (hw=h200): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-model-len 32768 --max-num-seqs 8
    """
    if open_sizes := unknown_sizes(case):
        yield Lacking(open_sizes)
        return
    found, length = bill(case), case.plan.max_model_len
    if found is None or found.kv_tokens is None or length is None or found.kv_tokens <= 0:
        return
    if not case.plan.engine.startswith(("vllm", "sglang")):
        yield from _slots_beyond(case, found)
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


def _slots_beyond(case: Case, found: MemoryBill) -> Iterator[Hit]:
    """Slots of llama-server beyond what its bills were seen to be wrong by, with all layers on the
    device.
    """
    short, layers = found.short_gib or 0.0, integer(value(case, "--gpu-layers"))
    partial = layers is not None and layers < ALL_LAYERS
    moved = flag(case, "--cpu-moe", "--n-cpu-moe", "--override-tensor", "--kv-offload") is not None
    if short <= BILL_ERROR_GIB or partial or moved or leaves_no_pool(found):
        return
    slots = case.plan.max_num_seqs or case.facts.concurrency or 1
    many = f"{slots} slots" if slots > 1 else "one slot"
    yield Hit(
        f"the context of {many} is billed {short:.1f} GiB too large for {hardware_name(case)}: "
        "what is over lies in system memory, where drafts lost",
        flag=flag(case, "--ctx-size"),
        severity="warning",
        fix=Fix(
            text="Lower --ctx-size"
            + ("" if case.plan.kv_cache_dtype else ", or take -ctk q8_0 -ctv q8_0")
            + (", or fewer slots (--parallel)." if slots > 1 else ".")
        ),
        sources=("advisor memory bill", "corral9070xt"),
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
