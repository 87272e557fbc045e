"""Advice -> a systemd unit that runs the launch on the machine itself (no container, so Apple has
none either way).

The server runs as a user of its own that exists only while it runs; weights and compiled kernels
stay in its cache folder. The program is found through PATH by env(1).
"""

from __future__ import annotations

from advisor.domain.nouns import Advice, AdvisorError
from advisor.engines.writer import write_file
from advisor.render.deploy import serving
from advisor.render.deploy.quoting import command, comment, escape, word
from advisor.render.deploy.serving import Server

_DEVICE_GROUPS = {"amd": "video render", "intel": "video render"}


def systemd_unit(advice: Advice) -> str:
    """The unit file for the launch to run. Raises AdvisorError on Apple, which has no systemd."""
    maker = advice.facts.hardware.vendor if advice.facts.hardware is not None else "unknown"
    if maker == "apple":
        raise AdvisorError(
            "a systemd unit cannot be written for Apple hardware: macOS has no systemd; use "
            "--format flags"
        )
    server = serving.server(advice)
    title = serving.title(advice, "recommend --format systemd")
    lines = [
        *(comment(line) for line in title),
        "[Unit]",
        f"Description={escape(f'{server.plan.engine} server')}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        *(comment(note) for note in server.note_lines()),
        *_user(server, maker),
        *_environment(server),
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


def _user(server: Server, maker: str) -> list[str]:
    """A user of its own, that gains no rights and writes only to its own folders."""
    groups = _DEVICE_GROUPS.get(maker)
    return [
        "# a user of its own; it reads programs and models that every user may read",
        "DynamicUser=yes",
        *([f"SupplementaryGroups={groups}"] if groups else []),
        "NoNewPrivileges=yes",
        f"CacheDirectory={server.name}",
        f"StateDirectory={server.name}",
        f"WorkingDirectory=%S/{server.name}",
        f"Environment=HOME=%S/{server.name}",
        f"Environment=XDG_CACHE_HOME=%C/{server.name}",
        f"Environment=HF_HOME=%C/{server.name}/huggingface",
    ]


def _environment(server: Server) -> list[str]:
    """Variables of the launch, and the file that holds the secrets."""
    key = serving.key_note(server.plan.engine, "every user of this machine")
    return [
        f"# secrets ({', '.join(server.secrets)}) as NAME=value lines, in a file that only root "
        "reads (chmod 600)",
        f"EnvironmentFile=-/etc/{server.name}/secrets.env",
        comment(f"it listens on this machine only. {key}"),
        *(
            f"Environment={word(f'{name}={value}', dollars=False)}"
            for name, value in server.env.items()
        ),
        "# systemd looks in its own PATH: for a virtual environment add "
        "Environment=PATH=/where/it/is/bin:/usr/bin:/bin",
    ]
