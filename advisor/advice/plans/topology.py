"""Several machines joined by a network, one accelerator each (two GB10s over RoCE), instead of
cards in one host.

What it does: says whether a question is about such machines, and writes what a server needs to span
them. What it does not know: the network's delay, beyond what the kind of link says.
"""

from __future__ import annotations

from advisor.domain.nouns import Facts, Hardware, Plan
from advisor.engines.traits import traits

LINKS = ("roce", "ethernet")
Split = tuple[int, int]  # (tp, dp)


def spans(facts: Facts) -> bool:
    """Whether the accelerators of the question are in machines of their own."""
    return facts.gpus > 1 and facts.interconnect in LINKS


def link_default(hardware: Hardware, gpus: int) -> tuple[str, str] | None:
    """The link between several accelerators that are each one machine, and why; None where they are
    cards of one host.
    """
    if gpus < 2 or hardware.hardware_class != "unified":
        return None
    fast = has_port(hardware)
    name = hardware.name or hardware.id
    return (
        "roce" if fast else "ethernet"
    ), f"each {name} is a machine of its own{', with a ConnectX port' if fast else ''}"


def has_port(hardware: Hardware) -> bool:
    """Whether a machine of its own has a port that is made for linking several."""
    return "connectx" in hardware.link.lower()


def flags(facts: Facts, machines: int) -> tuple[tuple[str, str | None], ...]:
    """What a server that spans so many machines needs; the address is a visible placeholder."""
    if not spans(facts) or machines == 1:
        return ()
    others = ",".join(f"MACHINE_{n}_IP:50052" for n in range(2, machines + 1))
    return tuple(
        (name, value.format(count=machines, others=others))
        for name, value in traits(facts.engine).linked
    )


def on_each(facts: Facts, plan: Plan) -> Plan:
    """The plan of one server. Replicas on linked machines are servers of their own: as one, the
    ranks of a mixture of experts would wait for each other over the network in every step
    (vLLM's docs, data parallel deployment).
    """
    return plan.model_copy(update={"dp": 1}) if spans(facts) and plan.dp > 1 else plan
