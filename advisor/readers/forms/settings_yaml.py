"""YAML and JSON files, each document by its kind; engines' own settings, and Ray Serve's."""

from __future__ import annotations

import json

from advisor import engines
from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import nearest_word
from advisor.readers.dispatch import reader
from advisor.readers.engine_command import EngineCommand, Env, Surroundings
from advisor.readers.form_types import misspelt_key, respell
from advisor.readers.forms.machines import attach_machines
from advisor.readers.forms.pods import environment
from advisor.readers.forms.presets import Pair
from advisor.readers.forms.scripts import read_shell
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import (
    HOLE_OPEN,
    Mapped,
    join,
    literal,
    show,
    synthetic,
)
from advisor.readers.syntax.placeholders import to_fill
from advisor.readers.syntax.yamlnodes import Node, compose_all, scalar

_SGLANG_KEYS = """
model-path mem-fraction-static speculative-algorithm speculative-algo speculative-num-steps
context-length tp-size chunked-prefill-size max-running-requests mamba-scheduler-strategy
mamba-radix-cache-strategy
"""
_SGLANG = frozenset(_SGLANG_KEYS.split())
_VLLM_KEYS = """
model max-model-len gpu-memory-utilization tensor-parallel-size max-num-seqs max-num-batched-tokens
speculative-config enable-prefix-caching served-model-name kv-cache-dtype spec-method
no-enable-prefix-caching pipeline-parallel-size model-tag
"""
_VLLM = frozenset(_VLLM_KEYS.split())
_LLAMA_KEYS = """
n-gpu-layers ctx-size spec-type hf-repo flash-attn cache-type-k spec-draft-n-max parallel ngl
"""
_LLAMA = frozenset(_LLAMA_KEYS.split())

# what a program notes of the server's release beside its options
_OF_RELEASE = lazy_re(r"(?:vllm|sglang|engine)[-_](?:release|version|image|tag|commit)$")
_SWITCHES = dict.fromkeys(("yes", "true", "on", "1", "enable", "enabled"), "true")
_SWITCHES |= dict.fromkeys(("no", "false", "off", "0", "disable", "disabled"), "false")


def engine_of_settings(document: Node, only: str = "") -> str | None:
    """The engine whose options these keys are: two of its own, or the one that says it all."""
    names = {key.text.replace("_", "-").lstrip("-").split(".")[0] for key, _ in document.entries()}
    best = max(
        (
            (len(names & own), engine)
            for own, engine in ((_VLLM, "vllm"), (_SGLANG, "sglang"), (_LLAMA, "llama-server"))
            if only in ("", engine)
        ),
        default=(0, ""),
    )
    told = best[0] >= 2 or (
        best[0] == 1 and names & {"speculative-config", "model-path", "spec-type"}
    )
    return best[1] if told and not _is_foreign(names, best[1]) else None


def _is_foreign(names: set[str], engine: str) -> bool:
    """Whether several keys are no option of the engine, and resemble none."""
    known = engines.get(engine).catalogue
    strange = [f"--{one}" for one in names if one and known.match(f"--{one}", None) is None]
    if len(strange) < 2:
        return False
    every = list(known.names())
    return sum(nearest_word(one, every, "setting") is None for one in strange) > 1


def read_settings(
    document: Node,
    engine: str,
    reading: Reading,
    around: Surroundings | None = None,
    env: Env | None = None,
) -> None:
    """One launch from a mapping of options to values."""
    reading.form = "config-yaml"
    pairs = [one for one in option_pairs(document, reading) if not _OF_RELEASE.match(one[0].text)]
    for key, value in document.entries():
        _check_switch(key, value, engine, reading)
    if pairs:
        around = around or Surroundings(kind="config-yaml")
        at = pairs[0][0].first()
        reading.add(
            EngineCommand(
                engine, [], env or {}, at, "config-yaml", around, pairs=pairs, origin="yaml"
            )
        )


