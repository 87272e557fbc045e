"""Servers that any other text starts: make, just, PowerShell, Terraform, Nomad, Nix and what comes
next.

No language is known here. Found are an engine's start words in a line and all to the end of the
continued line, the same words in a bracketed list, a list of arguments beside an image or a
program, and a list of options that only one engine has. What `$`, `%`, `{{` stand for is unknown,
unless the text sets that name just once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import ContainerRun, container_command, engine_by_options
from advisor.readers.engine_command import EngineCommand, Env, EnvItem, Surroundings
from advisor.readers.forms.presets import Pair, preset
from advisor.readers.images import engine_of_image
from advisor.readers.programs import (
    BYSTANDERS,
    CMDLET,
    LAUNCHERS,
    RUNTIMES,
    SHELLS,
    base_name,
    engine_start,
)
from advisor.readers.reading import Reading
from advisor.readers.syntax.loose_words import (
    MAX_LIST,
    TEXT,
    BracketList,
    bracket_lists,
    plain_word,
    plain_words,
    start_process_words,
)
from advisor.readers.syntax.mapped import HOLE, Mapped, hole, join, literal, replace_matches
from advisor.readers.syntax.templates import fill_templates, set_once

_PROSE = rf"(?:''(?:[^']|'(?!')){{0,1500}}''|{TEXT})"
_MARK = lazy_re(
    r"\$\{\{?-?[ \t]{0,9}([^{}\n]{1,200})\}?\}|\$\(([^()\n]{1,200})\)|\{\{-?[ "
    r"\t]{0,9}([^{}\n]{1,200})\}\}|(?<!\w)%([A-Za-z_]\w*)%"
    r"|\$(?:env:|script:|global:)?([A-Za-z_]\w*)|(?<=\S[ ])@([A-Za-z_]\w*)(?=\s|$)"
)
# what is no code: comments, and prose that is given to a key or a command
_REMARK = lazy_re(
    r"<#(?:[^#]|#(?!>)){0,9000}#>|/\*(?:[^*]|\*(?!/)){0,9000}\*/|^[ "
    r"\t]{0,99}(?:#(?!!)|//|::|;|[Rr][Ee][Mm][ \t])[^\n]*|[ \t]#[ \t][^\n]*"
    r"|\b(?:description|help|doc|documentation|summary|title|example|defaultText|message"
    r"|note|longDescription)[ \t]{0,9}[=:]"
    rf"[ \t]{{0,9}}{_PROSE}"
    rf"|\b(?:mkEnableOption|Write-(?:Host|Output|Error)|throw|echo|printf|mdDoc)[ "
    rf"\t]{{0,9}}{_PROSE}",
    re.S | re.M,
)
_BRACE = lazy_re(r"[{}]")
_CONTINUED = lazy_re(r"[\\`^][ \t]{0,99}\r?\n[ \t]{0,99}")
# Nix's and Terraform's long texts, PowerShell's too; sets of keys and values without inner ones
_INNER = lazy_re(
    r"''(?P<a>[^'\n]{0,200}\n(?:[^']|'(?!')){0,20000})''"
    r"|<<[-~]?(?P<tag>[A-Z]{2,12})\r?\n(?P<b>(?:(?![ \t]*(?P=tag)\b)[^\n]*\n){1,500})"
)
_SET = lazy_re(r"\{[^{}]{10,4000}\}")
_PAIR = lazy_re(
    r"([A-Za-z_][\w-]*)[ \t]{0,9}=[ \t]{0,9}(\"[^\"\n]{0,500}\"|[\w./:@-]+)[ \t]{0,9}[;\n]"
)
_POWERSHELL = lazy_re(r"^(?:\S{1,80}[ \t]*=[ \t]*)?start-process\b|^&", re.I)
_IMAGE = lazy_re(
    r"\b(?:image|imageName|docker_image|container_image)[ \t]*[=:][ \t]*\"([^\"\n]{3,300})\""
)
_PROGRAM = lazy_re(
    r"\b(?:command|cmd|program|exec|FileName|FilePath|ExecStart)[ \t]*[=:][ "
    r"\t]*\"([^\"\n]{3,300})\""
)
_ENV = lazy_re(
    r"^[ \t]{0,99}(?:\$env:|export[ \t])[ \t]{0,9}([A-Za-z_]\w*)[ \t]{0,9}[:?]?=[ "
    r"\t]{0,9}([^\n]{0,2000})",
    re.M | re.I,
)
_MAY = lazy_re(r"vllm|sglang|llama|docker|podman|nerdctl|server|bash|[\"' ]sh\b", re.I)
_ENTRY = ("entrypoint",)
_ARGUMENTS = lazy_re(
    r"(?:args|arguments|argumentlist|command|cmd|entrypoint|extra_?args|extra_?flags"
    r"|extra_?options|flags|options)$",
    re.I,
)
_CUT = frozenset(("&&", "||", "|", ";", "{", "}", "then", "do", "else"))


def read_anywhere(reading: Reading) -> None:
    """Every server that the text starts, as far as no language is needed to see it."""
    source = reading.source.text
    code = _REMARK.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)
    reading.form = "text"
    if not _MAY.search(code):
        return
    reading.values = set_once(source, _mark)
    text = _texts(Mapped(code, range(len(code))), reading)
    env: Env = {
        found.group(1): EnvItem(
            _mark(plain_word(text.part(*found.span(2)))), text.pos[found.start(1)]
        )
        for found in _ENV.finditer(text.text)
    }
    text = _mark(text)
    lists = bracket_lists(text, reading)
    named = {one.name: one.words for one in lists if one.name}
    _blocks(text, lists, reading, env)
    for one in lists:
        if not one.taken and reading.spend(1):
            one.taken = _start(_spread(one.words, named), reading, env)
    _lines(text, lists, named, reading, env)
    read = {word.first() for found in reading.found for word in found.words} - {-1}
    for one in lists:
        known = one.taken or not read.isdisjoint(word.first() for word in one.words)
        engine = None if known else engine_by_options(one.words)
        if engine is not None:
            words = one.words[1:] if one.words[0].text == "serve" else one.words
            reading.add(EngineCommand(engine, _spread(words, named), env, one.at, reading.form))


def _mark(text: Mapped) -> Mapped:
    return replace_matches(text, _MARK, _unknown)


def _texts(text: Mapped, reading: Reading) -> Mapped:
    """Read the long texts inside (scripts, presets) by their own forms, and the sets of options;
    what is left of the text.
    """
    left = text.text
    for found in _INNER.finditer(text.text):
        body = found.span("a" if found["a"] is not None else "b")
        before = len(reading.found)
        reading.inside(_mark(text.part(*body)), 1)
        if len(reading.found) > before:
            left = left[: body[0]] + re.sub(r"[^\n]", " ", left[slice(*body)]) + left[body[1] :]
    for found in _SET.finditer(left):
        pairs: list[Pair] = []
        for key in _PAIR.finditer(found.group()):
            value = text.part(found.start() + key.start(2), found.start() + key.end(2))
            name = text.part(found.start() + key.start(1), found.start() + key.end(1))
            pairs.append((name, _mark(plain_word(value))))
        if len(pairs) > 1 and reading.spend(len(pairs)):
            preset(literal("text", found.start()), pairs, reading)
    return Mapped(left, text.pos)


def _unknown(found: re.Match[str], at: int) -> Mapped:
    return hole(next(group for group in found.groups() if group), at)


def _blocks(text: Mapped, lists: list[BracketList], reading: Reading, env: Env) -> None:
    """Arguments beside an image, or beside a program that a key names."""
    braces = _Braces(text.text)
    for pattern in (_IMAGE, _PROGRAM):
        for found in pattern.finditer(text.text):
            if not reading.spend(20):
                return
            start, end = braces.around(found.start())
            inside = [
                one
                for one in lists
                if start < one.span[0] < end and not one.taken and _ARGUMENTS.search(one.name)
            ]
            given = text.part(*found.span(1))
            words = [word for one in inside for word in one.words]
            if not inside or not reading.spend(1 + len(words) // 50):
                continue
            if pattern is _PROGRAM:
                taken = _start([given, *words], reading, env)
            else:
                around = Surroundings(image=given, kind="text")
                entry = next((one.words for one in inside if one.name in _ENTRY), None)
                args = [word for one in inside if one.name not in _ENTRY for word in one.words]
                if engine_of_image(given.text) is None and not _starts(words):
                    continue
                taken = container_command(
                    ContainerRun(around, entry, args, dict(env)), reading, inside[0].at
                )
            for one in inside:
                one.taken = taken


class _Braces:
    """The innermost braces around each index of a text, found in one pass."""

    def __init__(self, text: str) -> None:
        self._at: list[int] = []
        self._inner: list[int] = []  # the brace that is open after each brace, -1 without one
        self._closed: dict[int, int] = {}
        self._length = len(text)
        still_open: list[int] = []
        for found in _BRACE.finditer(text):
            if found.group() == "{":
                still_open.append(found.start())
            elif still_open:
                self._closed[still_open.pop()] = found.start()
            self._at.append(found.start())
            self._inner.append(still_open[-1] if still_open else -1)

    def around(self, at: int) -> tuple[int, int]:
        """Start and end of the block around an index, at most 5,000 characters either way."""
        before = bisect_left(self._at, at) - 1
        start = self._inner[before] if before >= 0 else -1
        end = self._closed.get(start, self._length)
        return max(start, at - 5_000, 0), min(end, at + 5_000)


def _lines(
    text: Mapped,
    lists: list[BracketList],
    named: dict[str, list[Mapped]],
    reading: Reading,
    env: Env,
) -> None:
    """Commands of the lines that no list holds."""
    for one in lists:
        if one.taken:
            start, end = one.span
            blank = Mapped(" " * (end - start), text.pos[start:end])
            text = join((text.part(0, start), blank, text.part(end, len(text))))
    inside = [one.span for one in lists if not one.name]
    programs = {name: one for name, one in reading.values.items() if _MAY.search(one.text)}
    for whole in _logical(text):
        line = fill_templates(whole, programs)
        if len(line) > MAX_LIST:
            reading.note(f"a line of {len(line)} characters is not read", line.first())
            continue
        if not _MAY.search(line.text) or any(a <= line.first() < b for a, b in inside):
            continue
        powershell = _POWERSHELL.search(line.text.lstrip()) is not None
        words = start_process_words(line) if powershell else plain_words(line)
        for command in _commands(_value_words(words)):
            if not reading.spend(1 + len(command) // 50):
                return
            for word in command:  # a command in quotes: shell = "vllm serve ..."
                if " " not in word.text or not _MAY.search(word.text):
                    continue
                inner = plain_words(word)
                if len(inner) > 2 and _begins(inner) and _start(inner, reading, env):
                    break
            else:
                before = len(reading.found)
                _start(_spread(command, named), reading, env)
                reading.run_at(before, whole.first())


def _value_words(words: list[Mapped]) -> list[Mapped]:
    """What a name is given, `x = vllm serve ...`; nothing where it is a program's name."""
    if len(words) < 2 or words[1].text not in ("=", ":=", "?="):
        return words
    return words[2:] if len(words) > 3 or any(" " in word.text for word in words[2:]) else []


