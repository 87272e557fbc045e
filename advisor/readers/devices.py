"""What a service of compose or a container of a pod asks for of the host's accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.mapped import join, literal
from advisor.readers.syntax.scope import node_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from advisor.readers.engine_command import Surroundings
    from advisor.readers.reading import Reading
    from advisor.readers.syntax.yamlnodes import Node

_OWN = ("v1", "apps/v1", "batch/v1")
_GPU = lazy_re(r"gpu|npu|mig")
# resources of a node that are no devices
_PLAIN = lazy_re(r"cpu|memory|pods|(?:requests\.|limits\.)?ephemeral-storage|hugepages-.*")
_BLOCK = """
{0}deploy:
{0}  resources:
{0}    reservations:
{0}      devices:
{0}        - driver: nvidia
{0}          count: all
{0}          capabilities: [gpu]"""


def _indent(node: Node, reading: Reading) -> str | None:
    """The blanks before the first key of a mapping in block style."""
    if not node.pairs:
        return None
    key = node.pairs[0][0]
    line = reading.source.text.rfind("\n", 0, key.start) + 1
    before = reading.source.text[line : key.start]
    if "{" in before or before.replace("- ", "  ").strip():
        return None
    return " " * len(before)


def _end(node: Node, reading: Reading) -> int:
    """Where the last line of a mapping ends, comments and blank lines behind it left out."""
    last = max((part.end for pair in node.pairs for part in pair), default=node.end)
    return len(reading.source.text[:last].rstrip())


def ask_devices(
    around: Surroundings, service: Node, field: Callable[[str], Node], reading: Reading
) -> None:
    """The devices of a service; `field` gives its keys, inherited ones too."""
    around.whole = not service.get("extends") and not service.get("device_cgroup_rules")
    privileged, runtime, gpus = field("privileged"), field("runtime"), field("gpus")
    around.privileged = bool(privileged) and privileged.truth is not False
    around.runtime = runtime.text if runtime else None
    for one in field("devices").items:
        if source := one.get("source") if one.kind == "map" else one:
            around.paths.append(source.text)
    reserved = field("deploy").path("resources.reservations")
    if reserved.get("generic_resources"):
        around.whole = False  # of a swarm
    if gpus.kind == "scalar":
        _count(around, gpus)
    for device in [*reserved.get("devices").items, *gpus.items]:
        _reserve(around, device)
    indent = _indent(service, reading)
    if not field("deploy") and not gpus and indent is not None:
        around.request = _end(service, reading), _BLOCK.replace("{0}", indent)


def _count(around: Surroundings, node: Node) -> None:
    number = node_text(node)
    around.gpus, around.asked = number.display(), [number]


def _reserve(around: Surroundings, device: Node) -> None:
    """One reservation: a number of devices, or a list of them. Neither: all of the driver's."""
    if device.kind != "map" or around.gpus is not None:
        return
    count, ids, wanted = device.get("count"), device.get("device_ids"), device.get("capabilities")
    if count.kind == "scalar":
        _count(around, count)
    elif ids:
        if device.get("driver").text == "cdi":
            around.paths += [one.text for one in ids.items]
        scalars = [item for item in ids.items if item.kind == "scalar"]
        commas = [part for item in scalars for part in (literal(",", -9), node_text(item))]
        listed = join(commas[1:]).display()
        around.gpus = f"device={listed}" if listed else "0"
    elif not wanted or any(one.text in ("gpu", "nvidia") for one in wanted.items):
        around.gpus = "all"


def ask_resources(around: Surroundings, node: Node, document: Node, reading: Reading) -> None:
    """The devices of a container of a pod: what it is limited to, and claims."""
    resources = node.get("resources")
    limits, requests = resources.get("limits"), resources.get("requests")
    for key, value in (limits or requests).entries():
        if value.kind != "scalar":
            continue
        if around.gpus is None and _GPU.search(key.text):
            around.gpus = value.text
            around.asked = [value.text_map]
            if limits and (other := requests.get(key.text)):
                around.asked.append(other.text_map)
        if not _PLAIN.fullmatch(key.text):
            around.paths.append(key.text)
    around.whole = (
        document.get("apiVersion").text in _OWN
        and not (node.get("<<") or node.get("envFrom"))
        and not (resources and resources.kind != "map")
        and not (resources.get("claims") or resources.get("<<"))
    )
    pod = document.path("spec.template.spec") or document.get("spec")
    runtime, privileged = pod.get("runtimeClassName"), node.path("securityContext.privileged")
    around.runtime = runtime.text if runtime else None
    around.privileged = bool(privileged) and privileged.truth is not False
    # where a limit on GPUs could be written, and how
    inside = limits if limits.kind == "map" else resources
    indent = _indent(inside if inside.pairs else node, reading)
    if indent is None:
        return
    if inside is limits and limits.pairs:
        around.request = limits.pairs[0][0].start, f'nvidia.com/gpu: "{{n}}"\n{indent}'
    elif not resources:
        block = f'\n{indent}resources:\n{indent}  limits:\n{indent}    nvidia.com/gpu: "{{n}}"'
        around.request = _end(node, reading), block
