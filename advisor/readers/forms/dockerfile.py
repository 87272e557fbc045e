"""Dockerfiles: FROM, ENV, ENTRYPOINT and CMD of the last stage."""

import json
import re

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import ContainerRun, add_env, container_command
from advisor.readers.engine_command import Env, EnvItem, Surroundings
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, joined_lines, literal, synthetic
from advisor.readers.syntax.scope import Scope, interpolate
from advisor.readers.syntax.words import split_words

_IN_JSON = lazy_re(r'"((?:[^"\\]|\\.)*)"')
_CHARACTER = lazy_re(r"\\u[0-9a-fA-F]{4}|\\?.", re.S)
_LINE = lazy_re(r"^[ \t]*(FROM|ENV|ARG|ENTRYPOINT|CMD|EXPOSE|HEALTHCHECK)[ \t]+(.*)$", re.I | re.S)

_HERE = lazy_re(
    r"^[ \t]*(?:RUN|COPY)[ \t][^\n]{0,500}?<<-?[\"']?(?P<tag>[A-Za-z_]\w{0,60})[\"']?[^\n]{0,500}\n"
    r"(?P<body>(?:(?!(?P=tag)[ \t]*$)[^\n]*\n){1,2000})",
    re.M,
)

_IN_QUOTES = lazy_re(r"(?<=[\"'])([^\"'\n]*)[\"'](?=[ \t]*[,\]])")


def read_dockerfile(reading: Reading) -> None:
    """What the image starts."""
    reading.form = "dockerfile"
    ran = ContainerRun(Surroundings(kind="dockerfile"))
    at, scope = -1, Scope(expand=reading.expand)
    for line in joined_lines(reading.source.text, ("#",), True):
        found = _LINE.match(line.text)
        if not found or not reading.step():
            continue
        word, value = found.group(1).upper(), line.part(found.start(2), found.end(2))
        if word == "FROM":
            image = split_words(interpolate(value, scope), dollars=False)
            image = [part for part in image if not part.text.startswith("--")]
            around = Surroundings(kind="dockerfile", image=image[0] if image else None)
            ran = ContainerRun(around, env=ran.env)
        elif word in ("EXPOSE", "HEALTHCHECK"):
            _add_ports(ran.around, word, value)
        elif word in ("ENV", "ARG"):
            _set_variables(ran.env, scope, interpolate(value, scope))
        else:
            words, at = _command(value, word, reading), value.first()
            if word == "CMD":
                ran.args = words
            else:
                ran.entrypoint = words
    if ran.entrypoint == []:  # `ENTRYPOINT []` takes the image's own away: CMD is the program
        ran.entrypoint, ran.args = ran.args, []
    if ran.args or ran.entrypoint:
        container_command(ran, reading, at)
    if not reading.found:  # the script that it starts may be written here
        for found in _HERE.finditer(reading.source.text):
            reading.inside(literal(found.group("body"), found.start("body")), 1)


def _add_ports(around: Surroundings, word: str, value: Mapped) -> None:
    if word == "HEALTHCHECK":
        around.ask(value, "healthcheck")
    for port in split_words(value, dollars=False) if word == "EXPOSE" else ():
        around.publish(port)


def _set_variables(env: Env, scope: Scope, value: Mapped) -> None:
    words = split_words(value, dollars=False)
    new: Env = {}
    if len(words) >= 2 and "=" not in words[0].text:
        start = value.text.find(words[1].text)
        new[words[0].text] = EnvItem(value.part(start, len(value.text.rstrip())), words[0].first())
    else:
        for word in words:
            add_env(new, word)
    env.update(new)
    for name in new:
        scope.values.pop(name, None)
    scope.values.update(Scope.inside(new).values)


def _command(value: Mapped, word: str, reading: Reading) -> list[Mapped]:
    """JSON form: the words; text form: what `/bin/sh -c` gets."""
    if value.text.lstrip().startswith("["):
        try:
            items = json.loads(value.text)
        except (ValueError, RecursionError):
            items = None
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return _locate(items, value)
        said = f"the list of {word} is no JSON: Docker takes it for shell text"
        place = value.part(0, len(value.text.rstrip())).span()
        single = place is not None and '"' not in value.text
        meant = value.text.rstrip().replace("'", '"') if single else "a list of texts in JSON"
        reading.slip(said, value.first(), place[1] if place and single else None, meant)
        return [value.part(*item.span(1)) for item in _IN_QUOTES.finditer(value.text)]
    if word == "CMD" and value.text.startswith("-") and (place := value.span()):
        said = "without brackets a shell gets the text of CMD, and the entrypoint gets sh -c"
        reading.slip(said, *place, json.dumps([one.text for one in split_words(value)]))
        return split_words(value)
    return [synthetic("sh", value.first()), synthetic("-c", value.first()), value]


def _locate(items: list[str], value: Mapped) -> list[Mapped]:
    """Where each text of the list stands; an escaped character is where its backslash is."""
    words = []
    for item, text in zip(items, _IN_JSON.finditer(value.text), strict=True):
        inside = value.part(*text.span(1))
        pos = [inside.pos[mark.start()] for mark in _CHARACTER.finditer(text[1])]
        if text[1] != item:  # with escapes
            inside = Mapped(item, pos) if len(pos) == len(item) else synthetic(item, value.first())
        words.append(inside)
    return words
