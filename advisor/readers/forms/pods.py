"""What objects of Kubernetes, charts and tasks share: image, environment, arguments, the pod."""

import re
from collections.abc import Callable

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import add_env
from advisor.readers.devices import ask_resources
from advisor.readers.engine_command import Env, EnvItem, Surroundings, size_bytes
from advisor.readers.form_types import text_items
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import EMPTY, Mapped, hole, join, replace_matches, synthetic
from advisor.readers.syntax.words import split_words
from advisor.readers.syntax.yamlnodes import Node, walk

_NAME = lazy_re(r"(?<!\$)\$\(([A-Za-z_.-][\w.-]*)\)")  # of a variable
_PORT = lazy_re(r"\d{1,5}")
_NUMBER = lazy_re(r"\d{1,9}")


def repository(node: Node) -> list[Mapped]:
    """The option and the name of a model, without `hf://`; empty where none is named."""
    if node.kind != "scalar":
        return []
    name = node.text_map
    name = name.part(5, len(name)) if name.text.startswith("hf://") else name
    return [synthetic("--model", node.start), name]


def image_of(around: Surroundings, node: Node) -> None:
    """Set image and tag of the container from a mapping, where it names them."""
    image, tag = node.get("image", "imageName"), node.get("tag", "imageTag")
    if not image and node.get("repository") and node.get("tag"):
        image = node  # a chart that keeps the command beside the image's name
    if image.kind == "scalar":
        around.image = image.text_map
    elif image:
        name, registry, tag = (
            image.get("repository", "name"),
            image.get("registry"),
            image.get("tag"),
        )
        if name.kind == "scalar":
            around.image = name.text_map
            if registry.text:
                around.image = join((registry.text_map, synthetic("/"), around.image))
    if image and tag.kind == "scalar" and tag.text:
        around.tag = tag.text_map


def environment(node: Node, fill: Callable[[Node], Mapped] | None = None) -> Env:
    """`env` as a mapping, or a list; `fill` of compose, where a name alone is passed through."""
    env: Env = {}
    value_of: Callable[[Node], Mapped] = fill or (lambda item: item.text_map)
    for key, given in node.entries():
        if given.kind == "scalar":
            known = EMPTY if given.is_null else value_of(given)
            env[key.text] = EnvItem(None if fill and given.is_null else known, key.start)
    for item in node.items:
        name, value = item.get("name"), item.get("value")
        if item.kind == "scalar" and (fill or "=" in item.text):
            add_env(env, value_of(item))
        elif name.kind == "scalar":
            unknown = None if item.get("valueFrom") else EMPTY
            text = _expand(value.text_map, env) if value.kind == "scalar" else unknown
            env[name.text] = EnvItem(text, name.start)
    return env


def _expand(text: Mapped, env: Env) -> Mapped:
    """The text with `$(NAME)` of what is set before it, as Kubernetes has it."""

    def value_of(found: re.Match[str], at: int) -> Mapped:
        item = env.get(found[1])  # else set by what the file does not show
        return item.value if item is not None and item.value is not None else hole(found[1], at)

    return replace_matches(text, _NAME, value_of)


def words_of(node: Node, reading: Reading, env: Env | None = None) -> list[Mapped]:
    """A list of arguments, or a text that is split; `$(NAME)` is replaced from the environment."""
    if node.kind == "map":
        return mapping_words(node)
    if node.kind == "seq":
        words = [item.text_map for item in text_items(node.items, reading.form, reading)]
    else:
        words = [] if node.is_null or not node else split_words(node.text_map, dollars=False)
    return [_expand(word, env or {}) for word in words]


def mapping_words(node: Node, fields: bool = False) -> list[Mapped]:
    """Arguments as a mapping (some charts); `fields` of a class have underscores."""
    words: list[Mapped] = []
    for key, value in node.entries():
        if value.kind != "scalar" or value.truth is False:
            continue
        name = key.text_map
        name = Mapped(name.text.replace("_", "-"), name.pos) if fields else name
        words.append(name if name.text.startswith("-") else join((synthetic("--"), name)))
        if value.truth is None and not value.is_null:
            words.append(value.text_map)
    return words


