from collections.abc import Iterator

from advisor.rules import Hit, rule
from advisor.rules.asking import flag
from advisor.types import Case, Fix, Launch

_SHARES = ("--gpu-memory-utilization", "--mem-fraction-static")


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    needs=("launch",),
    sources=("rwlove/home-ops#13222", "anubhavgupta/GB10 serving README", "picopapaya EXPERIMENT_NOTES"),
)
def memory_shares_exceed_device(case: Case) -> Iterator[Hit]:
    """Services of one file claim more than the whole memory of a device that they share.

    Why: each engine's memory share is a part of the device's total memory, not of what is free; the second server fails, or
    on unified memory the machine freezes.
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
    if mine is None or own is None or mine.form in _ON_DEMAND or len(case.siblings) > MANY or _is_node(mine):
        return
    others = [other for other in case.siblings if other is not mine and _together(mine, other)]
    total = own + sum(_share(other) or 0.0 for other in others)
    if total <= 1.0 or any((_share(other) or 0.0) > own and other.line < mine.line for other in others):
        return
    names = [other.container.name for other in others if other.container and _share(other)]
    yield Hit(
        f"the memory shares on this device add up to {total:.2f} with {', '.join(names) or 'the other service'}: more than "
        f"the whole memory",
        flag=flag(case, *_SHARES),
        fix=Fix(
            text="Lower the shares to a sum of at most 0.95 (0.80 on unified memory), or give each its own device."
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


# options of a server that is one of several nodes
_NODES = (
    "--node-rank",
    "--headless",
    "--data-parallel-start-rank",
    "--data-parallel-address",
    "--dist-init-addr",
    "--master-addr",
)


def _is_node(launch: Launch) -> bool:
    return any(flag.name in _NODES for flag in launch.flags)


def _together(one: Launch, other: Launch) -> bool:
    """Whether two launches can run at once: a loop starts one after the other, and so do two on one port of one machine."""
    if _is_node(other):
        return False
    if one.container is None and other.container is None:
        ports = {launch.flag("--port").value if launch.flag("--port") else None for launch in (one, other)}  # type: ignore[union-attr]
        if one.line == other.line or len(ports) == 1:
            return False
    return _same_device(one, other)


def _visible(launch: Launch) -> set[str]:
    """The devices that a variable of the process names; empty where none does, or not by number."""
    names = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
    value = next((var.value for name in names for var in launch.env if var.name == name and var.value), None)
    return set() if value is None or not value.replace(",", "").isdigit() else set(value.split(","))


def _same_device(one: Launch, other: Launch) -> bool:
    """Whether two services can land on one device: both name the same devices, or neither names any."""
    seen = [_visible(launch) for launch in (one, other)]
    if seen[0] and seen[1]:
        return bool(seen[0] & seen[1])
    gpus = [c.gpus if (c := launch.container) is not None else None for launch in (one, other)]
    if any(text is not None and "," in text for text in gpus):
        sets = [set((text or "").split(",")) for text in gpus]
        return bool(sets[0] & sets[1])
    return gpus[0] == gpus[1]
