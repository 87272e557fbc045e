from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, value_fix
from advisor.rules.kit.values import is_accepted


@rule(
    severity="warning",
    engines=("llama-server",),
    sources=("Tanguille/cluster@c9a7856e4",),
)
def llama_mixed_kv_types(case: Case) -> Iterator[Hit]:
    """Different types for the K and the V cache under llama.cpp.

    Why: a default build has flash-attention kernels for equal types only; mixed types
    decode without one, or hang.
    Bad: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q8_0 -ctv q4_0
    Good: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q8_0 -ctv q8_0
    """
    k, v = flag(case, "--cache-type-k"), flag(case, "--cache-type-v")
    if (k is None and v is None) or any(place is not None and place.unresolved for place in (k, v)):
        return
    types = [((place.value if place else None) or "f16").lower() for place in (k, v)]
    place = v or k
    if any(not is_accepted(case, one) for one in (k, v) if one is not None):
        return  # SD107 names it; the other is no cure
    if types[0] != types[1] and place is not None:
        yield Hit(
            f"K cache {types[0]} and V cache {types[1]}: a default build has flash-attention "
            f"kernels for equal types only",
            flag=place,
            severity="info" if case.launch.fork else None,
            fix=value_fix(case, v, types[0], f"Use {types[0]} for both.", safe=False)
            if v
            else None,
        )
