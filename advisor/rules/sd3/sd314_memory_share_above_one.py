from collections.abc import Iterator
from math import isfinite

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix


@rule(
    severity="error",
    engines=("vllm", "sglang"),
    sources=(
        "vllm 0.19.1 to 0.33.0 vllm/config/cache.py (gpu_memory_utilization: 0 < share <= 1)",
        "sglang 0.5.9 to 0.5.23 server_args.py (mem_fraction_static)",
    ),
)
def memory_share_above_one(case: Case) -> Iterator[Hit]:
    """A memory share that is no part of a whole: above 1, or not above 0.

    Why: the share is a fraction, not a percentage. vLLM refuses to start; SGLang finds less memory
    than nothing left.
    Bad: vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 90
    Good: vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.9
    """
    place = flag(case, "--gpu-memory-utilization", "--mem-fraction-static")
    share = _share(place.value) if place is not None and not place.unresolved else None
    if share is None or 0 < share <= 1:
        return
    meant = next((share / by for by in (10, 100) if 0.5 <= share / by < 1), None)
    wanted = None
    if meant is not None:  # two digits, as nearly all write it
        wanted = f"{meant:.2f}" if round(meant, 2) == meant else f"{meant:.4g}"
    yield Hit(
        f"a memory share of {share:g} is not between 0 and 1",
        flag=place,
        fix=set_fix(case, place, wanted, f"Set it to {wanted} if that is meant.")
        if wanted is not None
        else Fix(text="Give a part of the memory, for example 0.90."),
    )


def _share(text: str | None) -> float | None:
    """The number, or None where it is none (SD107)."""
    try:
        share = float(text or "")
    except ValueError:
        return None
    return share if isfinite(share) else None
