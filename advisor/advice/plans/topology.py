"""Several machines joined by a network, with one accelerator each (two GB10s over RoCE) or a board
of several (two HGX machines), instead of cards in one host.

What it does: says whether a question is about such machines, and writes what a server needs to span
them. What it does not know: the network's delay, beyond what the kind of link says.
"""

from __future__ import annotations

from math import ceil

from advisor.domain.nouns import Facts, Hardware, Plan
from advisor.domain.versions import parse_release
from advisor.engines.traits import traits

LINKS = ("roce", "ethernet")
Split = tuple[int, int]  # (ranks of one server, servers)


def spans(facts: Facts) -> bool:
    """Whether the accelerators of the question are in machines of their own."""
    return facts.gpus > 1 and facts.interconnect in LINKS and boards(facts) == 1


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
    """Machines that hold the question's GPUs, where these come several a machine; else 1."""
    board = board_gpus(facts)
    return ceil(facts.gpus / board) if board is not None else 1


def board_gpus(facts: Facts) -> int | None:
    """GPUs of the board that the part is sold on, which is one machine; None for single cards."""
    known = facts.hardware.machine_gpus if facts.hardware is not None else None
    return int(known.value) if known is not None else None


def stages(facts: Facts, ranks: int) -> tuple[int, int]:
    """Tensor parallel ranks and pipeline stages of a server of so many ranks. Beyond one board the
    ranks are those of a board and each machine holds some of the layers, as vLLM's documentation
    has it: tensor parallelism over a network waits for it twice in every layer. An engine or a
    release that cannot draft so, and a stated --tp, stay with tensor parallelism alone.
    """
    board, first = board_gpus(facts), traits(facts.engine).stages
    if board is None or ranks <= board or ranks % board or facts.tp or first is None:
        return ranks, 1
    at, needed = parse_release(facts.engine_version), parse_release(first)
    return (ranks, 1) if at is None or at < (needed or ()) else (board, ranks // board)


def machines(facts: Facts, ranks: int) -> int:
    """Machines over which one server of so many ranks runs."""
    if spans(facts):
        return ranks
    board = board_gpus(facts)
    return ceil(ranks / board) if board is not None else 1


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
    board, ranks = board_gpus(facts), plan.tp * plan.pp
    if board is not None and ranks <= board < ranks * plan.dp:
        return plan.model_copy(update={"dp": board // ranks})
    return plan.model_copy(update={"dp": 1}) if spans(facts) and plan.dp > 1 else plan
