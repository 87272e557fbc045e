from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Launch
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.devices import is_node, names_device, together

_SHARES = ("--gpu-memory-utilization", "--mem-fraction-static")


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    sources=(
        "rwlove/home-ops#13222",
        "anubhavgupta/GB10 serving README",
        "picopapaya EXPERIMENT_NOTES",
    ),
)
def memory_shares_exceed_device(case: Case) -> Iterator[Hit]:
    """Services of one file claim more than the whole memory of a device that they share.

    Why: each engine's memory share is a part of the device's total memory, not of what is free; the
    second server fails, or on unified memory the machine freezes.
    Bad:
        services:
          chat:
            image: vllm/vllm-openai:v0.25.1
            command: Qwen/Qwen3.6-35B-A3B-FP8 --gpu-memory-utilization 0.6 --max-num-seqs 16
          embed:
            image: vllm/vllm-openai:v0.25.1
            command: Qwen/Qwen3-Embedding-8B --gpu-memory-utilization 0.5 --max-num-seqs 16
    Good:
        services:
          chat:
            image: vllm/vllm-openai:v0.25.1
            command: Qwen/Qwen3.6-35B-A3B-FP8 --gpu-memory-utilization 0.6 --max-num-seqs 16
          embed:
            image: vllm/vllm-openai:v0.25.1
            command: Qwen/Qwen3-Embedding-8B --gpu-memory-utilization 0.2 --max-num-seqs 16
    """
    mine, own = case.launch, case.plan.memory_fraction
    if (
        own is None
        or own > 1  # SD314 says it
        or mine.form in _ON_DEMAND
        or (mine.container is not None and mine.container.kind == "docker-create")
        or len(case.siblings) > MANY
        or is_node(mine)
    ):
        return
    # a function that starts a server each time it is called is one line
    others = [one for one in case.siblings if one.line != mine.line and together(mine, one)]
    total = own + sum(_share(other) or 0.0 for other in others)
    if total <= 1.0 or any(
        (_share(other) or 0.0) > own and other.line < mine.line for other in others
    ):
        return
    sharers = [other for other in others if _share(other)]
    names = [other.container.name for other in others if other.container and _share(other)]
    yield Hit(
        f"the memory shares on this device add up to {total:.2f} with "
        f"{', '.join(names) or 'the other service'}: more than "
        f"the whole memory",
        flag=flag(case, *_SHARES),
        severity="error"
        if total > 1.05 and all(names_device(one) for one in (mine, *sharers))
        else None,
        fix=Fix(
            text="Lower the shares to a sum of at most 0.95 (0.80 on unified memory), or give "
            "each its own device."
        ),
    )


MANY = 40  # a file of more servers is a collection: they do not all run at once
_ON_DEMAND = (
    "llama-swap",
    "llama-server-ini",
    "python",
    "document",
)  # one of these runs at a time, or the file does not say


def _share(launch: Launch) -> float | None:
    for name in _SHARES:
        found = launch.flag(name)
        if found is not None and found.value and not found.unresolved:
            try:
                return float(found.value)
            except ValueError:
                return None
    return None
