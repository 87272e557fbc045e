"""Windows command files, `.cmd` and `.bat`: caret, `%NAME%`, `set`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from advisor.domain.patterns import lazy_re
from advisor.engines.base import CUT_OFF
from advisor.readers.command import read_command
from advisor.readers.engine_command import Env, EnvItem
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import (
    HOLE_CLOSE,
    HOLE_OPEN,
    Mapped,
    hole,
    join,
    literal,
    replace_matches,
)
from advisor.readers.syntax.scope import Scope

_DEFAULT = lazy_re(
    r"\s*if\s+(?:/i\s+)?(?:not\s+defined\s+(\w+)|\"%(\w+)%\"\s*==\s*\"\")\s+\(?(?=\s*@?set\b)", re.I
)
_CONDITION = lazy_re(
    r"\s*@?(?:if\s+(?:/i\s+)?(?:not\s+)?(?:defined\s+\S+|exist\s+(?:\"[^\"]*\"|\S+)"
    r"|errorlevel\s+\d+"
    r"|(?:\"[^\"]*\"|[^\s\"=]+)\s*(?:==|\s(?:equ|neq|lss|leq|gtr|geq)\s)\s*(?:\"[^\"]*\"|[^\s\"]+))"
    r"|for\s+(?:/[a-z]\s+(?:\"[^\"]*\"\s+)?)?%%\w\s+in\s+\([^)]*\)\s+do)\s+\(?(?=\S)",
    re.I,
)
_SET = lazy_re(r'^\s*@?set\s+(?:/a\s+)?"?([A-Za-z_]\w*)=(.*)$', re.I)
_PERCENT = lazy_re(r"%([A-Za-z_]\w*)(?::[^%\n]*)?%|!([A-Za-z_]\w*)!")
_LOOPED = lazy_re(r"%%(?:~[a-zA-Z$:]{0,9})?([A-Za-z])(?![A-Za-z])")
_LEADS = ("start", "call", "&", "cmd", "/c", "/k", "", "@call", "/b", "/wait", "/min")
_LOOSE = lazy_re(r"\^[ \t]+\r?\n[ \t]*(-{1,2}[A-Za-z][\w-]*)")  # the sign is of the blank then
_BACKSLASH = lazy_re(r"[ \t]\\[ \t]*\r?\n[ \t]*(--?[A-Za-z][\w-]*)")
MAX_TEXT = 30_000  # what a variable, and the variables of one command, may come to
_WORD = lazy_re(r"""(?:"(?:\\"|""|[^"])*"|'[^']*'|[^\s"'])+""")


def read_batch(reading: Reading) -> None:
    """Commands of a Windows script in order."""
    reading.form = "batch"
    scope, env = Scope(), dict[str, EnvItem]()
    for whole in logical_lines(reading.source.text, "^"):
        if not reading.step():
            return
        text = whole.text.strip()
        if not text or text.startswith(("::", "#")) or re.match(r"@?rem\b", text, re.I):
            continue
        line = _default_assignment(whole, scope)
        line, conditional = _without_condition(line)
        if found := _SET.match(line.text):
            known = scope.text(found.group(1)) if conditional else None
            if known is None or not known.text:  # what may be set does not replace what is
                _assign(found, line, scope, env)
            continue
        before = len(reading.found)
        for command in commands(line):
            _command(command, reading, scope, env)
        if len(reading.found) > before and (said := _wrong_sign(whole, reading)):
            reading.found[before].said = said


def _wrong_sign(line: Mapped, reading: Reading) -> str:
    """What to say of a line that a backslash was to continue, as in another system's shell."""
    places = [at for at in line.pos if at >= 0]
    start, end = (places[0], places[-1] + 1) if places else (0, 0)
    found = _BACKSLASH.search(reading.source.text[start:end])
    if found is None:
        if (loose := _LOOSE.search(reading.source.text[start:end])) is not None:
            number = reading.source.place(start + loose.start(1))[0]
            return f"{CUT_OFF} {loose[1]} from line {number} on: spaces follow the ^ above"
        return ""
    number = reading.source.place(start + found.start(1))[0]
    return f"{CUT_OFF} {found.group(1)} from line {number} on: cmd goes on with ^, not with \\"


def _default_assignment(line: Mapped, scope: Scope) -> Mapped:
    """`if "%X%"=="" set "X=..."`, `if not defined X set X=...`: the assignment, where the file has
    set no value before.
    """
    found = _DEFAULT.match(line.text)
    if found is None or _SET.match(line.text[found.end() :]) is None:
        return line
    known = scope.text(found.group(1) or found.group(2))
    if known is not None and known.text:
        return line.part(0, 0)
    end = len(line.text.rstrip().removesuffix(")")) if "(" in found.group() else len(line)
    return line.part(found.end(), end)


def _without_condition(line: Mapped) -> tuple[Mapped, bool]:
    """The command behind `if exist FILE`, `if defined X`, `for %%F in (...) do`, and whether there
    was such a condition: both outcomes are possible, and the command is read.
    """
    conditional = False
    while (found := _CONDITION.match(line.text)) is not None:
        end = len(line.text.rstrip()) - ("(" in found.group()[-2:] and line.text.endswith(")"))
        line, conditional = line.part(found.end(), end), True
    return line, conditional


