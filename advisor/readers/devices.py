"""What a service of compose or a container of a pod asks for of the host's accelerators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.readers.syntax.mapped import join, literal
from advisor.readers.syntax.scope import node_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from advisor.readers.engine_command import Surroundings
    from advisor.readers.syntax.yamlnodes import Node

_GPU = lazy_re(r"gpu|npu|mig")


def ask_devices(around: Surroundings, field: Callable[[str], Node]) -> None:
    """The GPUs of a service; `field` gives its keys, inherited ones too."""
    gpus, reserved = field("gpus"), field("deploy").path("resources.reservations")
    if gpus.kind == "scalar":
        around.gpus = node_text(gpus).display()
    for device in [*reserved.get("devices").items, *gpus.items]:
        _reserve(around, device)


def _reserve(around: Surroundings, device: Node) -> None:
    """One reservation: a number of devices, or a list of them. Neither: all of the driver's."""
    if device.kind != "map" or around.gpus is not None:
        return
    count, ids, wanted = device.get("count"), device.get("device_ids"), device.get("capabilities")
    if count.kind == "scalar":
        around.gpus = node_text(count).display()
    elif ids:
        scalars = [item for item in ids.items if item.kind == "scalar"]
        commas = [part for item in scalars for part in (literal(",", -9), node_text(item))]
        listed = join(commas[1:]).display()
        around.gpus = f"device={listed}" if listed else "0"
    elif not wanted or any(one.text in ("gpu", "nvidia") for one in wanted.items):
        around.gpus = "all"


def ask_resources(around: Surroundings, node: Node) -> None:
    """The GPUs that a container of a pod is limited to."""
    resources = node.get("resources")
    for key, value in (resources.get("limits") or resources.get("requests")).entries():
        if around.gpus is None and value.kind == "scalar" and _GPU.search(key.text):
            around.gpus = value.text