def _logical(text: Mapped) -> Iterator[Mapped]:
    r"""Lines, joined where `\`, a backtick or `^` continues them, or a text in quotes does."""
    joined = replace_matches(text, _CONTINUED, lambda found, at: literal(" ", -2))
    at = 0
    for raw in joined.text.splitlines(keepends=True):
        yield joined.part(at, at + len(raw.rstrip("\r\n")))
        at += len(raw)


def _commands(words: list[Mapped]) -> Iterator[list[Mapped]]:
    """The commands of a line."""
    command: list[Mapped] = []
    for word in words:
        if word.text in _CUT:
            yield command
            command = []
        else:
            command.append(word)
    yield command


def _spread(words: list[Mapped], named: dict[str, list[Mapped]]) -> list[Mapped]:
    """The words with the lists of the text in the place of their names."""
    out: list[Mapped] = []
    for word in words:
        whole = HOLE.fullmatch(word.text)
        name = whole.group()[1:-1].rpartition(".")[2] if whole else ""
        out += named.get(name, [word])
    return out[:5_000]


def _begins(words: list[Mapped]) -> bool:
    name = base_name(words[0])
    return (
        name in SHELLS or name in RUNTIMES or name == "exec" or engine_start(words, 0) is not None
    )


def _starts(words: list[Mapped]) -> bool:
    return any(engine_start(words, i) for i in range(min(len(words), 8)))


def _start(words: list[Mapped], reading: Reading, env: Env) -> bool:
    """Read the command that begins at the first word that can start a server."""
    for i, word in enumerate(words[:40]):
        name = base_name(word).lstrip("@-+!")
        lead = len(word) - len(word.text.lstrip("@-+!")) if i == 0 else 0
        first = (
            word.part(lead, len(word)) if lead and word.text[lead : lead + 1].isalpha() else word
        )
        rest = [first, *words[i + 1 :]]
        if i == 0 and (name in BYSTANDERS or CMDLET.fullmatch(word.text)):
            return False
        found = engine_start(rest, 0)
        optioned = any(one.text.startswith("-") or one.has_hole for one in rest[1:5])
        launched = i == 0 or base_name(words[0]) in LAUNCHERS
        if (found and (optioned or (launched and len(rest) > found[1]))) or (
            name in SHELLS | RUNTIMES and len(rest) > 2
        ):
            return reading.command(rest, env, at=first.first())
    return False
