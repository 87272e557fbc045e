"""Several machines joined by a network, one accelerator each (two GB10s over RoCE), instead of
cards in one host.

What it does: says whether a question is about such machines, and writes what a server needs to span
them. What it does not know: the network's delay, beyond what the kind of link says.
"""

from __future__ import annotations

from math import ceil

from advisor.domain.nouns import Facts, Hardware, Plan
from advisor.domain.sourced import sourced
from advisor.engines.traits import traits

LINKS = ("roce", "ethernet")
Split = tuple[int, int]  # (tp, dp)
BOARD = sourced(
    8,
    "GPUs a machine",
    "docs.vultr.com/inference-cookbook (HGX B200: 8 GPUs a node); taken to hold for the other HGX "
    "boards and AMD's platforms",
    "assumed",
)
BOARDS = frozenset(
    {"h100-sxm", "h200", "h800", "h20", "b200", "b300", "mi300x", "mi325x", "mi355x"}
)


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


def boards(facts: Facts) -> int:
    """Machines that hold the question's GPUs, where these come eight a machine; else 1."""
    known = facts.hardware is not None and facts.hardware.id in BOARDS
    return ceil(facts.gpus / BOARD) if known and not spans(facts) else 1


def machines(facts: Facts, ranks: int) -> int:
    """Machines over which one server of so many ranks runs."""
    if spans(facts):
        return ranks
    return ceil(ranks / BOARD) if boards(facts) > 1 else 1


def flags(facts: Facts, ranks: int) -> tuple[tuple[str, str | None], ...]:
    """What a server of so many ranks needs where they lie in several machines; the address is a
    visible placeholder.
    """
    count = machines(facts, ranks)
    if count == 1:
        return ()
    others = ",".join(f"MACHINE_{n}_IP:50052" for n in range(2, count + 1))
    return tuple(
        (name, value.format(count=count, others=others))
        for name, value in traits(facts.engine).linked
    )


def on_each(facts: Facts, plan: Plan) -> Plan:
    """The plan of one server. Replicas on linked machines are servers of their own: as one, the
    ranks of a mixture of experts would wait for each other over the network in every step
    (vLLM's docs, data parallel deployment).
    """
    if boards(facts) > 1 and plan.tp <= BOARD < plan.tp * plan.dp:
        return plan.model_copy(update={"dp": BOARD // plan.tp})
    return plan.model_copy(update={"dp": 1}) if spans(facts) and plan.dp > 1 else plan
