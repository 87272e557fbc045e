"""PowerShell scripts: backtick continuation, `$name` and `$env:NAME`, argument lists `@(...)`, `Start-Process`, `Join-Path`."""

from __future__ import annotations

import re

from advisor.readers.batch import commands, logical_lines, unquoted, words_of
from advisor.readers.command import read_command
from advisor.readers.lazy import Lazy
from advisor.readers.mapped import HOLE_CLOSE, HOLE_OPEN, Mapped, hole, join, made
from advisor.readers.reading import Env, EnvItem, Reading
from advisor.readers.scope import Scope

_SET = Lazy(  # what is set is trimmed afterwards: a lazy group before blanks would look at each of them again and again
    r"\s*(?:\[[\w.]+(?:\[\])?(?:\([^()\n]*\))?\]\s*)*\$(?:(env|script|global|local):)?([A-Za-z_]\w*)\s*(\+?)=\s*(.*)$",
    re.I | re.S,
)
_NAME = Lazy(r"\$\{?(?:(?:env|script|global|local):)?([A-Za-z_]\w*)\}?", re.I)
_BLOCK_REMARK = Lazy(r"<#.*?(?:#>|$)", re.S)
_REMARK = Lazy(r"(?<!\S)#[^\n]*")
_QUOTED = Lazy(r"\"(?:`.|[^\"\n])*\"|'[^'\n]*'")
_COMMA = Lazy(r",\s*")
_CMDLET = Lazy(r"\(?[A-Z][a-z]+-[A-Z]\w+\b")
_JOIN_PATH = Lazy(r"\(?Join-Path\s+(?:-Path\s+)?(\S+)\s+(?:-ChildPath\s+)?(\S.*)$", re.I)
# words after which nothing starts: statements, and cmdlets that only talk
_STATEMENTS = """
throw write-host write-output write-error write-warning write-verbose if elseif else while for foreach switch
function return param exit test-path get-command split-path new-item try catch finally trap break continue out-null
"""
_SILENT = frozenset(_STATEMENTS.split())
_STARTS = ("start-process", "saps", "start")
_START_SWITCHES = ("-nonewwindow", "-wait", "-passthru", "-usenewenvironment", "-loaduserprofile")
_START_VALUES = ("-workingdirectory", "-windowstyle", "-redirectstandardoutput", "-redirectstandarderror", "-verb")
_CONSTANTS = ("true", "false", "null", "args", "psscriptroot", "_")
MAX_JOINED = 400


def read_powershell(reading: Reading) -> None:
    """Commands of a script in order."""
    reading.form = "powershell"
    scope, env = Scope(), dict[str, EnvItem]()
    text = _BLOCK_REMARK.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), reading.source.text)
    for whole in _joined(logical_lines(text, "`")):
        if not reading.step():
            return
        line = _freed(whole)
        if not line.text.strip():
            continue
        told = line
        if found := _SET.match(line.text):
            _assign(found, line, scope, env)
            if not found.group(4).startswith(("&", "Start-Process")):
                continue
            told = line.part(found.start(4), found.end(4))
        for command in commands(told):
            _command(command, reading, scope, env)


def _freed(line: Mapped) -> Mapped:
    """A line without its remark and without the brace or `else` that stands before its command."""
    masked = _QUOTED.sub(lambda found: "x" * len(found.group()), line.text)
    if (remark := _REMARK.search(masked)) is not None and "\n" not in line.text:
        line = line.part(0, remark.start())
    lead = re.match(r"(?:[ \t]*(?:[{}]|else\b|try\b|finally\b|process\b|begin\b|end\b))+", line.text, re.I)
    return line.part(lead.end(), len(line)) if lead else line


def _joined(lines: list[Mapped]) -> list[Mapped]:
    """Lines of one `@( ... )` as one: newlines separate its items."""
    result: list[Mapped] = []
    parts: list[Mapped] = []
    depth = 0
    for line in lines:
        masked = _REMARK.sub("", _QUOTED.sub("", line.text))
        if depth or "@(" in masked:
            kept = _without_remark(line)
            parts += [kept, made(" , ")]
            depth += masked.count("(") - masked.count(")")
            if depth > 0 and len(parts) < 2 * MAX_JOINED:
                continue
            result.append(join(parts[:-1]))
            parts, depth = [], 0
        else:
            result.append(line)
    return [*result, join(parts)] if parts else result


def _without_remark(line: Mapped) -> Mapped:
    masked = _QUOTED.sub(lambda found: "x" * len(found.group()), line.text)
    found = _REMARK.search(masked)
    return line.part(0, found.start()) if found else line


