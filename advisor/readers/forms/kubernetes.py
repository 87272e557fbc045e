"""Kubernetes: workloads, Helm values, LLMKube, KServe, KubeAI; and any YAML with containers."""

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import ContainerRun, container_command
from advisor.readers.engine_command import EngineCommand, Surroundings
from advisor.readers.form_types import Checker, nearest_key, respell
from advisor.readers.forms.llmkube import kserve_word, model_service, option_words, read_llmkube
from advisor.readers.forms.pods import (
    attach_services,
    environment,
    image_of,
    is_own,
    mapping_words,
    pod_of,
    repository,
    words_of,
)
from advisor.readers.forms.recipes import read_scripts, read_task
from advisor.readers.forms.settings_yaml import engine_of_settings
from advisor.readers.reading import Reading
from advisor.readers.syntax.yamlnodes import NOTHING, Node, walk

COMMAND_KEYS = (
    *("command", "args", "entrypoint", "cmd", "extraArgs", "extra_args", "serverArgs"),
    *("modelArgs", "vllmArgs", "extraCmdArgs", "arguments"),
    *("dockerArgs", "docker_args", "dockerStartCmd"),  # of RunPod
)
# what operators and charts hand on to the pod as it stands
_OF_PODS = ("ports", "env", "resources", "livenessProbe", "readinessProbe", "startupProbe")
_CLIENTS = ("--num-prompts", "--dataset-name")  # options of a benchmark, not of a server
_BACKEND = lazy_re(r"(?:[\w.]+-)*(?:vllm|sglang)(?:-development)?")
_OWN_KINDS = (
    *("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod", "Service"),
)


def read_kubernetes(documents: list[Node], reading: Reading) -> None:
    """All documents of a file: containers, and kinds that describe a server in their own words."""
    reading.form = "kubernetes"
    for document in documents:
        respell(document, "kubernetes document", reading)
        name, ray = document.get("kind").text, document.path("spec.serveConfigV2")
        if name in _OWN_KINDS and is_own(document):
            Checker("kubernetes", reading).check(document, name)
            if "{{" not in reading.source.text:
                _check_pods(document, reading)
        if name == "InferenceService" and document.path("spec.modelRef"):
            read_llmkube(document, documents, reading)
        elif name in ("ConfigMap", "Secret"):
            _read_data(document.get("data", "stringData"), reading)
        elif ray.kind == "scalar":
            reading.inside(ray.text_map, 1, "serve.yaml")  # of a RayService
        elif name != "CustomResourceDefinition":  # it describes keys, with commands as examples
            kind = "kubernetes" if name else "helm-values"
            read_containers(document, reading, "helmrelease" if name == "HelmRelease" else kind)
    attach_services(documents, reading)


def _check_pods(document: Node, reading: Reading) -> None:
    """What a workload says in two places: Kubernetes compares them, and refuses what differs."""
    template, selector = document.path("spec.template"), document.path("spec.selector.matchLabels")
    if not selector:
        return  # a patch of another file's, perhaps
    labels, pod = template.path("metadata.labels"), template.get("spec")
    for key, value in selector.entries() if labels else ():
        if (label := labels.get(key.text).text) != value.text:
            reading.slip(
                f"the selector has {key.text} {value.text}, which the labels of the pods lack",
                value.start,
                value.end,
                label,
            )
    claims = (one.get("metadata") for one in document.path("spec.volumeClaimTemplates").items)
    names = {one.get("name").text for one in (*pod.get("volumes").items, *claims)}
    for container in (*pod.get("containers").items, *pod.get("initContainers").items):
        for mount in container.get("volumeMounts").items if names else ():
            if (name := mount.get("name")).text not in names:
                said, near = f"no volume is named {name.text}", nearest_key(name.text, names)
                reading.slip(said, name.start, name.end, near or "")
        for key, asked in container.path("resources.requests").entries():
            limit = container.path("resources.limits").get(key.text)
            extended = "/" in key.text and "kubernetes.io/" not in key.text  # never over-committed
            if extended and limit.text != asked.text:
                said = f"requests of {key.text} must be its limits for Kubernetes"
                end = asked.end if limit else None
                reading.slip(said, asked.start, end, limit.text or f"limits: {key.text}: too")


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
        options = node.get("engineArgs", "engine_args")
        env = node.get("env", "environment")
        if config := node.get("vllmConfig"):
            taken.add(id(config))
            _read_production_stack(node, config, reading, kind)
        elif tasks := read_task(node, reading):
            taken |= {id(one) for one in tasks}
        elif options and _read_keyed_options(node, options, reading):
            taken.add(id(options))
        elif (node.get("image", "imageName") and (env or node.get(*COMMAND_KEYS))) or (
            not node.get("image")
            and any(node.get(key).items for key in ("args", "extraArgs", "command"))
        ):
            _read_container(node, document, reading, kind)
        else:
            read_scripts(node, environment(env or node.get("envs")), reading)
            if (data := node.get("data")).kind == "map":
                _read_data(data, reading)


