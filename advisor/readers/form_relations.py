"""What the parts of one file say of each other: volumes that are mounted and not declared, labels
that select nothing, a health check that no shell runs. Each is kept for SD136.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.readers.devices import check_devices
from advisor.readers.syntax.placeholders import to_fill
from advisor.readers.syntax.yamlnodes import scalar

if TYPE_CHECKING:
    from advisor.readers.reading import Reading
    from advisor.readers.syntax.yamlnodes import Node

_NAMED = lazy_re(r"[A-Za-z0-9][\w.-]*")  # a volume's name, no path
_OBJECT_NAME = lazy_re(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")  # RFC 1123
_TEST = ("CMD", "CMD-SHELL", "NONE")
_CONDITIONS = ("service_started", "service_healthy", "service_completed_successfully")
# images of engines without a HEALTHCHECK; that of llama.cpp has one
_UNTESTED = lazy_re(r"^(?:docker\.io/)?(?:vllm/vllm-openai|lmsysorg/sglang)[-\w]*(?::|@|$)")
_HOST_PORT = lazy_re(r"(?:([\d.]+|\[[\da-fA-F:]+\]):)?(\d{1,5}):\d{1,5}(/udp)?(?:/tcp)?")


def _texts(node: Node | None) -> list[Node]:
    return [one for one in node.items if one.kind == "scalar"] if node is not None else []


def _open(node: Node) -> bool:
    return to_fill(node.text)


def near_name(word: str, known: list[str]) -> str | None:
    """The name that another is a slip of: the nearest, or the only one."""
    from difflib import get_close_matches  # start-up: only for a name that is not declared

    found = get_close_matches(word, known, 1, 0.6)
    return found[0] if found else (known[0] if len(known) == 1 else None)


# ---------------------------------------------------------------- compose


def check_services(document: Node, services: Node, reading: Reading) -> None:
    """Names that services use and the file does not declare, and what they say twice."""
    if document.get("include") is not None:
        return  # other files may declare them
    names = [key.text for key, _ in services.entries()]
    _twice(services, reading)
    for _, service in services.entries():
        if service.kind != "map" or service.get("extends") is not None:
            continue
        _check_names(service.get("volumes"), document.get("volumes"), "volume", reading)
        _check_names(service.get("networks"), document.get("networks"), "network", reading)
        for one in _dependencies(service.get("depends_on")):
            if one.text not in names and not _open(one):
                _note_absence(one, one.text, "service", names, reading)
        _await(service.get("depends_on"), services, reading)
        if service.get("network_mode") is not None and service.get("networks") is not None:
            said = "a service has network_mode or networks, not both"
            reading.slip(said, service.get("network_mode").start, text="one of the two")  # type: ignore[union-attr]
        _health(service.get("healthcheck"), reading)
        _devices(service.path("deploy.resources.reservations.devices"), reading)


def _twice(services: Node, reading: Reading) -> None:
    """A port of the host and a container's name belong to one service."""
    ports: dict[str, str] = {}
    names: dict[str, str] = {}
    for key, service in services.entries():
        if service.kind != "map" or service.get("profiles") is not None:
            continue  # of two profiles one may run
        mine: set[str] = set()
        own: list[str] = []
        listed = service.get("ports")
        for one in _texts(listed):
            found = _HOST_PORT.fullmatch(one.text)
            if found is None or found[0] in mine:
                continue
            mine.add(found[0])
            if any(one_port == found[2] for one_port in own):
                said = f"port {found[2]} of the host is given twice"
                reading.slip(said, one.start, text="another port of the host")
            own.append(found[2])
            place = f"{found[1] or ''}{found[2]}{found[3] or ''}"
            if place in ports:
                said = f"port {found[2]} of the host is {ports[place]}'s already"
                reading.slip(said, one.start, text=f"another port of the host for {key.text}")
            ports.setdefault(place, key.text)
        given = service.get("container_name")
        if given is not None and given.kind == "scalar" and not _open(given) and given.text:
            if given.text in names:
                said = f"two services are called {given.text}: docker takes a name once"
                reading.slip(said, given.start, text="another container_name")
            names.setdefault(given.text, key.text)


def _dependencies(node: Node | None) -> list[Node]:
    if node is None:
        return []
    return [key for key, _ in node.entries()] if node.kind == "map" else _texts(node)


def _check_names(used: Node | None, declared: Node | None, kind: str, reading: Reading) -> None:
    known = [key.text for key, _ in declared.entries()] if declared is not None else []
    items = [key for key, _ in used.entries()] if used is not None and used.kind == "map" else []
    for one in (*_texts(used), *items):
        name = one.text
        if kind == "volume":
            name, colon, _ = name.partition(":")
            if not colon:
                continue  # an anonymous volume
        if _open(one) or not _NAMED.fullmatch(name) or name in (*known, "default"):
            continue
        if len(name) == 1 and kind == "volume":
            continue  # a drive
        _note_absence(one, name, kind, known, reading)


