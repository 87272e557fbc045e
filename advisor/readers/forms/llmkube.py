"""LLMKube's own fields for engines' options; what llm-d's chart and KServe's server add."""

from __future__ import annotations

import re

from advisor import engines
from advisor.engines.traits import gguf_engine, traits
from advisor.readers.engine_command import EngineCommand, Surroundings
from advisor.readers.forms.pods import (
    environment,
    image_of,
    pod_of,
    repository_name,
    words_of,
)
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, join, synthetic
from advisor.readers.syntax.yamlnodes import Node, scalar

_CONFIG = "--speculative-config"


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "-" + found.group(1).lower(), name).lower()


_SLOTS = {"vllm": "--max-num-seqs", "sglang": "--max-running-requests"}
_LLMKUBE = {
    "contextSize": "--ctx-size",
    "parallelSlots": "--parallel",
    "batchSize": "--batch-size",
    "uBatchSize": "--ubatch-size",
    "flashAttention": "--flash-attn",
    "cacheTypeK": "--cache-type-k",
    "cacheTypeV": "--cache-type-v",
}  # fmt: skip
_FIELDS = """
modelRef image runtime command replicas priority resources endpoint extraArgs probeOverrides
nodeSelector tolerations modelCache rolloutPolicy env autoscaling
"""
_NOT_OPTIONS = frozenset(_FIELDS.split())


def read_llmkube(document: Node, documents: list[Node], reading: Reading) -> None:
    """One InferenceService, with the Model that it names if the file holds it."""
    spec = document.get("spec")
    if spec is None:
        return
    reading.form = "llmkube"
    reference = spec.get("modelRef")
    model = next(
        (
            other
            for other in documents
            if other.get("kind") is not None
            and other.get("kind").text == "Model"  # type: ignore[union-attr]
            and reference is not None
            and (name := other.path("metadata.name")) is not None
            and name.text == reference.text
        ),
        None,
    )
    runtime = spec.get("runtime")
    engine = {"vllm": "vllm", "sglang": "sglang"}.get(
        runtime.text.lower() if runtime is not None else "", "llama-server"
    )
    words = _model_words(model, engine, reading) if model is not None else []
    if model is None:
        reading.note("the Model that modelRef names is in another file", document.start)
    nested = spec.get("vllmConfig", "sglangConfig", "llamaConfig")
    for key, value in [*spec.entries(), *(nested.entries() if nested is not None else [])]:
        if key.text not in _NOT_OPTIONS and value.kind == "scalar":
            words += option_words(key, value, engine, reading)
        elif key.text in ("speculative", "speculativeDecoding") and value.kind == "map":
            words += _speculation_words(value, engine, reading)
    words += _spec_args(spec, reading) + (words_of(spec.get("extraArgs"), reading) or [])
    around = Surroundings(kind="llmkube")
    image_of(around, spec, reading)
    name = document.path("metadata.name")
    around.name = name.text if name is not None else ""
    pod_of(around, spec, document, reading)
    env = environment(spec.get("env"), reading)
    reading.add(EngineCommand(engine, words, env, document.start, reading.form, around))


def _spec_args(spec: Node, reading: Reading) -> list[Mapped]:
    """`args` beside a `command`: passed on, after the engine's own subcommand."""
    words = words_of(spec.get("args"), reading) or []
    return words[1:] if words and words[0].text in ("serve", "vllm") else words


def _model_words(model: Node, engine: str, reading: Reading) -> list[Mapped]:
    """Model options from a Model document: source and file, GPU layers."""
    source, files, layers = (
        model.path("spec.source"),
        model.path("spec.files"),
        model.path("spec.hardware.gpu.layers"),
    )
    words: list[Mapped] = []
    if source is not None and source.kind == "scalar":
        name = scalar(source, reading.source)
        name = repository_name(name)
        flag = (
            "--model"
            if not gguf_engine(engine) or name.text.startswith(("/", "http"))
            else "--hf-repo"
        )
        words += [synthetic(flag, source.start), name]
    if (
        files is not None
        and files.items
        and files.items[0].kind == "scalar"
        and gguf_engine(engine)
    ):
        words += [synthetic("--hf-file", files.start), scalar(files.items[0], reading.source)]
    if layers is not None and gguf_engine(engine):
        words += [synthetic("--n-gpu-layers", layers.start), scalar(layers, reading.source)]
    return words


