"""MixPlan -> text for a terminal, a block for each layout; the JSON of `advisor schema plan`; and
docker-compose.yml: the servers of the chosen layout, and the router before them.
"""

from dataclasses import replace

from advisor.advice.explore.mix import MIX
from advisor.advice.explore.mix_plan import ClassResult, Instance, MixPlan, PlanLayout
from advisor.advice.plans.topology import on_each
from advisor.advice.recommend import launch_text
from advisor.domain.nouns import Advice, Plan
from advisor.render.deploy import compose, serving
from advisor.render.deploy.router import Route, nginx_conf
from advisor.render.deploy.serving import Server
from advisor.render.layout import PAGE, Paper, columns, heading, number, percent
from advisor.render.objects import SHARE, Shape, schema_of
from advisor.render.text_sections import METHOD_NAMES, drafts_note

SPLITS = 3  # shown beside one server, those that gain most


def plan_text(made: MixPlan, paper: Paper = PAGE) -> str:
    """The whole answer as text that ends in a line feed."""
    lines: list[str] = [heading(line) for line in paper.wrap(f"Run {made.best.title}")]
    for line in made.why:
        lines += paper.item(line)
    lines += ["", *paper.wrap(_setting(made))]
    single, splits = made.layouts[:2], made.layouts[2:]
    fast = sorted(splits, key=lambda one: -(one.gain.p50 if one.gain is not None else 0.0))[:SPLITS]
    shown = [made.best, *(one for one in (*single, *fast) if one is not made.best)]
    for one in shown:
        lines += ["", *_layout(one, paper)]
    if more := len(made.layouts) - len(shown):
        lines += ["", *paper.wrap(f"{more} other splits: --format json")]
    lines += ["", *paper.wrap("Gains are against one server without speculation, each class by its "
                              "own goal, the mean weighted by requests at once.")]  # fmt: skip
    return paper.text(lines)


def _setting(made: MixPlan) -> str:
    facts = next(one for one in made.layouts if one.instances).instances[0].facts
    hardware = (facts.hardware.name or facts.hardware.id) if facts.hardware else made.mix.hardware
    gpus = f"{made.mix.gpus} x " if made.mix.gpus > 1 else ""
    quant = facts.quant.id if facts.quant is not None else ""
    classes = "; ".join(
        f"{work.name}: {number(work.ctx_tokens)} + {number(work.output_tokens)} tokens"
        for work in made.mix.classes
    )
    release = f"{facts.engine} {facts.engine_version or ''}".strip()
    return f"{gpus}{hardware}, {made.mix.model} {quant}, {release}. {classes}."


def _layout(one: PlanLayout, paper: Paper) -> list[str]:
    lines: list[str] = [heading(line) for line in paper.wrap(one.title)]
    if one.refusal is not None:
        return [*lines, *paper.item(one.refusal)]
    assert one.gain is not None
    span = f"{100 * (one.gain.p10 - 1):+.0f} to {percent(one.gain.p90)}"
    told = f"gain {percent(one.gain.p50)} ({span})"
    if one.p_gain is not None:
        told += f", P(gain) {one.p_gain:.2f}"
    if one.objectives:
        told += f"; objectives met: {one.objectives_met} of {one.objectives}"
    lines += paper.wrap(told, "  ")
    rows = [("class", "at once", "gain", "tok/s", "TPOT ms", "TTFT ms", "objective")]
    for seen in one.results:
        chance = "" if seen.p_objective is None else f"P {seen.p_objective:.2f}"
        speeds = (number(seen.output_tok_s), number(seen.tpot_ms), ttft_words(seen))
        rows.append((seen.name, number(seen.concurrency), percent(seen.gain.p50), *speeds, chance))
    lines += columns(rows, paper, "  ")
    for server in one.instances:
        lines += paper.wrap(server_words(server), "  ", "    ")
    return lines


def ttft_words(seen: ClassResult) -> str:
    """The time to first token of a class, in ms, where it can be told."""
    return number(seen.ttft_ms) if seen.ttft_predictable else "not predictable"


def server_words(one: Instance) -> str:
    """One server of a layout: classes, speculation, memory."""
    plan, bill = one.plan, one.memory
    if plan.method != "none":
        spec = f"{METHOD_NAMES.get(plan.method, plan.method)}, k={plan.k}{drafts_note(plan)}"
    else:
        spec = "no speculation" + (" (measure it first)" if one.decision == "measure" else "")
    memory = f"weights {bill.weights_gib + bill.spec_gib:.1f} GiB"
    if bill.kv_tokens is not None:
        memory += f", room for {number(bill.kv_tokens)} KV tokens"
    share = f", {plan.memory_fraction:g} of the memory" if plan.memory_fraction else ""
    gpus = f", {one.gpus} GPUs" if one.gpus > 1 else ""
    return f"{' and '.join(one.classes)}{gpus}: {spec}{share}; {memory}"


Shape(
    ClassResult,
    "class",
    "name concurrency output_tok_s tpot_ms ttft_ms ttft_predictable p_objective gain",
    kinds={"p_objective": SHARE},
)
Shape(Instance, "server", "name classes gpus decision plan memory concurrency")
Shape(
    PlanLayout,
    "layout",
    "kind title refusal gain p_gain objectives objectives_met instances classes",
    about={"gain": "against one server without speculation; above 1 is faster"},
    values={"classes": lambda layout: layout.results},
    kinds={"p_gain": SHARE, "classes": schema_of(tuple[ClassResult, ...])},
)
PLAN = Shape(
    MixPlan,
    "plan",
    "mix chosen why layouts",
    identity="urn:mtp-advisor:plan:1",
    about={"chosen": "index into layouts"},
    values={
        "mix": lambda made: {x: y for x, y in made.mix.model_dump(mode="json").items() if x in MIX}
    },
    kinds={"mix": {"type": "object"}},
    listed=False,
)
mix_plan_json = PLAN.json
_COMPOSE = "the compose file of a plan"


def plan_compose(made: MixPlan) -> str:
    """The file. Raises AdvisorError where containers cannot serve it, or on several machines."""
    layout = made.best
    servers = _servers(layout)
    routes = [
        Route(one.name, one.classes, "127.0.0.1", server.port)
        for one, server in zip(layout.instances, servers, strict=True)
    ]
    title = [layout.title, "written by `advisor plan --format compose`"]
    return compose.several_yaml(servers, title, nginx_conf(routes))


def _servers(layout: PlanLayout) -> list[Server]:
    out: list[Server] = []
    first = 0
    for place, one in enumerate(layout.instances):
        devices = tuple(range(first, first + one.gpus)) if layout.kind == "gpus" else ()
        first += one.gpus
        suffix = f"-{one.name}" if len(layout.instances) > 1 else ""
        server = serving.server(_advice(one, place), container=_COMPOSE, suffix=suffix)
        out.append(replace(server, devices=devices))
    return out


def _advice(one: Instance, place: int) -> Advice:
    """The answer that one server's part is written from, on a port of its own."""

    def with_port(plan: Plan) -> Plan:
        return on_each(one.facts, plan.replace(port=(plan.port or 8000) + place))

    plan, off = with_port(one.plan), with_port(one.candidates[0].plan)
    estimate = next((row.estimate for row in one.candidates if row.plan == one.plan), None)
    if estimate is not None:
        estimate = estimate.replace(memory=one.memory)
    return Advice(
        request=one.request,
        facts=one.facts,
        decision="on" if one.plan.method != "none" else "off",
        plan=plan,
        estimate=estimate,
        launch=launch_text(plan),
        launch_off=launch_text(off),
    )
