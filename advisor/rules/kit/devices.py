"""Whether two launches of one file can run at once on one device: what each says of its node, its
devices and its role.

A file that places nothing is taken at its word: all its servers start on this machine, each from
the first device on. Prefill and decode servers are the exception, since their files are recipes for
several nodes: they share a device only where both name it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from advisor.domain.nouns import Launch
from advisor.domain.patterns import lazy_re
from advisor.engines.arguments.fields import RANKS, depth

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


def is_node(launch: Launch) -> bool:
    """Whether the launch is one of several nodes of a single server."""
    return any(flag.name in _NODES for flag in launch.flags)


def together(one: Launch, other: Launch) -> bool:
    """Whether both can run at once on one device. A loop starts one after the other, and so do two
    on one port of one machine.
    """
    if is_node(one) or is_node(other) or _on_other_nodes(one, other):
        return False
    if one.container is None and other.container is None:
        ports = {_value(launch, "--port") for launch in (one, other)}
        if one.line == other.line or len(ports) == 1:
            return False
    return _same_device(one, other)


def _on_other_nodes(one: Launch, other: Launch) -> bool:
    """Whether they listen on addresses of different machines, by number or by variable."""
    hosts = [_value(each, "--host") or each.env_value("VLLM_HOST_IP") for each in (one, other)]
    return all(host and host not in _EVERYWHERE for host in hosts) and hosts[0] != hosts[1]


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
