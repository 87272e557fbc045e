"""What a question of several machines has to know: starts, network, and one that is faster."""

from advisor.advice.plans import placement, propose, topology
from advisor.advice.wording import name_of, reason
from advisor.domain.nouns import Facts, Plan, Reason
from advisor.engines.traits import traits
from advisor.perf import memory


def link_reason(facts: Facts, base: Plan) -> Reason | None:
    """What one of the linked machines gives, or a server on each of them."""
    if not topology.spans(facts):
        return None
    if not traits(facts.engine).replicas:
        if not memory.bill(facts.replace(gpus=1), base.replace(tp=1)).fits:
            return None
        text = "Linked machines: the model fits on one of them, and --gpus 1 needs no network"
        brief = "the model fits on one of the machines: --gpus 1 needs no network"
        return reason(text, "knowledge/engines", weight=1.5, brief=brief)
    if base.tp > 1:
        faster = alone(facts, base)
        return reason(faster, "physics core", weight=2.67) if faster else None
    speeds = placement.speeds(facts, propose.splits(facts))
    here = speeds.get((1, facts.gpus), 0.0)
    across = max((speed for (tp, _), speed in speeds.items() if tp > 1), default=0.0)
    units = {"tpot": "tokens a second for each request", "ttft": "prompts a second"}
    unit = units.get(facts.goal or "", "output tok/s")
    than = f"faster by the estimate ({here:.3g} against {across:.3g} {unit} without drafts)"
    than = than if 0 < across <= here else ""
    several = facts.load > 1
    more = " and share out the requests" if several else ": one request keeps one of them busy"
    text = (
        f"Linked machines: a server on each of the {facts.gpus} instead of one across "
        f"them{f', which is {than}' if than else ''}; start the launch on each{more}"
    )
    return reason(text, "physics core", weight=1.5, brief=than and f"a server on each is {than}")


def alone(facts: Facts, base: Plan) -> str | None:
    """That one machine is expected to answer one request faster than several; else None."""
    board = topology.board_gpus(facts) or 1
    lone = {"concurrency": 1, "goal": "tpot"}
    one = facts.replace(**lone, gpus=board, tp=None)
    fitting = [
        split
        for split in propose.splits(one)
        if memory.bill(memory.replica(one, plan := propose.base_plan(one, split)), plan).fits
    ]
    best = max(placement.speeds(one, fitting).values()) if fitting else 0.0
    (joint,) = placement.speeds(facts.replace(**lone), [(base.tp * base.pp, base.dp)]).values()
    if best <= joint:
        return None
    name = name_of(facts.hardware, "machine")
    return (
        f"{'One' if board == 1 else f'One machine of {board}'} {name} gives a lone request "
        f"{best:.0f} tokens/s without drafts, this server over "
        f"{topology.machines(facts, base.tp * base.pp)} machines {joint:.0f}: --gpus {board}"
    )


def boards(facts: Facts, base: Plan) -> Reason | None:
    """That so many GPUs are in several machines, and how the launch is started on them."""
    count = topology.boards(facts)
    if count == 1 or facts.hardware is None or topology.spans(facts):
        return None
    name, board = name_of(facts.hardware, ""), topology.board_gpus(facts)
    unsure = " (assumed: --gpus-per-machine)" if topology.assumption(facts) is not None else ""
    text = f"One machine holds {board} {name}{unsure}: {facts.gpus} are {count} machines"
    ranks = base.tp * base.pp
    over = topology.machines(facts, ranks)
    if over == 1:
        left, rest = facts.gpus % (board or 1), ""  # of the last machine, where it holds fewer
        if left:
            runs = "too few for a server" if left < ranks else f"data-parallel size {left // ranks}"
            rest = f"; the last has {left} of the GPUs: {runs}"
        text += f": start the launch on each and share out the requests{rest}"
        brief = f"{facts.gpus} GPUs are {count} machines: share out the requests{rest}"
        return reason(
            text, "knowledge/engines", weight=2.7 if rest else 2.66, brief=brief, risk=True
        )
    whole = f"each of {base.dp} servers" if base.dp > 1 else "this server"
    text += f", and {whole} runs over {over} of them; "
    if base.pp > 1:
        text += (
            f"each holds its part of the layers, split over {base.tp} GPUs, so that a step "
            f"crosses the network {base.pp - 1} time{'s' if base.pp > 2 else ''}"
        )
    elif base.tp <= topology.switch_gpus(facts):
        text += "NVLink joins them"
    else:
        text += "each of its steps waits for the network between them in every layer"
    if (faster := alone(facts, base)) is not None:
        text += f". {faster}"
    return reason(text, "knowledge/engines", weight=2.66, risk=True)
