from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, flag
from advisor.rules.kit.fixes import set_fix

WHOLE = ("f32", "f16", "bf16")  # types of the V cache that need no flash attention
OFF = ("off", "0", "false", "disabled")


@rule(
    severity="error",
    engines=GGUF_ENGINES,
    sources=(
        "ggml-org/llama.cpp#10378",
        "ggml-org/llama.cpp src/llama-context.cpp (V cache quantization requires flash_attn)",
    ),
)
def quantised_v_without_flash(case: Case) -> Iterator[Hit]:
    """A quantised V cache with flash attention switched off.

    Why: without flash attention V is kept transposed, for which there is no quantised form: the
    context cannot be created and the server stops. A quantised K cache alone is taken.
    Bad: llama-server -m Qwen3-32B-Q4_K_M.gguf --flash-attn off --cache-type-v q8_0
    Good: llama-server -m Qwen3-32B-Q4_K_M.gguf --flash-attn on --cache-type-v q8_0
    """
    values, attention = flag(case, "--cache-type-v"), flag(case, "--flash-attn")
    if values is None or attention is None or values.unresolved or attention.unresolved:
        return
    kind = (values.value or "f16").lower()
    if kind in WHOLE or (attention.value or "on").lower() not in OFF:
        return
    yield Hit(
        f"a V cache of type {values.value} needs flash attention, which {attention.raw} "
        f"{attention.value} switches off: the context is not created",
        flag=attention,
        fix=set_fix(case, attention, "on", "Switch flash attention on, or leave V at f16."),
    )
