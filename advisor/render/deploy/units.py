"""Advice -> a systemd unit, or a Podman Quadlet (podman-systemd.unit(5) of Podman 5.0 or later).

The unit runs the launch on the machine itself under a user that exists only while it runs; weights
and kernels stay in its cache folder; the program is found through PATH by env(1).
"""

from advisor.domain.nouns import Advice, AdvisorError
from advisor.engines.writer import write_file
from advisor.render import notes
from advisor.render.deploy import serving
from advisor.render.deploy.quoting import command, comment, escape, word
from advisor.render.deploy.serving import Server

QUADLET = "a Podman Quadlet"
_HERE = "HERE"  # stands for a path with a specifier while words are quoted


def quadlet(advice: Advice) -> str:
    """The `.container` file. Raises AdvisorError."""
    server = serving.server(advice, container=QUADLET)
    title = serving.title(advice, "recommend --format quadlet")
    lines = [
        *(comment(line) for line in title),
        "[Unit]",
        f"Description={escape(f'{server.plan.engine} server')}",
        "",
        "[Container]",
        f"ContainerName={server.name}",
        f"# {notes.IMAGE}",
        f"Image={word(server.image)}",
        *(comment(note) for note in server.note_lines()),
        *_command(server),
        *_devices(server),
        *_surroundings(server),
        "",
        "[Service]",
        f"EnvironmentFile=-%E/{server.name}/secrets.env",
        *(
            "ExecStartPre=/bin/sh -c "
            + word(write_file(_HERE, text)).replace(_HERE, _path(server, name))
            for name, text in server.files
        ),
        "Restart=on-failure",
        "RestartSec=10",
        "# the image is pulled before the start",
        f"TimeoutStartSec={server.startup_s}",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _path(server: Server, name: str) -> str:
    """Where such a file lies on the machine: the run-time folder of who starts it (%t)."""
    return f"%t/{server.name}-{name}"


def _command(server: Server) -> list[str]:
    if server.traits.image_starts:
        return [f"Exec={command(server.units)}"]
    program, *rest = server.program
    return [f"Entrypoint={program}", f"Exec={command((rest, *server.units))}"]


def _devices(server: Server) -> list[str]:
    if server.vendor == "nvidia":
        lines = ["# needs the CDI specification: nvidia-ctk cdi generate"]
        return lines + [f"AddDevice=nvidia.com/gpu={number}" for number in range(server.gpus)]
    if server.vendor == "amd":
        return ["AddDevice=/dev/kfd", "AddDevice=/dev/dri", "GroupAdd=keep-groups"]
    return ["AddDevice=/dev/dri", "GroupAdd=keep-groups"]


def _surroundings(server: Server) -> list[str]:
    key, own = serving.key_note(server.plan.engine, "anyone who reaches the port"), server.mount
    own_model = []
    if own is not None:  # Quadlet takes the value without quotes
        own_model = [f"Volume={escape(own.source)}:{own.target}:ro"]
        own_model.insert(0, "# where SELinux is enforced: :ro,z")
    return [
        f"# {notes.SHM}",
        f"ShmSize={server.shm.removesuffix('b')}",
        comment(f"{server.reach}; without the address it serves the network. {key}"),
        f"PublishPort={server.port_mapping}",
        *(f"Volume=%h/.cache/{name}:/root/.cache/{name}" for name in server.traits.caches),
        *own_model,
        *(f"Volume={_path(server, name)}:{serving.inside(name)}:ro" for name, _ in server.files),
        *(
            f"Environment={word(f'{name}={value}')}"
            for name, value in (server.env | server.visible()).items()
        ),
        f"# secrets, from ~/.config/{server.name}/secrets.env (chmod 600) where it sets them",
        "PodmanArgs=" + " ".join(f"--env={name}" for name in server.secrets),
        f"HealthCmd=curl -fsS {server.health_url}",
        "HealthInterval=15s",
        f"# {notes.STARTUP}",
        f"HealthStartPeriod={server.startup_s}s",
    ]


def systemd_unit(advice: Advice) -> str:
    """The unit file for the launch to run. Raises AdvisorError on Apple, which has no systemd."""
    server = serving.server(advice)
    if server.vendor == "apple":
        raise AdvisorError(
            "a systemd unit cannot be written for Apple hardware: macOS has no systemd; use "
            "--format flags"
        )
    title = serving.title(advice, "recommend --format systemd")
    linked = {name for name, _ in server.traits.linked} & {unit[0] for unit in server.units}
    link = server.traits.linked_env if linked else ()  # for the operator of several machines
    lines = [
        *(comment(line) for line in title),
        "[Unit]",
        f"Description={escape(f'{server.plan.engine} server')}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        *(comment(note) for note in server.note_lines()),
        "# a user of its own; it reads programs and models that every user may read",
        "DynamicUser=yes",
        *(["SupplementaryGroups=video render"] if server.vendor in ("amd", "intel") else []),
        "NoNewPrivileges=yes",
        f"CacheDirectory={server.name}",
        f"StateDirectory={server.name}",
        f"WorkingDirectory=%S/{server.name}",
        f"Environment=HOME=%S/{server.name}",
        f"Environment=XDG_CACHE_HOME=%C/{server.name}",
        f"Environment=HF_HOME=%C/{server.name}/huggingface",
        *_environment(server),
        *(f"Environment={name}" for name in link),
        *(f"ExecStartPre=/bin/sh -c {word(write_file(name, text))}" for name, text in server.files),
        f"ExecStart=/usr/bin/env {command((server.program, *server.units))}",
        "Restart=on-failure",
        "RestartSec=10",
        "LimitMEMLOCK=infinity",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _environment(server: Server) -> list[str]:
    """Variables of the launch, and the file that holds the secrets."""
    key = serving.key_note(server.plan.engine, "every user of this machine")
    return [
        f"# secrets ({', '.join(server.secrets)}) as NAME=value lines, in a file that only root "
        "reads (chmod 600)",
        f"EnvironmentFile=-/etc/{server.name}/secrets.env",
        comment(f"{server.reach}. {key}"),
        *(
            f"Environment={word(f'{name}={value}', dollars=False)}"
            for name, value in server.env.items()
        ),
        "# systemd looks in its own PATH: for a virtual environment add "
        "Environment=PATH=/where/it/is/bin:/usr/bin:/bin",
    ]
