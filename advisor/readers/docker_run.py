"""`docker run` lines: the container that their options make."""

from __future__ import annotations

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import ContainerRun, add_env
from advisor.readers.engine_command import Surroundings, size_bytes
from advisor.readers.programs import base_name
from advisor.readers.reading import Reading
from advisor.readers.slips import docker_option_slip, docker_value_slip, keys
from advisor.readers.syntax.mapped import HOLE_OPEN, Mapped
from advisor.readers.syntax.placeholders import to_fill
from advisor.readers.syntax.scope import Scope

# Options of `docker run` that stand alone; every other one takes a value.
_SWITCH_NAMES = """
-d --detach -i --interactive -t --tty --rm --init --privileged -P --publish-all --read-only
--no-healthcheck --oom-kill-disable --sig-proxy --disable-content-trust -q --quiet --replace
--systemd --tls-verify --env-host --http-proxy --no-hosts --rmi --use-api-socket --no-hostname
--help
"""
_SWITCHES = frozenset(_SWITCH_NAMES.split())


MAX_STRAYS = 3
# distribution/reference: a domain, then names in small letters, a tag, a digest
_NAME = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_DOMAIN = r"(?:localhost|[\w-]+(?:\.[\w-]+)+|[\w.-]+:\d+|\w*[A-Z][\w-]*)"
_IMAGE = lazy_re(rf"(?:{_DOMAIN}/)?{_NAME}(?:/{_NAME})*(?::\w[\w.-]*)?(?:@[\w+.-]+:[0-9a-f]+)?")
_CONTAINER = lazy_re(r"[a-zA-Z0-9][a-zA-Z0-9_.-]+")
_RANGE = r"(?:\d{1,5}(?:-\d{1,5})?)"
_PORTS = lazy_re(
    rf"(?:(?:\d{{1,3}}(?:\.\d{{1,3}}){{3}}|\[[0-9a-fA-F:.]+\]|localhost):)?(?:{_RANGE}?:)?"
    rf"{_RANGE}(?:/(?:tcp|udp|sctp))?"
)
_MODES = frozenset(
    ("ro", "rw", "z", "Z", "cached", "delegated", "consistent", "nocopy", "O", "U", "idmap")
    + ("rshared", "rslave", "rprivate", "shared", "slave", "private", "copy", "exec", "noexec")
    + ("dev", "nodev", "suid", "nosuid", "bind", "rbind", "upperdir", "workdir", "volume-nocopy")
)
_SHORT = lazy_re(r"-[ditPq]*(?:[acehlmpuvw].*)?")


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
    created = words[j].text == "create"  # and started by something else, at its time
    ran = ContainerRun(Surroundings(kind="docker-create" if created else "docker-run"), scope=scope)
    begin = words[j].span()
    ran.around.whole = True
    if begin is not None:
        podman = base_name(words[i]) == "podman"
        option = " --device nvidia.com/gpu=all" if podman else " --gpus all"
        ran.around.request = begin[1], option
    j += 1
    first = j
    strays = 0
    while j < len(words):
        if words[j].text.startswith("-") or _is_hole(words[j]):
            if base_name(words[i]) == "docker":
                docker_option_slip(words[j], reading)
                _short_slip(words[j], reading)
            limit = words[j].text == "--ulimit" and j + 2 < len(words)
            j += _option(ran, words, j, reading)
            if limit and "=" not in words[j - 1].text and re.fullmatch(r"-?\d+", words[j].text):
                j += _stray(words, j, reading)
        elif strays < MAX_STRAYS and (more := _stray(words, j, reading)):
            strays, j = strays + 1, j + more
        else:
            break
    if j >= len(words):
        return None
    _at_odds(words[first:j], reading)
    ran.around.image = words[j]
    ran.args = words[j + 1 :]
    return ran


def _is_hole(word: Mapped) -> bool:
    """An unset variable alone among the options, or the dots of options left out; an image in a
    variable is told by its name.
    """
    hole = word.text.startswith(HOLE_OPEN) or word.text in ("...", "\u2026")
    return hole and not re.search(r"image|img|container", word.text, re.I)