def logical_lines(text: str, continuation: str) -> list[Mapped]:
    """Logical lines: a line that ends with the continuation sign goes on."""
    lines: list[Mapped] = []
    parts: list[Mapped] = []
    at = 0
    for raw in text.splitlines(keepends=True):
        body = raw.rstrip("\r\n")
        more = body.rstrip().endswith(continuation) or (
            continuation == "^" and body.endswith(" \\")
        )
        cut = len(body.rstrip()) - 1 if more else len(body)
        parts.append(literal(body[:cut], at))
        at += len(raw)
        if not more:
            lines.append(join(parts))
            parts = []
        else:
            parts.append(Mapped(" ", [-1]))
    return [*lines, join(parts)] if parts else lines


def _assign(found: re.Match[str], line: Mapped, scope: Scope, env: Env) -> None:
    end = found.start(2) + len(found.group(2).rstrip().removesuffix('"'))
    name, value = found.group(1), line.part(found.start(2), end)
    words = words_of(value) if value.text[:1] in "\"'" else []
    known = _resolve(words[0] if len(words) == 1 else value, scope)
    scope.values[name] = known
    env[name] = EnvItem(known, line.part(found.start(1), end).first())


def commands(line: Mapped) -> list[Mapped]:
    """The parts of a line between `&&`, `&` and `|` outside quotes."""
    masked = re.sub(r'"[^"\n]*"', lambda found: "x" * len(found.group()), line.text)
    cuts = [
        0,
        *(
            end
            for found in re.finditer(r"\s(?:&&|&|\|\|?)\s", masked)
            for end in (found.start(), found.end())
        ),
        len(line),
    ]
    return [line.part(cuts[i], cuts[i + 1]) for i in range(0, len(cuts) - 1, 2)]


def words_of(line: Mapped, keep: bool = False) -> list[Mapped]:
    """The words of a line; with `keep` their quotes stay."""
    words = [line.part(found.start(), found.end()) for found in _WORD.finditer(line.text)]
    return words if keep else [unquote(word) for word in words]


def unquote(word: Mapped) -> Mapped:
    r"""Quotes fall away, `\"` and `""` inside them are a quote."""
    text = word.text
    if '"' not in text and "'" not in text:
        return word
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return word.part(1, len(text) - 1)
    if text[:1] != '"' and "'" in text and '"' not in text:
        return join(
            part for part in (word.part(m.start(), m.end()) for m in re.finditer(r"[^']+", text))
        )
    parts: list[Mapped] = []
    i = 0
    while i < len(text):
        if text[i] == "\\" and text[i + 1 : i + 2] == '"':
            parts.append(word.part(i + 1, i + 2))
            i += 2
        elif text.startswith('""', i) and 0 < i < len(text) - 2:
            parts.append(word.part(i, i + 1))
            i += 2
        else:
            if text[i] != '"':
                parts.append(word.part(i, i + 1))
            i += 1
    return join(parts)


def _resolve(word: Mapped, scope: Scope) -> Mapped:
    if "%%" in word.text:  # of a `for`: what it holds is not known
        word = replace_matches(word, _LOOPED, lambda found, at: hole(found.group(1), at))
    named = (
        (found, next(group for group in found.groups() if group))
        for found in _PERCENT.finditer(word.text)
    )
    return substitute(word, ((found, name, name) for found, name in named), scope)


def substitute(
    word: Mapped, names: Iterable[tuple[re.Match[str], str, str]], scope: Scope
) -> Mapped:
    """The word with its variables' values, or holes: (match, key in the scope, name of the hole),
    in the order of the text.
    """
    parts: list[Mapped] = []
    done = size = 0
    for found, key, name in names:
        known = scope.text(key)
        size += 0 if known is None else len(known)
        known = hole(name, word.pos[found.start()]) if known is None or size > MAX_TEXT else known
        parts += [word.part(done, found.start()), known]
        done = found.end()
    return join((*parts, word.part(done, len(word)))) if done else word


def _command(line: Mapped, reading: Reading, scope: Scope, env: Env) -> None:
    words: list[Mapped] = []
    size = 0
    for word, raw in zip(words_of(line), words_of(line, keep=True), strict=True):
        known = _resolve(word, scope)
        if not known.text and raw.text.startswith("%"):
            continue  # an empty variable leaves nothing behind
        size += len(known)
        if size > MAX_TEXT + len(line):
            reading.note(
                "the variables of this command hold too much; what follows was not read",
                line.first(),
            )
            break
        whole = known is not word and HOLE_OPEN not in known.text and HOLE_CLOSE not in known.text
        words += words_of(known) if whole and " " in known.text else [known]
    while words and words[0].text.lower() in _LEADS:
        words = words[1:]
    if reading.spend(1 + size // 50):
        before = len(reading.found)
        read_command(words, reading, env, at=line.first())
        reading.run_at(before, line.first())