def _check_switch(key: Node, value: Node, engine: str, reading: Reading) -> None:
    """A switch with a text or a number: the words `--switch text` reach the parser."""
    if value.kind != "scalar" or value.is_null or to_fill(value.text):
        return
    if value.truth is not None and value.style not in ("'", '"'):
        return
    name = f"--{key.text.lstrip('-').replace('_', '-')}"
    option = engines.get(engine).catalogue.find(name, None)
    if option is not None and option.takes_value is False and not value.text.startswith("--"):
        said = f"{key.text} is a switch: '{value.text}' becomes an argument of its own"
        meant = _SWITCHES.get(value.text.lower())
        reading.slip(said, value.start, value.end if meant else None, meant or "true or false")


def option_pairs(document: Node, reading: Reading) -> list[Pair]:
    """Options and values of a mapping; what is nested becomes JSON text, a list one value."""
    pairs: list[Pair] = []
    for key, value in document.entries():
        name = scalar(key, reading.source)
        if value.kind == "map":
            pairs.append((name, _json(value, reading)))
        elif value.kind == "seq":
            spaced = [
                part
                for item in value.items
                if item.kind == "scalar"
                for part in (synthetic(" "), scalar(item, reading.source))
            ]
            pairs.append((name, join(spaced[1:])))
        elif not value.is_null:
            pairs.append((name, scalar(value, reading.source)))
    return pairs


def _json(node: Node, reading: Reading) -> Mapped:
    """A nested mapping as the JSON text that the command line would carry."""
    whole = json.dumps(plain(node), ensure_ascii=False)
    parts = _parts(node, reading)
    if parts.text != whole or HOLE_OPEN in whole:  # merged keys, a deep one, a template's
        return synthetic(show(whole), node.start)
    return parts


def _parts(node: Node, reading: Reading, depth: int = 0) -> Mapped:
    """The same JSON with the places of keys and plain values."""
    if node.kind == "scalar" or depth > 8:
        said = json.dumps(plain(node, depth), ensure_ascii=False)
        inner = scalar(node, reading.source)
        if said.strip('"') == inner.text and node.kind == "scalar":
            quote = synthetic('"' if said.startswith('"') else "")
            return join((quote, inner, quote))
        return synthetic(said)
    ends = "{}" if node.kind == "map" else "[]"
    found: list[Mapped] = []
    rows = node.entries() if node.kind == "map" else [(None, item) for item in node.items]
    for key, value in rows[:2000]:
        if found:
            found.append(synthetic(", "))
        if key is not None:
            name = scalar(key, reading.source)
            found += [synthetic('"'), name, synthetic('": ')]
        found.append(_parts(value, reading, depth + 1))
    return join((synthetic(ends[0], node.start), *found, synthetic(ends[1])))


def plain(node: Node, depth: int = 0) -> object:
    """A node as Python data, by YAML's usual scalars."""
    if depth > 20:
        return None
    if node.kind == "map":
        return {key.text: plain(value, depth + 1) for key, value in node.entries()}
    if node.kind == "seq":
        return [plain(item, depth + 1) for item in node.items[:2000]]
    if node.is_null:
        return None
    if node.style is None:
        if node.text.lower() in ("true", "false"):
            return node.text.lower() == "true"
        for kind in (int, float):
            try:
                return kind(node.text)
            except ValueError:
                continue
    return node.text


# ---------------------------------------------------------------- Ray Serve: `llm_configs`


def is_ray_serve(document: Node) -> bool:
    """Whether the document holds Ray Serve's applications, or the models of one application."""
    applications = document.get("applications")
    return document.get("llm_configs") is not None or (
        applications is not None and any(_ray_models(one) for one in applications.items)
    )


def _ray_models(application: Node) -> list[Node]:
    """The models of an application: a list of them, or those of prefill and decode."""
    models = application.path("args.llm_configs") or application.get("llm_configs")
    if models is not None:
        return models.items or [models]
    holder = application.get("args")
    named = holder.entries() if holder is not None and holder.kind == "map" else []
    return [one for _, one in named if one.kind == "map" and one.get("engine_kwargs") is not None]


def read_workers(document: Node, reading: Reading) -> bool:
    """Settings under their engine's name (KAITO) or `backend.<engine>_config` (srt-slurm)."""
    backend, known = document.get("backend"), len(reading.found)
    for engine in ("vllm", "sglang"):
        for holder in (document.get(engine), document.path(f"backend.{engine}_config")):
            for name, settings in [(holder, holder), *holder.entries()] if holder else []:
                if settings.kind == "map" and engine_of_settings(settings, engine):
                    own = backend.get(f"{name.text}_environment") if backend is not None else None
                    around = Surroundings(kind="recipe", name=name.text)
                    read_settings(settings, engine, reading, around, environment(own, reading))
    return len(reading.found) > known


