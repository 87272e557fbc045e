"""Shares of memory, and whether two servers share a device."""

import re
from math import isfinite

from advisor.domain.nouns import Case, Launch
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import decimal
from advisor.rules.kit.fixes import set_fix

_SHARES = ("--gpu-memory-utilization", "--mem-fraction-static")
# one of these runs at a time, or the file does not say
_ON_DEMAND = ("llama-swap", "llama-server-ini", "python", "document")
# options of a server that is one of several nodes
_NODES = (
    *("--node-rank", "--headless", "--data-parallel-start-rank", "--data-parallel-address"),
    *("--dist-init-addr", "--master-addr"),
)
_ON_ONE_MACHINE = frozenset(("compose", "docker-run", "quadlet", "systemd"))
_DEVICES = (
    *("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
    *("ROCR_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"),
)


@rule("SD306", "warning", "vllm sglang", decides=True, at=_SHARES)
def memory_shares_exceed_device(case: Case) -> Hits:
    """Services of one file claim more than the whole memory of a device that they share.

    Why: a memory share is a part of the device's total memory, not of what is free.
    Bad:
        services:
          chat:
            image: vllm/vllm-openai:v0.25.1
            command: Qwen/Qwen3.6-35B-A3B-FP8 --gpu-memory-utilization 0.6 --max-num-seqs 16
          embed:
            image: vllm/vllm-openai:v0.25.1
            command: Qwen/Qwen3-Embedding-8B --gpu-memory-utilization 0.5 --max-num-seqs 16
    Good: with --gpu-memory-utilization 0.2 for --gpu-memory-utilization 0.5
    Sources: rwlove/home-ops#13222; anubhavgupta/GB10 serving README; picopapaya EXPERIMENT_NOTES
    """
    mine, own = case.launch, case.plan.memory_fraction
    if own is None or own > 1 or mine.form in _ON_DEMAND:  # of more than one SD314 speaks
        return
    # a function that starts a server each time it is called is one line
    others = [one for one in case.siblings if one.line != mine.line and together(mine, one)]
    sharers = [other for other in others if _share(other)]
    total = own + sum(_share(other) or 0.0 for other in sharers)
    if total <= 1.0 or any((_share(one) or 0) > own and one.line < mine.line for one in sharers):
        return
    names = ", ".join(other.container.name for other in sharers if other.container)
    yield Hit(
        f"the memory shares on this device add up to {total:.2f} with "
        f"{names or 'the other service'}: more than the whole memory",
        severity="error" if total > 1.05 and devices(mine) else None,
        fix="Lower the shares to a sum of at most 0.95 (0.80 on unified memory), or give "
        "each its own device.",
    )


def _share(launch: Launch) -> float | None:
    given = [one for name in _SHARES if (one := launch.flag(name)) and one.value]
    return decimal(given[0].value) if given and not given[0].unresolved else None


@rule("SD313", "warning", "vllm sglang", versioned=True, data="memory.discrete_memory_fraction_max")
@when(speculative=True)
def memory_share_too_high(case: Case) -> Hits:
    """Nearly all memory is given to the engine while it speculates.

    Why: the profile run misses buffers of the verify step: memory runs out under load.
    Bad: vllm serve Qwen/Qwen3.6-27B-AWQ --gpu-memory-utilization 0.98 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good: with --gpu-memory-utilization 0.92 for --gpu-memory-utilization 0.98
    Sources: vllm-project/vllm#44209; seed002
    """
    share, limit = case.plan.memory_fraction, number("memory", "discrete_memory_fraction_max")
    hw = case.facts.hardware
    if share is None or not limit < share <= 1 or (hw is not None and hw.unified_memory):
        return
    place = case.flag(*_SHARES)
    yield Hit(
        f"a memory share of {share:g} leaves no room for buffers of speculation that the profile "
        "run does not include",
        flag=place,
        fix=set_fix(case, place, "0.92", "Set it to 0.90 to 0.94."),
        conflicts=("a published server with two RTX 3090 runs at 0.98",),
    )


@rule("SD314", "error", "vllm sglang")
def memory_share_above_one(case: Case) -> Hits:
    """A memory share that is no part of a whole: above 1, or not above 0.

    Why: the share is a fraction, not a percentage: neither engine starts.
    Bad: vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 90
    Good: vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 0.9
    Sources: vllm 0.19.1 to 0.33.0 vllm/config/cache.py (gpu_memory_utilization: 0 < share <= 1);
        sglang 0.5.9 to 0.5.23 server_args.py (mem_fraction_static)
    """
    place, share = case.flag(*_SHARES), decimal(case.value(*_SHARES))
    if share is None or 0 < share <= 1 or not isfinite(share):
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
        else "Give a part of the memory, for example 0.90.",
    )


def together(one: Launch, other: Launch) -> bool:
    """Whether both run on one device: both name it, or no container does, or a script has both."""
    if any(flag.name in _NODES for launch in (one, other) for flag in launch.flags):
        return False
    ports = {flag and flag.value for flag in (one.flag("--port"), other.flag("--port"))}
    beside = one.background or other.background
    if one.container is None and other.container is None and len(ports) == 1 and not beside:
        return False  # one after the other
    kinds = [launch.container.kind for launch in (one, other) if launch.container is not None]
    if not _ON_ONE_MACHINE.issuperset(kinds):
        return False  # a scheduler places them
    mine, theirs = devices(one), devices(other)
    return not mine.isdisjoint(theirs) or ((len(kinds) == 2 or beside) and not mine | theirs)


def devices(launch: Launch) -> frozenset[str]:
    """The devices that the file names for a server: its container, a variable or the first one."""
    gpus = (launch.container.gpus if launch.container is not None else None) or ""
    first = launch.flag("--base-gpu-id")
    named = [gpus if "device=" in gpus else None, *map(launch.env_value, _DEVICES)]
    named.append(first.value if first is not None else None)
    text = re.sub(r"^device=|[\"' ]", "", next(filter(None, named), "").strip("\"' "))
    return frozenset(one for one in text.split(",") if one and one not in ("all", "-1", "none"))
