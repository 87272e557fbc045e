"""Dockerfiles: FROM, ENV, ENTRYPOINT and CMD of the last stage."""

from __future__ import annotations

import json
import re

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import ContainerRun, add_env, container_command
from advisor.readers.engine_command import Env, EnvItem, Surroundings
from advisor.readers.images import engine_of_image, is_official
from advisor.readers.programs import ENGINE_TEXT, engine_start
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, join, literal, synthetic
from advisor.readers.syntax.scope import Scope, interpolate
from advisor.readers.syntax.words import split_words

_LINE = lazy_re(r"^[ \t]*(FROM|ENV|ARG|ENTRYPOINT|CMD|EXPOSE|HEALTHCHECK)[ \t]+(.*)$", re.I | re.S)
_INSTRUCTIONS = (
    *("FROM", "ENV", "ARG", "ENTRYPOINT", "CMD", "RUN", "COPY", "ADD", "WORKDIR", "EXPOSE"),
    *("LABEL", "USER", "VOLUME", "SHELL", "HEALTHCHECK", "STOPSIGNAL", "ONBUILD", "MAINTAINER"),
)


_HERE = lazy_re(
    r"^[ \t]*(?:RUN|COPY)[ \t][^\n]{0,500}?<<-?[\"']?(?P<tag>[A-Za-z_]\w{0,60})[\"']?[^\n]{0,500}\n"
    r"(?P<body>(?:(?!(?P=tag)[ \t]*$)[^\n]*\n){1,2000})",
    re.M,
)
_TOKEN = lazy_re(r"(?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,}")
_SINGLE = lazy_re(r"\[\s*'[^'\"]*'(?:\s*,\s*'[^'\"]*')*\s*\]")


def read_dockerfile(reading: Reading) -> None:
    """What the image starts."""
    reading.form = "dockerfile"
    ran = ContainerRun(Surroundings(kind="dockerfile"))
    at = -1
    for line in _lines(reading.source.text):
        found = _LINE.match(line.text) or _meant_instruction(line, reading)
        if not found or not reading.step():
            continue
        word, value = found.group(1).upper(), line.part(found.start(2), found.end(2))
        scope = Scope(
            {name: item.value for name, item in ran.env.items() if item.value is not None}
        )
        if word == "FROM":
            image = split_words(interpolate(value, scope), dollars=False)
            image = [part for part in image if not part.text.startswith("--")]
            ran = ContainerRun(
                Surroundings(kind="dockerfile", image=image[0] if image else None), env=ran.env
            )
        elif word in ("ENV", "ARG", "EXPOSE", "HEALTHCHECK"):
            _about(word, ran, value, scope, reading)
        else:
            words = _command(value, word, reading)
            at = value.first()
            if word == "CMD":
                ran.args = words
            else:
                ran.entrypoint = words
    _check_shell(ran, reading)
    if ran.entrypoint == []:  # `ENTRYPOINT []` takes the image's own away: CMD is the program
        ran.entrypoint, ran.args = ran.args, []
    if ran.args or ran.entrypoint:
        container_command(ran, reading, at)
    if not reading.found:  # the script that it starts may be written here
        for found in _HERE.finditer(reading.source.text):
            reading.inside(literal(found.group("body"), found.start("body")), 1)


def _about(word: str, ran: ContainerRun, value: Mapped, scope: Scope, reading: Reading) -> None:
    """Environment, ports and health of the image."""
    if word == "EXPOSE":
        for port in split_words(value, dollars=False):
            if ":" in port.text and (place := port.span()) is not None:
                said = "EXPOSE takes the container's port alone, without one of the host"
                reading.slip(said, *place, port.text.rpartition(":")[2])
            ran.around.publish(port)
    elif word == "HEALTHCHECK":
        ran.around.ask(value, "healthcheck")
    else:
        _check_blanks(value, reading)
        if token := _TOKEN.search(value.text):
            said = "a token in ENV or ARG stays in the image: whoever has the image has it"
            what = "RUN --mount=type=secret for the step that needs it"
            reading.slip(said, value.part(*token.span()).first(), text=what, stops=False)
        _env(ran.env, interpolate(value, scope))


