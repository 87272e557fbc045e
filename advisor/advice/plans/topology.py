"""Several machines joined by a network, and what a server needs to span them."""

from math import ceil

from advisor import engines
from advisor.domain.nouns import Facts, Hardware, Plan
from advisor.domain.sourced import sourced
from advisor.domain.versions import parse_release
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge.imputed import first_row, hardware_words, table
from advisor.perf.sizes.pools import LINKS, splits_by_tensor

SPLIT_MODE, TENSOR = "--split-mode", "tensor"
CHASSIS = sourced(
    8, "GPUs", "own choice: what most servers hold; --gpus-per-machine says else", "assumed"
)
Split = tuple[int, int]  # (ranks of one server, servers)


def spans(facts: Facts) -> bool:
    """Whether the accelerators of the question are in machines of their own."""
    return boards(facts) > 1 and board_gpus(facts) == 1


def link_default(hardware: Hardware, gpus: int, each: int | None = None) -> tuple[str, str] | None:
    """The link between machines, of `each` GPUs where that is stated, and why; None for one."""
    known, apart = hardware.machine_gpus, hardware.hardware_class == "unified"
    board = 1 if apart else each or (gpus if known is None else known.value)
    if gpus <= max(board, hardware.switch_gpus.value if hardware.switch_gpus else 0):
        return None
    if not apart:
        usual = first_row("between", hardware_words(hardware))
        return str(usual["link"]), str(usual["why"])
    why = f"each {hardware.name or hardware.id} is a machine of its own"
    return ("roce", f"{why}, with a ConnectX port") if has_port(hardware) else ("ethernet", why)


def has_port(hardware: Hardware) -> bool:
    """Whether a machine of its own has a port that is made for linking several."""
    return "connectx" in hardware.link.lower()


def boards(facts: Facts) -> int:
    """Machines that hold the question's GPUs."""
    board = board_gpus(facts)
    return ceil(facts.gpus / board) if board is not None else 1


def board_gpus(facts: Facts) -> int | None:
    """GPUs of one machine: as asked for, else of the board that the part is sold on; behind a
    network one, or `CHASSIS` where there are more. None where all are in one host.
    """
    known = facts.device.machine_gpus
    if (given := facts.question.gpus_per_machine) is not None:
        return given
    if facts.device.hardware_class == "unified":
        return 1
    if facts.gpus < 2 or facts.interconnect not in LINKS:
        return int(known.value) if known is not None else None
    board = int(known.value) if known is not None else int(CHASSIS)
    return board if facts.gpus > board else 1


def assumption(facts: Facts) -> tuple[str, str, str] | None:
    """The GPUs of one machine as a default that was chosen; None where they are known."""
    board, hardware = board_gpus(facts), facts.hardware
    if board is None or boards(facts) == 1 or hardware is None:
        return None
    known, asked = hardware.machine_gpus, facts.question.gpus_per_machine is not None
    sure = known is not None and known.status != "assumed" and board == known.value
    if asked or sure or hardware.hardware_class == "unified":
        return None
    return "gpus_per_machine", str(board), "assumed: --gpus-per-machine says what yours hold"


