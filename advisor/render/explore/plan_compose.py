"""MixPlan -> docker-compose.yml: the servers of the chosen layout, and the router before them."""

from dataclasses import replace

from advisor.advice.explore.mix_plan import Instance, MixPlan, PlanLayout
from advisor.advice.plans.topology import on_each
from advisor.advice.recommend import launch_text
from advisor.domain.nouns import Advice, Plan
from advisor.render.deploy import compose, serving
from advisor.render.deploy.router import Route, nginx_conf
from advisor.render.deploy.serving import Server

FORM = "the compose file of a plan"


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
    for number, one in enumerate(layout.instances):
        devices = tuple(range(first, first + one.gpus)) if layout.kind == "gpus" else ()
        first += one.gpus
        suffix = f"-{one.name}" if len(layout.instances) > 1 else ""
        server = serving.server(_advice(one, number), container=FORM, suffix=suffix)
        out.append(replace(server, devices=devices))
    return out


def _advice(one: Instance, number: int) -> Advice:
    """The answer that one server's part is written from, on a port of its own."""

    def place(plan: Plan) -> Plan:
        port = (plan.port or 8000) + number
        return on_each(one.facts, plan.model_copy(update={"port": port}))

    plan, off = place(one.plan), place(one.candidates[0].plan)
    estimate = next((row.estimate for row in one.candidates if row.plan == one.plan), None)
    if estimate is not None:
        estimate = estimate.model_copy(update={"memory": one.memory})
    return Advice(
        request=one.request,
        facts=one.facts,
        decision="on" if one.plan.method != "none" else "off",
        plan=plan,
        estimate=estimate,
        launch=launch_text(plan),
        launch_off=launch_text(off),
    )