def _option(ran: ContainerRun, words: list[Mapped], j: int, reading: Reading) -> int:
    """Take one option; how many words it was."""
    word = words[j]
    name, equals, _ = word.text.partition("=")
    if name[1:] in keys("docker run") and not _SHORT.fullmatch(name):
        name = f"-{name}"  # one dash too few
    if _is_hole(word):
        ran.around.mounts, ran.around.whole = None, False  # it may hold any option
        return 1
    if name == "--privileged":
        ran.around.privileged = True
    if equals and name.startswith("--"):
        _set(ran, name, word.part(word.text.find("=") + 1, len(word)), reading)
        return 1
    if name in _SWITCHES or re.fullmatch(r"-[ditPq]{2,}", name):
        return 1
    if re.match(r"^-[evpuw]..", word.text):  # -eNAME=value
        _set(ran, word.text[:2], word.part(2, len(word)), reading)
        return 1
    if j + 1 < len(words):
        _set(ran, name, words[j + 1], reading)
    return 2


def _set(ran: ContainerRun, name: str, value: Mapped, reading: Reading) -> None:
    around = ran.around
    docker_value_slip(name, value, reading)
    _set_device(around, name, value)
    if name in ("-e", "--env"):
        add_env(ran.env, value, ran.scope)
    elif name == "--env-file":
        reading.note(f"env_file {value.text} is not read", value.first())
    elif name == "--shm-size":
        around.shm_bytes = size_bytes(value.text)
    elif name == "--ipc":
        around.ipc_host = value.text == "host"
    elif name in ("-p", "--publish"):
        port_slip(value, "docker run", reading)
        around.publish(value)
    elif name in ("--network", "--net"):
        around.host = value.text == "host"
    elif name == "--name":
        name_slip(value, reading)
        around.name = value.display()
    elif name == "--entrypoint":
        ran.entrypoint = [value] if value.text else []
    elif name in ("-v", "--volume", "--mount", "--tmpfs"):
        if name in ("-v", "--volume"):
            volume_slip(value, "docker run", reading)
        around.mount(value)
        around.shm_volume = True if "/dev/shm" in value.text else around.shm_volume
    elif name == "--health-cmd":
        around.ask(value, "healthcheck")
    elif name == "--volumes-from":
        around.mounts = None


def _set_device(around: Surroundings, name: str, value: Mapped) -> None:
    if name == "--gpus":
        around.gpus = value.text.strip("'\"")
        around.asked = [value]
    elif name in ("-u", "--user"):
        around.user = value.text
    elif name == "--device":
        around.paths.append(value.text)
    elif name == "--runtime":
        around.runtime = value.text


# ---------------------------------------------------------------- what docker refuses


def is_image(text: str) -> bool:
    """Whether a text is the name of an image; a marker in it may stand for any part."""
    if to_fill(text, named=True):
        return True
    return _IMAGE.fullmatch(text[:300]) is not None and not text.isdigit()


def _stray(words: list[Mapped], j: int, reading: Reading) -> int:
    """How many words stand at `j` where docker takes the first for the image, which it cannot be:
    a value that blanks cut off, a second path. 0 where it may be the image.
    """
    text, behind = words[j].text, words[j + 1 : j + 2]
    before = words[j - 1]
    if is_image(text) or not any(is_image(one.text) for one in words[j + 1 : j + 12]):
        return 0
    at, end = words[j].first(), before.span()
    said = f"docker run takes '{text[:60]}' for the image, which is no name of one"
    source = reading.source.text
    if text.startswith("=") or (text == "=" and behind):
        blanks = re.compile(r"[ \t]*=[ \t]*").match(source, end[1]) if end else None
        start, stop = blanks.span() if blanks else (at, -1)
        stop_at = stop if stop >= 0 else None
        reading.slip(f"{said}: spaces stand around the =", start, stop_at, "=")
        return 2 if text == "=" else 1
    option = words[j - 2].text if j > 1 else ""
    if option == "--ulimit" and end is not None and re.fullmatch(r"-?\d+(?::-?\d+)?", text):
        reading.slip(f"{said}: --ulimit takes NAME=NUMBER", end[1], at, "=")
        return 1
    port = option in ("-p", "--publish") and text.isdigit() and before.text.isdigit()
    path = option in ("-v", "--volume") and text.startswith(("/", "~"))
    if (port or path) and end is not None:
        reading.slip(f"{said}: a colon joins the two", end[1], at, ":")
    else:
        reading.slip(said, at, text="it after the option that it belongs to")
    return 1