def stages(facts: Facts, ranks: int) -> tuple[int, int]:
    """Tensor parallel ranks and pipeline stages of a server of so many ranks. Beyond one board each
    machine holds some of the layers (tensor parallelism over a network waits for it twice in every
    layer), unless --pp or --tp is stated, a switch joins the boards or the release cannot draft so.
    """
    if given := facts.question.pp:
        return ranks // given, given
    board, first = board_gpus(facts), traits(facts.engine).stages
    if board is None or board == 1 or ranks <= board or ranks % board or facts.tp or first is None:
        return ranks, 1
    if ranks <= switch_gpus(facts):
        return ranks, 1
    at, needed = parse_release(facts.engine_version), parse_release(first)
    return (ranks, 1) if at is None or at < (needed or ()) else (board, ranks // board)


def more_stages(facts: Facts, split: Split) -> tuple[int, ...]:
    """Pipeline stages to try in one host beside none, where neither they nor a tp were asked for
    and each has requests of its own: over PCIe (vLLM's docs, parallelism and scaling; over NVLink
    TP 4 beat TP 2 x PP 2, TensorRT-LLM#1144).
    """
    rate = facts.device.link_gb_s  # of NVLink or the like, which joins all cards of a host
    wide = rate is None or rate.value * 1e9 > table("values")["pcie_most"]
    joined = facts.interconnect == "nvlink" or (facts.interconnect is None and wide)
    if facts.tp or facts.llm.only_tp or facts.question.pp or joined or boards(facts) > 1:
        return ()
    most = min(split[0], facts.load // split[1])
    return tuple(n for n in range(2, most + 1) if split[0] % n == 0)


def experts(
    facts: Facts, tp: int, servers: int, ranks: int
) -> tuple[tuple[str, str | None], ...] | None:
    """The options that share whole experts over so many ranks of a server; None where the model has
    none, or the engine does not take as many: vLLM takes all ranks of all its replicas.
    """
    rows = traits(facts.engine).experts
    if ranks == 1:
        return ()
    if facts.shape is None or not facts.shape.moe_layers or not rows:
        return None
    counted = any(value for _, value in rows)
    if tp % ranks if counted else ranks != tp * servers or (servers > 1 and not facts.tp):
        return None
    return tuple((name, value and value.format(ranks=ranks)) for name, value in rows)


def switch_gpus(facts: Facts) -> int:
    """GPUs of several boards that one switch joins as if they were on one (NVL72); else 0."""
    known = facts.device.switch_gpus
    return int(known.value) if known is not None and facts.interconnect not in LINKS else 0


def machines(facts: Facts, ranks: int) -> int:
    """Machines over which one server of so many ranks runs, each with as many of them."""
    board = board_gpus(facts)
    least = ceil(ranks / board) if board is not None else 1
    return next(count for count in range(least, ranks + 1) if ranks % count == 0)


def flags(facts: Facts, ranks: int) -> tuple[tuple[str, str | None], ...]:
    """What a server needs over several machines; the address is a visible placeholder."""
    count = machines(facts, ranks)
    if count == 1:
        return ()
    others = ",".join(f"MACHINE_{n}_IP:50052" for n in range(2, count + 1))
    return tuple(
        (name, value.format(count=count, others=others))
        for name, value in traits(facts.engine).linked
    )


def split_modes(facts: Facts) -> tuple[str, ...]:
    """How llama.cpp spreads a model: by layers, or tensors (llama.cpp#23912: even cards)."""
    if not gguf_engine(facts.engine or "") or facts.gpus < 2:
        return ()
    known = engines.get(facts.engine or "").catalogue.values(SPLIT_MODE, facts.engine_version)
    able = TENSOR in known.names and facts.device.vendor in ("nvidia", "amd")
    able = able and boards(facts) == 1 and facts.gpus % 2 == 0
    return ("layer", TENSOR) if able and splits_by_tensor(facts.model, facts.shape) else ("layer",)


def split_mode(plan: Plan) -> str | None:
    """How llama.cpp spreads the plan's model over several cards; None where nothing says."""
    return dict(plan.extra).get(SPLIT_MODE)


def on_each(facts: Facts, plan: Plan) -> Plan:
    """The plan of one server: replicas on several machines are servers of their own, since the
    ranks of one would wait for each other over the network in every step (vLLM's docs).
    """
    board, ranks = board_gpus(facts), plan.tp * plan.pp
    if board is None or ranks * plan.dp <= board:
        return plan
    return plan.replace(dp=max(board // ranks, 1))


def where(facts: Facts, plan: Plan) -> str:
    """Where the launch is started, " on the first of 2 machines"; "" where there is one."""
    count, every = machines(facts, plan.tp * plan.pp), boards(facts)
    first = f" on the first of {count} machines"
    return first if count > 1 else f" on each of {every} machines" if every > 1 else ""


def others(facts: Facts, plan: Plan) -> str:
    """What starts on the other machines of one server; "" where it runs on one."""
    count = machines(facts, plan.tp * plan.pp)
    if count == 1:
        return ""
    first, last = ("2", "1") if count == 2 else (f"2 to {count}", f"1 to {count - 1}")
    each = f"One of {plan.dp} such servers. " if plan.dp > 1 else ""
    return each + traits(facts.engine).linked_note.format(machines=first, ranks=last)
