from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.policy import hardware_name, sources


@rule(
    severity="warning",
    engines=("llama-server", "ik_llama.cpp"),
    needs=("hardware",),
    sources=sources("regime", "igpu_q4_kv"),
)
def q4_kv_on_igpu(case: Case) -> Iterator[Hit]:
    """A 4-bit KV cache on an integrated GPU.

    Why: dequantising it costs more than its smaller reads save there: 92 % slower in one report
    (Vulkan).
    Bad (hw=radeon-780m): llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 16384 --parallel 1 -ctk
        q4_0 -ctv q4_0
    Good (hw=radeon-780m): llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 16384 --parallel 1
        -ctk q8_0 -ctv q8_0
    """
    hw, kv = case.facts.hardware, (case.plan.kv_cache_dtype or "").lower()
    if hw is not None and hw.hardware_class == "igpu" and kv.startswith(("q4", "iq4")):
        yield Hit(
            f"a KV cache of type {kv} on {hardware_name(case)}: one report measures 92 % less "
            "speed",
            flag=flag(case, "--cache-type-k", "--cache-type-v"),
            fix=Fix(text="Use -ctk q8_0 -ctv q8_0."),
            conflicts=("a single report; discrete AMD cards run q4_0 well",),
        )