def _short_slip(word: Mapped, reading: Reading) -> None:
    """One dash before a long option: docker reads each letter as an option of its own."""
    text = word.text.partition("=")[0]
    if text.startswith("--") or to_fill(text) or _SHORT.fullmatch(text):
        return
    if text[1:] not in keys("docker run"):
        return
    place = word.part(0, len(text)).span()
    said = f"docker run reads {text} letter by letter; -{text} is meant"
    reading.slip(said, word.first(), place[1] if place else None, f"-{text}")


def _at_odds(options: list[Mapped], reading: Reading) -> None:
    """Options that exclude each other, or that what runs the command cannot give."""
    given = {one.text.partition("=")[0]: one for one in options}
    at = next((n for n, one in enumerate(options) if one.text.startswith("--restart")), None)
    if at is not None and "--rm" in given:
        kept = options[at].text.partition("=")[2] or "".join(
            o.text for o in options[at + 1 : at + 2]
        )
        if kept != "no" and not to_fill(kept):
            said = f"docker run refuses --rm beside --restart {kept}"
            _drop(given["--rm"], said, reading)
    if reading.form == "systemd":
        both = next(
            (one for one in options if re.fullmatch(r"-[a-z]*(?:it|ti)[a-z]*", one.text)), None
        )
        if both is None and ("-i" in given and "-t" in given):
            both = given["-t"]
        if both is not None:
            _drop(both, f"{both.text} asks for a terminal, which a unit does not have", reading)


def _drop(word: Mapped, said: str, reading: Reading) -> None:
    """A word that goes."""
    place = word.span()
    reading.slip(said, word.first(), place[1] if place else None)


def port_slip(said: Mapped, tool: str, reading: Reading) -> None:
    """Ports that docker does not read: a number above 65535, a third one, letters."""
    text = said.text
    if to_fill(text, named=True) or not text:
        return
    numbers = [int(one) for one in re.findall(r"(?<![\d.])\d{1,9}(?![\d.]*\.)", text)]
    if _PORTS.fullmatch(text) and all(one <= 65535 for one in numbers[-2:]):
        return
    parts = text.split(":")
    meant = ":".join(parts[:2]) if len(parts) == 3 and parts[1] == parts[2] else None
    place = said.span()
    end = place[1] if place and meant else None
    reading.slip(
        f"{tool} does not read the ports '{text[:40]}'",
        said.first(),
        end,
        meant or "HOST:CONTAINER",
    )


def volume_slip(said: Mapped, tool: str, reading: Reading) -> None:
    """A mount `SOURCE:TARGET:MODE` that docker refuses."""
    text = said.text
    if to_fill(text, named=True) or ":" not in text or "\\" in text:
        return
    source, target, *modes = text.split(":")
    if len(source) == 1:
        return  # a drive
    at = said.first()
    place = said.span()
    if not target.startswith("/"):
        absolute = "an absolute path of the container after the colon"
        reading.slip(f"{tool} takes {absolute}, not '{target[:40]}'", at, text=absolute)
    elif modes and (bad := next((m for m in modes[0].split(",") if m not in _MODES), None)):
        meant = {"readonly": "ro", "read-only": "ro", "readwrite": "rw", "r": "ro", "w": "rw"}
        start = place[0] + len(source) + len(target) + 2 if place else None
        right = meant.get(bad.lower())
        end = start + len(bad) if start is not None and right and modes[0] == bad else None
        reading.slip(
            f"{tool} knows no mode '{bad}' of a mount",
            at if start is None or end is None else start,
            end,
            right or "ro or rw",
        )
    elif "/" in source and not source.startswith(("/", ".", "~")):
        said_of = f"{tool} takes '{source[:40]}' for the name of a volume: a path begins with ./"
        reading.slip(said_of, at, at if place else None, "./")


def name_slip(said: Mapped, reading: Reading) -> None:
    """A container's name that docker refuses."""
    if said.text and not to_fill(said.text) and not _CONTAINER.fullmatch(said.text):
        meant = re.sub(r"[^a-zA-Z0-9_.-]+", "-", said.text).strip("-_.")
        place = said.span()
        what = "two at least of letters, digits, dashes, dots and underscores"
        told = f"docker takes no container name '{said.text[:40]}': {what}"
        end = place[1] if place and len(meant) > 1 else None
        reading.slip(told, said.first(), end, meant if len(meant) > 1 else "a longer name")