def _check_parts(node: Node, document: Node, reading: Reading) -> None:
    """Volumes of an operator's pod, and the names of a container's resources."""
    if not is_own(document) and node.get("containers").items:
        Checker("kubernetes", reading).check_parts(node, "PodSpec", ("volumes",))
    if node.get("image") and node.get("name"):
        for key in ("limits", "requests"):
            respell(node.path(f"resources.{key}"), "limits", reading)


def _read_container(node: Node, document: Node, reading: Reading, kind: str) -> None:
    around = Surroundings(kind=kind, name=(node.get("name") or document.path("metadata.name")).text)
    image_of(around, node)
    env = environment(node.get("env", "environment", "extraEnv", "envVars", "extraEnvVars"))
    if outside := node.get("envFrom"):
        around.env_elsewhere = True
        reading.note("envFrom is not read", outside.start)
    command = node.get("command", "entrypoint")
    entrypoint = words_of(command, reading, env)
    others = [key for key in COMMAND_KEYS if key not in ("command", "entrypoint")]
    args = [word for key in others for word in words_of(node.get(key), reading, env)]
    if any(word.text.startswith(_CLIENTS) for word in args):
        return
    if entrypoint and entrypoint[0].text.startswith("-"):
        # `command` of Ansible, Nomad, ECS: what follows the image's entrypoint
        args, entrypoint = [*entrypoint, *args], []
    if node.get("modelFormat", "runtime"):
        args = [*repository(node.get("storageUri", "modelUri")), *args]
    if node.path("modelFormat.name"):
        args = [kserve_word(word) for word in args]
    of_chart = bool(node.get("modelCommand"))
    if of_chart:
        args = [*model_service(node, document), *args]
    pod_of(around, node, document, reading)
    if not is_own(document) and (kind == "kubernetes" or of_chart):
        Checker("kubernetes", reading).check_parts(node, "Container", _OF_PODS)
    if kind == "kubernetes" and not is_own(document):
        around.chart = document.get("kind").text  # an operator's, which places its pods
    start = command or node.get(*COMMAND_KEYS) or node
    container_command(ContainerRun(around, entrypoint, args, env), reading, start.start)


# ---------------------------------------------------------------- kinds with their own words


def _read_keyed_options(node: Node, options: Node, reading: Reading) -> bool:
    """An operator's own kind that keeps an engine's options as a mapping; whether it was one."""
    named = node.get("engine", "runtime").text.lower()
    engine = named if named in ("vllm", "sglang") else engine_of_settings(options)
    backend = node.get("backend").text  # LocalAI's: vllm, cuda12-vllm, but also vllm-cpp
    if options.kind != "map" or not engine or (backend and not _BACKEND.fullmatch(backend)):
        return False
    words = mapping_words(options, fields=True)
    if not any(word.text == "--model" for word in words):
        words = [*repository(node.get("modelId", "modelID", "model")), *words]
    around = Surroundings(kind="kubernetes")
    image_of(around, node)
    env = environment(node.get("engineEnv", "env", "extraEnv"))
    reading.add(EngineCommand(engine, words, env, options.start, reading.form, around))
    return True


def _read_production_stack(node: Node, config: Node, reading: Reading, kind: str) -> None:
    """vLLM's production-stack chart: modelURL, repository, tag, vllmConfig."""
    respell(node, "production-stack model", reading)
    respell(config, "production-stack", reading)
    words = repository(node.get("modelURL"))
    for key, value in config.entries():
        if value.kind == "scalar":
            words += option_words(key, value, "vllm")
    words += words_of(config.get("extraArgs"), reading)
    around = Surroundings(kind=kind, name=node.get("name").text, chart="production-stack")
    gpus = NOTHING if node.get("raySpec") else node.get("requestGPU")  # of each node
    if gpus.kind == "scalar":
        around.gpus = gpus.text
    # the chart mounts a memory volume at /dev/shm where this key stands
    if config.get("tensorParallelSize"):
        around.shm_volume = True
    image, tag = node.get("repository"), node.get("tag")
    if image.kind == "scalar":
        around.image, around.tag = image.text_map, tag.text_map if tag.kind == "scalar" else None
    env = environment(node.get("env"))
    reading.add(EngineCommand("vllm", words, env, node.start, reading.form, around))


def _read_data(data: Node, reading: Reading) -> None:
    for key, value in data.entries():
        if value.kind == "scalar" and "\n" in value.text:
            reading.inside(value.text_map, 1, key.text)
        elif re.fullmatch(r"LLAMA_ARG_\w+|\w*_ARGS", key.text):
            reading.note(f"{key.text} is set for containers that take this ConfigMap", key.start)
