"""Advice -> docker: a complete docker-compose.yml for one machine, or one `docker run` command."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from advisor.advice.recommend import recommend
from advisor.domain.nouns import Advice, Request
from advisor.domain.shell import shell_word, shell_words
from advisor.engines.writer import write_file
from advisor.render import notes
from advisor.render.deploy import serving
from advisor.render.deploy.quoting import NotedValue, comment, document
from advisor.render.deploy.router import IMAGE
from advisor.render.deploy.serving import Server

FORM = "a compose file"
_COMMAND = "a docker command"
_HOME = '"$HOME/.cache/{0}:/root/.cache/{0}"'  # the one place where the shell expands a variable
_ADDRESS = "without the address it serves the network"
_KERNELS = "compile-cache"  # a volume of its own: compiled kernels depend on the image


def compose(request: Request | None = None, **fields: Any) -> str:
    """A docker-compose file for the launch that `recommend` answers with; the same arguments."""
    return compose_yaml(recommend(request, **fields))


def compose_yaml(advice: Advice) -> str:
    """The compose file. Raises AdvisorError without container, image, or on several machines."""
    server = serving.server(advice, container=FORM)
    title = serving.title(advice, "compose")
    title.append(serving.key_note(advice.plan.engine, "anyone who reaches the port"))
    return _document({server.name: _service(server)}, (server,), title)


def several_yaml(servers: Sequence[Server], title: list[str], router: str) -> str:
    """Several servers, and nginx with the configuration `router` in front of them."""
    services: dict[str, Any] = {server.name: _service(server) for server in servers}
    services["router"] = {
        "image": IMAGE,
        "network_mode": "host",  # where the servers' ports are open
        "configs": [{"source": "router", "target": "/etc/nginx/nginx.conf"}],
        "restart": "unless-stopped",
        "depends_on": {server.name: {"condition": "service_healthy"} for server in servers},
    }
    return _document(services, servers, title, {"router": router})


def _document(
    services: dict[str, Any],
    servers: Sequence[Server],
    title: list[str],
    more: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The file, with the texts that the servers' words name and `more` (Compose 2.23.1 on)."""
    data: dict[str, Any] = {"services": services}
    if any("vllm" in server.traits.caches for server in servers):
        data["volumes"] = {_KERNELS: {}}
    texts = {_config(server, name): text for server in servers for name, text in server.files}
    configs = {name: {"content": _escape(text)} for name, text in (texts | dict(more)).items()}
    return document(data | ({"configs": configs} if configs else {}), title)


def _config(server: Server, name: str) -> str:
    return f"{server.name}-{name.split('.', maxsplit=1)[0]}"


def _service(server: Server) -> dict[str, Any]:
    image = NotedValue(server.image, notes.IMAGE)
    return {"image": image, **_command(server), **_gpus(server), **_surroundings(server)}


def _command(server: Server) -> dict[str, Any]:
    words, start = server.noted_words(_escape), list(server.program)
    if server.traits.image_starts:
        return {"command": NotedValue(words, f"the image starts {server.plan.engine} itself")}
    if start[0].startswith("python"):
        return {"command": [*start, *words]}
    note = "written out: the image's own entrypoint differs between versions"
    return {"entrypoint": NotedValue(start, note), "command": words}


def _escape(text: str) -> str:
    return text.replace("$", "$$")


def _gpus(server: Server) -> dict[str, Any]:
    if server.vendor == "nvidia":
        which: dict[str, Any] = {"count": server.gpus}
        if server.devices:
            which = {"device_ids": [str(number) for number in server.devices]}
        device = {"driver": "nvidia", **which, "capabilities": ["gpu"]}
        return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}
    if server.vendor == "amd":
        return {
            "devices": ["/dev/kfd:/dev/kfd", "/dev/dri:/dev/dri"],
            "group_add": ["video"],
            "security_opt": ["seccomp:unconfined"],
        }
    return {"devices": ["/dev/dri:/dev/dri"]}


def _surroundings(server: Server) -> dict[str, Any]:
    env: dict[str, Any] = {name: _escape(value) for name, value in server.env.items()}
    env |= server.visible()
    configs = [
        {"source": _config(server, name), "target": serving.inside(name)}
        for name, _ in server.files
    ]
    for name in server.secrets:
        env[name] = NotedValue(None, "taken from your shell or .env if it is set there")
    return {
        "shm_size": NotedValue(server.shm, notes.SHM),
        "ports": NotedValue([server.port_mapping], f"{server.reach}; {_ADDRESS}"),
        "volumes": _volumes(server),
        **({"configs": configs} if configs else {}),
        "environment": env,
        "healthcheck": {
            "test": ["CMD", "curl", "-fsS", server.health_url],
            "interval": "15s",
            "timeout": "10s",
            "retries": 4,
            "start_period": NotedValue(f"{server.startup_s}s", notes.STARTUP.partition(": ")[2]),
        },
        "restart": "unless-stopped",
        "logging": {"driver": "local", "options": {"max-size": "50m", "max-file": "3"}},
    }


def _volumes(server: Server) -> list[str]:
    own = server.mount
    return [
        *(
            f"{_KERNELS if name == 'vllm' else f'~/.cache/{name}'}:/root/.cache/{name}"
            for name in server.traits.caches
        ),
        *([_escape(f"{own.source}:{own.target}:ro")] if own is not None else []),
    ]


def docker_run(advice: Advice) -> str:
    """The command, ready to paste. Raises AdvisorError as compose_yaml does."""
    server = serving.server(advice, container=_COMMAND)
    title = serving.title(advice, "recommend --format docker-run")
    title.append(serving.key_note(server.plan.engine, "anyone who reaches the port"))
    title += server.note_lines()
    lines = [*_options(server), *_start(server)]
    lines += [shell_words(unit) for unit in server.units]
    head = "".join(f"{comment(line)}\n" for line in title)
    files = "".join(f"{write_file(name, text)}\n" for name, text in server.files)
    return head + files + "docker run " + " \\\n  ".join(lines) + "\n"


def _options(server: Server) -> list[str]:
    """What stands before the image, one option a line."""
    amd = "--device /dev/kfd --device /dev/dri --group-add video"
    devices = {
        "nvidia": [f"--gpus {server.gpus}"],
        "amd": [amd, "--security-opt seccomp=unconfined"],
    }
    lines = [
        f"--detach --name {server.name} --restart unless-stopped",
        "--log-driver local --log-opt max-size=50m --log-opt max-file=3",
        *devices.get(server.vendor, ["--device /dev/dri"]),
        f"--shm-size {server.shm.removesuffix('b')}",
        f"--publish {server.port_mapping}",
    ]
    lines += [f"--volume {_HOME.format(name)}" for name in server.traits.caches]
    if (own := server.mount) is not None:
        lines.append(f"--volume {shell_word(f'{own.source}:{own.target}:ro')}")
    lines += [f'--volume "$PWD/{name}:{serving.inside(name)}:ro"' for name, _ in server.files]
    lines += [f"--env {shell_word(f'{name}={value}')}" for name, value in server.env.items()]
    lines += [f"--env {name}" for name in server.secrets]  # from the shell, if set there
    lines.append(f"--health-cmd {shell_word(f'curl -fsS {server.health_url}')}")
    lines.append(f"--health-start-period {server.startup_s}s")
    return lines


def _start(server: Server) -> list[str]:
    """The image with the words that start the program in it."""
    if server.traits.image_starts:
        return [shell_word(server.image)]
    program, *rest = server.program
    return [f"--entrypoint {program}", " ".join(map(shell_word, (server.image, *rest)))]
