"""Advice -> a Podman Quadlet (NAME.container), for ~/.config/containers/systemd or
/etc/containers/systemd; Podman 5.0 or later, which knows Entrypoint.

Keys: podman-systemd.unit(5). Words reach systemd's ExecStart as they stand here, so `%` and `$` are
doubled in all of them.
"""

from __future__ import annotations

from dataclasses import replace

from advisor.domain.nouns import Advice
from advisor.engines.writer import write_file
from advisor.render import notes
from advisor.render.deploy import serving
from advisor.render.deploy.quoting import command, comment, escape, word
from advisor.render.deploy.serving import Server

FORM = "a Podman Quadlet"
_HERE = "HERE"  # stands for a path with a specifier while words are quoted


def quadlet(advice: Advice, suffix: str = "", devices: tuple[int, ...] = ()) -> str:
    """The `.container` file for the launch to run; `suffix` ends its name and `devices` are its
    GPUs, for several beside each other. Raises AdvisorError as compose_yaml does.
    """
    server = replace(serving.server(advice, container=FORM, suffix=suffix), devices=devices)
    maker = serving.vendor(advice, FORM)
    title = serving.title(advice, "recommend --format quadlet")
    lines = [
        *(comment(line) for line in title),
        "[Unit]",
        f"Description={escape(f'{server.plan.engine} server')}",
        "",
        "[Container]",
        f"ContainerName={server.name}",
        f"# {notes.IMAGE}",
        f"Image={word(serving.image(advice, FORM))}",
        *(comment(note) for note in server.note_lines()),
        *_command(server),
        *_devices(server, maker),
        *_surroundings(server),
        "",
        "[Service]",
        f"EnvironmentFile=-%E/{server.name}/secrets.env",
        *_files(server),
        "Restart=on-failure",
        "RestartSec=10",
        "# the image is pulled before the start",
        f"TimeoutStartSec={server.startup_s}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _files(server: Server) -> list[str]:
    """What writes the files that the words name, before each start."""
    return [
        "ExecStartPre=/bin/sh -c "
        + word(write_file(_HERE, text)).replace(_HERE, _path(server, name))
        for name, text in server.files
    ]


def _path(server: Server, name: str) -> str:
    """Where such a file lies on the machine: the run-time folder of who starts it (%t)."""
    return f"%t/{server.name}-{name}"


def _command(server: Server) -> list[str]:
    if server.traits.image_starts:
        return [f"Exec={command(server.units)}"]
    program, *rest = server.program
    return [f"Entrypoint={program}", f"Exec={command((rest, *server.units))}"]


def _devices(server: Server, maker: str) -> list[str]:
    if maker == "nvidia":
        lines = ["# needs the CDI specification: nvidia-ctk cdi generate"]
        which = server.devices or range(server.gpus)
        return lines + [f"AddDevice=nvidia.com/gpu={number}" for number in which]
    if maker == "amd":
        return ["AddDevice=/dev/kfd", "AddDevice=/dev/dri", "GroupAdd=keep-groups"]
    return ["AddDevice=/dev/dri", "GroupAdd=keep-groups"]


def _surroundings(server: Server) -> list[str]:
    url = f"http://127.0.0.1:{server.port}{server.traits.health}"
    key = serving.key_note(server.plan.engine, "anyone who reaches the port")
    return [
        f"# {notes.SHM}",
        f"ShmSize={'16g' if server.gpus > 1 else (server.traits.shm or '1gb').removesuffix('b')}",
        comment(f"this machine only; drop the address to serve the network. {key}"),
        f"PublishPort=127.0.0.1:{server.port}:{server.port}",
        *(f"Volume=%h/.cache/{name}:/root/.cache/{name}" for name in server.traits.caches),
        *(f"Volume={_path(server, name)}:{serving.inside(name)}:ro" for name, _ in server.files),
        *(
            f"Environment={word(f'{name}={value}')}"
            for name, value in (server.env | server.visible).items()
        ),
        f"# secrets, from ~/.config/{server.name}/secrets.env (chmod 600) where it sets them",
        "PodmanArgs=" + " ".join(f"--env={name}" for name in server.secrets),
        f"HealthCmd=curl -fsS {url}",
        "HealthInterval=15s",
        f"# {notes.STARTUP}",
        f"HealthStartPeriod={server.startup_s}s",
    ]
