"""Mappings that are told by their keys, among them llama-swap's config.yaml with its macros."""

import re

from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import nearest_word
from advisor.readers.command import read_command
from advisor.readers.containers import add_env
from advisor.readers.engine_command import Env, Surroundings
from advisor.readers.forms.kubernetes import read_containers
from advisor.readers.forms.settings_yaml import (
    engine_of_settings,
    read_ray_serve,
    read_settings,
    read_workers,
)
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import EMPTY, Mapped, hole, replace_matches
from advisor.readers.syntax.words import split_words
from advisor.readers.syntax.yamlnodes import Node

_MACRO = lazy_re(r"\$\{([\w.-]+)\}")
_BARE = lazy_re(r"\$(PORT|MODEL_ID)\b")
_COMMENT_LINE = lazy_re(r"^[ \t]*#[^\n]*(?:\n|$)", re.M)
_GIVEN = frozenset(("PORT", "MODEL_ID", "PID"))


def read_llama_swap(models: Node, shared: Node, reading: Reading) -> None:
    """Every model's command."""
    reading.form = "llama-swap"
    aliases: dict[str, str] = {}
    for key, model in models.entries():
        for one in model.get("aliases").items:
            if aliases.setdefault(one.text, key.text) != key.text:
                said = f"two models have the alias '{one.text}': llama-swap refuses the file"
                reading.slip(said, one.start, text=f"another alias for {key.text}")
    for key, model in models.entries():
        command = model.get("cmd")
        if command.kind != "scalar" or not reading.step():
            continue
        macros = _macros(shared) | _macros(model.get("macros")) | {"MODEL_ID": key.text_map}
        code = replace_matches(command.text_map, _COMMENT_LINE, lambda *_: EMPTY)
        line = expand_macros(code, macros, 0, reading)
        if "sh -c" not in line.text:
            line = replace_matches(line, _BARE, lambda found, at: _bare(found[1], at, reading))
        words = split_words(line, dollars=False)
        env: Env = {}
        for item in model.get("env").items:
            if item.kind == "scalar":
                add_env(env, expand_macros(item.text_map, macros, 0))
        around = Surroundings(kind="llama-swap", name=key.text)
        before = len(reading.found)
        read_command(words, reading, env, around=around, at=command.start)
        for found in reading.found[before:]:
            if found.around is not None:
                found.around.name = key.text


def _macros(node: Node) -> dict[str, Mapped]:
    pairs = [pair for one in (node, *node.items) for pair in one.entries()]
    return {key.text: value.text_map for key, value in pairs if value.kind == "scalar"}


def _bare(name: str, at: int, reading: Reading) -> Mapped:
    """A macro without braces, which no shell fills in either."""
    said = f"llama-swap fills in ${{{name}}}: ${name} is passed on as it stands"
    reading.slip(said, at, at + len(name) + 1, f"${{{name}}}")
    return hole(name, at)


def _misspelt(name: str, at: int, macros: dict[str, Mapped], reading: Reading) -> Mapped | None:
    """The value of the macro that was meant, where a name is none: llama-swap refuses the file."""
    near = nearest_word(name, [*macros, *_GIVEN], "listed word", str.lower)
    if near is None or at < 0 or name in _GIVEN:
        return None
    said, start = f"llama-swap knows no macro '{name}'; '{near}' is meant", at + len("${")
    reading.slip(said, start, start + len(name), near)
    return macros.get(near)


def expand_macros(
    text: Mapped, macros: dict[str, Mapped], depth: int, reading: Reading | None = None
) -> Mapped:
    """Return the text with its macros replaced, at most eight levels deep."""
    if "${" not in text.text or depth > 8 or len(text) > 100_000:
        return text

    def value_of(found: re.Match[str], at: int) -> Mapped:
        name = found[1]
        value = macros.get(name)
        if value is None and reading is not None and "." not in name:
            value = _misspelt(name, at, macros, reading)
        if value is None:
            return hole(name, at)
        return value if name in _GIVEN else expand_macros(value, macros, depth + 1, reading)

    return replace_matches(text, _MACRO, value_of)


def read_mapping(document: Node, reading: Reading) -> None:
    """Read a mapping by the first kind that it has; else any containers in it."""
    models, engine = document.get("models"), engine_of_settings(document)
    if any(value.get("cmd") for _, value in models.entries()):
        read_llama_swap(models, document.get("macros"), reading)
    elif read_ray_serve(document, reading):
        return
    elif engine is not None and not document.get("image"):
        read_settings(document, engine, reading)
    elif not read_workers(document, reading):
        read_containers(document, reading, "helm-values")
