"""What a service of compose or a container of a pod asks for of the host's accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.mapped import join, literal
from advisor.readers.syntax.scope import Scope, interpolate
from advisor.readers.syntax.yamlnodes import Node, scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from advisor.readers.engine_command import Surroundings
    from advisor.readers.reading import Reading

ASKS = ("deploy", "gpus", "devices", "runtime", "privileged")  # keys of a service, in this order
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
    around: Surroundings,
    service: Node,
    fields: Sequence[Node | None],
    reading: Reading,
    scope: Scope,
) -> None:
    """The devices of a service; `fields` are the values of ASKS."""
    deploy, gpus, devices, runtime, privileged = fields
    around.whole = service.get("extends") is None and service.get("device_cgroup_rules") is None
    around.privileged = privileged is not None and privileged.truth is not False
    around.runtime = runtime.text if runtime is not None else None
    for one in devices.items if devices is not None else []:
        source = one.get("source") if one.kind == "map" else one
        if source is not None:
            around.paths.append(source.text)
    held = deploy.path("resources.reservations") if deploy is not None else None
    if held is not None and held.get("generic_resources") is not None:
        around.whole = False  # of a swarm
    asked = held.get("devices") if held is not None else None
    if gpus is not None and gpus.kind == "scalar":
        _count(around, gpus, reading, scope)
    for device in [*(asked.items if asked is not None else []), *(gpus.items if gpus else [])]:
        _reservation(around, device, reading, scope)
    indent = _indent(service, reading)
    if deploy is None and gpus is None and indent is not None:
        around.request = _end(service, reading), _BLOCK.replace("{0}", indent)


def _count(around: Surroundings, node: Node, reading: Reading, scope: Scope) -> None:
    said = interpolate(scalar(node, reading.source), scope)
    around.gpus, around.asked = said.display(), [said]


def _reservation(around: Surroundings, device: Node, reading: Reading, scope: Scope) -> None:
    """One reservation: a number of devices, or a list of them. Neither: all of the driver's."""
    if device.kind != "map" or around.gpus is not None:
        return
    count, ids, wanted = device.get("count"), device.get("device_ids"), device.get("capabilities")
    if count is not None and count.kind == "scalar":
        _count(around, count, reading, scope)
    elif ids is not None:
        driver = device.get("driver")
        if driver is not None and driver.text == "cdi":
            around.paths += [one.text for one in ids.items]
        commas = [
            part
            for item in ids.items
            if item.kind == "scalar"
            for part in (literal(",", -9), scalar(item, reading.source))
        ]
        listed = interpolate(join(commas[1:]), scope).display()
        around.gpus = f"device={listed}" if listed else "0"
    elif wanted is None or any(one.text in ("gpu", "nvidia") for one in wanted.items):
        around.gpus = "all"


def ask_resources(around: Surroundings, node: Node, document: Node, reading: Reading) -> None:
    """The devices of a container of a pod: what it is limited to, and claims."""
    resources = node.get("resources")
    limits = resources.get("limits") if resources is not None else None
    requests = resources.get("requests") if resources is not None else None
    for key, value in (limits or requests or node).entries() if limits or requests else []:
        if value.kind != "scalar":
            continue
        if around.gpus is None and _GPU.search(key.text):
            around.gpus = value.text
            around.asked = [scalar(value, reading.source)]
            other = requests.get(key.text) if limits is not None and requests is not None else None
            if other is not None:
                around.asked.append(scalar(other, reading.source))
        if not _PLAIN.fullmatch(key.text):
            around.paths.append(key.text)
    version, template = document.get("apiVersion"), document.path("spec.template.spec")
    pod = template or document.get("spec")
    around.whole = (
        version is not None
        and version.text in _OWN
        and node.get("<<") is None
        and (resources is None or (resources.get("claims") is None and resources.get("<<") is None))
        and (resources is None or resources.kind == "map")
        and node.get("envFrom") is None
    )
    runtime = pod.get("runtimeClassName") if pod is not None else None
    around.runtime = runtime.text if runtime is not None else None
    privileged = node.path("securityContext.privileged")
    around.privileged = privileged is not None and privileged.truth is not False
    _ask_pod(around, node, resources, limits, reading)


def _ask_pod(
    around: Surroundings,
    node: Node,
    resources: Node | None,
    limits: Node | None,
    reading: Reading,
) -> None:
    """Where a limit on GPUs could be written, and how."""
    inside = limits if limits is not None and limits.kind == "map" else resources
    indent = _indent(inside if inside is not None and inside.pairs else node, reading)
    if indent is None:
        return
    if inside is not None and inside is limits and limits.pairs:
        around.request = limits.pairs[0][0].start, f'nvidia.com/gpu: "{{n}}"\n{indent}'
    elif resources is None:
        block = f'\n{indent}resources:\n{indent}  limits:\n{indent}    nvidia.com/gpu: "{{n}}"'
        around.request = _end(node, reading), block
