"""docker-compose files: services, interpolation, anchors, `extends`."""

from __future__ import annotations

from advisor.readers.containers import ContainerRun, add_env, container_command
from advisor.readers.devices import ASKS, ask_devices
from advisor.readers.docker_run import set_option
from advisor.readers.engine_command import Env, EnvItem, Surroundings
from advisor.readers.form_types import Checker, text_items
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import EMPTY, Mapped, literal
from advisor.readers.syntax.scope import Scope, interpolate
from advisor.readers.syntax.words import split_words
from advisor.readers.syntax.yamlnodes import Node, scalar


def read_compose(document: Node, reading: Reading) -> None:
    """Every service that starts an engine."""
    reading.form = "compose"
    services = document.get("services")
    if services is None:
        return
    for key, service in services.entries():
        if service.kind == "map" and reading.step():
            _read_service(key, service, services, reading)


def _field(service: Node, services: Node, name: str) -> Node | None:
    """A service's field; `extends` in the same file is followed."""
    seen = 0
    node: Node | None = service
    while node is not None and seen < 10:
        found = node.get(name)
        if found is not None:
            return found
        extends = node.get("extends")
        if extends is None:
            return None
        base = extends.get("service") if extends.kind == "map" else extends
        if base is None or (extends.kind == "map" and extends.get("file") is not None):
            return None
        node, seen = services.get(base.text), seen + 1
    return None


def _read_service(key: Node, service: Node, services: Node, reading: Reading) -> None:
    scope = Scope()
    Checker("compose", reading).check(service, "service")

    def text(node: Node) -> Mapped:
        return interpolate(scalar(node, reading.source), scope)

    around = Surroundings(kind="compose", name=key.text)
    image = _field(service, services, "image")
    if image is not None and image.kind == "scalar" and image.text:
        around.image = text(image)
    elif (build := _field(service, services, "build")) is not None:
        reading.note("the image is built from a Dockerfile that is not read", build.start)
        around.image = literal(key.text, key.start)
    env = _environment(_field(service, services, "environment"), reading, scope)
    if (env_file := _field(service, services, "env_file")) is not None:
        reading.note("env_file is not read", env_file.start)
    entrypoint = _words(_field(service, services, "entrypoint"), reading, scope)
    args = _words(_field(service, services, "command"), reading, scope) or []
    command = _field(service, services, "command") or _field(service, services, "entrypoint")
    ran = ContainerRun(around, entrypoint, args, env)
    _surroundings(ran, service, services, reading, scope)
    container_command(ran, reading, command.start if command is not None else key.start)


def _words(node: Node | None, reading: Reading, scope: Scope) -> list[Mapped] | None:
    """A command as a list, or as text that the shell's rules split."""
    if node is None or node.is_null:
        return None
    if node.kind == "seq":
        return [
            interpolate(scalar(item, reading.source), scope)
            for item in text_items(node.items, "compose", reading)
        ]
    if node.kind == "scalar":
        return split_words(interpolate(scalar(node, reading.source), scope), dollars=False)
    return None


def _environment(node: Node | None, reading: Reading, scope: Scope) -> Env:
    env: Env = {}
    if node is None:
        return env
    if node.kind == "map":
        for key, value in node.entries():
            known = EMPTY if value.is_null else interpolate(scalar(value, reading.source), scope)
            env[key.text] = EnvItem(None if value.is_null else known, key.start)
    for item in node.items:
        if item.kind == "scalar":
            add_env(env, interpolate(scalar(item, reading.source), scope))
    return env


# what a key of a service stands for among the options of `docker run`
_OPTIONS = {
    "ipc": "--ipc", "shm_size": "--shm-size", "network_mode": "--network", "ports": "--publish",
    "volumes": "--volume", "tmpfs": "--tmpfs",
}  # fmt: skip


def _surroundings(
    ran: ContainerRun, service: Node, services: Node, reading: Reading, scope: Scope
) -> None:
    around = ran.around
    if service.get("extends") is not None:
        around.mounts, around.whole = None, False
    ask_devices(around, service, [_field(service, services, name) for name in ASKS], reading, scope)
    for key, option in _OPTIONS.items():
        node = _field(service, services, key)
        for item in (node.items or [node]) if node is not None else []:
            value = item.get("target") if item.kind == "map" else item
            if value is not None and value.kind == "scalar":
                set_option(ran, option, interpolate(scalar(value, reading.source), scope), reading)
    _health(around, _field(service, services, "healthcheck"), reading, scope)


def _health(around: Surroundings, check: Node | None, reading: Reading, scope: Scope) -> None:
    """The addresses that the test of a service's health calls."""
    test = check.get("test") if check is not None and check.kind == "map" else None
    for one in (test.items or [test]) if test is not None else []:
        if one.kind == "scalar":
            around.ask(interpolate(scalar(one, reading.source), scope), "healthcheck")
