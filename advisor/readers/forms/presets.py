"""llama-server's INI presets (`[section]`, `[*]`, short keys), and files of NAME=value."""

import re

from advisor import engines
from advisor.domain.patterns import lazy_re
from advisor.readers.containers import ContainerRun, container_command
from advisor.readers.engine_command import EngineCommand, Env, EnvItem, Surroundings
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, literal, replace_matches, synthetic

_SECTION = lazy_re(r"^[ \t]*\[([^\]\n]*)\][ \t]*(?:[#;][^\n]*)?\r?$")
_PAIR = lazy_re(r"^[ \t]*([A-Za-z_][\w.\-]*)[ \t]*=[ \t]*(.*?)[ \t]*\r?$")
_MODEL_KEYS = frozenset((
    "model", "m", "hf-repo", "hf", "hfr", "hf-file", "hff", "model-url", "mu", "LLAMA_ARG_MODEL",
    "LLAMA_ARG_HF_REPO", "hf_repo", "docker-repo", "dr",
))  # fmt: skip
_REPOSITORY = lazy_re(r"^[\w.-]+/[\w.-]+(:[\w.-]+)?$")
_ESCAPED = lazy_re(r"\\[\\\"$`]")
_EXPORT = lazy_re(r"(?m)^[ \t]*export[ \t]")
# what other programs call so as well: of these alone no file is llama-server's
_SHARED = frozenset((
    "model", "m", "host", "port", "api-key", "timeout", "temperature", "seed", "top-k", "top-p",
))  # fmt: skip
_NOT_OPTIONS = frozenset(("version", "load-on-startup", "stop-timeout"))
Pair = tuple[Mapped, Mapped | None]


def sections(text: str, escapes: bool = False) -> list[tuple[Mapped, list[Pair]]]:
    """Sections of an INI text in order, the first is ""; `escapes` as in a shell's quotes."""
    result: list[tuple[Mapped, list[Pair]]] = [(literal(""), [])]
    at = 0
    for line in text.splitlines(keepends=True):
        if found := _SECTION.match(line.rstrip("\n")):
            result.append((literal(found.group(1), at + found.start(1)), []))
        elif not line.lstrip().startswith((";", "#")) and (found := _PAIR.match(line.rstrip("\n"))):
            value = _unquote(literal(found.group(2), at + found.start(2)), escapes)
            result[-1][1].append((literal(found.group(1), at + found.start(1)), value))
        at += len(line)
    return result


def _unquote(value: Mapped, escapes: bool) -> Mapped:
    text = value.text
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        inner = value.part(1, len(text) - 1)
        return (
            inner
            if not escapes or text[0] == "'"
            else replace_matches(inner, _ESCAPED, lambda found, at: literal(found[0][1], at + 1))
        )
    comment = re.search(r"[ \t]+[;#][ \t]", text)
    return value.part(0, comment.start()) if comment and not text.startswith("{") else value


def read_presets(reading: Reading) -> None:
    """One launch for each section that names a model; `[*]` and what is above come first."""
    reading.form = "ini"
    shared: list[Pair] = []
    own: list[tuple[Mapped, list[Pair]]] = []
    for name, pairs in sections(reading.source.text):
        kept = [pair for pair in pairs if pair[0].text not in _NOT_OPTIONS]
        if name.text in ("", "*", "default", "DEFAULT", "global"):
            shared += kept
        else:
            own.append((name, kept))
    for name, pairs in own or [(literal("*"), [])]:
        if not reading.step():
            return
        names = {key.text for key, _ in pairs}
        preset(name, [*(one for one in shared if one[0].text not in names), *pairs], reading)


def preset(name: Mapped, pairs: list[Pair], reading: Reading) -> None:
    """One section: a server, where it names a model and most of its keys are options."""
    if not any(key.text in _MODEL_KEYS for key, _ in pairs):
        if not _REPOSITORY.match(name.text):
            return
        pairs = [(synthetic("hf-repo", name.first()), name), *pairs]
    find, keys = engines.get("llama-server").catalogue.find, (key.text for key, _ in pairs)
    known = [k for k in keys if k.startswith("LLAMA_ARG_") or find("--" + k) or find("-" + k)]
    files = [one for _, one in pairs if one and ".gguf" in one.text.lower()]
    if 2 * len(known) < len(pairs) or not (files or {*known} - _SHARED):
        return  # others have a `model = ...` too
    around = Surroundings(kind="ini", name=name.text)
    at = name.first() if name.first() >= 0 else pairs[0][0].first()
    reading.add(EngineCommand("llama-server", [], {}, at, "ini", around, pairs=pairs, origin="ini"))


def read_env_file(reading: Reading) -> None:
    """NAME=value lines: llama-server's LLAMA_ARG_* variables, or a wrapper's arguments."""
    reading.form = "env"
    text = _EXPORT.sub(lambda found: " " * len(found.group()), reading.source.text)
    pairs = [pair for _, listed in sections(text, escapes=True) for pair in listed]
    env: Env = {key.text: EnvItem(value, key.first()) for key, value in pairs}
    llama = [item.at for name, item in env.items() if name.startswith("LLAMA_ARG_")]
    images = [item.value for name, item in env.items() if name.endswith("IMAGE") and item.value]
    if llama:
        reading.add(EngineCommand("llama-server", [], env, llama[0], "env"))
    elif images:
        around = Surroundings(image=images[0], kind="env")
        container_command(ContainerRun(around, None, [], env), reading, images[0].first())
