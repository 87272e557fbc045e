"""Windows command files: `.cmd` and `.bat` (caret, `%NAME%`, `set`) and PowerShell (backtick, `$name`, `$env:NAME`)."""

from __future__ import annotations

import re

from advisor.readers.command import read_command
from advisor.readers.lazy import Lazy
from advisor.readers.mapped import HOLE_CLOSE, HOLE_OPEN, Mapped, hole, join, literal
from advisor.readers.reading import Env, EnvItem, Reading
from advisor.readers.scope import Scope

_SET = Lazy(r'^\s*@?set\s+(?:/a\s+)?"?([A-Za-z_]\w*)=(.*?)"?\s*$', re.I)
_PS_SET = Lazy(r"""^\s*\$(env:)?([A-Za-z_]\w*)\s*=\s*(.*?)\s*;?\s*$""")
_PERCENT = Lazy(r"%([A-Za-z_]\w*)(?::[^%\n]*)?%|!([A-Za-z_]\w*)!")
_PS_NAME = Lazy(r"\$\{?(?:env:)?([A-Za-z_]\w*)\}?")
_WORD = Lazy(r"""(?:"(?:\\"|""|[^"])*"|'[^']*'|[^\s"'])+""")


def is_powershell(name: str, text: str) -> bool:
    return name.lower().endswith(".ps1") or bool(
        re.search(r"^\s*\$env:\w+\s*=|`\s*$", text, re.M) and not re.search(r"^#!.*sh\b", text)
    )


def is_batch(name: str, text: str) -> bool:
    return name.lower().endswith((".cmd", ".bat")) or bool(
        re.search(r"^\s*@?echo off\b|\^\s*$|^\s*set \w+=.*\n(?s:.*)%\w+%", text, re.M | re.I)
    )


def read_batch(reading: Reading, powershell: bool) -> None:
    """Commands of a Windows script in order."""
    reading.form = "powershell" if powershell else "batch"
    scope, env = Scope(), dict[str, EnvItem]()
    for line in _lines(reading.source.text, "`" if powershell else "^"):
        if not reading.step():
            return
        text = line.text.strip()
        if not text or text.startswith(("::", "#", "<#")) or re.match(r"@?rem\b", text, re.I):
            continue
        if found := (_PS_SET if powershell else _SET).match(line.text):
            _assign(found, line, scope, env, powershell)
            if not powershell or not found.group(3).startswith(("&", "Start-Process")):
                continue
        for command in _commands(line):
            _command(command, reading, scope, env, powershell)


def _lines(text: str, continuation: str) -> list[Mapped]:
    """Logical lines: a line that ends with the continuation sign goes on."""
    lines: list[Mapped] = []
    parts: list[Mapped] = []
    at = 0
    for raw in text.splitlines(keepends=True):
        body = raw.rstrip("\r\n")
        more = body.rstrip().endswith(continuation) or (continuation == "^" and body.endswith(" \\"))
        cut = len(body.rstrip()) - 1 if more else len(body)
        parts.append(literal(body[:cut], at))
        at += len(raw)
        if not more:
            lines.append(join(parts))
            parts = []
        else:
            parts.append(Mapped(" ", [-1]))
    return [*lines, join(parts)] if parts else lines


def _assign(found: re.Match[str], line: Mapped, scope: Scope, env: Env, powershell: bool) -> None:
    group = 3 if powershell else 2
    name = found.group(2) if powershell else found.group(1)
    value = line.part(found.start(group), found.end(group))
    if powershell and value.text.startswith("@("):
        inner = value.part(2, len(value.text.rstrip(")")))
        scope.values[name] = [
            _resolved(word, scope, True) for word in _words(Mapped(inner.text.replace(",", " "), inner.pos))
        ]
        return
    words = _words(value) if value.text[:1] in "\"'" else []
    known = _resolved(words[0] if len(words) == 1 else value, scope, powershell)
    scope.values[name] = known
    if not powershell or found.group(1):
        env[name] = EnvItem(known, line.part(found.start(2 if powershell else 1), found.end()).first())


def _commands(line: Mapped) -> list[Mapped]:
    """The parts of a line between `&&`, `&` and `|` outside quotes."""
    masked = re.sub(r'"[^"\n]*"', lambda found: "x" * len(found.group()), line.text)
    cuts = [
        0,
        *(end for found in re.finditer(r"\s(?:&&|&|\|\|?)\s", masked) for end in (found.start(), found.end())),
        len(line),
    ]
    return [line.part(cuts[i], cuts[i + 1]) for i in range(0, len(cuts) - 1, 2)]


def _words(line: Mapped) -> list[Mapped]:
    words: list[Mapped] = []
    for found in _WORD.finditer(line.text):
        words.append(_unquoted(line.part(found.start(), found.end())))
    return words


def _unquoted(word: Mapped) -> Mapped:
    """Quotes fall away, `\\"` and `""` inside them are a quote."""
    text = word.text
    if '"' not in text and "'" not in text:
        return word
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return word.part(1, len(text) - 1)
    if text[:1] != '"' and "'" in text and '"' not in text:
        return join(part for part in (word.part(m.start(), m.end()) for m in re.finditer(r"[^']+", text)))
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


def _resolved(word: Mapped, scope: Scope, powershell: bool) -> Mapped:
    pattern = _PS_NAME if powershell else _PERCENT
    parts: list[Mapped] = []
    done = 0
    for found in pattern.finditer(word.text):
        name = next(group for group in found.groups() if group)
        if name.lower() in ("true", "false", "null", "args", "psscriptroot") and powershell:
            continue
        known = scope.text(name)
        parts += [word.part(done, found.start()), hole(name, word.pos[found.start()]) if known is None else known]
        done = found.end()
    return join((*parts, word.part(done, len(word)))) if done else word


def _command(line: Mapped, reading: Reading, scope: Scope, env: Env, powershell: bool) -> None:
    words: list[Mapped] = []
    for word in _words(line):
        name = word.text[1:]
        listed = scope.values.get(name) if word.text[:1] in ("@", "$") else None
        if isinstance(listed, list):
            words += listed
            continue
        known = _resolved(word, scope, powershell)
        whole = known is not word and HOLE_OPEN not in known.text and HOLE_CLOSE not in known.text
        words += _words(known) if whole and " " in known.text and not powershell else [known]
    while words and words[0].text.lower() in (
        "start",
        "call",
        "&",
        "cmd",
        "/c",
        "/k",
        "",
        "start-process",
        "@call",
        "/b",
        "/wait",
        "/min",
    ):
        words = words[1:]
    read_command(words, reading, env, at=line.first())
