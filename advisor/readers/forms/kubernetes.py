"""Kubernetes: workloads, Helm values and HelmRelease, LLMKube, KServe, KubeAI; and any other YAML
that holds containers.
"""

from __future__ import annotations

import re

from advisor.readers.containers import Ran, add_env, container_command
from advisor.readers.forms.recipes import read_scripts
from advisor.readers.reading import Env, EnvItem, Found, Reading, Surroundings, size_bytes
from advisor.readers.syntax.mapped import EMPTY, Mapped, join, literal, made
from advisor.readers.syntax.scope import closing
from advisor.readers.syntax.words import split_words
from advisor.readers.syntax.yamlnodes import Node, scalar, walk

COMMAND_KEYS = (
    "command",
    "args",
    "entrypoint",
    "cmd",
    "extraArgs",
    "extra_args",
    "serverArgs",
    "modelArgs",
    "vllmArgs",
    "extraCmdArgs",
    "arguments",
)
_KIND = {
    "Deployment": "kubernetes",
    "StatefulSet": "kubernetes",
    "DaemonSet": "kubernetes",
    "HelmRelease": "helmrelease",
}


def read_kubernetes(documents: list[Node], reading: Reading) -> None:
    """All documents of a file: containers wherever they stand, and the kinds that describe a server
    in their own words.
    """
    reading.form = "kubernetes"
    for document in documents:
        kind = document.get("kind")
        name = kind.text if kind is not None else ""
        if name == "InferenceService" and document.path("spec.modelRef") is not None:
            from advisor.readers.forms.llmkube import read_llmkube

            read_llmkube(document, documents, reading)
        elif name == "Model" and document.path("spec.engine") is not None:
            _kubeai(document, reading)
        elif name in ("ConfigMap", "Secret"):
            _config_map(document, reading)
        else:
            read_containers(
                document, reading, _KIND.get(name, "kubernetes" if name else "helm-values")
            )


def read_containers(document: Node, reading: Reading, kind: str) -> None:
    """Every mapping that looks like a container, with the pod that it stands in."""
    from advisor.readers.forms.tasks import read_task

    reading.form = kind
    taken: set[int] = set()
    for node in walk(document):
        if not reading.step():
            return
        if id(node) in taken:
            continue
        if (config := node.get("vllmConfig")) is not None:
            taken.add(id(config))
            _production_stack(node, reading, kind)
        elif read := read_task(node, reading):
            taken |= {id(one) for one in read}
        elif (options := node.get("engineArgs", "engine_args")) is not None and _keyed(
            node, options, reading
        ):
            taken.add(id(options))
        elif (
            node.get("image") is not None
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
            made("--model", source.start),
            repository_name(scalar(source, reading.source)),
            *args,
        ]
    if node.path("modelFormat.name") is not None:
        args = [_kserve(word) for word in args]
    if node.get("modelCommand") is not None:
        args = [*_model_service(node, document, reading), *args]
    pod_of(around, node, document, reading)
    start = command or next(
        (found for key in COMMAND_KEYS if (found := node.get(key)) is not None), None
    )
    container_command(
        Ran(around, entrypoint, args, env),
        reading,
        start.start if start is not None else node.start,
    )


def _model_service(node: Node, document: Node, reading: Reading) -> list[Mapped]:
    """What llm-d's chart adds to a container: the model of `modelArtifacts`, the parallelism of its
    role.
    """
    words: list[Mapped] = []
    model = document.path("modelArtifacts.name") or document.path("modelArtifacts.uri")
    if model is not None and model.kind == "scalar":
        words += [made("--model", model.start), repository_name(scalar(model, reading.source))]
    for role in (document.get("decode"), document.get("prefill")):
        held = role.get("containers") if role is not None else None
        width = role.path("parallelism.tensor") if role is not None else None
        if held is not None and width is not None and any(one is node for one in held.items):
            words += [made("--tensor-parallel-size", width.start), scalar(width, reading.source)]
    return words


def _kserve(word: Mapped) -> Mapped:
    """The words of KServe's own Hugging Face server for what vLLM calls --model and
    --served-model-name.
    """
    for theirs, ours in (
        ("--model_id", "--model"),
        ("--model_dir", "--model"),
        ("--model_name", "--served-model-name"),
    ):
        if word.text == theirs or word.text.startswith(theirs + "="):
            return join((made(ours, word.first()), word.part(len(theirs), len(word))))
    return word


def repository_name(name: Mapped) -> Mapped:
    return name.part(5, len(name)) if name.text.startswith("hf://") else name