def _note_absence(node: Node, name: str, kind: str, known: list[str], reading: Reading) -> None:
    """A file that declares none of its kind may be one of several that are given together."""
    near = near_name(name, known if kind != "service" else [*known, ""])
    said = f"docker compose finds no {kind} '{name}' in the file" + (
        f"; '{near}' is meant" if near else ""
    )
    start = node.start + (0 if node.style is None else 1)
    written = reading.source.text.startswith(name, start)
    if near and written:
        reading.slip(said, start, start + len(name), near, among=known)
    else:
        where = f"{name} under {kind}s"
        reading.slip(said, node.start, text=where, stops=bool(known))


def _await(needs: Node | None, services: Node, reading: Reading) -> None:
    """A service that is waited for until it is healthy needs a test of its health."""
    for key, value in needs.entries() if needs is not None else []:
        wanted, other = value.get("condition"), services.get(key.text)
        if wanted is None or wanted.kind != "scalar" or _open(wanted):
            continue
        if wanted.text not in _CONDITIONS:
            near = near_name(wanted.text, list(_CONDITIONS))
            said = f"depends_on knows no condition '{wanted.text}'"
            reading.slip(said, wanted.start, wanted.end if near else None, near or _CONDITIONS[0])
        elif wanted.text == "service_healthy" and other is not None and other.kind == "map":
            image = other.get("image")
            tests = other.get("healthcheck") is not None or other.get("extends", "build", "<<")
            if tests or image is None or not _UNTESTED.search(image.text):
                continue
            said = f"{key.text} is never healthy: neither the file nor its image tests that"
            reading.slip(
                said, wanted.start, text=f"a healthcheck for {key.text}, or service_started"
            )


def _health(check: Node | None, reading: Reading) -> None:
    """A test given as a list begins with how it is run."""
    test = check.get("test") if check is not None and check.kind == "map" else None
    if test is None or test.kind != "seq" or not test.items:
        return
    first = test.items[0]
    if first.kind != "scalar" or first.text in _TEST or _open(first):
        return
    folded = first.text.upper().replace("_", "-")
    meant = next((one for one in _TEST if one == folded), None)
    said = f"a test given as a list begins with CMD, CMD-SHELL or NONE, not '{first.text}'"
    quote = first.style or ""
    if meant:
        reading.slip(said, first.start, first.end, f"{quote}{meant}{quote}")
    else:
        shell = "CMD-SHELL" if " " in first.text else "CMD"
        quote = quote or '"'
        reading.slip(said, first.start, first.start, f"{quote}{shell}{quote}, ")


def _devices(devices: Node | None, reading: Reading) -> None:
    for one in devices.items if devices is not None else []:
        if one.kind != "map":
            continue
        if one.get("count") is not None and one.get("device_ids") is not None:
            said = "a reservation takes count or device_ids, not both"
            key, value = next(pair for pair in one.pairs if pair[0].text == "count")
            line = reading.source.text.rfind("\n", 0, key.start)
            alone = not reading.source.text[line + 1 : key.start].strip()
            end = value.end if alone and value.kind == "scalar" else None
            reading.slip(said, line if end else key.start, end, "" if end else "one of the two")
        wanted = _texts(one.get("capabilities"))
        for word in wanted if len(wanted) == 1 else ():
            if word.text in ("gpus", "GPU", "cuda", "nvidia-gpu"):
                said = f"no driver has the capability '{word.text}': gpu is meant"
                reading.slip(said, word.start, word.end, "gpu")
        if one.get("capabilities") is None and one.get("<<") is None:
            said = "a reservation of devices needs capabilities: [gpu]"
            first, last = one.pairs[0][0], one.pairs[-1][1]
            column = first.start - reading.source.text.rfind("\n", 0, first.start) - 1
            block = reading.source.text.find("\n", first.start, last.start) >= 0
            end = last.end if block and last.kind == "scalar" else None
            text = (
                f"\n{' ' * column}capabilities: [gpu]" if end else "capabilities: [gpu] beside it"
            )
            reading.slip(said, end or one.start, end, text)


# ---------------------------------------------------------------- Kubernetes


def check_workload(document: Node, reading: Reading) -> None:
    """A workload's labels, names and volumes."""
    _name(document.path("metadata.name"), reading)
    template = document.path("spec.template") or document.path("spec.jobTemplate.spec.template")
    pod = template.get("spec") if template is not None else document.get("spec")
    kind = document.get("kind")
    if pod is None or pod.kind != "map" or (template is None and kind and kind.text != "Pod"):
        return
    if template is not None:
        _check_selector(document, template, reading)
    claims = document.path("spec.volumeClaimTemplates")
    known = [
        name.text
        for held in (pod.get("volumes"), claims)
        for one in (held.items if held is not None else [])
        if (name := one.get("name") or one.path("metadata.name")) is not None
    ]
    for holder in ("containers", "initContainers"):
        containers = pod.get(holder)
        for container in containers.items if containers is not None else []:
            _name(container.get("name"), reading)
            _mounts(container, known, reading)
            check_devices(container.get("resources"), reading)