def _check_shell(ran: ContainerRun, reading: Reading) -> None:
    """An entrypoint that a shell runs takes nothing from CMD."""
    given = ran.entrypoint or []
    if ran.entrypoint is None:
        _check_command(ran, reading)
    if not ran.args or not given or given[0].text != "sh" or given[0].span() is not None:
        return
    value = given[-1]
    if not ENGINE_TEXT.search(value.text):
        return
    place = value.part(0, len(value.text.rstrip())).span()
    said = "ENTRYPOINT without brackets runs in a shell, which passes CMD over"
    meant = json.dumps(value.text.split())
    reading.slip(said, value.first(), place[1] if place else None, meant)
    ran.entrypoint = split_words(value, dollars=False)


def _check_command(ran: ContainerRun, reading: Reading) -> None:
    """A CMD without brackets is `/bin/sh -c ...`, which an image with a program of its own takes
    for arguments.
    """
    image, args = ran.around.image_text(), ran.args
    if len(args) != 3 or args[0].text != "sh" or args[0].span() is not None:
        return
    if not is_official(image) or engine_of_image(image) not in ("vllm", "llama-server"):
        return
    value = args[2]
    text = value.text.strip()
    if text.startswith("[") or "$" in text or "&&" in text or "|" in text:
        said = "the list of CMD is no JSON: Docker takes it for shell text"
        if text.startswith("["):
            reading.slip(said, value.first(), text="valid JSON: quotes inside an item with \\")
            ran.args = []
        return
    words = split_words(value.part(0, len(value.text.rstrip())), dollars=False)
    start = engine_start(words, 0) if words else None
    words = words[start[1] :] if start is not None else words
    if start is None and not text.startswith("-"):
        return
    place = value.part(0, len(value.text.rstrip())).span()
    said = "CMD without brackets is given to the image's own program as /bin/sh -c ..."
    meant = json.dumps([word.text for word in words])
    reading.slip(said, value.first(), place[1] if place else None, meant)
    ran.args = words


def _env(env: Env, value: Mapped) -> None:
    words = split_words(value, dollars=False)
    if len(words) >= 2 and "=" not in words[0].text:
        start = value.text.find(words[1].text)
        env[words[0].text] = EnvItem(value.part(start, len(value.text.rstrip())), words[0].first())
        return
    for word in words:
        add_env(env, word)


def _command(value: Mapped, word: str, reading: Reading) -> list[Mapped]:
    """JSON form: the words; text form: what `/bin/sh -c` gets."""
    if value.text.lstrip().startswith("["):
        if _SINGLE.fullmatch(value.text.strip()):
            value = _double_quotes(value, word, reading)
        try:
            items = json.loads(value.text)
        except (ValueError, RecursionError):
            items = None
        if not (isinstance(items, list) and all(isinstance(item, str) for item in items)):
            items, value = _mend(value, word, reading)
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            located = _locate(items, value)
            first = located[0].text if located else ""
            if " " in first and ENGINE_TEXT.search(first):
                said = f"{word} looks for a program called '{first}': each word is an item"
                place = located[0].span()
                end = place[1] if place else None
                reading.slip(said, located[0].first(), end, '", "'.join(first.split()))
                located = [*split_words(located[0]), *located[1:]]
            return located
    return [synthetic("sh", value.first()), synthetic("-c", value.first()), value]


