"""LLMKube's own fields for engines' options; what llm-d's chart and KServe's server add."""

import re

from advisor import engines
from advisor.domain.patterns import lazy_re
from advisor.engines.traits import gguf_engine, traits
from advisor.readers.engine_command import EngineCommand, Surroundings
from advisor.readers.forms.pods import environment, image_of, pod_of, repository, words_of
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, join, synthetic
from advisor.readers.syntax.yamlnodes import NOTHING, Node

_CONFIG = "--speculative-config"
_SLOTS = {"vllm": "--max-num-seqs", "sglang": "--max-running-requests"}
_LLAMA = {
    "contextSize": "--ctx-size", "parallelSlots": "--parallel", "batchSize": "--batch-size",
    "uBatchSize": "--ubatch-size", "flashAttention": "--flash-attn",
    "cacheTypeK": "--cache-type-k", "cacheTypeV": "--cache-type-v",
}  # fmt: skip
_LLAMA_DRAFT = {
    "type": "--spec-type", "nDraftMax": "--spec-draft-n-max", "nDraftMin": "--spec-draft-n-min",
    "draftModel": "--spec-draft-model",
}  # fmt: skip
_FIELDS = """
modelRef image runtime command replicas priority resources endpoint extraArgs probeOverrides
nodeSelector tolerations modelCache rolloutPolicy env autoscaling
"""
_NOT_OPTIONS = frozenset(_FIELDS.split())
_JSON_NUMBER = lazy_re(r"-?\d{1,9}(\.\d{1,9})?|true|false")
# KServe's own words for vLLM's
_KSERVE = {"--model_id": "--model", "--model_dir": "--model", "--model_name": "--served-model-name"}


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", name).lower()


def read_llmkube(document: Node, documents: list[Node], reading: Reading) -> None:
    """One InferenceService, with the Model that it names if the file holds it."""
    spec = document.get("spec")
    reading.form = "llmkube"
    wanted = ("Model", spec.get("modelRef").text)
    both = ((one, (one.get("kind").text, one.path("metadata.name").text)) for one in documents)
    model = next((one for one, named in both if named == wanted), NOTHING)
    runtime = spec.get("runtime").text.lower()
    engine = runtime if runtime in ("vllm", "sglang") else "llama-server"
    words = _model_words(model.get("spec"), engine)
    if not model:
        reading.note("the Model that modelRef names is in another file", document.start)
    nested = spec.get("vllmConfig", "sglangConfig", "llamaConfig")
    for key, value in [*spec.entries(), *nested.entries()]:
        if value.style and value.text.isdigit() and key.text.endswith(("Size", "Slots")):
            reading.slip(f"{key.text} takes a number", value.start, value.end, value.text)
        if key.text not in _NOT_OPTIONS and value.kind == "scalar":
            words += option_words(key, value, engine)
        elif key.text in ("speculative", "speculativeDecoding") and value.kind == "map":
            words += _speculation_words(value, engine)
    args = words_of(spec.get("args"), reading)  # beside a `command`, which may be a part of them
    words += args[1:] if args and args[0].text in ("serve", "vllm") else args
    words += words_of(spec.get("extraArgs"), reading)
    around = Surroundings(kind="llmkube", name=document.path("metadata.name").text)
    image_of(around, spec)
    pod_of(around, spec, document, reading)
    env = environment(spec.get("env"))
    reading.add(EngineCommand(engine, words, env, document.start, reading.form, around))


def _model_words(spec: Node, engine: str) -> list[Mapped]:
    files, layers = spec.get("files").items, spec.path("hardware.gpu.layers")
    words = repository(spec.get("source"))
    if not gguf_engine(engine):
        return words
    if words and not words[1].text.startswith(("/", "http")):
        words[0] = synthetic("--hf-repo", words[0].first())
    if files and files[0].kind == "scalar":
        words += [synthetic("--hf-file", spec.get("files").start), files[0].text_map]
    return words + ([synthetic("--n-gpu-layers", layers.start), layers.text_map] if layers else [])


def _speculation_words(node: Node, engine: str) -> list[Mapped]:
    if node.get("enabled").truth is False:
        return []
    fields = [(k, v) for k, v in node.entries() if k.text != "enabled" and v.kind == "scalar"]
    if traits(engine).json_speculation:
        parts: list[Mapped] = []
        for key, value in fields:
            name = _kebab(key.text).replace("-", "_")
            quote = synthetic("" if _JSON_NUMBER.fullmatch(value.text) else '"')
            start = synthetic(f'{"," if parts else ""}"{name}":', key.start)
            parts += [start, quote, value.text_map, quote]
        whole = join((synthetic("{"), *parts, synthetic("}")))
        return [synthetic(_CONFIG, node.start), whole] if parts else []
    words: list[Mapped] = []
    for key, value in fields:
        if (flag := _LLAMA_DRAFT.get(key.text)) and gguf_engine(engine):
            mtp = synthetic("draft-mtp", value.start) if value.text == "mtp" else value.text_map
            words += [synthetic(flag, key.start), mtp]
        else:
            words += option_words(key, value, engine)
    return words


def option_words(key: Node, value: Node, engine: str) -> list[Mapped]:
    """A camelCase field as an engine's option, if the engine has one of that name."""
    flag = _LLAMA.get(key.text) if gguf_engine(engine) else None
    flag = flag or (_SLOTS.get(engine) if key.text == "parallelSlots" else None)
    flag, catalogue = flag or "--" + _kebab(key.text), engines.get(engine).catalogue
    option = catalogue.find(flag, None)
    if option is None or value.is_null:
        return []
    if flag == "--flash-attn" and value.truth is not None:
        return [synthetic(flag, key.start), synthetic("on" if value.truth else "off", value.start)]
    if value.truth is not None or option.takes_value is False:
        off = catalogue.spelling(option.name, None, negated=True) if value.truth is False else flag
        return [synthetic(off, key.start)] if off and value.truth is not None else []
    return [synthetic(flag, key.start), value.text_map]


# ---------------------------------------------------------------- llm-d's chart and KServe's server


def model_service(node: Node, document: Node) -> list[Mapped]:
    """What llm-d's chart adds: the model of `modelArtifacts`, its role's parallelism."""
    words = repository(document.get("modelArtifacts").get("name", "uri"))
    for role in (document.get("decode"), document.get("prefill")):
        width = role.path("parallelism.tensor")
        if width and any(one is node for one in role.get("containers").items):
            words += [synthetic("--tensor-parallel-size", width.start), width.text_map]
    return words


def kserve_word(word: Mapped) -> Mapped:
    """A word of KServe's server as vLLM spells it."""
    name = word.text.partition("=")[0]
    if name not in _KSERVE:
        return word
    return join((synthetic(_KSERVE[name], word.first()), word.part(len(name), len(word))))
