"""systemd units (ExecStart, Environment) and Podman Quadlets ([Container] Image, Exec)."""

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.command import read_command
from advisor.readers.containers import ContainerRun, add_env, container_command
from advisor.readers.docker_run import read_option, set_option
from advisor.readers.engine_command import Env, Surroundings
from advisor.readers.form_types import misspelt_key, nearest_key, note_key
from advisor.readers.reading import Reading
from advisor.readers.syntax.cut_off import options_behind
from advisor.readers.syntax.mapped import (
    Mapped,
    hole,
    joined_lines,
    literal,
    placeholders_to_holes,
    replace_matches,
    synthetic,
)
from advisor.readers.syntax.scope import Scope
from advisor.readers.syntax.words import split_words

_SECTIONS = {"service": "Service", "container": "Container", "unit": "Unit", "install": "Install"}
_SECTION = lazy_re(r"^[ \t]*\[([^\]\n]+)\][ \t]*\r?$")
_KEY = lazy_re(r"^[ \t]*([A-Za-z][A-Za-z0-9]*)[ \t]*=[ \t]*")
_RESTARTS = ("no", "on-success", "on-failure", "on-abnormal", "on-watchdog", "on-abort", "always")
# what a key of a Quadlet stands for among the options of `podman run`
_OPTIONS = {
    "AddDevice": "--device", "ContainerName": "--name", "HealthCmd": "--health-cmd",
    "Mount": "--mount", "Network": "--network", "PublishPort": "--publish",
    "ShmSize": "--shm-size", "Volume": "--volume",
}  # fmt: skip
_VARIABLE = lazy_re(r"\$\$|\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)|%%|%([A-Za-z])")


def read_unit(reading: Reading) -> None:
    """The commands that a unit starts."""
    entries = [_respell(*entry, reading) for entry in _entries(reading.source.text)]
    env: Env = {}
    for section, key, value in entries:
        if key == "Environment" and section in ("Service", "Container"):
            for word in split_words(_specifiers(value, {}), dollars=False):
                add_env(env, word)
        elif key in ("EnvironmentFile", "PassEnvironment"):
            reading.note(f"{key} {value.text} is not read", value.first())
    known = {name: item.value for name, item in env.items() if item.value is not None}
    if any(section == "Container" for section, _, _ in entries):
        _quadlet(entries, env, known, reading)
    else:
        reading.form = "systemd"
    for section, key, value in entries:
        if section == "Service" and key == "ExecStart" and value.text and reading.step():
            lead = re.match(r"[@\-:+!]*", value.text)
            line = placeholders_to_holes(value.part(lead.end() if lead else 0, len(value)))
            before, around = len(reading.found), Surroundings(kind="systemd")
            scope, at = Scope({**known}), value.first()
            read_command(_words(line, known), reading, env, scope=scope, around=around, at=at)
            whole, end = literal(reading.source.text), max(value.pos) + 1
            for one in reading.found[before:]:
                one.said = one.said or options_behind(whole, end, reading)


def _respell(section: str, key: str, value: Mapped, reading: Reading) -> tuple[str, str, Mapped]:
    """A directive as it was meant, where its key is misspelt."""
    if meant := _SECTIONS.get(section.lower().rstrip("s")):
        if meant != section:
            at = reading.source.text.find(f"[{section}]") + 1
            said = f"systemd knows no section '{section}'; '{meant}' is meant"
            reading.slip(said, at, at + len(section), meant)
        section = meant
    if (section, key) == ("Service", "Restart") and value.text not in (*_RESTARTS, ""):
        near, at = nearest_key(value.text, _RESTARTS, "command") or "always", value.first()
        said = f"systemd passes over Restart={value.text}, which it has not"
        reading.slip(said, at, at + len(value), near, stops=False)
    form = {"Service": "systemd", "Container": "quadlet"}.get(section, "")
    right = misspelt_key(key, form) if form else None
    at = reading.source.text.rfind(key, 0, max(0, value.first()))
    if right and at >= 0:
        note_key(key, right, form, at, reading)
    return section, right or key, value


def _words(value: Mapped, known: dict[str, Mapped]) -> list[Mapped]:
    """systemd's splitting: quotes, `$X` as a word several words, `%i`, `$$`, `%%`."""
    words: list[Mapped] = []
    for word in split_words(value, dollars=False):
        alone = re.fullmatch(r"\$([A-Za-z_]\w*)", word.text)
        if alone and alone.group(1) in known:
            words += split_words(known[alone.group(1)], dollars=False)
        else:
            words.append(_specifiers(word, known))
    return words


def _specifiers(value: Mapped, known: dict[str, Mapped]) -> Mapped:
    def value_of(found: re.Match[str], at: int) -> Mapped | None:
        if found.group() in ("$$", "%%"):
            return synthetic(found.group()[0], at)
        if name := found[1] or found[2]:
            return known.get(name) or hole(name, at)
        return hole(f"%{found[3]}", at) if found[3] in "hHiInNpuUtTSCLEmbvog" else None

    return replace_matches(value, _VARIABLE, value_of)


def _entries(text: str) -> list[tuple[str, str, Mapped]]:
    """(section, key, value), continued lines joined by a space, comments dropped."""
    result: list[tuple[str, str, Mapped]] = []
    section = ""
    for line in joined_lines(text, ("#", ";"), False):
        if found := _SECTION.match(line.text):
            section = found[1]
        elif found := _KEY.match(line.text):
            result.append((section, found[1], line.part(found.end(), len(line))))
    return result


def _quadlet(
    entries: list[tuple[str, str, Mapped]], env: Env, known: dict[str, Mapped], reading: Reading
) -> None:
    reading.form = "quadlet"
    around = Surroundings(kind="quadlet")
    ran, at = ContainerRun(around, None, [], env), -1
    for section, key, value in entries:
        if section != "Container":
            continue
        if key == "Image":
            around.image = _specifiers(value, known)
            at = value.first() if at < 0 else at
        elif key == "Exec":
            ran.args, at = _words(value, known), value.first()
        elif key == "Entrypoint":
            ran.entrypoint = _words(value, known)
        elif key == "PodmanArgs":
            words = split_words(value, dollars=False)
            while words:
                words = words[read_option(ran, words, 0, reading) :]
        elif option := _OPTIONS.get(key):
            set_option(ran, option, _specifiers(value, known), reading)
    if around.image is not None or ran.args:
        container_command(ran, reading, at)
