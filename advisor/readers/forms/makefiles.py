"""Makefiles: each line of each rule's recipe as a shell text of its own, with make's variables in
place. Nothing is run.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from advisor.readers.reading import Reading
from advisor.readers.syntax.lazy import Lazy
from advisor.readers.syntax.make_variables import (
    AUTOMATIC,
    MAX_BRANCHES,
    Expansion,
    Table,
    Value,
    logical,
)
from advisor.readers.syntax.mapped import Mapped, hole, join, literal, made
from advisor.readers.syntax.scope import Scope
from advisor.readers.syntax.shell import Shell

# No pattern has two repetitions that both take blanks and one that may fail behind them: what is
# found is trimmed instead.
_ASSIGN = Lazy(
    r"[ ]*(?P<words>(?:(?:export|override|private)[ \t]+)*)(?P<name>[A-Za-z_][\w.-]*)[ \t]*"
    r"(?P<how>\?|::?:?|\+|!)?=(?P<value>.*)",
    re.S,
)
_DEFINE = Lazy(
    r"(?P<words>(?:(?:export|override)[ \t]+)*)define[ \t]+(?P<name>[^\s=]+)[ "
    r"\t]*(?P<how>[?:+!]{0,3})=?[ \t]*",
    re.S,
)
_RULE = Lazy(r"(?P<target>[^\s:#=][^:#=\n]*)::?(?!=)(?P<rest>.*)", re.S)
_EXPORT = Lazy(r"export\b(.*)", re.S)
_CONDITION = Lazy(
    r"[ ]*(?:(?P<otherwise>else)\b[ \t]*)?(?P<kind>ifn?def|ifn?eq|endif)?\b(?P<rest>.*)", re.S
)
_QUIET = Lazy(
    r"[ \t]*[@+-]{1,3}[ \t]*(?=[\w./\"'$({\[])"
)  # `@cmd`, `-cmd` at a recipe line's start
_REMARK = Lazy(r"(?:^|(?<=[ \t]))#")
_NAME = Lazy(r"[A-Za-z_]\w*")
MAX_TARGETS, MAX_EXPORTED, MAX_PATTERNS, MAX_VISITS = 8, 200, 50, 10_000


class Recipe(NamedTuple):
    targets: list[str]
    lines: list[Mapped]


class Makefile:
    """What one file says. Conditions are decided as its lines come; recipes are read when all of it
    is known.
    """

    def __init__(self, reading: Reading) -> None:
        self.reading, self.table = reading, Table(reading)
        self.recipes: list[Recipe] = []
        self.prerequisites: dict[str, list[str]] = {}
        self.own: dict[
            str, dict[str, None]
        ] = {}  # the names of the variables that hold for one target only, in order
        self.defined: tuple[re.Match[str], int, list[Mapped]] | None = (
            None  # the `define` that is being read
        )
        self.patterns: list[str] = []  # those of them that are for more than one target, `%-large`
        self.too_deep = 0
        self.one_shell = False
        self.conditions = Expansion(self.table, frozenset())

    def line(self, line: Mapped) -> None:
        text = line.text.rstrip()
        if self.defined is not None:
            self._within_define(line, text)
        elif line.text.startswith("\t"):
            if self.recipes and text and self.table.live:
                self.recipes[-1].lines.append(line.part(1, len(line)))
        elif self._condition(line, text) or not self.table.live:
            return
        elif (found := _DEFINE.fullmatch(text)) is not None:
            self.defined = (found, line.first(), [])
        elif (found := _ASSIGN.fullmatch(text)) is not None:
            self._assign(found, line, "")
        elif (found := _EXPORT.fullmatch(text)) is not None:
            self.table.exported.update(dict.fromkeys(found.group(1).split(), line.first()))
        elif (found := _RULE.fullmatch(text)) is not None:
            self._rule(found, line)

    def _within_define(self, line: Mapped, text: str) -> None:
        assert self.defined is not None
        found, at, lines = self.defined
        if text.partition("#")[0].strip() != "endef":
            lines.append(line)
            return
        self.defined = None
        body = join(lines)
        body = body.part(0, len(body.text.rstrip("\r\n")))
        self.table.assign("", found.group("name"), found.group("how")[:1], body, at)
        if "export" in found.group("words"):
            self.table.exported[found.group("name")] = at

    def _assign(self, found: re.Match[str], line: Mapped, target: str) -> None:
        name = found.group("name")
        value = line.part(*found.span("value"))
        value = value.part(len(value) - len(value.text.lstrip(" \t")), len(value))
        if (remark := _REMARK.search(value.text)) is not None:
            value = value.part(0, remark.start())
        value = value.part(0, len(value.text.rstrip()))
        if "export" in found.group("words"):
            self.table.exported[name] = line.first()
        self.table.assign(target, name, found.group("how") or "", value, line.first())
        if target:
            self.own.setdefault(target, {})[name] = None

    def _rule(self, found: re.Match[str], line: Mapped) -> None:
        targets, rest = found.group("target").split(), found.group("rest")
        self.one_shell = self.one_shell or ".ONESHELL" in targets
        said = rest.split("#")[0].strip()
        start = found.start("rest") + len(rest) - len(rest.lstrip())
        own = _ASSIGN.fullmatch(said)
        if own is not None:  # `serve: PORT = 8000`
            for target in targets[:MAX_TARGETS]:
                self._assign(own, line.part(start, start + own.end()), target)
            return
        needs, semicolon, _ = rest.partition(";")
        first = [line.part(found.start("rest") + len(needs) + 1, len(line))] if semicolon else []
        self.recipes.append(Recipe(targets[:MAX_TARGETS], first))
        for target in targets[:MAX_TARGETS]:
            self.prerequisites.setdefault(target, []).extend(
                needs.split("#")[0].split()[:MAX_EXPORTED]
            )

    # -------------------------------------------------------------- conditions

    def _condition(self, line: Mapped, text: str) -> bool:
        """`ifeq`, `ifdef`, `else`, `endif`; False where the line only begins like one of them."""
        found = (
            _CONDITION.fullmatch(text)
            if text.lstrip(" ").startswith(("if", "else", "endif"))
            else None
        )
        if found is None or not (found.group("otherwise") or found.group("kind")):
            return False
        kind, at = found.group("kind"), line.first()
        if (
            not found.group("otherwise")
            and _ASSIGN.fullmatch(text) is not None
            and kind in (None, "endif")
        ):
            return False
        if kind == "endif":
            if self.too_deep:
                self.too_deep -= 1
            else:
                self.table.end()
        elif found.group("otherwise"):
            if not self.too_deep:
                self.table.otherwise(
                    self._verdict(kind, line.part(*found.span("rest"))) if kind else True
                )
        elif self.too_deep or len(self.table.branches) >= MAX_BRANCHES:
            self.too_deep += 1
        else:
            self.table.begin(self._verdict(kind, line.part(*found.span("rest"))), at)
        return True

    def _verdict(self, kind: str, rest: Mapped) -> bool | None:
        """The truth of a condition by what the file has set so far; None where that does not decide
        it.
        """
        negated = kind.startswith("ifn")
        if kind.endswith("def"):
            value = self.table.values.get(("", rest.text.split("#")[0].strip()))
            known = None if value is None or value.text.holed else value.size > 0
        else:
            sides = [self._settled(rest.part(*side)) for side in _sides(rest.text)]
            known = (
                None
                if len(sides) != 2 or any(one.holed for one in sides)
                else sides[0].text == sides[1].text
            )
        return None if known is None else known != negated

    def _settled(self, text: Mapped) -> Mapped:
        """What a side of `ifeq` is at its line: nothing that was expanded for an earlier line is
        asked.
        """
        self.conditions.done.clear()
        return self.conditions.expanded(text) if "$" in text.text else text

    # -------------------------------------------------------------- recipes

    def read(self) -> None:
        while self.table.branches:  # an `endif` that is missing
            self.table.end()
        inherited = self._inherited()
        self.patterns = [target for target in self.own if "%" in target][:MAX_PATTERNS]
        names = {name for names in self.own.values() for name in names}
        expansion = Expansion(self.table, frozenset((*names, *AUTOMATIC, *"123456789")))
        exported = {name: at for name, at in self.table.exported.items() if _NAME.fullmatch(name)}
        if len(exported) > MAX_EXPORTED:
            self.reading.note(
                f"of {len(exported)} exported variables the first {MAX_EXPORTED} were read"
            )
            exported = dict([*exported.items()][:MAX_EXPORTED])
        for recipe in self.recipes:
            for target in recipe.targets if recipe.lines else []:
                expansion.begin(self._values_of(target, inherited.get(target, {})))
                if not self._read(recipe, expansion, exported):
                    return

    def _read(self, recipe: Recipe, expansion: Expansion, exported: dict[str, int]) -> bool:
        """Every line has a shell of its own, unless `.ONESHELL` says otherwise; False when the
        budget is spent.
        """
        values: dict[str, Mapped] = {}
        for name, at in exported.items():
            if (once := expansion.done.get(name)) is not None:  # the same in all recipes
                values[name] = once
            elif name in expansion.own or ("", name) in self.table.values:
                values[name] = expansion.variable(name, at, 0)
        places = {name: exported[name] for name in values}
        bodies = [
            line if line.text.endswith("\n") else join((line, made("\n"))) for line in recipe.lines
        ]
        lines = [part for line in bodies for part in logical(expansion.expanded(line))]
        for text in [join(unquieted(line) for line in lines)] if self.one_shell else lines:
            if not text.text.strip():
                continue
            if not self.reading.spend(1 + len(text) // 50):
                return False
            scope = Scope(values)
            scope.exported = dict(places)
            Shell(unquieted(text), self.reading, scope, depth=1).run()
        return True

    def _values_of(self, target: str, inherited: dict[str, list[Value]]) -> dict[str, Value]:
        """A target's own variables, and those of the targets that need it: known where all of them
        agree.
        """
        own = {"@": Value(hole("@") if "%" in target else made(target), None, max(1, len(target)))}
        for name, given in inherited.items():
            general = self.table.values.get(("", name))
            texts = {
                one.whole().text for one in ([*given, general] if general is not None else given)
            }
            own[name] = (
                given[0]
                if len(texts) == 1
                else Value(hole(name, given[0].text.first()), None, len(name) + 2)
            )
        for one in (*(one for one in self.patterns if _fits(target, one)), target):
            for name in self.own.get(one, ()):
                if (value := self.table.values.get((one, name))) is not None:
                    own[name] = value
        return own

    def _inherited(self) -> dict[str, dict[str, list[Value]]]:
        """What the variables of each target give its prerequisites, and theirs."""
        found: dict[str, dict[str, list[Value]]] = {}
        visits = 0
        for target, names in self.own.items():
            given = {
                name: value
                for name in names
                if (value := self.table.values.get((target, name))) is not None
            }
            waiting, seen = list(self.prerequisites.get(target, ())), {target}
            while waiting and visits < MAX_VISITS:
                need = waiting.pop()
                visits += 1 + len(given)
                if need not in seen:
                    seen.add(need)
                    waiting += self.prerequisites.get(need, ())[:MAX_VISITS]
                    for name, value in given.items():
                        found.setdefault(need, {}).setdefault(name, []).append(value)
        return found


def read_makefile(reading: Reading) -> None:
    """Every rule's recipe, in order; all variables of the file hold in all of them, as make reads
    the whole file first.
    """
    reading.form = "makefile"
    makefile = Makefile(reading)
    for line in logical(literal(reading.source.text)):
        makefile.line(line)
    makefile.read()


def unquieted(line: Mapped) -> Mapped:
    """A recipe's line without the signs that only make and just read."""
    lead = _QUIET.match(line.text)
    return line.part(lead.end(), len(line)) if lead is not None else line


def _fits(target: str, pattern: str) -> bool:
    before, _, after = pattern.partition("%")
    return (
        len(target) >= len(before) + len(after)
        and target.startswith(before)
        and target.endswith(after)
    )


def _sides(text: str) -> list[tuple[int, int]]:
    """The two sides of `(a,b)`, `"a" "b"`, `'a' 'b'`; fewer where the text is none of these."""
    quoted = [
        found.span(1 if found.group(1) is not None else 2)
        for found in re.finditer(r"\"([^\"]*)\"|'([^']*)'", text)
    ]
    start, end = text.find("("), text.rfind(")")
    if text.lstrip()[:1] != "(" or end < 0:
        return quoted
    depth = 0
    for i in range(start + 1, end):
        depth += (text[i] in "({") - (text[i] in ")}")
        if text[i] == "," and depth == 0:
            return [_trimmed(text, start + 1, i), _trimmed(text, i + 1, end)]
    return []


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, max(start, start + len(piece.strip()))
