from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, value_fix

TYPES = table("compatibility")["kv_types_without_kernel"]


@rule(
    severity="warning",
    engines=("llama-server",),
    sources=tuple(TYPES["sources"]),
)
def llama_kv_without_kernel(case: Case) -> Iterator[Hit]:
    """A KV cache type for which a default llama.cpp build has no flash-attention kernel.

    Why: the model loads, then decoding hangs or falls to a crawl; only builds with
    GGML_CUDA_FA_ALL_QUANTS have the kernels.
    Bad: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q5_1 -ctv q5_1
    Good: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q8_0 -ctv q8_0
    """
    attention = flag(case, "--flash-attn")
    if attention is not None and (attention.value or "on").lower() in ("off", "0", "false"):
        return
    places = [flag(case, name) for name in ("--cache-type-k", "--cache-type-v")]
    bad = [
        place
        for place in places
        if place is not None and (place.value or "").lower() in TYPES["value"]
    ]
    if bad:
        yield Hit(
            f"a default build has no flash-attention kernel for a {bad[0].value} KV cache: "
            f"decoding can hang",
            flag=bad[0],
            severity="info" if case.launch.fork else None,
            fix=value_fix(
                case, bad[0], "q8_0", "Use q8_0 (or q4_0), the same for K and V.", safe=False
            ),
        )