_LLMKUBE_DRAFT = {
    "type": "--spec-type",
    "nDraftMax": "--spec-draft-n-max",
    "nDraftMin": "--spec-draft-n-min",
    "draftModel": "--spec-draft-model",
}
_JSON_NUMBER = re.compile(r"-?\d{1,9}(\.\d{1,9})?|true|false")


def _speculation_words(node: Node, engine: str, reading: Reading) -> list[Mapped]:
    """LLMKube's `speculative` block of vLLM, and `speculativeDecoding` of llama.cpp."""
    enabled = node.get("enabled")
    if enabled is not None and enabled.truth is False:
        return []
    fields = [
        (key, value)
        for key, value in node.entries()
        if key.text != "enabled" and value.kind == "scalar"
    ]
    if traits(engine).json_speculation:
        parts: list[Mapped] = []
        for key, value in fields:
            name, said = _kebab(key.text).replace("-", "_"), scalar(value, reading.source)
            quote = synthetic("" if _JSON_NUMBER.fullmatch(said.text) else '"')
            parts += [synthetic(f'{"," if parts else ""}"{name}":', key.start), quote, said, quote]
        return (
            [synthetic(_CONFIG, node.start), join((synthetic("{"), *parts, synthetic("}")))]
            if parts
            else []
        )
    words: list[Mapped] = []
    for key, value in fields:
        flag = _LLMKUBE_DRAFT.get(key.text)
        if flag is None or not gguf_engine(engine):
            words += option_words(key, value, engine, reading)
            continue
        said = scalar(value, reading.source)
        words += [
            synthetic(flag, key.start),
            synthetic("draft-mtp", value.start) if said.text == "mtp" else said,
        ]
    return words


def option_words(key: Node, value: Node, engine: str, reading: Reading) -> list[Mapped]:
    """A camelCase field as an engine's option, if the engine has one of that name."""
    flag = _LLMKUBE.get(key.text, "") if gguf_engine(engine) else ""
    flag = _SLOTS.get(engine, "") if key.text == "parallelSlots" and not flag else flag
    flag = flag or "--" + _kebab(key.text)
    option = engines.get(engine).catalogue.find(flag, None)
    if option is None or value.is_null:
        return []
    if option.takes_value is False or value.truth is not None:
        if flag == "--flash-attn":
            return [
                synthetic(flag, key.start),
                synthetic("on" if value.truth else "off", value.start),
            ]
        if value.truth is False:
            off = engines.get(engine).catalogue.spelling(option.name, None, negated=True)
            return [synthetic(off, key.start)] if off else []
        return [synthetic(flag, key.start)] if value.truth else []
    return [synthetic(flag, key.start), scalar(value, reading.source)]


# ---------------------------------------------------------------- llm-d's chart and KServe's server


def model_service(node: Node, document: Node, reading: Reading) -> list[Mapped]:
    """What llm-d's chart adds: the model of `modelArtifacts`, its role's parallelism."""
    words: list[Mapped] = []
    model = document.path("modelArtifacts.name") or document.path("modelArtifacts.uri")
    if model is not None and model.kind == "scalar":
        words += [synthetic("--model", model.start), repository_name(scalar(model, reading.source))]
    for role in (document.get("decode"), document.get("prefill")):
        held = role.get("containers") if role is not None else None
        width = role.path("parallelism.tensor") if role is not None else None
        if held is not None and width is not None and any(one is node for one in held.items):
            words += [
                synthetic("--tensor-parallel-size", width.start),
                scalar(width, reading.source),
            ]
    return words


def kserve_word(word: Mapped) -> Mapped:
    """KServe's own words for vLLM's --model and --served-model-name."""
    for theirs, ours in (
        ("--model_id", "--model"),
        ("--model_dir", "--model"),
        ("--model_name", "--served-model-name"),
    ):
        if word.text == theirs or word.text.startswith(theirs + "="):
            return join((synthetic(ours, word.first()), word.part(len(theirs), len(word))))
    return word
