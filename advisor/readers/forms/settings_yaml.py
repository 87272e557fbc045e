"""YAML and JSON files, each document by its kind; engines' own settings, and Ray Serve's."""

import json
from contextlib import suppress

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
from advisor.readers.syntax.mapped import HOLE_OPEN, Mapped, join, literal, show, synthetic
from advisor.readers.syntax.placeholders import to_fill
from advisor.readers.syntax.yamlnodes import NOTHING, Node, compose_all

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
_API_VERSIONS = ("apiVersion", "apiversion", "apiVerison", "ApiVersion")
# what a program notes of the server's release beside its options
_OF_RELEASE = lazy_re(r"(?:vllm|sglang|engine)[-_](?:release|version|image|tag|commit)$")
_SWITCHES = dict.fromkeys(("yes", "true", "on", "1", "enable", "enabled"), "true")
_SWITCHES |= dict.fromkeys(("no", "false", "off", "0", "disable", "disabled"), "false")
_SEVERAL = lazy_re(r"[2-9]|[1-9]\d{1,3}")  # replicas


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
    pairs = [one for one in option_pairs(document) if not _OF_RELEASE.match(one[0].text)]
    for key, value in document.entries():
        _check_switch(key, value, engine, reading)
    if pairs:
        around = around or Surroundings(kind="config-yaml")
        about = (env or {}, pairs[0][0].first(), "config-yaml", around)
        reading.add(EngineCommand(engine, [], *about, pairs=pairs, origin="yaml"))


def _check_switch(key: Node, value: Node, engine: str, reading: Reading) -> None:
    """A switch with a text or a number: the words `--switch text` reach the parser."""
    switched = value.truth is not None and value.style not in ("'", '"')
    if switched or value.kind != "scalar" or value.is_null or to_fill(value.text):
        return
    option = engines.get(engine).catalogue.find(f"--{key.text.lstrip('-').replace('_', '-')}", None)
    if option is not None and option.takes_value is False and not value.text.startswith("--"):
        said = f"{key.text} is a switch: '{value.text}' becomes an argument of its own"
        meant = _SWITCHES.get(value.text.lower())
        reading.slip(said, value.start, value.end if meant else None, meant or "true or false")


def option_pairs(document: Node) -> list[Pair]:
    """Options and values of a mapping; what is nested becomes JSON text, a list one value."""
    pairs: list[Pair] = []
    for key, value in document.entries():
        if value.kind == "map":
            pairs.append((key.text_map, _json(value)))
        elif value.kind == "seq":
            scalars = [item.text_map for item in value.items if item.kind == "scalar"]
            spaced = [part for word in scalars for part in (synthetic(" "), word)]
            pairs.append((key.text_map, join(spaced[1:])))
        elif not value.is_null:
            pairs.append((key.text_map, value.text_map))
    return pairs


def _json(node: Node) -> Mapped:
    whole, parts = json.dumps(plain(node), ensure_ascii=False), _parts(node)
    if parts.text != whole or HOLE_OPEN in whole:  # merged keys, a deep one, a template's
        return synthetic(show(whole), node.start)
    return parts


def _parts(node: Node, depth: int = 0) -> Mapped:
    if node.kind == "scalar" or depth > 8:
        said = json.dumps(plain(node, depth), ensure_ascii=False)
        if said.strip('"') == node.text and node.kind == "scalar":
            quote = synthetic('"' if said.startswith('"') else "")
            return join((quote, node.text_map, quote))
        return synthetic(said)
    found: list[Mapped] = []
    for key, value in (node.entries() or [(NOTHING, item) for item in node.items])[:2000]:
        if found:
            found.append(synthetic(", "))
        if key:
            found += [synthetic('"'), key.text_map, synthetic('": ')]
        found.append(_parts(value, depth + 1))
    ends = "{}" if node.kind == "map" else "[]"
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
            with suppress(ValueError):
                return kind(node.text)
    return node.text


def read_workers(document: Node, reading: Reading) -> bool:
    """Settings under their engine's name (KAITO) or `backend.<engine>_config` (srt-slurm)."""
    backend, known = document.get("backend"), len(reading.found)
    for engine in ("vllm", "sglang"):
        for holder in (document.get(engine), backend.get(f"{engine}_config")):
            for name, settings in [(holder, holder), *holder.entries()]:
                if settings.kind == "map" and engine_of_settings(settings, engine):
                    env = environment(backend.get(f"{name.text}_environment"))
                    around = Surroundings(kind="workers", name=name.text)
                    read_settings(settings, engine, reading, around, env)
    return len(reading.found) > known


def _ray_models(application: Node) -> list[Node]:
    """The models of an application: a list of them, or those of prefill and decode."""
    if models := application.path("args.llm_configs") or application.get("llm_configs"):
        return models.members
    return [one for _, one in application.get("args").entries() if one.get("engine_kwargs")]


def read_ray_serve(document: Node, reading: Reading) -> bool:
    """Every engine of Ray Serve's applications, with its replicas; whether there is any."""
    holders = document.get("applications").items or [document]
    models = [model for holder in holders for model in _ray_models(holder)]
    if models:
        reading.form = "ray-serve"
    for model in models:
        if model.kind == "scalar":
            reading.note(f"{model.text} is not read", model.start)
        elif model.kind == "map" and reading.step():
            pairs = option_pairs(model.get("engine_kwargs"))
            name = model.path("model_loading_config.model_id")
            source = model.path("model_loading_config.model_source") or name
            if source.kind == "scalar":
                pairs = [(synthetic("model", source.start), source.text_map), *pairs]
            scale = model.get("deployment_config")
            count = scale.get("num_replicas") or scale.path("autoscaling_config.min_replicas")
            if pairs and _SEVERAL.fullmatch(count.text):
                pairs += [(synthetic("data_parallel_size", count.start), count.text_map)]
            if pairs:
                around = Surroundings(kind="ray-serve", name=name.text)
                about = (environment(model.path("runtime_env.env_vars")), model.start, "ray-serve")
                reading.add(EngineCommand("vllm", [], *about, around, pairs=pairs, origin="yaml"))
    return bool(models)


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
    flattened: list[Node] = []
    for document in documents:
        named = "json-schema" in document.get("$schema").text or document.get("type")
        if not named or document.get("properties").kind != "map":  # a schema says what may be set
            listed = document.get("items") if document.get("kind").text.endswith("List") else None
            flattened += listed.items if listed else [document]
    kubernetes = [one for one in flattened if one.get("kind") and one.get(*_API_VERSIONS)]
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
            if not document.get("services") and any(
                any(one.get("image") for _, one in parts.pairs[:50])
                and misspelt_key(key.text, "compose file") == "services"
                for key, parts in document.pairs
            ):
                respell(document, "compose file", reading)
            form = "compose" if document.get("services").kind == "map" else "mapping"
            reader(form)(document, reading)
    for document in flattened:
        attach_machines(document, reading)


def _argument_list(document: Node, reading: Reading) -> None:
    """A YAML or JSON list: the words of one command, or containers and tasks."""
    if document.items and all(item.kind == "scalar" for item in document.items):
        reading.command([item.text_map for item in document.items], at=document.start)
        return
    for item in document.items:
        if item.kind == "map":
            reader("containers")(item, reading, "helm-values")


def _is_command(text: str) -> bool:
    return bool(ENGINE_TEXT.search(text[:100_000]))
