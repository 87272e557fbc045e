"""PowerShell scripts: backtick continuation, `$name` and `$env:NAME`, argument lists `@(...)`,
`Start-Process`, `Join-Path`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.readers.command import read_command
from advisor.readers.forms.batch import commands, logical_lines, substituted, unquoted, words_of
from advisor.readers.reading import MAX_WORDS, Env, EnvItem, Reading
from advisor.readers.syntax.lazy import Lazy
from advisor.readers.syntax.mapped import HOLE, Mapped, hole, join, made
from advisor.readers.syntax.scope import Scope

# what is set is trimmed afterwards: a lazy group before blanks would look at each of them again
# and again
_SET = Lazy(
    r"\s*(?:\[[\w.]+(?:\[\])?(?:\([^()\n]*\))?\]\s*)*\$(?:(env|script|global|local):)?([A-Za-z_]\w*)\s*(\+?)=\s*(.*)$",
    re.I | re.S,
)
_PARAMETERS = Lazy(
    r"\s*param\s*\((?=\s*\S)", re.I
)  # with the parameters in the same line; others stand on lines of their own
_IF_FILLED = Lazy(r"\s*if\s*\(\s*\$([A-Za-z_]\w*)\s*(?:-ne\s*(?:\"\"|'')\s*)?\)\s*\{", re.I)
_PROCESS = Lazy(r"\s*\$(\w+)\.(FileName|Arguments)\s*=\s*(\S.*)$", re.I | re.S)  # ProcessStartInfo
_NAME = Lazy(r"\$\{?(?:(env|script|global|local):)?([A-Za-z_]\w*)\}?", re.I)
_VARIABLE = Lazy(r"[@$](?:(env|script|global|local):)?([A-Za-z_]\w*)", re.I)
_BLOCK_REMARK = Lazy(r"<#.*?(?:#>|$)", re.S)
_REMARK = Lazy(r"(?<!\S)#[^\n]*")
_QUOTED = Lazy(
    r"\"(?:`.|[^\"\n`])*(?:\"|`?$)|'[^'\n]*'", re.M
)  # a text that goes on below takes the rest of its line
_IN_WORD = Lazy(r"\"(?:\\\"|\"\"|[^\"])*\"|'[^']*'")  # JSON for a program: "{\"a\":1,\"b\":2}"
_ITEMS = Lazy(r"['\"],['\"$]")
_LIST = Lazy(r"@\(|\((?=\s*['\"])")
_SPLIT = Lazy(rf"(?:{HOLE.pattern}|\"[^\"]*\"|'[^']*'|[^\s\"'])+")
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
_START_VALUES = (
    "-workingdirectory",
    "-windowstyle",
    "-redirectstandardoutput",
    "-redirectstandarderror",
    "-verb",
)
_CONSTANTS = ("true", "false", "null", "args", "psscriptroot", "_")
MAX_JOINED, MAX_ITEMS, MAX_TEXT = 400, 1_000, 30_000


def read_powershell(reading: Reading) -> None:
    """Commands of a script in order."""
    reading.form = "powershell"
    scope, env = Scope(), dict[str, EnvItem]()
    text = _BLOCK_REMARK.sub(
        lambda found: re.sub(r"[^\n]", " ", found.group()), reading.source.text
    )
    skipped = 0  # braces that are open in a block whose condition is false
    for whole in _joined(logical_lines(text, "`")):
        if not reading.step():
            return
        begin = 0
        if skipped or _is_empty(whole, scope):
            masked = _masked(whole.text)
            other = (
                None
                if skipped > 1
                else re.compile(r"\s*\}\s*else" if skipped else r".*?\}\s*else\b", re.I).match(
                    masked
                )
            )
            if other is None:
                skipped = max(0, skipped + masked.count("{") - masked.count("}"))
                continue
            begin, skipped = 0 if skipped else other.end(), 0  # both blocks may stand in one line
        line = _freed(whole.part(begin, len(whole)))
        if not line.text.strip():
            continue
        told = line
        if found := _PARAMETERS.match(line.text):
            inside = line.part(found.end(), _closed(_masked(line.text), found.end()))
            for one in _between_commas(inside):
                if given := _SET.match(one.text):
                    _assign(given, one, reading, scope, env)
            continue
        if found := _PROCESS.match(line.text):
            _process(found, line, reading, scope, env)
            continue
        if found := _SET.match(line.text):
            _assign(found, line, reading, scope, env)
            if not found.group(4).lower().startswith(("&", "start-process")):
                continue
            told = line.part(found.start(4), found.end(4))
        for command in commands(told):
            _command(command, reading, scope, env)


def _is_empty(line: Mapped, scope: Scope) -> bool:
    """`if ($name -ne "") {` where the script itself leaves the name empty."""
    found = _IF_FILLED.match(line.text)
    known = scope.values.get(found.group(1).lower()) if found is not None else None
    return isinstance(known, Mapped) and not known.text


def _freed(line: Mapped) -> Mapped:
    """A line without its remark and without the brace or `else` that stands before its command."""
    if (remark := _REMARK.search(_masked(line.text))) is not None and "\n" not in line.text:
        line = line.part(0, remark.start())
    lead = re.match(
        r"(?:[ \t]*(?:[{}]|else\b|try\b|finally\b|process\b|begin\b|end\b))+", line.text, re.I
    )
    return line.part(lead.end(), len(line)) if lead else line


def _masked(text: str, quoted: Lazy = _QUOTED) -> str:
    """The text with what stands in quotes made harmless, at the same places."""
    return quoted.sub(lambda found: "x" * len(found.group()), text)


def _key(found: re.Match[str]) -> str:
    """The name that a variable is kept under: capitals mean nothing, and `$env:PORT` is another one
    than `$port`.
    """
    return ("env:" if (found.group(1) or "").lower() == "env" else "") + found.group(2).lower()


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
    found = _REMARK.search(_masked(line.text))
    return line.part(0, found.start()) if found else line


def _assign(found: re.Match[str], line: Mapped, reading: Reading, scope: Scope, env: Env) -> None:
    name, key = found.group(2), _key(found)
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
    before = scope.values.get(key)
    if found.group(3):
        added = known if isinstance(known, list) else [known]
        if isinstance(before, Mapped) and isinstance(known, Mapped):
            known = join((before, known))
        else:
            known = [
                *(before if isinstance(before, list) else [before] if before is not None else []),
                *added,
            ]
    if isinstance(known, list):
        known = known[:MAX_ITEMS]
    elif len(known) > MAX_TEXT:  # a text that doubles itself line after line
        known = hole(name, found.start(2))
    reading.spend(len(known) // 50)
    scope.values[key] = known
    if key.startswith("env:") and isinstance(known, Mapped):
        env[name] = EnvItem(known, line.part(found.start(2), end).first())


def _process(found: re.Match[str], line: Mapped, reading: Reading, scope: Scope, env: Env) -> None:
    """`$info.FileName = ...` and `$info.Arguments = ...`: the program is known when both are."""
    owner = found.group(1).lower()
    value = line.part(found.start(3), found.start(3) + len(found.group(3).rstrip(" \t\r\n;")))
    if found.group(2).lower() == "filename":
        scope.values[owner + ".program"] = [_value(value, scope)]
    else:
        named = next(
            (
                one
                for one in _VARIABLE.finditer(value.text)
                if isinstance(scope.values.get(_key(one)), list)
            ),
            None,
        )
        items = scope.values[_key(named)] if named is not None else None
        scope.values[owner + ".words"] = (
            items if isinstance(items, list) else _split(_value(value, scope), True)
        )
    program, words = scope.values.get(owner + ".program"), scope.values.get(owner + ".words")
    if isinstance(program, list) and isinstance(words, list):
        read_command([*program, *words], reading, env, at=line.first())


def _items(value: Mapped, scope: Scope) -> list[Mapped]:
    """The items of a list: separated by commas, and each a word or a variable."""
    items: list[Mapped] = []
    for part in _between_commas(value):
        named = _listed(part, scope)
        items += [_value(part, scope)] if named is None else named
        if len(items) >= MAX_ITEMS:  # `@($a, $a)` doubles: what is beyond belongs to no command
            break
    return items[:MAX_ITEMS]


def _between_commas(value: Mapped, quoted: Lazy = _QUOTED) -> list[Mapped]:
    """What stands between the commas outside quotes, trimmed; nothing is left out but blanks."""
    masked = _masked(value.text, quoted)
    parts: list[Mapped] = []
    start = 0
    for found in [*_COMMA.finditer(masked), None]:
        part = value.part(start, found.start() if found else len(value))
        part = part.part(len(part) - len(part.text.lstrip()), len(part.text.rstrip()))
        start = found.end() if found else len(value)
        if part.text:
            parts.append(part)
    return parts


def _listed(word: Mapped, scope: Scope) -> list[Mapped] | None:
    """The items of the list that `$name` or `@name` stands for."""
    found = _VARIABLE.fullmatch(word.text)
    named = scope.values.get(_key(found)) if found is not None else None
    return named if isinstance(named, list) else None


def _value(value: Mapped, scope: Scope) -> Mapped:
    """One value: a text, a variable, a path put together; what a cmdlet gives is not known."""
    path = _JOIN_PATH.match(value.text)
    if path is not None:
        head, tail = (
            value.part(*path.span(1)),
            value.part(path.start(2), path.start(2) + len(path.group(2).rstrip(") \t"))),
        )
        parts = (
            _value(head, scope),
            made("\\"),
            *(_value(word, scope) for word in words_of(tail)[:3]),
        )
        return join(parts)
    if _CMDLET.match(value.text):
        return hole(value.text[:40], value.first())
    words = words_of(value) if value.text[:1] in "\"'" else []
    if len(words) == 1 and value.text[:1] == "'":
        return words[0]
    return _resolved(words[0] if len(words) == 1 else value, scope)


def _resolved(word: Mapped, scope: Scope) -> Mapped:
    named = (
        found for found in _NAME.finditer(word.text) if found.group(2).lower() not in _CONSTANTS
    )
    return substituted(word, ((found, _key(found), found.group(2)) for found in named), scope)


def _command(line: Mapped, reading: Reading, scope: Scope, env: Env) -> None:
    words = _words(line, scope)
    if not reading.spend(1 + sum(len(word) for word in words) // 50):
        return
    while words and words[0].text.lower() in ("&", ".", "", "call", "@call", "cmd", "/c", "/k"):
        words = words[1:]
    if not words or words[0].text.lower() in _SILENT:
        return
    if words[0].text.lower() in _STARTS:
        words = _started(words[1:])
    before = len(reading.found)
    read_command(words, reading, env, at=line.first())
    reading.run_at(before, line.first())


def _words(line: Mapped, scope: Scope) -> list[Mapped]:
    """A command's words: plain ones, and the items of the lists among them, `@('serve', 'm')` and
    `'serve','m'`.
    """
    masked = _masked(line.text)
    starts = next(iter(line.text.lstrip("& \t").lower().split(maxsplit=1)), "") in _STARTS
    words: list[Mapped] = []
    done = size = 0
    while done < len(line):
        found = _LIST.regex.search(line.text, done)
        while found is not None and masked[found.start()] == "x":  # inside quotes
            found = _LIST.regex.search(line.text, found.end())
        start = found.start() if found else len(line)
        end = _closed(masked, found.end()) if found else len(line)
        listed = _items(line.part(found.end(), end), scope) if found else []
        for word in (*_plain(line.part(done, start), scope, starts), *listed):
            size += len(word)
            if len(words) >= MAX_WORDS or size > MAX_TEXT + len(line):
                return words
            words.append(word)
        done = end + 1
    return words


def _closed(masked: str, start: int) -> int:
    """Where the parenthesis closes that was opened before `start`; the text's end if it does not."""
    depth = 1
    for found in re.finditer(r"[()]", masked[start:]):
        depth += 1 if found.group() == "(" else -1
        if not depth:
            return start + found.start()
    return len(masked)


def _plain(text: Mapped, scope: Scope, starts: bool) -> Iterator[Mapped]:
    """Words without lists in parentheses. `1,1` is left whole where it is a program's: it is meant
    as one value.
    """
    for word in words_of(text, keep=True):
        several = starts or _ITEMS.search(word.text) is not None or word.text.endswith(",")
        for piece in _between_commas(word, _IN_WORD) if several else [word]:
            listed = _listed(piece, scope)
            if listed is not None:
                yield from listed
            else:
                yield (
                    unquoted(piece) if piece.text[:1] == "'" else _resolved(unquoted(piece), scope)
                )


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
    alone = len(arguments) == 1
    return [*program[:1], *(piece for word in arguments for piece in _split(word, alone))]


def _split(word: Mapped, alone: bool) -> list[Mapped]:
    """An argument as given, and in words where one text holds several of them: it is the whole
    line, or begins an option.
    """
    if " " in word.text and (alone or word.text.startswith("-")):
        return [unquoted(word.part(*found.span())) for found in _SPLIT.finditer(word.text)]
    return [word] if word.text else []
