"""MixPlan -> the files of one folder: the servers, the router, the A/B scripts, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from advisor.advice.explore.layouts import Instance, MixPlan, PlanLayout
from advisor.advice.plans.topology import on_each, spans
from advisor.advice.recommend import launch_text
from advisor.domain.nouns import Advice, AdvisorError, Plan
from advisor.render.deploy import compose, front_ends, k8s, serving
from advisor.render.deploy.front_ends import Route
from advisor.render.deploy.serving import Server
from advisor.render.explore.plan import plan_text

FORMS = ("compose", "k8s", "ray")


class _FolderPart(NamedTuple):
    """One server of the layout with the answer that its forms are written from."""

    instance: Instance
    advice: Advice
    suffix: str
    devices: tuple[int, ...]


def folder(made: MixPlan, form: str = "compose", layout: int | None = None) -> dict[str, str]:
    """File name -> text, of the chosen layout or the one at `layout`. Raises AdvisorError."""
    # start-up: pydantic's models and YAML, for a folder only
    from advisor.render.bench_script import bench_plan, bench_script

    wanted = made.best if layout is None else made.layouts[layout]
    if wanted.refusal is not None or not wanted.instances:
        raise AdvisorError(f"{wanted.title}: {wanted.refusal}")
    parts = _parts(wanted)
    if spans(parts[0].advice.facts) and form != "ray":
        raise AdvisorError("this mix is on several machines: use --form ray")
    files = _WRITERS[form](wanted, parts)
    for part in parts:
        script = ["#!/bin/sh", "set -eu", *serving.script_lines(_server(part))]
        files[f"start-{part.instance.name}.sh"] = "\n".join(script) + "\n"
        if part.advice.candidate is not None:
            name = f"ab-{part.instance.name}.sh"
            files[name] = bench_script(part.advice, bench_plan(part.advice))
    files["README.md"] = _readme(made, wanted, files, form)
    return files


def _parts(layout: PlanLayout) -> list[_FolderPart]:
    out: list[_FolderPart] = []
    first = 0
    for number, one in enumerate(layout.instances):
        devices = tuple(range(first, first + one.gpus)) if layout.kind == "gpus" else ()
        first += one.gpus
        suffix = f"-{one.name}" if len(layout.instances) > 1 else ""
        out.append(_FolderPart(one, _advice(one, number), suffix, devices))
    return out


def _advice(one: Instance, number: int) -> Advice:
    """The answer that one server's files are written from, on a port of its own."""

    def place(plan: Plan) -> Plan:
        port = (plan.port or 8000) + number
        return on_each(one.facts, plan.model_copy(update={"port": port}))

    plan, off = place(one.plan), place(one.candidates[0].plan)
    best = next((c for c in one.candidates if one.best is not None and c.plan == one.best), None)
    on = place(one.best) if one.best is not None else None
    estimate = best.estimate if best is not None else None
    if estimate is not None:
        estimate = estimate.model_copy(update={"memory": one.memory})
    return Advice(
        request=one.request,
        facts=one.facts,
        decision="on" if one.plan.method != "none" else "off",
        plan=plan,
        candidate=on,
        plan_off=off,
        estimate=estimate,
        launch=launch_text(plan),
        launch_off=launch_text(off),
        launch_on=launch_text(on) if on is not None else None,
    )


def _routes(parts: Sequence[_FolderPart], host: Callable[[Server], str]) -> list[Route]:
    made = [(part.instance, serving.server(part.advice, suffix=part.suffix)) for part in parts]
    return [Route(one.name, one.classes, host(server), server.port) for one, server in made]


def _server(part: _FolderPart, container: str = "") -> Server:
    made = serving.server(part.advice, container=container, suffix=part.suffix)
    return replace(made, devices=part.devices)


def _head(layout: PlanLayout) -> list[str]:
    return [layout.title, "written by `advisor plan`; SD codes: `advisor explain CODE`"]


def _compose(layout: PlanLayout, parts: Sequence[_FolderPart]) -> dict[str, str]:
    servers = [_server(part, compose.FORM) for part in parts]
    text = compose.several_yaml(servers, _head(layout), front_ends.compose_service())
    conf = front_ends.nginx_conf(_routes(parts, lambda _: front_ends.LOCAL))
    return {"docker-compose.yml": text, "nginx.conf": conf}


def _k8s(layout: PlanLayout, parts: Sequence[_FolderPart]) -> dict[str, str]:
    router = front_ends.kubernetes(_routes(parts, lambda server: server.name))
    rows = {f"deployment{x.suffix}.yaml": k8s.deployment_yaml(x.advice, x.suffix) for x in parts}
    return rows | {"router.yaml": router}


def _ray(layout: PlanLayout, parts: Sequence[_FolderPart]) -> dict[str, str]:
    """One application a server; Ray Serve routes by prefix itself."""
    several = [(p.advice, p.suffix, f"/{p.instance.name}" if p.suffix else "/") for p in parts]
    return {"serve.yaml": front_ends.several(several, _head(layout))}


_WRITERS: dict[str, Callable[[PlanLayout, Sequence[_FolderPart]], dict[str, str]]] = {
    "compose": _compose,
    "k8s": _k8s,
    "ray": _ray,
}


_START = {
    "compose": "docker compose up --detach",
    "k8s": "kubectl apply $(printf ' -f %s' *.yaml)",
    "ray": "serve deploy serve.yaml",
}


def _readme(made: MixPlan, layout: PlanLayout, files: dict[str, str], form: str) -> str:
    about = {
        "docker-compose.yml": "the servers and the router",
        "router.yaml": "the router",
        "serve.yaml": "the servers; Ray Serve routes",
        "nginx.conf": f"the router: a path for each class on port {front_ends.PORT}",
    }
    for one in layout.instances:
        classes = " and ".join(one.classes)
        about[f"start-{one.name}.sh"] = f"the bare command of the server for {classes}"
        about[f"ab-{one.name}.sh"] = (
            "measures that server without and with speculation; `advisor ab` reads the results"
        )
    rows = [f"| `{name}` | {about.get(name, 'a server')} |" for name in files]
    lines = [f"# {layout.title}", "", f"Start: `{_START[form]}`", ""]
    lines += ["| file | what it is |", "| --- | --- |", *rows, ""]
    paths = [f"`/{name}/v1/...`" for one in layout.instances for name in one.classes]
    if form != "ray":
        lines += [f"Classes and their paths on port {front_ends.PORT}: {', '.join(paths)}.", ""]
    return "\n".join([*lines, "## Why", "", "```text", plan_text(made).rstrip("\n"), "```"]) + "\n"
