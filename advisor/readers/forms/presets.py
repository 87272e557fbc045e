"""llama-server's INI presets (`[section]`, `[*]`, short keys), and files of NAME=value."""

from __future__ import annotations

import re

from advisor import engines
from advisor.domain.patterns import lazy_re
from advisor.readers.containers import ContainerRun, container_command
from advisor.readers.engine_command import EngineCommand, Env, EnvItem, Surroundings
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, literal, replace_matches, synthetic

_SECTION = lazy_re(r"^[ \t]*\[([^\]\n]*)\][ \t]*(?:[#;][^\n]*)?\r?$")
_PAIR = lazy_re(r"^[ \t]*([A-Za-z_][\w.\-]*)[ \t]*=[ \t]*(.*?)[ \t]*\r?$")
_MODEL_KEYS = frozenset(
    (
        *("model", "m", "hf-repo", "hf", "hfr", "hf-file", "hff"),
        *(
            "model-url",
            "mu",
            "LLAMA_ARG_MODEL",
            "LLAMA_ARG_HF_REPO",
            "hf_repo",
            "docker-repo",
            "dr",
        ),
    )
)
_REPOSITORY = lazy_re(r"^[\w.-]+/[\w.-]+(:[\w.-]+)?$")
_ESCAPED = lazy_re(r"\\[\\\"$`]")
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


def _unquote(value: Mapped, escapes: bool = False) -> Mapped:
    text = value.text
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        inner = value.part(1, len(text) - 1)
        return _unescape(inner) if escapes and text[0] == '"' else inner
    comment = re.search(r"[ \t]+[;#][ \t]", text)
    return value.part(0, comment.start()) if comment and not text.startswith("{") else value


def _unescape(value: Mapped) -> Mapped:
    return replace_matches(
        value, _ESCAPED, lambda found, _: value.part(found.end() - 1, found.end())
    )


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
        preset(name, [*_overridden(shared, pairs), *pairs], reading)


def _overridden(shared: list[Pair], own: list[Pair]) -> list[Pair]:
    names = {key.text for key, _ in own}
    return [pair for pair in shared if pair[0].text not in names]


def preset(name: Mapped, pairs: list[Pair], reading: Reading) -> None:
    """One section: a server, where it names a model and most of its keys are options."""
    if not any(key.text in _MODEL_KEYS for key, _ in pairs):
        if not _REPOSITORY.match(name.text):
            return
        pairs = [(synthetic("hf-repo", name.first()), name), *pairs]
    if not _are_options(pairs):
        return
    around = Surroundings(kind="ini", name=name.text)
    at = name.first() if name.first() >= 0 else pairs[0][0].first()
    reading.add(EngineCommand("llama-server", [], {}, at, "ini", around, pairs=pairs, origin="ini"))


def _are_options(pairs: list[Pair]) -> bool:
    """Whether most of these keys are llama-server's: others have a `model = ...` too."""
    find = engines.get("llama-server").catalogue.find
    keys = [key.text for key, _ in pairs]
    known = sum(
        key.startswith("LLAMA_ARG_") or bool(find("--" + key) or find("-" + key)) for key in keys
    )
    return 2 * known >= len(keys)


def read_env_file(reading: Reading) -> None:
    """NAME=value lines: llama-server's LLAMA_ARG_* variables, or a wrapper's arguments."""
    reading.form = "env"
    env: Env = {}
    for _, pairs in sections(
        re.sub(
            r"(?m)^[ \t]*export[ \t]", lambda found: " " * len(found.group()), reading.source.text
        ),
        escapes=True,
    ):
        for key, value in pairs:
            env[key.text] = EnvItem(value, key.first())
    if any(name.startswith("LLAMA_ARG_") for name in env):
        at = next(item.at for name, item in env.items() if name.startswith("LLAMA_ARG_"))
        reading.add(EngineCommand("llama-server", [], env, at, "env"))
        return
    image = next(
        (
            item.value
            for name, item in env.items()
            if name.endswith("IMAGE") and item.value is not None
        ),
        None,
    )
    if image is not None:
        around = Surroundings(image=image, kind="env")
        container_command(ContainerRun(around, None, [], env), reading, image.first())
