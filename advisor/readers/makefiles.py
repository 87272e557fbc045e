"""Makefiles: each rule's recipe as a shell text, with make's variables in place. Nothing is run; what a function of make
(`$(shell ...)`, `$(wildcard ...)`) gives is not known.
"""

from __future__ import annotations

import re

from advisor.readers.lazy import Lazy
from advisor.readers.mapped import EMPTY, Mapped, hole, join, literal, made
from advisor.readers.reading import Reading
from advisor.readers.scope import Scope, closing
from advisor.readers.shell import Shell

_ASSIGN = Lazy(
    r"[ ]*(?P<export>export[ \t]+)?(?:override[ \t]+|private[ \t]+)?(?P<name>[A-Za-z_][\w.-]*)[ \t]*"
    r"(?P<how>\?|::?:?|\+|!)?=[ \t]*(?P<value>(?:[^\n\\]|\\[^\n]|\\\n)*)"
)
_RULE = Lazy(r"(?P<target>[^\s:#=][^:#=\n]*?)[ \t]*::?(?!=)[ \t]*(?P<rest>[^\n]*)")
_EXPORT = Lazy(r"export[ \t]+([\w \t]+)$")
_QUIET = Lazy(r"[ \t]*[@+-]{1,3}[ \t]*(?=[\w./\"'$({\[])")  # `@cmd`, `-cmd` at a recipe line's start
_REMARK = Lazy(r"(?<!\\)[ \t]+#[^\n]*")
MAX_DEPTH, MAX_TEXT = 8, 30_000


def read_makefile(reading: Reading) -> None:
    """Every rule's recipe, in order; all variables of the file hold in all of them, as make reads the whole file first."""
    reading.form = "makefile"
    variables: dict[str, Mapped] = {}
    exported: dict[str, int] = {}
    recipes: list[tuple[str, list[Mapped]]] = []
    for line in _logical(reading.source.text):
        if line.text.startswith("\t"):
            if recipes and line.text.strip():
                recipes[-1][1].append(line.part(1, len(line)))
            continue
        found = _ASSIGN.fullmatch(line.text.rstrip("\r\n"))
        if found is not None:
            _assign(found, line, variables, exported)
        elif (named := _EXPORT.match(line.text.rstrip())) is not None:
            exported.update(dict.fromkeys(named.group(1).split(), line.first()))
        elif (rule := _RULE.match(line.text)) is not None:
            recipes.append((rule.group("target"), []))
            own = _ASSIGN.fullmatch(rule.group("rest").split("#")[0].rstrip())
            if own is not None and own.group("name") not in variables:  # `serve: PORT = 8000`
                start = rule.start("rest")
                _assign(own, line.part(start, start + own.end()), variables, exported)
            elif ";" in rule.group("rest"):
                recipes[-1][1].append(line.part(rule.start("rest") + rule.group("rest").index(";") + 1, len(line)))
    for target, lines in recipes:
        if not reading.step():
            return
        _read_recipe(target, lines, variables, exported, reading)


def _logical(text: str) -> list[Mapped]:
    """Lines with those that a backslash joins to them."""
    lines: list[Mapped] = []
    at = 0
    for raw in re.findall(r"(?:[^\n\\]|\\[^\n]|\\\n)*(?:\n|\\?$)", text):
        if raw:
            lines.append(literal(raw, at))
        at += len(raw)
    return lines


def _assign(found: re.Match[str], line: Mapped, variables: dict[str, Mapped], exported: dict[str, int]) -> None:
    name, how = found.group("name"), found.group("how")
    value = line.part(*found.span("value"))
    if (remark := _REMARK.search(value.text)) is not None:
        value = value.part(0, remark.start())
    value = value.part(0, len(value.text.rstrip()))
    if found.group("export"):
        exported[name] = line.first()
    if how == "!":
        value = hole(name, line.first())
    elif how == "?" and name in variables:
        return
    elif how == "+" and name in variables:
        value = join((variables[name], made(" "), value))
    if len(value) < MAX_TEXT:
        variables[name] = value


def _read_recipe(
    target: str, lines: list[Mapped], variables: dict[str, Mapped], exported: dict[str, int], reading: Reading
) -> None:
    body = join([part for line in lines for part in (unquieted(line), made("" if line.text.endswith("\n") else "\n"))])
    text = _expanded(body, {**variables, "@": made(target)}, 0)
    scope = Scope({name: _expanded(variables[name], variables, 0) for name in exported if name in variables})
    scope.exported = {name: exported[name] for name in scope.values}
    Shell(text, reading, scope, depth=1).run()


def unquieted(line: Mapped) -> Mapped:
    """A recipe's line without the signs that only make and just read."""
    lead = _QUIET.match(line.text)
    return line.part(lead.end(), len(line)) if lead is not None else line


def _expanded(text: Mapped, variables: dict[str, Mapped], depth: int) -> Mapped:
    """`$$`, `$(NAME)`, `${NAME}`, `$@`; what make computes is a hole."""
    parts: list[Mapped] = []
    done = size = 0
    source = text.text
    while (at := source.find("$", done)) >= 0 and at + 1 < len(source) and size < MAX_TEXT:
        parts.append(text.part(done, at))
        following = source[at + 1]
        if following == "$":
            value, done = made("$", text.pos[at]), at + 2
        elif following in "({" and (close := closing(source, at + 1)) > 0:
            value, done = _value(source[at + 2 : close], variables, text.pos[at], depth), close + 1
        elif following.isalnum() or following in "@<^*?+%":
            value, done = _value(following, variables, text.pos[at], depth), at + 2
        else:
            value, done = text.part(at, at + 1), at + 1
        parts.append(value)
        size += len(value)
    return join((*parts, text.part(done, len(text))))


def _value(name: str, variables: dict[str, Mapped], at: int, depth: int) -> Mapped:
    known = variables.get(name)
    if known is None or depth > MAX_DEPTH:
        return hole(name, at)
    return _expanded(known, variables, depth + 1) if known.text else EMPTY