def _assign(found: re.Match[str], line: Mapped, scope: Scope, env: Env) -> None:
    where, name = (found.group(1) or "").lower(), found.group(2)
    end = found.start(4) + len(found.group(4).rstrip(" \t\r\n;,"))
    value = line.part(found.start(4), end)
    known: Mapped | list[Mapped]
    if value.text.startswith("@("):
        close = value.text.rfind(")")
        known = _items(value.part(2, close if close > 1 else len(value)), scope)
    elif "," in _QUOTED.sub("", value.text) and not _CMDLET.match(value.text):
        known = _items(value, scope)
    else:
        known = _value(value, scope)
    before = scope.values.get(name)
    if found.group(3):
        added = known if isinstance(known, list) else [known]
        if isinstance(before, Mapped) and isinstance(known, Mapped):
            known = join((before, known))
        else:
            known = [*(before if isinstance(before, list) else [before] if before is not None else []), *added]
    scope.values[name] = known
    if where == "env" and isinstance(known, Mapped):
        env[name] = EnvItem(known, line.part(found.start(2), end).first())


def _items(value: Mapped, scope: Scope) -> list[Mapped]:
    """The items of a list: separated by commas, and each a word or a variable."""
    items: list[Mapped] = []
    masked = _QUOTED.sub(lambda found: "x" * len(found.group()), value.text)
    start = 0
    for found in [*_COMMA.finditer(masked), None]:
        part = value.part(start, found.start() if found else len(value))
        lead = len(part.text) - len(part.text.lstrip())
        part = part.part(lead, len(part.text.rstrip()))
        start = found.end() if found else len(value)
        if not part.text:
            continue
        named = scope.values.get(part.text[1:]) if part.text[:1] == "$" else None
        items += named if isinstance(named, list) else [_value(part, scope)]
    return items


def _value(value: Mapped, scope: Scope) -> Mapped:
    """One value: a text, a variable, a path put together; what a cmdlet gives is not known."""
    path = _JOIN_PATH.match(value.text)
    if path is not None:
        head, tail = (
            value.part(*path.span(1)),
            value.part(path.start(2), path.start(2) + len(path.group(2).rstrip(") \t"))),
        )
        parts = (_value(head, scope), made("\\"), *(_value(word, scope) for word in words_of(tail)[:3]))
        return join(parts)
    if _CMDLET.match(value.text):
        return hole(value.text[:40], value.first())
    words = words_of(value) if value.text[:1] in "\"'" else []
    if len(words) == 1 and value.text[:1] == "'":
        return words[0]
    return _resolved(words[0] if len(words) == 1 else value, scope)


def _resolved(word: Mapped, scope: Scope) -> Mapped:
    parts: list[Mapped] = []
    done = 0
    for found in _NAME.finditer(word.text):
        name = found.group(1)
        if name.lower() in _CONSTANTS:
            continue
        known = scope.text(name)
        parts += [word.part(done, found.start()), hole(name, word.pos[found.start()]) if known is None else known]
        done = found.end()
    return join((*parts, word.part(done, len(word)))) if done else word


def _command(line: Mapped, reading: Reading, scope: Scope, env: Env) -> None:
    words: list[Mapped] = []
    for word in words_of(line, keep=True):
        bare = word.text[1:] if word.text[:1] in "@$" else ""
        listed = scope.values.get(bare) if bare else None
        if isinstance(listed, list):
            words += listed
        else:
            words.append(unquoted(word) if word.text[:1] == "'" else _resolved(unquoted(word), scope))
    while words and words[0].text.lower() in ("&", ".", "", "call", "@call", "cmd", "/c", "/k"):
        words = words[1:]
    if not words or words[0].text.lower() in _SILENT:
        return
    if words[0].text.lower() in _STARTS:
        words = _started(words[1:])
    read_command(words, reading, env, at=line.first())


def _started(words: list[Mapped]) -> list[Mapped]:
    """The program and the arguments of `Start-Process [-FilePath] X [-ArgumentList] ...`."""
    program: list[Mapped] = []
    arguments: list[Mapped] = []
    into = program
    skip = False
    for word in words:
        name = word.text.lower()
        if skip:
            skip = False
        elif name in ("-filepath", "-argumentlist", "-args"):
            into = program if name == "-filepath" else arguments
        elif name in _START_SWITCHES:
            continue
        elif name in _START_VALUES:
            skip = True
        else:
            into.append(word)
            into = arguments
    return [*program[:1], *(piece for word in arguments for piece in _split(word))]


def _split(word: Mapped) -> list[Mapped]:
    """An argument as given: without the comma of its list, and in words where one text holds several options."""
    trimmed = word.part(0, len(word.text.rstrip(",")))
    if trimmed.text.startswith("-") and " " in trimmed.text and HOLE_OPEN + HOLE_CLOSE not in trimmed.text:
        return words_of(trimmed)
    return [trimmed] if trimmed.text else []