def read_ray_serve(document: Node, reading: Reading) -> None:
    """Every model's engine. Replicas are servers of their own, and not read."""
    reading.form = "ray-serve"
    applications = document.get("applications")
    for holder in applications.items if applications is not None else [document]:
        for model in _ray_models(holder):
            if model.kind == "scalar":
                reading.note(f"{model.text} is not read", model.start)
            elif model.kind == "map" and reading.step():
                _ray_model(model, reading)


def _ray_model(model: Node, reading: Reading) -> None:
    options = model.get("engine_kwargs")
    pairs = option_pairs(options, reading) if options is not None else []
    name = model.path("model_loading_config.model_id")
    source = model.path("model_loading_config.model_source") or name
    if source is not None and source.kind == "scalar":
        pairs = [(synthetic("model", source.start), scalar(source, reading.source)), *pairs]
    if not pairs:
        return
    around = Surroundings(kind="ray-serve", name=name.text if name is not None else "")
    env = environment(model.path("runtime_env.env_vars"), reading)
    reading.add(
        EngineCommand("vllm", [], env, model.start, "ray-serve", around, pairs=pairs, origin="yaml")
    )


def read_yaml(reading: Reading) -> None:
    """All documents of a file. Raises AdvisorError for what is no YAML."""
    try:
        documents = compose_all(reading.source)
    except AdvisorError:
        if reading.source.name.endswith((".yaml", ".yml", ".json")) or not _is_command(
            reading.source.text
        ):
            raise
        read_shell(literal(reading.source.text), reading)
        return
    flattened = [
        item for document in documents if not _is_schema(document) for item in _list_items(document)
    ]
    kubernetes = [
        node
        for node in flattened
        if node.kind == "map"
        and node.get("kind") is not None
        and node.get("apiVersion", "apiversion", "apiVerison", "ApiVersion") is not None
    ]
    if kubernetes:
        reader("kubernetes")(kubernetes, reading)
    done = {id(node) for node in kubernetes}
    for document in flattened:
        if id(document) in done:
            continue
        if document.kind == "scalar" and _is_command(document.text):
            read_shell(literal(reading.source.text), reading)
        elif document.kind == "seq":
            _argument_list(document, reading)
        elif document.kind == "map":
            if document.get("services") is None and any(
                _holds_images(v) and misspelt_key(key.text, "compose file") == "services"
                for key, v in document.pairs
            ):
                respell(document, "compose file", reading)
            services = document.get("services")
            form = "compose" if services is not None and services.kind == "map" else "mapping"
            reader(form)(document, reading)
    for document in flattened:
        attach_machines(document, reading)


def _is_schema(document: Node) -> bool:
    """Whether a document is a schema: it says which keys a configuration may have."""
    if document.kind != "map":
        return False
    schema, parts = document.get("$schema"), document.get("properties")
    named = schema is not None and schema.kind == "scalar" and "json-schema" in schema.text
    return (named or document.get("type") is not None) and parts is not None and parts.kind == "map"


def _holds_images(node: Node) -> bool:
    """Whether the parts of a mapping name images, as services do."""
    return node.kind == "map" and any(one.get("image") is not None for _, one in node.pairs[:50])


def _list_items(document: Node) -> list[Node]:
    """The items of a Kubernetes `List`."""
    kind, items = (
        (document.get("kind"), document.get("items")) if document.kind == "map" else (None, None)
    )
    return (
        items.items
        if kind is not None and kind.text.endswith("List") and items is not None
        else [document]
    )


def _argument_list(document: Node, reading: Reading) -> None:
    """A YAML or JSON list: the words of one command, or containers and tasks."""
    if document.items and all(item.kind == "scalar" for item in document.items):
        words = [scalar(item, reading.source) for item in document.items]
        reading.command(words, at=document.start)
        return
    for item in document.items:
        if item.kind == "map":
            reader("containers")(item, reading, "helm-values")


def _is_command(text: str) -> bool:
    return bool(ENGINE_TEXT.search(text[:100_000]))