def image_of(around: Surroundings, node: Node, reading: Reading) -> None:
    image = node.get("image")
    if image is None and node.get("repository") is not None and node.get("tag") is not None:
        image = node  # a chart that keeps the command beside the image's name
    if image is None:
        return
    if image.kind == "scalar":
        around.image = scalar(image, reading.source)
        tag = node.get("tag", "imageTag")
    else:
        name, registry = image.get("repository", "name"), image.get("registry")
        tag = image.get("tag")
        if name is not None and name.kind == "scalar":
            around.image = scalar(name, reading.source)
            if registry is not None and registry.text:
                around.image = join((scalar(registry, reading.source), made("/"), around.image))
    if tag is not None and tag.kind == "scalar" and tag.text:
        around.tag = scalar(tag, reading.source)
    if reading.values and around.image is not None:
        from advisor.readers.forms.ansible import filled

        around.image = filled(around.image, reading.values)


def environment(node: Node | None, reading: Reading) -> Env:
    """`env` as a list of name and value, or as a mapping."""
    env: Env = {}
    if node is None:
        return env
    for key, given in node.entries():
        if given.kind == "scalar":
            env[key.text] = EnvItem(
                EMPTY if given.is_null else scalar(given, reading.source), key.start
            )
    for item in node.items:
        if (
            item.kind == "scalar" and "=" in item.text
        ):  # `- NAME=value`, as dstack and compose have it
            add_env(env, scalar(item, reading.source))
            continue
        name, value = item.get("name"), item.get("value")
        if name is None or name.kind != "scalar":
            continue
        known = (
            scalar(value, reading.source) if value is not None and value.kind == "scalar" else None
        )
        if known is None and item.get("valueFrom") is None:
            known = EMPTY
        env[name.text] = EnvItem(known, name.start)
    return env


def words_of(node: Node | None, reading: Reading, env: Env | None = None) -> list[Mapped] | None:
    """A list of arguments, or a text that is split; `$(NAME)` is replaced from the environment."""
    if node is None or node.is_null:
        return None
    if node.kind == "seq":
        words = [scalar(item, reading.source) for item in node.items if item.kind == "scalar"]
    elif node.kind == "scalar":
        words = split_words(scalar(node, reading.source), dollars=False)
    else:
        return _mapping_words(node, reading)
    return [_dependent(word, env or {}) for word in words]


def _mapping_words(node: Node, reading: Reading) -> list[Mapped]:
    """Arguments as a mapping of option to value (some charts)."""
    words: list[Mapped] = []
    for key, value in node.entries():
        if value.kind != "scalar" or value.truth is False:
            continue
        name = scalar(key, reading.source)
        words.append(name if name.text.startswith("-") else join((made("--"), name)))
        if value.truth is None and not value.is_null:
            words.append(scalar(value, reading.source))
    return words


def _dependent(word: Mapped, env: Env) -> Mapped:
    """Kubernetes' own `$(NAME)`; `$$(` is an escape."""
    text = word.text
    if "$(" not in text:
        return word
    parts: list[Mapped] = []
    done = 0
    while (at := text.find("$(", done)) >= 0:
        close = closing(text, at + 1)
        item = env.get(text[at + 2 : close]) if close > 0 else None
        if item is None or item.value is None or (at and text[at - 1] == "$"):
            parts.append(word.part(done, at + 2))
            done = at + 2
            continue
        parts += [word.part(done, at), item.value]
        done = close + 1
    return join((*parts, word.part(done, len(word))))


def pod_of(around: Surroundings, node: Node, document: Node, reading: Reading) -> None:
    """Shared memory, probes, GPUs and rollout of the workload around a container."""
    for mapping in walk(document, 5_000):
        medium, size = mapping.get("medium"), mapping.get("sizeLimit")
        if medium is not None and medium.text == "Memory":
            around.shm_volume = True
            if size is not None and size.kind == "scalar":
                around.shm_bytes = size_bytes(size.text)
        host_ipc = mapping.get("hostIPC")
        if host_ipc is not None and host_ipc.truth:
            around.ipc_host = True
    around.gpus = _gpu_count(node.path("resources.limits") or node.path("resources.requests"))
    around.startup_budget_s = _probe_budget(node)
    kind = document.get("kind")
    around.rollout_surge = (
        _surge(document) if kind is not None and kind.text == "Deployment" else None
    )


def _gpu_count(limits: Node | None) -> str | None:
    for key, value in limits.entries() if limits is not None else []:
        if re.search(r"gpu|npu|mig", key.text) and value.kind == "scalar":
            return value.text
    return None


def _probe_budget(node: Node) -> float | None:
    """Seconds until a startup probe, or without one a liveness probe, kills the server."""
    probes = node.get("probes", "probeOverrides")
    startup = node.get("startupProbe") or (probes.get("startup") if probes is not None else None)
    liveness = node.get("livenessProbe") or (probes.get("liveness") if probes is not None else None)
    for probe in (startup, liveness):
        if probe is None or probe.kind != "map":
            continue
        enabled = probe.get("enabled")
        if enabled is not None and enabled.truth is False:
            continue
        spec = probe.get("spec") or probe
        if not any(
            spec.get(name) for name in ("httpGet", "tcpSocket", "exec", "grpc", "failureThreshold")
        ):
            continue
        delay, period, failures = (
            _number(spec, *of)
            for of in (("initialDelaySeconds", 0), ("periodSeconds", 10), ("failureThreshold", 3))
        )
        return delay + period * failures
    return None


