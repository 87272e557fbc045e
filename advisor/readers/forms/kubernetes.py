"""Kubernetes: workloads, Helm values, LLMKube, KServe, KubeAI; and any YAML with containers."""

from __future__ import annotations

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import ContainerRun, check_tag, container_command
from advisor.readers.engine_command import EngineCommand, Surroundings
from advisor.readers.form_types import Checker, respell
from advisor.readers.forms.llmkube import kserve_word, model_service, option_words, read_llmkube
from advisor.readers.forms.pods import (
    attach_services,
    environment,
    image_of,
    is_own,
    mapping_words,
    pod_of,
    repository_name,
    words_of,
)
from advisor.readers.forms.recipes import read_scripts, read_task
from advisor.readers.forms.settings_yaml import engine_of_settings
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, literal, synthetic
from advisor.readers.syntax.yamlnodes import Node, scalar, walk

COMMAND_KEYS = (
    *("command", "args", "entrypoint", "cmd", "extraArgs", "extra_args", "serverArgs"),
    *("modelArgs", "vllmArgs", "extraCmdArgs", "arguments"),
    *("dockerArgs", "docker_args", "dockerStartCmd"),  # of RunPod
)
# what operators and charts hand on to the pod as it stands
_OF_PODS = ("ports", "env", "resources", "livenessProbe", "readinessProbe", "startupProbe")
_CLIENTS = ("--num-prompts", "--dataset-name")  # options of a benchmark, not of a server
_BACKEND = lazy_re(r"(?:[\w.]+-)*(?:vllm|sglang)(?:-development)?")
_KIND = {
    "Deployment": "kubernetes",
    "StatefulSet": "kubernetes",
    "DaemonSet": "kubernetes",
    "HelmRelease": "helmrelease",
}


def read_kubernetes(documents: list[Node], reading: Reading) -> None:
    """All documents of a file: containers, and kinds that describe a server in their own words."""
    reading.form = "kubernetes"
    for document in documents:
        _check_object(document, reading)
        kind = document.get("kind")
        name = kind.text if kind is not None else ""
        if name == "InferenceService" and document.path("spec.modelRef") is not None:
            read_llmkube(document, documents, reading)
        elif name in ("ConfigMap", "Secret"):
            _config_map(document, reading)
        elif (told := document.path("spec.serveConfigV2")) is not None and told.kind == "scalar":
            reading.inside(scalar(told, reading.source), 1, "serve.yaml")  # of a RayService
        elif name != "CustomResourceDefinition":  # it describes keys, with commands as examples
            read_containers(
                document, reading, _KIND.get(name, "kubernetes" if name else "helm-values")
            )
    attach_services(documents, reading)


_OWN_KINDS = (
    *("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod", "Service"),
)


def _check_object(document: Node, reading: Reading) -> None:
    """Keys and types of an object of Kubernetes' own."""
    respell(document, "kubernetes document", reading)
    kind = document.get("kind")
    if kind is not None and kind.text in _OWN_KINDS and is_own(document):
        Checker("kubernetes", reading).check(document, kind.text)


def read_containers(document: Node, reading: Reading, kind: str) -> None:
    """Every mapping that looks like a container, with the pod that it stands in."""
    reading.form = kind
    taken: set[int] = set()
    for node in walk(document):
        if not reading.step():
            return
        if id(node) in taken:
            continue
        if kind == "kubernetes":
            _check_parts(node, document, reading)
        if (config := node.get("vllmConfig")) is not None:
            taken.add(id(config))
            respell(node, "production-stack model", reading)
            respell(config, "production-stack", reading)
            _production_stack(node, reading, kind)
        elif read := read_task(node, reading):
            taken |= {id(one) for one in read}
        elif (options := node.get("engineArgs", "engine_args")) is not None and _read_keyed_options(
            node, options, reading
        ):
            taken.add(id(options))
        elif (
            node.get("image", "imageName") is not None
            and (
                any(node.get(key) is not None for key in COMMAND_KEYS)
                or node.get("env", "environment") is not None
            )
        ) or (
            node.get("image") is None
            and any(_is_list(node.get(key)) for key in ("args", "extraArgs", "command"))
        ):
            _container(node, document, reading, kind)
        else:
            read_scripts(
                node, environment(node.get("env", "environment", "envs"), reading), reading
            )
            if (data := node.get("data")) is not None and data.kind == "map":
                _config_data(data, reading)


def _check_parts(node: Node, document: Node, reading: Reading) -> None:
    """Volumes of an operator's pod, and the names of a container's resources."""
    if not is_own(document) and _is_list(node.get("containers")):
        Checker("kubernetes", reading).check_parts(node, "PodSpec", ("volumes",))
    if node.get("image") is not None and node.get("name") is not None:
        for key in ("limits", "requests"):
            if (resources := node.path(f"resources.{key}")) is not None:
                respell(resources, "limits", reading)


def _is_list(node: Node | None) -> bool:
    return node is not None and node.kind == "seq" and bool(node.items)


