"""Justfiles: each recipe line as a shell text of its own (a recipe with a shebang as one), with
just's variables and its parameters' defaults in place of `{{name}}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from advisor.readers.forms.makefiles import unquieted
from advisor.readers.reading import Reading
from advisor.readers.syntax.lazy import Lazy
from advisor.readers.syntax.mapped import Mapped, hole, join, literal, made
from advisor.readers.syntax.marks import replaced
from advisor.readers.syntax.scope import Scope
from advisor.readers.syntax.shell import Shell

_ASSIGN = Lazy(r"(?P<export>export[ \t]+)?(?P<name>[A-Za-z_][\w-]*)[ \t]*:=[ \t]*(?P<value>[^\n]*)")
# each character can be taken in one way only: blanks are parts of the parameters like any other
_RECIPE = Lazy(
    r"@?[A-Za-z_][\w-]*(?P<parameters>(?=[ \t:])(?:\"[^\"\n]*\"|'[^'\n]*'|[^:\n\"'])*):(?!=)"
)
_PARAMETER = Lazy(r"[*+]?\$?([A-Za-z_][\w-]*)(?:=(\"[^\"\n]*\"|'[^'\n]*'|\([^()\n]*\)|[^\s\"']+))?")
_PART = Lazy(r"\s*(?:(\"\"\"|'''|\"|')(.*?)\1|([\w-]+)\(([^()]*)\)|([A-Za-z_][\w-]*))\s*(?:[+/]|$)")
_FALLBACKS = ("env_var_or_default", "env")
_MARK = Lazy(
    r"\{\{\{\{|\{\{((?:[^{}\n]|\{[^{}\n]*\})*)\}\}"
)  # `{{ if a == b { "1" } else { "2" } }}` too
MAX_LINE, MAX_PARTS, MAX_TEXT = 2_000, 50, 30_000


class Recipe(NamedTuple):
    parameters: str
    lines: list[Mapped]
    script: bool  # `[script]`: one text for one interpreter


def read_justfile(reading: Reading) -> None:
    """Every recipe, in order."""
    reading.form = "justfile"
    variables: dict[str, Mapped] = {}
    exported: dict[str, int] = {}
    recipes: list[Recipe] = []
    at, script = 0, False
    for raw in reading.source.text.splitlines(keepends=True):
        line, at = literal(raw, at), at + len(raw)
        if raw[:1] in " \t" or not raw.strip():
            if recipes:
                recipes[-1].lines.append(line)
        elif len(raw) > MAX_LINE:
            continue
        elif (found := _ASSIGN.match(raw)) is not None:
            name = found.group("name")
            variables[name] = _evaluated(line.part(*found.span("value")), variables, name)
            if found.group("export"):
                exported[name] = line.first()
        elif (found := _RECIPE.match(raw)) is not None:
            recipes.append(Recipe(found.group("parameters"), [], script))
        script = raw.startswith("[script") or (script and raw.startswith(("[", "#")))
    scope = Scope({name: variables[name] for name in exported if name in variables})
    scope.exported = {name: exported[name] for name in scope.values}
    for recipe in recipes:
        if not _read_recipe(recipe, variables, scope, reading):
            return


def _read_recipe(
    recipe: Recipe, variables: dict[str, Mapped], scope: Scope, reading: Reading
) -> bool:
    """False when the budget is spent."""
    local: dict[str, Mapped | None] = {}
    for found in _PARAMETER.finditer(recipe.parameters):
        name, default = found.groups()
        local[name] = _evaluated(made(default.strip("()")), variables, name) if default else None

    def known(name: str) -> Mapped | None:
        return local[name] if name in local else variables.get(name)

    for text in _texts(recipe):
        filled = replaced(text, _MARK, _value(known))
        if not reading.spend(1 + len(filled) // 50):
            return False
        Shell(filled, reading, scope.copy(), depth=1).run()
    return True


def _texts(recipe: Recipe) -> list[Mapped]:
    """What one shell each gets: a line with those that a backslash joins to it, or a whole script."""
    texts: list[list[Mapped]] = []
    goes_on = False
    first = next((line.text.lstrip() for line in recipe.lines if line.text.strip()), "")
    whole = recipe.script or first.startswith("#!")
    for line in recipe.lines:
        bare = line.part(len(line) - len(line.text.lstrip(" \t")), len(line))
        if texts and (goes_on or whole):
            texts[-1].append(bare)
        elif bare.text.strip():
            texts.append([unquieted(bare)])
        goes_on = bare.text.rstrip("\r\n").endswith("\\")
    return [join(parts) for parts in texts]


def _value(known: Callable[[str], Mapped | None]) -> Callable[[re.Match[str], int], Mapped]:
    def value(found: re.Match[str], at: int) -> Mapped:
        inside = found.group(1)
        return (
            made("{{", at) if inside is None else _evaluated(made(inside.strip(), at), known, "...")
        )

    return value


def _evaluated(
    text: Mapped, known: Mapping[str, Mapped] | Callable[[str], Mapped | None], name: str
) -> Mapped:
    """Strings, names and sums of them; `env("X", "default")` is its default, every other function a
    hole.

    What is no such sum (`if os() == "linux" { ... }`) is a hole with the name of what it was to
    give.
    """
    look = known if callable(known) else known.get
    parts: list[Mapped] = []
    done = size = 0
    source = text.text.split(" #")[0].rstrip()
    while done < len(source):
        found = _PART.match(source, done)
        if found is None or len(parts) > MAX_PARTS or size > MAX_TEXT:
            return hole(name, text.first())
        if found.group(1):
            parts.append(text.part(*found.span(2)))
        elif found.group(3):
            parts.append(_called(found.group(3), found.group(4), text.first()))
        else:
            given = look(found.group(5))
            parts.append(hole(found.group(5)[:40], text.first()) if given is None else given)
        size += len(parts[-1])
        if found.group().endswith("/"):
            parts.append(made("/"))
        done = found.end()
    return join(parts) if size <= MAX_TEXT else hole(name, text.first())


def _called(name: str, arguments: str, at: int) -> Mapped:
    given = [one or other for one, other in re.findall(r"\"([^\"]*)\"|'([^']*)'", arguments)]
    return made(given[1], at) if name in _FALLBACKS and len(given) == 2 else hole(name, at)
