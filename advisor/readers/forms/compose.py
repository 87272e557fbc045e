"""docker-compose files: services, interpolation, anchors, `extends`."""

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import ContainerRun, container_command
from advisor.readers.devices import ask_devices
from advisor.readers.docker_run import set_option
from advisor.readers.engine_command import Surroundings
from advisor.readers.form_types import Checker, nearest_key, text_items
from advisor.readers.forms.pods import environment
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, literal
from advisor.readers.syntax.scope import node_text
from advisor.readers.syntax.words import split_words
from advisor.readers.syntax.yamlnodes import NOTHING, Node

# what a key of a service stands for among the options of `docker run`
_OPTIONS = {
    "ipc": "--ipc", "shm_size": "--shm-size", "network_mode": "--network", "ports": "--publish",
    "volumes": "--volume", "tmpfs": "--tmpfs",
}  # fmt: skip

_VOLUME = lazy_re(r"([A-Za-z0-9][\w.-]*):/")


def read_compose(document: Node, reading: Reading) -> None:
    """Every service that starts an engine."""
    reading.form = "compose"
    services = document.get("services")
    volumes = {name.text for name, _ in document.get("volumes").entries()}
    for key, service in services.entries():
        if service.kind == "map" and reading.step():
            _read_service(key, service, services, reading)
            whole = service.get("image") and not document.get("include")
            for item in service.get("volumes").items if whole else ():
                named = _VOLUME.match(item.text) if item.kind == "scalar" else None
                if named is not None and named[1] not in volumes:
                    said = f"docker compose knows no volume '{named[1]}': no volumes: has it"
                    reading.slip(said, item.start, text=f"'{named[1]}: {{}}' under volumes:")
            for device in service.path("deploy.resources.reservations.devices").items:
                needed = device.kind == "map" and device.get("driver").text != "cdi"
                if needed and not device.get("capabilities"):
                    said = "a device needs capabilities for docker compose"
                    reading.slip(said, device.start, text="capabilities: [gpu]")
            _check_others(key, service, services if whole else NOTHING, reading)


def _check_others(key: Node, service: Node, services: Node, reading: Reading) -> None:
    """Services that the file lacks: another file may have them, but for a misspelt name."""
    names, after = [one.text for one, _ in services.entries()], service.get("depends_on")
    needed = (one for one, how in after.entries() if how.get("required").truth is not False)
    for one in (*after.items, *needed) if names else ():
        if one.text not in names:
            alike = (name for name in names if name in one.text and name != key.text)
            near, said = nearest_key(one.text, names) or next(alike, None), "no service of the file"
            end = one.end if near else None
            reading.slip(
                f"depends_on names {said}", one.start, end, near or "one of it", bool(near)
            )


def _field(service: Node, services: Node, name: str, depth: int = 0) -> Node:
    """A service's field; `extends` in the same file is followed."""
    extends = service.get("extends")
    if (found := service.get(name)) or not extends or extends.get("file") or depth > 9:
        return found
    base = extends.get("service") if extends.kind == "map" else extends
    return _field(services.get(base.text), services, name, depth + 1) if base else NOTHING


def _read_service(key: Node, service: Node, services: Node, reading: Reading) -> None:
    Checker("compose", reading).check(service, "service")

    def field(name: str) -> Node:
        return _field(service, services, name)

    image, build, env_file = field("image"), field("build"), field("env_file")
    around = Surroundings(kind="compose", name=key.text, env_elsewhere=bool(env_file))
    if image.kind == "scalar" and image.text:
        around.image = node_text(image)
    elif build:
        reading.note("the image is built from a Dockerfile that is not read", build.start)
        around.image = literal(key.text, key.start)
    if env_file:
        reading.note("env_file is not read", env_file.start)
    entrypoint, command = field("entrypoint"), field("command")
    env = environment(field("environment"), node_text)
    ran = ContainerRun(around, _words(entrypoint, reading), _words(command, reading) or [], env)
    if service.get("extends"):
        around.complete = False
    ask_devices(around, field)
    for name, option in _OPTIONS.items():
        for item in field(name).members:
            value = item.get("target") if item.kind == "map" else item
            if value.kind == "scalar":
                set_option(ran, option, node_text(value), reading)
    for one in field("healthcheck").get("test").members:
        if one.kind == "scalar":
            around.ask(node_text(one), "healthcheck")
    container_command(ran, reading, (command or entrypoint or key).start)


def _words(node: Node, reading: Reading) -> list[Mapped] | None:
    """A command as a list, or as text that the shell's rules split."""
    if node.kind == "seq":
        return [node_text(item) for item in text_items(node.items, "compose", reading)]
    if node.kind != "scalar" or node.is_null or not reading.repeat(len(node.text or "")):
        return None  # an alias repeats a text of any length in every service
    return split_words(node_text(node), dollars=False)