def _container(node: Node, document: Node, reading: Reading, kind: str) -> None:
    around = Surroundings(kind=kind)
    image_of(around, node, reading)
    name = node.get("name") or document.path("metadata.name")
    around.name = name.text if name is not None and name.kind == "scalar" else ""
    env = environment(
        node.get("env", "environment", "extraEnv", "envVars", "extraEnvVars"), reading
    )
    if (outside := node.get("envFrom")) is not None:
        reading.note("envFrom is not read", outside.start)
    command = node.get("command", "entrypoint")
    entrypoint = words_of(command, reading, env)
    args = [
        word
        for key in COMMAND_KEYS
        if key not in ("command", "entrypoint")
        for word in words_of(node.get(key), reading, env) or []
    ]
    if any(word.text.startswith(_CLIENTS) for word in args):
        return
    if entrypoint and entrypoint[0].text.startswith("-"):
        # `command` of Ansible, Nomad, ECS: what follows the image's entrypoint
        args = [*entrypoint, *args]
        entrypoint = None
    source = node.get("storageUri", "modelUri")
    if (
        source is not None
        and source.kind == "scalar"
        and node.get("modelFormat", "runtime") is not None
    ):
        args = [
            synthetic("--model", source.start),
            repository_name(scalar(source, reading.source)),
            *args,
        ]
    if node.path("modelFormat.name") is not None:
        args = [kserve_word(word) for word in args]
    if node.get("modelCommand") is not None:
        args = [*model_service(node, document, reading), *args]
    pod_of(around, node, document, reading)
    if not is_own(document) and (kind == "kubernetes" or node.get("modelCommand") is not None):
        Checker("kubernetes", reading).check_parts(node, "Container", _OF_PODS)
    if kind == "kubernetes" and not is_own(document):
        around.chart = (document.get("kind") or node).text  # an operator's, which places its pods
    start = command or next(
        (found for key in COMMAND_KEYS if (found := node.get(key)) is not None), None
    )
    container_command(
        ContainerRun(around, entrypoint, args, env),
        reading,
        start.start if start is not None else node.start,
    )


# ---------------------------------------------------------------- kinds with their own words


def _read_keyed_options(node: Node, options: Node, reading: Reading) -> bool:
    """An operator's own kind that keeps an engine's options as a mapping; whether it was one."""
    named, model = node.get("engine", "runtime"), node.get("modelId", "modelID", "model")
    engine = {"vllm": "vllm", "sglang": "sglang"}.get(
        named.text.lower() if named is not None else ""
    )
    if options.kind != "map" or (engine is None and engine_of_settings(options) is None):
        return False
    backend = node.get("backend")  # LocalAI's: vllm, cuda12-vllm, but also vllm-cpp
    if backend is not None and backend.text and not _BACKEND.fullmatch(backend.text):
        return False
    engine = engine or engine_of_settings(options) or "vllm"
    words = mapping_words(options, reading, fields=True)
    if (
        model is not None
        and model.kind == "scalar"
        and not any(word.text == "--model" for word in words)
    ):
        words = [
            synthetic("--model", model.start),
            repository_name(scalar(model, reading.source)),
            *words,
        ]
    around = Surroundings(kind="kubernetes")
    image_of(around, node, reading)
    env = environment(node.get("engineEnv", "env", "extraEnv"), reading)
    reading.add(EngineCommand(engine, words, env, options.start, reading.form, around))
    return True


def _production_stack(node: Node, reading: Reading, kind: str) -> None:
    """vLLM's production-stack chart: modelURL, repository, tag, vllmConfig."""
    config, model, repository, tag = (
        node.get("vllmConfig"),
        node.get("modelURL"),
        node.get("repository"),
        node.get("tag"),
    )
    words: list[Mapped] = []
    if model is not None and model.kind == "scalar":
        words += [synthetic("--model", model.start), scalar(model, reading.source)]
    for key, value in config.entries() if config is not None else []:
        if value.kind == "scalar":
            words += option_words(key, value, "vllm", reading)
    words += words_of(config.get("extraArgs"), reading) or [] if config is not None else []
    around = Surroundings(kind=kind, name=(node.get("name") or node).text)
    around.chart = "production-stack"
    gpus = node.get("requestGPU") if node.get("raySpec") is None else None  # of each node
    if gpus is not None and gpus.kind == "scalar":
        around.gpus, around.asked = gpus.text, [scalar(gpus, reading.source)]
        around.whole = True
    # the chart mounts a memory volume at /dev/shm where this key stands
    if config is not None and config.get("tensorParallelSize") is not None:
        around.shm_volume = True
    if repository is not None and repository.kind == "scalar":
        around.image = scalar(repository, reading.source)
        around.tag = (
            scalar(tag, reading.source) if tag is not None and tag.kind == "scalar" else None
        )
    check_tag(around, reading)
    reading.add(
        EngineCommand(
            "vllm", words, environment(node.get("env"), reading), node.start, reading.form, around
        )
    )


def _config_map(document: Node, reading: Reading) -> None:
    """Configurations that a ConfigMap carries as text: llama-swap, presets, scripts."""
    data = document.get("data", "stringData")
    if data is not None:
        _config_data(data, reading)


def _config_data(data: Node, reading: Reading) -> None:
    for key, value in data.entries():
        if value.kind == "scalar" and "\n" in value.text:
            reading.inside(scalar(value, reading.source), 1, key.text)
        elif re.fullmatch(r"LLAMA_ARG_\w+|\w*_ARGS", key.text):
            reading.note(
                f"{key.text} is set for containers that take this ConfigMap",
                literal(key.text, key.start).first(),
            )
