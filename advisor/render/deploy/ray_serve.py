"""Advice -> a Ray Serve configuration for `ray.serve.llm`: Ray places the replicas on the machines
of its cluster, and adds some under load.

Keys: ray.serve.schema.ServeDeploySchema, and LLMConfig for the model. vLLM only; its options are
keyword arguments of the engine there, and Ray itself listens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from advisor import engines
from advisor.domain.nouns import Advice, Flag, Plan
from advisor.render.deploy import serving
from advisor.render.deploy.k8s import typed_value
from advisor.render.deploy.quoting import NotedValue, document
from advisor.render.deploy.serving import Server

BUILDER = "ray.serve.llm:build_openai_app"
_OWN = ("--model", "--host", "--port", "--served-model-name")
# what spans machines: Ray's part
_PLACEMENT = ("--nnodes", "--node-rank", "--master-addr")


def ray_serve(advice: Advice) -> str:
    """The configuration for `serve run FILE` or `serve deploy FILE`. Raises AdvisorError for other
    engines than vLLM.
    """
    title = serving.title(advice, "recommend --format ray")
    return several([(advice, "", "/")], title)


def several(parts: Sequence[tuple[Advice, str, str]], title: list[str]) -> str:
    """One configuration of several applications: (answer, end of its name, route prefix) of each.
    Raises AdvisorError for other engines than vLLM.
    """
    made = [_application(*part) for part in parts]
    key = (
        "API key: none; Ray Serve asks for none, so anyone who reaches the port may use the server"
    )
    listen = {"host": "127.0.0.1", "port": made[0][1].port}
    return document(
        {
            "proxy_location": "EveryNode",
            "http_options": NotedValue(
                listen, f"this machine only; 0.0.0.0 serves the network. {key}"
            ),
            "applications": [application for application, _ in made],
        },
        [*title, "pip install 'ray[serve,llm]', then: serve run FILE"],
    )


def _application(advice: Advice, suffix: str, route: str) -> tuple[dict[str, Any], Server]:
    server = serving.server_of(advice, _one_replica(advice.plan), suffix)
    replicas = advice.plan.dp
    model: dict[str, Any] = {
        "model_loading_config": {
            "model_id": server.plan.served_model_name or advice.request.model,
            "model_source": server.plan.model,
        },
        "deployment_config": {
            "autoscaling_config": NotedValue(
                {"min_replicas": replicas, "max_replicas": replicas},
                f"a larger max_replicas adds replicas under load; each takes "
                f"{server.plan.tp * server.plan.pp} GPUs",
            )
        },
        "engine_kwargs": _arguments(server),
    }
    if server.env:
        model["runtime_env"] = {"env_vars": server.env}
    application = {
        "name": server.name,
        "route_prefix": route,
        "import_path": BUILDER,
        "args": {"llm_configs": [model]},
    }
    return application, server


def _one_replica(plan: Plan) -> Plan:
    """The plan of one replica, without what Ray decides: replicas and machines."""
    extra = tuple((name, value) for name, value in plan.extra if name not in _PLACEMENT)
    return plan.model_copy(update={"dp": 1, "extra": extra})


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
