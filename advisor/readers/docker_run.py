"""`docker run` lines: the container that their options make."""

import re

from advisor.readers.containers import ContainerRun, add_env
from advisor.readers.engine_command import Surroundings, size_bytes
from advisor.readers.form_types import keys, misspelt_key, note_key
from advisor.readers.programs import base_name
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import HOLE, HOLE_OPEN, Mapped
from advisor.readers.syntax.scope import Scope

# Options of `docker run` that stand alone; every other one takes a value.
_SWITCH_NAMES = """
-d --detach -i --interactive -t --tty --rm --init --privileged -P --publish-all --read-only
--no-healthcheck --oom-kill-disable --sig-proxy --disable-content-trust -q --quiet --replace
--systemd --tls-verify --env-host --http-proxy --no-hosts --rmi --use-api-socket --no-hostname
--help
"""
_SWITCHES = frozenset(_SWITCH_NAMES.split())


def docker_run(
    words: list[Mapped], i: int, reading: Reading, scope: Scope | None
) -> ContainerRun | None:
    """Read `docker [container] run|create ...` at `i`; None if it is another docker command."""
    j = i + 1
    while j < len(words) and words[j].text.startswith("-"):  # docker's own options: -H, --context
        j += 1 if "=" in words[j].text else 2
    if j < len(words) and words[j].text == "container":
        j += 1
    if j >= len(words) or words[j].text not in ("run", "create"):
        return None
    ran = ContainerRun(Surroundings(kind=f"docker-{words[j].text}"), scope=scope)
    j, known = j + 1, keys("docker run")
    while j < len(words) and (words[j].text.startswith("-") or _is_open(words[j])):
        name = words[j].text.partition("=")[0]
        plain = base_name(words[i].text) == "docker" and re.fullmatch(r"--[\w-]+", name) is not None
        key, form = name[2:], "docker run" if plain else ""
        meant, (head, _, rest) = misspelt_key(key, form), key.partition("-")
        glued = plain and not meant and rest and head in known and key not in known  # --ipc-host
        if meant or glued:
            note_key(key, meant or f"{head}={rest}", form, words[j].first() + 2, reading)
        j += 1 if glued else read_option(ran, words, j, reading)
    if j >= len(words):
        return None
    ran.around.image, ran.args = words[j], words[j + 1 :]
    return ran


def _is_open(word: Mapped) -> bool:
    """An unset variable, or dots, among the options; an image is told by its name."""
    hole = word.text.startswith(HOLE_OPEN) or word.text in ("...", "\u2026")
    return hole and not re.search(r"image|img|container", word.text, re.I)


def read_option(ran: ContainerRun, words: list[Mapped], j: int, reading: Reading) -> int:
    """Take one option; how many words it was."""
    word = words[j]
    own = re.match(r"--[^=]*(?==)|-[evpuw](?=..)", word.text)  # --name=value, -eNAME=value
    if _is_open(word):
        ran.around.complete = False  # it may hold any option
        return 1
    if own:
        set_option(ran, own[0], word.part(own.end() + own[0].startswith("--"), len(word)), reading)
        return 1
    if word.text in _SWITCHES or re.fullmatch(r"-[ditPq]{2,}", word.text):
        return 1
    if j + 1 < len(words):
        set_option(ran, word.text, words[j + 1], reading)
    return 2


def set_option(ran: ContainerRun, name: str, value: Mapped, reading: Reading) -> None:
    """What an option with this value says of the container."""
    around = ran.around
    if name == "--gpus" or (name == "--device" and "gpu" in value.text):  # nvidia.com/gpu=0
        around.gpus = ",".join(filter(None, (around.gpus, value.text.strip("'\""))))
    elif name in ("-e", "--env"):
        add_env(ran.env, value, ran.scope)
    elif name == "--env-file":
        around.env_elsewhere = True
        reading.note(f"env_file {value.text} is not read", value.first())
    elif name == "--shm-size":
        around.shm_bytes = size_bytes(value.text)
    elif name == "--ipc":
        around.ipc_host = value.text == "host"
    elif name in ("-p", "--publish"):
        around.publish(value)
    elif name in ("--network", "--net"):
        around.host = value.text == "host"
    elif name == "--name":
        around.name = value.display()
    elif name == "--entrypoint":
        ran.entrypoint = [value] if value.text else []
    elif name in ("-v", "--volume", "--mount", "--tmpfs", "--volumes-from"):
        # a variable may hold any number of them
        plain = not value.has_hole or bool(HOLE.sub("", value.text).strip(":"))
        around.complete &= plain and name != "--volumes-from"
        around.shm_volume = True if "/dev/shm" in value.text else around.shm_volume
    elif name == "--health-cmd":
        around.ask(value, "healthcheck")
