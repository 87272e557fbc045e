"""What objects of Kubernetes, charts and tasks share: image, environment, arguments, the pod."""

from __future__ import annotations

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import add_env
from advisor.readers.devices import ask_resources
from advisor.readers.engine_command import Env, EnvItem, Surroundings, size_bytes
from advisor.readers.form_types import text_items
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import EMPTY, Mapped, hole, join, replace_matches, synthetic
from advisor.readers.syntax.words import split_words
from advisor.readers.syntax.yamlnodes import Node, scalar, walk

_NAME = lazy_re(r"(?<!\$)\$\(([A-Za-z_.-][\w.-]*)\)")  # of a variable


def repository_name(name: Mapped) -> Mapped:
    """Return the repository of an `hf://` address, any other name unchanged."""
    return name.part(5, len(name)) if name.text.startswith("hf://") else name


def image_of(around: Surroundings, node: Node, reading: Reading) -> None:
    """Set image and tag of the container from a mapping, where it names them."""
    image = node.get("image", "imageName")
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
                around.image = join(
                    (scalar(registry, reading.source), synthetic("/"), around.image)
                )
    if tag is not None and tag.kind == "scalar" and tag.text:
        around.tag = scalar(tag, reading.source)


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
        items = text_items(node.items, reading.form, reading)
        words = [scalar(item, reading.source) for item in items]
    elif node.kind == "scalar":
        words = split_words(scalar(node, reading.source), dollars=False)
    else:
        return mapping_words(node, reading)
    return [_dependent(word, env or {}) for word in words]


def mapping_words(node: Node, reading: Reading, fields: bool = False) -> list[Mapped]:
    """Arguments as a mapping (some charts); `fields` of a class have underscores."""
    words: list[Mapped] = []
    for key, value in node.entries():
        if value.kind != "scalar" or value.truth is False:
            continue
        name = scalar(key, reading.source)
        if fields:
            name = Mapped(name.text.replace("_", "-"), name.pos)
        words.append(name if name.text.startswith("-") else join((synthetic("--"), name)))
        if value.truth is None and not value.is_null:
            words.append(scalar(value, reading.source))
    return words


def _dependent(word: Mapped, env: Env) -> Mapped:
    """Kubernetes' own `$(NAME)`; `$$(` is an escape."""

    def value_of(found: re.Match[str], at: int) -> Mapped:
        item = env.get(found[1])  # else set by what the file does not show
        return item.value if item is not None and item.value is not None else hole(found[1], at)

    return replace_matches(word, _NAME, value_of)


def is_own(document: Node) -> bool:
    """Whether a document is an object of Kubernetes' own, and of no operator or chart."""
    version = document.get("apiVersion")
    return version is not None and version.text in ("v1", "apps/v1", "batch/v1")


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
    ipc, size = node.get("ipc_mode"), node.get("shm_size")  # of Ansible's docker_container
    if ipc is not None and ipc.text == "host":
        around.ipc_host = True
    if size is not None and size.kind == "scalar":
        around.shm_bytes = size_bytes(size.text)
    ask_resources(around, node, document, reading)
    around.startup_budget_s, around.budget_probe = _probe_budget(node)
    mounts = node.get("volumeMounts")
    for one in mounts.items if mounts is not None else []:
        if (path := one.get("mountPath")) is not None and path.kind == "scalar":
            around.mount(scalar(path, reading.source))
    own = [one.text for one in around.mounts or ()]
    if is_own(document) and around.shm_volume and "/dev/shm" not in own and mounts is not None:
        around.shm_volume, around.shm_bytes = None, None  # a volume that is mounted elsewhere
    if not is_own(document) or any(
        node.get(key) is not None for key in ("extraVolumeMounts", "<<")
    ):
        around.mounts = None  # an operator or a chart adds its own
    version = document.get("apiVersion")
    kserve = version is not None and version.text.startswith("serving.kserve.io/")
    _add_probes(around, node, reading, kserve)
    kind = document.get("kind")
    around.rollout_surge = (
        _surge(document) if kind is not None and kind.text == "Deployment" else None
    )
    around.rollout_default = document.path("spec.strategy") is None
    beside = document.path("spec.template.spec.containers") or document.path("spec.containers")
    if beside is None or len(beside.items) != 1:
        return  # a Service may send to another container
    labels = document.path("spec.template.metadata.labels") or document.path("metadata.labels")
    around.labels = {key.text: value.text for key, value in labels.entries()} if labels else {}


def _probe_budget(node: Node) -> tuple[float | None, str]:
    """Seconds until a startup (else liveness) probe kills the server, and which it is."""
    probes = node.get("probes", "probeOverrides")
    startup = node.get("startupProbe") or (probes.get("startup") if probes is not None else None)
    liveness = node.get("livenessProbe") or (probes.get("liveness") if probes is not None else None)
    for name, probe in (("startup", startup), ("liveness", liveness)):
        if probe is None or probe.kind != "map":
            continue
        enabled = probe.get("enabled")
        if enabled is not None and enabled.truth is False:
            continue
        spec = probe.get("spec") or probe
        if not any(
            spec.get(key) for key in ("httpGet", "tcpSocket", "exec", "grpc", "failureThreshold")
        ):
            continue
        delay, period, failures = (
            _number(spec, *of)
            for of in (("initialDelaySeconds", 0), ("periodSeconds", 10), ("failureThreshold", 3))
        )
        return delay + period * failures, name
    return None, ""


def _add_probes(around: Surroundings, node: Node, reading: Reading, kserve: bool) -> None:
    """The ports that the probes ask, by number or by the name that the container gives them."""
    named, ports = {}, node.get("ports")
    numbers = [
        one.text
        for port in (ports.items if ports is not None else [])
        if (one := port.get("containerPort")) is not None
    ]
    for one in ports.items if ports is not None else []:
        name, number = one.get("name"), one.get("containerPort")
        if name is not None and number is not None:
            named[name.text] = number
            around.port_names[name.text] = scalar(number, reading.source)
    if kserve and len(numbers) == 1 and ports is not None and re.fullmatch(r"\d{1,5}", numbers[0]):
        asked = ports.items[0].get("containerPort")
        if asked is not None:  # where KServe sends requests
            around.ports.append((scalar(asked, reading.source), "Service"))
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = node.path(f"{probe}.httpGet.port") or node.path(f"{probe}.tcpSocket.port")
        asked = named.get(asked.text, asked) if asked is not None else None
        if asked is not None and re.fullmatch(r"\d{1,5}", asked.text):
            around.ports.append((scalar(asked, reading.source), probe))


def attach_services(documents: list[Node], reading: Reading) -> None:
    """To each pod that a Service of the file selects, the port to which the Service sends."""
    for document in documents:
        kind, selector = document.get("kind"), document.path("spec.selector")
        ports = document.path("spec.ports")
        if kind is None or kind.text != "Service" or selector is None or ports is None:
            continue
        labels = {key.text: value.text for key, value in selector.entries()}
        for command in reading.found:
            around = command.around
            if around is None or not labels.items() <= around.labels.items():
                continue
            for port in ports.items:
                target = port.get("targetPort") or port.get("port")
                if target is not None and target.kind == "scalar":
                    number = around.port_names.get(target.text) or scalar(target, reading.source)
                    if re.fullmatch(r"\d{1,5}", number.text):
                        around.ports.append((number, "Service"))


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