def _number(node: Node, name: str, default: float) -> float:
    found = node.get(name)
    return (
        float(found.text)
        if found is not None and re.fullmatch(r"\d{1,9}", found.text)
        else float(default)
    )


def _surge(document: Node) -> bool | None:
    """Whether a rollout starts a second pod before the first one stops."""
    strategy = document.path("spec.strategy")
    kind = strategy.get("type") if strategy is not None else None
    if kind is not None and kind.text == "Recreate":
        return False
    rolling = strategy.get("rollingUpdate") if strategy is not None else None
    surge = rolling.get("maxSurge") if rolling is not None else None
    unavailable = rolling.get("maxUnavailable") if rolling is not None else None
    if surge is not None and surge.text in ("0", "0%"):
        return False
    return not (unavailable is not None and unavailable.text not in ("0", "0%"))


# ---------------------------------------------------------------- kinds with their own words


def _kubeai(document: Node, reading: Reading) -> None:
    engine_node, url = document.path("spec.engine"), document.path("spec.url")
    name = engine_node.text.lower() if engine_node is not None else ""
    engine = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama-server"}.get(name)
    if engine is None:
        return
    words = words_of(document.path("spec.args"), reading) or []
    if url is not None and url.kind == "scalar":
        words = [made("--model", url.start), repository_name(scalar(url, reading.source)), *words]
    around = Surroundings(kind="kubeai")
    spec = document.get("spec")
    if spec is not None:
        image_of(around, spec, reading)
    env = environment(document.path("spec.env"), reading)
    reading.add(Found(engine, words, env, document.start, reading.form, around))


def _keyed(node: Node, options: Node, reading: Reading) -> bool:
    """An operator's own kind that keeps an engine's options as a mapping; whether it was one."""
    from advisor.readers.forms.settings_yaml import engine_of_settings

    named, model = node.get("engine", "runtime"), node.get("modelId", "modelID", "model")
    engine = {"vllm": "vllm", "sglang": "sglang"}.get(
        named.text.lower() if named is not None else ""
    )
    if options.kind != "map" or (engine is None and engine_of_settings(options) is None):
        return False
    engine = engine or engine_of_settings(options) or "vllm"
    words = _mapping_words(options, reading)
    if (
        model is not None
        and model.kind == "scalar"
        and not any(word.text == "--model" for word in words)
    ):
        words = [
            made("--model", model.start),
            repository_name(scalar(model, reading.source)),
            *words,
        ]
    around = Surroundings(kind="kubernetes")
    image_of(around, node, reading)
    env = environment(node.get("engineEnv", "env", "extraEnv"), reading)
    reading.add(Found(engine, words, env, options.start, reading.form, around))
    return True


def _production_stack(node: Node, reading: Reading, kind: str) -> None:
    """vLLM's production-stack chart: modelURL, repository, tag, vllmConfig."""
    config, model, repository, tag = (
        node.get("vllmConfig"),
        node.get("modelURL"),
        node.get("repository"),
        node.get("tag"),
    )
    from advisor.readers.forms.llmkube import option_words

    words: list[Mapped] = []
    if model is not None and model.kind == "scalar":
        words += [made("--model", model.start), scalar(model, reading.source)]
    for key, value in config.entries() if config is not None else []:
        if value.kind == "scalar":
            words += option_words(key, value, "vllm", reading)
    words += words_of(config.get("extraArgs"), reading) or [] if config is not None else []
    around = Surroundings(kind=kind, name=(node.get("name") or node).text)
    # the chart mounts a memory volume at /dev/shm where this key stands
    if config is not None and config.get("tensorParallelSize") is not None:
        around.shm_volume = True
    if repository is not None and repository.kind == "scalar":
        around.image = scalar(repository, reading.source)
        around.tag = (
            scalar(tag, reading.source) if tag is not None and tag.kind == "scalar" else None
        )
    reading.add(
        Found(
            "vllm", words, environment(node.get("env"), reading), node.start, reading.form, around
        )
    )


def _config_map(document: Node, reading: Reading) -> None:
    """Configurations that a ConfigMap carries as text: llama-swap, presets, scripts."""
    data = document.get("data", "stringData")
    if data is not None:
        _config_data(data, reading)


def _config_data(data: Node, reading: Reading) -> None:
    from advisor.readers import read_inside

    for key, value in data.entries():
        if value.kind == "scalar" and "\n" in value.text:
            read_inside(scalar(value, reading.source), reading, 1, key.text)
        elif re.fullmatch(r"LLAMA_ARG_\w+|\w*_ARGS", key.text):
            reading.note(
                f"{key.text} is set for containers that take this ConfigMap",
                literal(key.text, key.start).first(),
            )
