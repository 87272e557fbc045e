"""Ray Serve configurations for `ray.serve.llm`: applications whose arguments hold `llm_configs`."""

from __future__ import annotations

from advisor.readers.forms.pods import environment
from advisor.readers.forms.settings_yaml import option_pairs
from advisor.readers.found import Found, Surroundings
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import made
from advisor.readers.syntax.yamlnodes import Node, scalar


def is_ray_serve(document: Node) -> bool:
    """Whether the document holds applications, or the models of one application."""
    applications = document.get("applications")
    return document.get("llm_configs") is not None or (
        applications is not None
        and any(one.path("args.llm_configs") is not None for one in applications.items)
    )


def read_ray_serve(document: Node, reading: Reading) -> None:
    """Every model's engine. Replicas are servers of their own, and not read."""
    reading.form = "ray-serve"
    applications = document.get("applications")
    for holder in applications.items if applications is not None else [document]:
        models = holder.path("args.llm_configs") or holder.get("llm_configs")
        if models is not None and models.kind == "scalar":
            reading.note(f"{models.text} is not read", models.start)
        for model in models.items if models is not None else []:
            if model.kind == "map" and reading.step():
                _model(model, reading)


def _model(model: Node, reading: Reading) -> None:
    options = model.get("engine_kwargs")
    pairs = option_pairs(options, reading) if options is not None else []
    name = model.path("model_loading_config.model_id")
    source = model.path("model_loading_config.model_source") or name
    if source is not None and source.kind == "scalar":
        pairs = [(made("model", source.start), scalar(source, reading.source)), *pairs]
    if not pairs:
        return
    around = Surroundings(kind="ray-serve", name=name.text if name is not None else "")
    env = environment(model.path("runtime_env.env_vars"), reading)
    reading.add(
        Found("vllm", [], env, model.start, "ray-serve", around, pairs=pairs, origin="yaml")
    )