def is_own(document: Node) -> bool:
    """Whether a document is an object of Kubernetes' own, and of no operator or chart."""
    return document.get("apiVersion").text in ("v1", "apps/v1", "batch/v1")


def pod_of(around: Surroundings, node: Node, document: Node, reading: Reading) -> None:
    """Shared memory, probes, GPUs and rollout of the workload around a container."""
    for mapping in walk(document, 5_000):
        if mapping.get("medium").text == "Memory":
            around.shm_volume = True
            _set_shm(around, mapping.get("sizeLimit"))
        if mapping.get("hostIPC").truth:
            around.ipc_host = True
    if node.get("ipc_mode").text == "host":  # of Ansible's docker_container, as is the next
        around.ipc_host = True
    _set_shm(around, node.get("shm_size"))
    ask_resources(around, node)
    around.startup_budget_s, around.budget_probe = _probe_budget(node)
    mounts = node.get("volumeMounts")
    own = [one.get("mountPath").text for one in mounts.items]
    if is_own(document) and around.shm_volume and "/dev/shm" not in own and mounts:
        around.shm_volume, around.shm_bytes = None, None  # a volume that is mounted elsewhere
    if not is_own(document) or node.get("extraVolumeMounts", "<<"):
        around.complete = False  # an operator or a chart adds its own
    _add_probes(around, node, document.get("apiVersion").text.startswith("serving.kserve.io/"))
    beside = document.path("spec.template.spec.containers") or document.path("spec.containers")
    if len(beside.items) == 1:  # else a Service may send to another container
        labels = document.path("spec.template.metadata.labels") or document.path("metadata.labels")
        around.labels = {key.text: value.text for key, value in labels.entries()}


def _set_shm(around: Surroundings, size: Node) -> None:
    if size.kind == "scalar":
        around.shm_bytes = size_bytes(size.text)


def _probe_budget(node: Node) -> tuple[float | None, str]:
    """Seconds until a startup (else liveness) probe kills the server, and which it is."""
    probes = node.get("probes", "probeOverrides")
    for name in ("startup", "liveness"):
        probe = node.get(f"{name}Probe") or probes.get(name)
        spec = probe.get("spec") or probe
        if probe.get("enabled").truth is not False and spec.get(
            "httpGet", "tcpSocket", "exec", "grpc", "failureThreshold"
        ):
            delay = _number(spec.get("initialDelaySeconds"), 0)
            failures = _number(spec.get("failureThreshold"), 3)
            return delay + _number(spec.get("periodSeconds"), 10) * failures, name
    return None, ""


def _add_probes(around: Surroundings, node: Node, kserve: bool) -> None:
    named: dict[str, Node] = {}
    numbers: list[Node] = []
    for port in node.get("ports").items:
        if number := port.get("containerPort"):
            numbers.append(number)
            if name := port.get("name"):
                named[name.text] = number
                around.port_names[name.text] = number.text_map
    if kserve and len(numbers) == 1:
        _add_port(around, numbers[0], "Service")  # where KServe sends requests
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = node.path(f"{probe}.httpGet.port") or node.path(f"{probe}.tcpSocket.port")
        _add_port(around, named.get(asked.text, asked), probe)


def _add_port(around: Surroundings, number: Node, probe: str) -> None:
    if _PORT.fullmatch(number.text):
        around.ports.append((number.text_map, probe))


def attach_services(documents: list[Node], reading: Reading) -> None:
    """To each pod that a Service of the file selects, the port to which the Service sends."""
    for document in documents:
        selector, ports = document.path("spec.selector"), document.path("spec.ports")
        if document.get("kind").text != "Service" or not selector:
            continue
        labels = {key.text: value.text for key, value in selector.entries()}
        for command in reading.found:
            around = command.around
            if around is None or not labels.items() <= around.labels.items():
                continue
            for port in ports.items:
                target = port.get("targetPort", "port")
                number = around.port_names.get(target.text) or target.text_map
                if target.kind == "scalar" and _PORT.fullmatch(number.text):
                    around.ports.append((number, "Service"))


def _number(node: Node, default: float) -> float:
    return float(node.text if _NUMBER.fullmatch(node.text) else "inf" if node.text else default)