def _name(node: Node | None, reading: Reading) -> None:
    if node is None or node.kind != "scalar" or not node.text or to_fill(node.text, named=True):
        return
    if _OBJECT_NAME.fullmatch(node.text):
        return
    meant = re.sub(r"[^a-z0-9.-]", "-", node.text.lower()).strip("-.")
    said = f"Kubernetes takes no name '{node.text}': small letters, digits and dashes"
    start = node.start + (0 if node.style is None else 1)
    reading.slip(said, start, start + len(node.text), meant)


def _check_selector(document: Node, template: Node, reading: Reading) -> None:
    """The selector must find the pods of the template."""
    wanted, given = document.path("spec.selector.matchLabels"), template.path("metadata.labels")
    if wanted is None or given is None:
        return
    for key, value in wanted.entries():
        label = given.get(key.text)
        if label is not None and (
            label.text == value.text or _open(label) or _open(value) or _open(key)
        ):
            continue
        if label is None and (_open(key) or any(_open(one) for one, _ in given.entries())):
            continue
        said = f"the selector {key.text}: {value.text} finds no label of the pod template"
        if label is not None:
            same = document.path("metadata.labels")
            other = same.get(key.text) if same is not None else None
            wrong, right = (
                (label, value.text)
                if other is not None and other.text == value.text
                else (value, label.text)
            )
            reading.slip(said, wrong.start, wrong.end, right)
        else:
            reading.slip(said, key.start, text="a label that the template has")


def _mounts(container: Node, known: list[str], reading: Reading) -> None:
    mounts = container.get("volumeMounts")
    for mount in mounts.items if mounts is not None else []:
        name = mount.get("name")
        if name is None or _open(name) or name.text in known or any(to_fill(k) for k in known):
            continue
        near = near_name(name.text, known)
        said = f"the pod has no volume '{name.text}'" + (f"; '{near}' is meant" if near else "")
        if near:
            reading.slip(said, name.start, name.end, near, among=known)
        else:
            reading.slip(said, name.start, text=f"a volume {name.text} under volumes")


def _in_quotes(node: Node, text: str) -> str:
    return f"{node.style}{text}{node.style}" if node.style in ("'", '"') else text


def _check_selected(
    wanted: Node, labels: dict[str, str], pods: list[dict[str, str]], reading: Reading
) -> None:
    """A selector that is nearly the labels of a pod of the file, and finds none of its pods."""
    if not any(one.around is not None and one.around.labels for one in reading.found):
        return
    if not pods or not labels or any(labels.items() <= one.items() for one in pods):
        return
    for key, value in wanted.entries():
        given = [one[key.text] for one in pods if key.text in one]
        if _open(value) or not given or value.text in given:
            continue
        near = near_name(value.text, given)
        if near is None or to_fill(near):
            continue
        said = f"the Service selects {key.text}: {value.text}, and no pod of the file has it"
        reading.slip(said, value.start, value.end, _in_quotes(value, near))


def attach_services(documents: list[Node], pods: list[dict[str, str]], reading: Reading) -> None:
    """To each pod that a Service of the file selects, the port to which the Service sends; `pods`
    are the labels of all of them.
    """
    for document in documents:
        kind, name = document.get("kind"), document.path("metadata.name")
        wanted, ports = document.path("spec.selector"), document.path("spec.ports")
        if kind is None or kind.text != "Service" or name is None or wanted is None:
            continue
        labels = {key.text: value.text for key, value in wanted.entries()}
        _check_selected(wanted, labels, pods, reading)
        for found in reading.found:
            around = found.around
            if around is None or not labels.items() <= around.labels.items():
                continue
            apart = not around.service_links or "VLLM_PORT" in found.env
            if name.text == "vllm" and found.engine == "vllm" and not apart:
                said = (
                    "a Service called vllm gives its pods VLLM_PORT=tcp://..., which vLLM takes "
                    "for a port"
                )
                reading.slip(said, name.start, name.end, "vllm-server")
            for one in ports.items if ports is not None else []:
                target = one.get("targetPort") or one.get("port")
                if target is None or target.kind != "scalar":
                    continue
                number = around.port_names.get(target.text) or scalar(target, reading.source)
                if re.fullmatch(r"[a-z][a-z0-9-]*", number.text):
                    near = near_name(number.text, list(around.port_names))
                    said = f"the container has no port called '{number.text}'"
                    reading.slip(said, target.start, target.end if near else None, near or "one")
                if re.fullmatch(r"\d{1,5}", number.text):
                    around.ports.append((number, "Service", None))
