"""Shares of memory, and whether two servers share a device."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite

from advisor.domain.nouns import Case, Launch
from advisor.domain.patterns import lazy_re
from advisor.engines.arguments.fields import RANKS, depth
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import decimal, flag, value
from advisor.rules.kit.fixes import set_fix

_SHARES = ("--gpu-memory-utilization", "--mem-fraction-static")
MANY = 40  # a file of more servers is a collection: they do not all run at once
# one of these runs at a time, or the file does not say
_ON_DEMAND = ("llama-swap", "llama-server-ini", "python", "document")
# options of a server that is one of several nodes
_NODES = (
    *("--node-rank", "--headless", "--data-parallel-start-rank", "--data-parallel-address"),
    *("--dist-init-addr", "--master-addr"),
)
_WORLD = (
    *("--tensor-parallel-size", "--tp-size", "--pipeline-parallel-size", "--pp-size"),
    *("--data-parallel-size", "--dp-size"),
)
_PROCESS_DEVICES = (
    *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("ASCEND_RT_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"),
)
_EVERYWHERE = ("0.0.0.0", "::", "127.0.0.1", "localhost", "*")  # addresses that every node has
# each application, and each model of a chart, gets devices of its own, named or not
_PLACED = ("ray-serve", "helm-values")
_TRANSFERS = lazy_re(r"kv_producer|kv_consumer|NixlConnector|P2pNccl|Mooncake\w*Connector")


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
    sharers = [other for other in others if _share(other)]
    total = own + sum(_share(other) or 0.0 for other in sharers)
    if total <= 1.0 or any((_share(one) or 0) > own and one.line < mine.line for one in sharers):
        return
    names = ", ".join(other.container.name for other in sharers if other.container)
    yield Hit(
        f"the memory shares on this device add up to {total:.2f} with "
        f"{names or 'the other service'}: more than the whole memory",
        severity="error"
        if total > 1.05 and all(names_device(one) for one in (mine, *sharers))
        else None,
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
    place = flag(case, *_SHARES)
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
    place = flag(case, *_SHARES)
    share = decimal(value(case, *_SHARES))
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


def is_node(launch: Launch) -> bool:
    """Whether the launch is one of several nodes of a single server."""
    return any(flag.name in _NODES for flag in launch.flags)


def together(one: Launch, other: Launch) -> bool:
    """Whether both can run at once on one device. A loop starts one after the other, and so do two
    on one port of one machine.
    """
    # they may listen on addresses of different machines, by number or by variable
    hosts = [_value(each, "--host") or each.env_value("VLLM_HOST_IP") for each in (one, other)]
    apart = all(host and host not in _EVERYWHERE for host in hosts) and hosts[0] != hosts[1]
    if is_node(one) or is_node(other) or apart:
        return False
    if one.container is None and other.container is None:
        ports = {_value(launch, "--port") for launch in (one, other)}
        if one.line == other.line or len(ports) == 1:
            return False
    return _same_device(one, other)


def _same_device(one: Launch, other: Launch) -> bool:
    pair = (one, other)
    if any(_has_own_device(launch) for launch in pair):
        return False
    split = any(_split_role(launch) for launch in pair)
    named = all(_inner(each) or _outer(each) or each.flag("--base-gpu-id") for each in pair)
    if split and not named:
        return False
    outer = [_outer(launch) for launch in pair]
    placed = all(_inner(launch) or _outer(launch) for launch in pair)
    if (outer[0] is None) != (outer[1] is None) and not placed:
        return False  # one is placed by its container, of the other nothing is known
    if all(ids is not None and len(ids) == 1 for ids in outer):
        # a single number is an id or a count of devices, so only equal ones are known to start with
        # one device
        return outer[0] == outer[1] and bool(_used_devices(one, None) & _used_devices(other, None))
    return bool(_used_devices(one, outer[0]) & _used_devices(other, outer[1]))


def _has_own_device(launch: Launch) -> bool:
    """Whether a pod asks for the server's device, or each application or model gets one."""
    container = launch.container
    if container is None or container.kind in _PLACED:
        return container is not None
    return container.kind in ("kubernetes", "llmkube") and bool(container.gpus or container.chart)


def _used_devices(launch: Launch, outer: Sequence[str] | None) -> set[str]:
    """The devices that the server works on: its share of those that it sees."""
    seen = _inner(launch)
    places = [depth(part) for part in seen or ()]
    if seen is not None and outer is not None:
        inside = [outer[at] for at in places if at is not None and at < len(outer)]
        seen = inside if len(inside) == len(places) else seen
    seen = seen or (list(outer) if outer else None)
    first, world = _number(launch, "--base-gpu-id") or 0, _world(launch)
    if seen is None:
        return {str(first + index) for index in range(min(world or 1, int(RANKS[1])))}
    return set(seen[first : first + world] if world else seen[first:])


def names_device(launch: Launch) -> bool:
    """Whether the file says which devices a server has, by number, so that none is assumed."""
    listed = _inner(launch) or _outer(launch) or []
    gpus = launch.container.gpus if launch.container is not None else None
    return bool(listed) and (gpus is None or not gpus.isdigit())


def _inner(launch: Launch) -> list[str] | None:
    """The devices that the process sees: numbers, names or variables; None for all."""
    return _parse_list(next(filter(None, map(launch.env_value, _PROCESS_DEVICES)), None))


def _outer(launch: Launch) -> list[str] | None:
    """The devices of the container; None where there is none, or it has all."""
    gpus = launch.container.gpus if launch.container is not None else None
    return _parse_list(launch.env_value("NVIDIA_VISIBLE_DEVICES")) or _parse_list(gpus)


def _parse_list(text: str | None) -> list[str] | None:
    plain = re.sub(r"^device=|[\"'\[\]]", "", (text or "").strip("\"' "))
    parts = [part.strip() for part in plain.split(",") if part.strip()]
    return parts if parts and parts[0].lower() not in ("all", "-1", "none", "void") else None


def _split_role(launch: Launch) -> bool:
    """Whether the server does one half of the work only, prompts or answers."""
    mode = _value(launch, "--disaggregation-mode")
    return mode not in (None, "null", "agg") or bool(
        _TRANSFERS.search(_value(launch, "--kv-transfer-config") or "")
    )


def _world(launch: Launch) -> int | None:
    """How many devices the server uses; None where a variable says it."""
    size = 1
    for name in _WORLD:
        if launch.flag(name) is not None:
            size *= _number(launch, name) or 0
    return size or None


def _number(launch: Launch, name: str) -> int | None:
    return depth(_value(launch, name))


def _value(launch: Launch, name: str) -> str | None:
    found = launch.flag(name)
    return found.value if found is not None else None
