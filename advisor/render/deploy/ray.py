"""Advice -> Ray Serve: the keys of ray.serve.schema.ServeDeploySchema and LLMConfig."""

import json
from typing import Any

from advisor import engines
from advisor.advice.recommend import recommend
from advisor.domain.nouns import Advice, AdvisorError, Flag
from advisor.render.deploy import serving
from advisor.render.deploy.k8s import typed_value
from advisor.render.deploy.quoting import NotedValue, document
from advisor.render.deploy.serving import Server

BUILDER = "ray.serve.llm:build_openai_app"
_OWN = ("--model", "--host", "--port", "--served-model-name")
# what spans machines: Ray's part
_PLACEMENT = ("--nnodes", "--node-rank", "--master-addr")


def ray_serve(advice: Advice) -> str:
    """The file for `serve run` and `serve deploy`. Raises AdvisorError unless for vLLM."""
    advice = for_ray(advice)
    application, server = _application(advice)
    release = advice.plan.engine_version or ""
    taken = next((row for row in _ray_releases() if release.startswith(row["vllm"])), None)
    exact = f"=={taken['release']}" if taken is not None else ""
    open_to = (
        f"{server.reach}; 0.0.0.0 serves the network. API key: none; Ray Serve asks for none, so "
        "anyone who reaches the port may use the server"
    )
    return document(
        {
            "proxy_location": "EveryNode",
            "http_options": NotedValue({"host": server.address, "port": server.port}, open_to),
            "applications": [application],
        },
        [
            *serving.title(advice, "recommend --format ray"),
            f"pip install 'ray[serve,llm]{exact}', then: serve run FILE",
            "for gated models `ray start` needs HF_TOKEN in its environment on each machine",
        ],
    )


def for_ray(advice: Advice) -> Advice:
    """The answer for the vLLM that the newest Ray takes, where no release was asked for."""
    if advice.request.engine_version is not None:
        return advice
    newest = {"engine": "vllm", "engine_version": _ray_releases()[0]["vllm"]}
    try:
        planned = recommend(advice.request.replace(**newest), what_if=False)
    except AdvisorError:  # a model that needs a newer one
        return advice
    return planned.replace(settings=advice.settings)


def _ray_releases() -> list[dict[str, str]]:
    """Ray's releases with the vLLM that each takes, newest first."""
    rows: list[dict[str, str]] = engines.get("vllm").catalogue.notes["ray"]
    return rows


def _application(advice: Advice) -> tuple[dict[str, Any], Server]:
    extra = tuple(pair for pair in advice.plan.extra if pair[0] not in _PLACEMENT)
    one = advice.plan.replace(dp=1, extra=extra)  # replicas, machines: Ray's part
    server = serving.server(advice, one)
    scale = {"min_replicas": advice.plan.dp, "max_replicas": advice.plan.dp}
    gpus = server.plan.tp * server.plan.pp
    more = f"a larger max_replicas adds replicas under load; each takes {gpus} GPUs"
    model: dict[str, Any] = {
        "model_loading_config": {
            "model_id": server.plan.served_model_name or advice.request.model,
            "model_source": server.plan.model,
        },
        "deployment_config": {"autoscaling_config": NotedValue(scale, more)},
        "engine_kwargs": _arguments(server),
    }
    environment: dict[str, Any] = {"env_vars": server.env} if server.env else {}
    release = server.plan.engine_version or ""
    if not any(release.startswith(row["vllm"]) for row in _ray_releases()):
        note = "no known Ray takes this release by itself: test it, or leave --engine-version out"
        environment["pip"] = NotedValue([f"vllm=={release}"], note)
    if environment:
        model["runtime_env"] = environment
    return {
        "name": server.name,
        "route_prefix": "/",
        "import_path": BUILDER,
        "args": {"llm_configs": [model]},
    }, server


def _arguments(server: Server) -> dict[str, Any]:
    """Options as keyword arguments, in Python's types."""
    notes = {unit[0]: note for unit, note in zip(server.units, server.notes, strict=True)}
    found: dict[str, Any] = {}
    for flag in server.launch.flags:
        if flag.name in _OWN:
            continue
        value, note = _python(flag, server), notes.get(flag.raw, "")
        found[flag.name.lstrip("-").replace("-", "_")] = NotedValue(value, note) if note else value
    return found


def _python(flag: Flag, server: Server) -> Any:
    option = engines.get(server.plan.engine).catalogue.option(flag.name, server.plan.engine_version)
    if option is not None and option.takes_value is False:
        return flag.value != "false"
    if (flag.value or "").startswith("{"):
        return json.loads(flag.value or "{}")
    return typed_value(flag)