def _mend(value: Mapped, word: str, reading: Reading) -> tuple[list[str] | None, Mapped]:
    """A list that is no JSON, read as it was meant: Docker gives it to a shell as it stands."""
    text = value.text.rstrip()
    tries = (
        text.replace("'", '"'),
        re.sub(r",(\s*\])", r"\1", text),
        re.sub(r'"(\s+)"', r'",\1"', text),
        re.sub(r"([\[,]\s*)(-?\d[\w.]*|[A-Za-z][\w.-]*)(?=\s*[,\]])", r'\1"\2"', text),
        text.rstrip(",") + "]",
        re.sub(r'"(\{.*\})"(?=\s*[,\]])', lambda found: json.dumps(found[1]), text),
        text.replace("\u201c", '"').replace("\u201d", '"'),
    )
    for meant in tries:
        try:
            items = json.loads(meant)
        except (ValueError, RecursionError):
            continue
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            continue
        same = _common(text, meant)
        tail = _common(text[same:][::-1], meant[same:][::-1])
        at = value.pos[same] if same < len(text) else value.pos[len(text) - 1] + 1
        cut = value.part(same, len(text) - tail)
        place = cut.span() if len(cut) else (at, at)
        said = f"the list of {word} is no JSON: Docker takes it for shell text"
        reading.slip(said, at, place[1] if place else None, meant[same : len(meant) - tail])
        pos = [*value.pos[:same], *[-1] * (len(meant) - tail - same)]
        return items, Mapped(meant, [*pos, *value.pos[len(text) - tail : len(text)]])
    return None, value


def _common(one: str, other: str) -> int:
    """How many characters two texts have in common from the beginning."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _meant_instruction(line: Mapped, reading: Reading) -> re.Match[str] | None:
    """An instruction that Docker does not know, read as the one that was meant."""
    from difflib import get_close_matches  # start-up: only for a line that begins otherwise

    found = re.match(r"[ \t]*([A-Z]{2,12})[ \t]+\S", line.text)
    if found is None or found[1] in _INSTRUCTIONS:
        return None
    near = get_close_matches(found[1], _INSTRUCTIONS, 1, 0.7)
    if not near:
        return None
    at = line.part(*found.span(1))
    place = at.span()
    said = f"Docker knows no instruction {found[1]}: {near[0]} is meant"
    reading.slip(said, at.first(), place[1] if place else None, near[0])
    line.text = line.text[: found.start(1)] + near[0] + line.text[found.end(1) :]
    pad = [-1] * (len(near[0]))
    line.pos = [*line.pos[: found.start(1)], *pad, *line.pos[found.end(1) :]]
    return _LINE.match(line.text)


def _check_blanks(value: Mapped, reading: Reading) -> None:
    """`ENV NAME = value` sets NAME to `= value`."""
    found = re.match(r"\w+([ \t]+=[ \t]*)(?=\S)", value.text)
    if found is not None and (place := value.part(*found.span(1)).span()) is not None:
        said = "spaces before = make it a part of the value"
        reading.slip(said, *place, "=", stops=False)


def _double_quotes(value: Mapped, word: str, reading: Reading) -> Mapped:
    """A list in single quotes, which Docker gives to the shell as it stands; read as meant."""
    meant = Mapped(value.text.replace("'", '"'), value.pos)
    place = value.part(0, len(value.text.rstrip())).span()
    said = f"Docker takes the list of {word} for shell text: JSON has double quotes"
    reading.slip(said, value.first(), place[1] if place else None, meant.text.rstrip())
    return meant


def _locate(items: list[str], value: Mapped) -> list[Mapped]:
    words: list[Mapped] = []
    done = 0
    for item in items:
        found = value.text.find('"' + item + '"', done)
        words.append(
            value.part(found + 1, found + 1 + len(item))
            if found >= 0
            else synthetic(item, value.first())
        )
        done = found + len(item) + 2 if found >= 0 else done
    return words


def _lines(text: str) -> list[Mapped]:
    lines: list[Mapped] = []
    parts: list[Mapped] = []
    at = 0
    for raw in text.splitlines(keepends=True):
        body = raw.rstrip("\r\n")
        start, at = at, at + len(raw)
        if body.lstrip().startswith("#"):
            continue
        more = body.rstrip().endswith("\\")
        parts.append(literal(body.rstrip()[:-1] if more else body, start))
        if more:
            parts.append(synthetic(" "))
        else:
            lines.append(join(parts))
            parts = []
    return [*lines, join(parts)] if parts else lines
