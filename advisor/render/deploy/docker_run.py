"""Advice -> one `docker run` command for a POSIX shell.

What it does not know: whether the daemon runs without root, and where the cache of the weights is
kept other than in ~/.cache.
"""

from __future__ import annotations

import shlex

from advisor.domain.nouns import Advice
from advisor.engines.writer import write_file
from advisor.render.deploy import serving
from advisor.render.deploy.quoting import comment
from advisor.render.deploy.serving import Server

FORM = "a docker command"
_HOME = '"$HOME/.cache/{0}:/root/.cache/{0}"'  # the one place where the shell expands a variable


def docker_run(advice: Advice) -> str:
    """The command, ready to paste. Raises AdvisorError as compose_yaml does."""
    server = serving.server(advice, container=FORM)
    maker = serving.vendor(advice, FORM)
    image = serving.image(advice, FORM)
    title = serving.title(advice, "recommend --format docker-run")
    title.append(serving.key_note(server.plan.engine, "anyone who reaches the port"))
    title += server.note_lines()
    lines = [*_options(server, maker), *_start(server, image)]
    lines += [shlex.join(unit) for unit in server.units]
    head = "".join(f"{comment(line)}\n" for line in title)
    files = "".join(f"{write_file(name, text)}\n" for name, text in server.files)
    return head + files + "docker run " + " \\\n  ".join(lines) + "\n"


def _options(server: Server, maker: str) -> list[str]:
    """What stands before the image, one option a line."""
    lines = [f"--detach --name {server.name} --restart unless-stopped", *_gpus(server, maker)]
    lines.append(f"--shm-size {'16g' if server.gpus > 1 else _shm(server)}")
    lines.append(f"--publish 127.0.0.1:{server.port}:{server.port}")
    lines += [f"--volume {_HOME.format(name)}" for name in server.traits.caches]
    lines += [f'--volume "$PWD/{name}:{serving.inside(name)}:ro"' for name, _ in server.files]
    lines += [f"--env {shlex.quote(f'{name}={value}')}" for name, value in server.env.items()]
    lines += [f"--env {name}" for name in server.secrets]  # from the shell, if set there
    url = f"http://127.0.0.1:{server.port}{server.traits.health}"
    lines.append(f"--health-cmd {shlex.quote(f'curl -fsS {url}')}")
    lines.append(f"--health-start-period {server.startup_s}s")
    return lines


def _shm(server: Server) -> str:
    return (server.traits.shm or "1gb").removesuffix("b")


def _gpus(server: Server, maker: str) -> list[str]:
    if maker == "nvidia":
        return [f"--gpus {server.gpus}"]
    if maker == "amd":
        return [
            "--device /dev/kfd --device /dev/dri --group-add video",
            "--security-opt seccomp=unconfined",
        ]
    return ["--device /dev/dri"]


def _start(server: Server, image: str) -> list[str]:
    """The image with the words that start the program in it."""
    if server.traits.image_starts:
        return [shlex.quote(image)]
    program, *rest = server.program
    return [f"--entrypoint {program}", " ".join(map(shlex.quote, (image, *rest)))]
