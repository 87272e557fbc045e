"""Justfiles: each recipe as a shell text, with just's variables and its parameters' defaults in place of `{{name}}`."""

from __future__ import annotations

import re
from collections.abc import Callable

from advisor.readers.lazy import Lazy
from advisor.readers.makefiles import unquieted
from advisor.readers.mapped import Mapped, hole, join, literal, made
from advisor.readers.marks import replaced
from advisor.readers.reading import Reading
from advisor.readers.scope import Scope
from advisor.readers.shell import Shell

_ASSIGN = Lazy(r"(?P<export>export[ \t]+)?(?P<name>[A-Za-z_][\w-]*)[ \t]*:=[ \t]*(?P<value>[^\n]*)")
_RECIPE = Lazy(r"@?[A-Za-z_][\w-]*(?P<parameters>(?:[ \t]+(?:\"[^\"\n]*\"|'[^'\n]*'|[^:\n\"'])*)?)[ \t]*:(?!=)[^\n]*")
_PARAMETER = Lazy(r"[*+]?\$?([A-Za-z_][\w-]*)(?:=(\"[^\"\n]*\"|'[^'\n]*'|\([^)\n]*\)|[^\s\"']+))?")
_PART = Lazy(r"\s*(?:(\"\"\"|'''|\"|')(.*?)\1|([\w-]+)\(([^()]*)\)|([A-Za-z_][\w-]*))\s*(?:[+/]|$)")
_FALLBACKS = ("env_var_or_default", "env")
_MARK = Lazy(r"\{\{\{\{|\{\{[ \t]*([^{}\n]+?)[ \t]*\}\}")
MAX_LINE, MAX_PARTS = 2_000, 50


def read_justfile(reading: Reading) -> None:
    """Every recipe, in order."""
    reading.form = "justfile"
    variables: dict[str, Mapped] = {}
    exported: dict[str, int] = {}
    recipes: list[tuple[str, list[Mapped]]] = []
    at = 0
    for raw in reading.source.text.splitlines(keepends=True):
        line, at = literal(raw, at), at + len(raw)
        if raw[:1] in " \t" or not raw.strip():
            if recipes:
                recipes[-1][1].append(line)
        elif len(raw) > MAX_LINE:
            continue
        elif (found := _ASSIGN.match(raw)) is not None:
            variables[found.group("name")] = _evaluated(line.part(*found.span("value")), variables)
            if found.group("export"):
                exported[found.group("name")] = line.first()
        elif (found := _RECIPE.match(raw)) is not None:
            recipes.append((found.group("parameters"), []))
    for parameters, lines in recipes:
        if not reading.step():
            return
        _read_recipe(parameters, lines, variables, exported, reading)


def _read_recipe(
    parameters: str, lines: list[Mapped], variables: dict[str, Mapped], exported: dict[str, int], reading: Reading
) -> None:
    local = dict(variables)
    for found in _PARAMETER.finditer(parameters):
        name, default = found.groups()
        local.pop(name, None)
        if default:
            local[name] = _evaluated(made(default.strip("()")), variables)
    scope = Scope({name: variables[name] for name in exported if name in variables})
    scope.exported = {name: exported[name] for name in scope.values}
    parts: list[Mapped] = []
    for line in lines:
        bare = line.part(len(line) - len(line.text.lstrip(" \t")), len(line))
        goes_on = bool(parts) and parts[-1].text.rstrip("\r\n").endswith("\\")
        parts.append(bare if goes_on else unquieted(bare))
    Shell(replaced(join(parts), _MARK, _value(local)), reading, scope, depth=1).run()


def _value(local: dict[str, Mapped]) -> Callable[[re.Match[str], int], Mapped]:
    def value(found: re.Match[str], at: int) -> Mapped:
        return made("{{", at) if found.group(1) is None else _evaluated(made(found.group(1), at), local)

    return value


def _evaluated(text: Mapped, variables: dict[str, Mapped]) -> Mapped:
    """Strings, names and sums of them; `env("X", "default")` is its default, every other function a hole."""
    parts: list[Mapped] = []
    done, source = 0, text.text.split(" #")[0].rstrip()
    while done < len(source):
        found = _PART.match(source, done)
        if found is None or len(parts) > MAX_PARTS:
            return hole(source[:40], text.first())
        if found.group(1):
            parts.append(text.part(*found.span(2)))
        elif found.group(3):
            parts.append(_called(found.group(3), found.group(4), text.first()))
        else:
            parts.append(variables.get(found.group(5)) or hole(found.group(5), text.first()))
        if found.group().endswith("/"):
            parts.append(made("/"))
        done = found.end()
    return join(parts)


def _called(name: str, arguments: str, at: int) -> Mapped:
    given = [one or other for one, other in re.findall(r"\"([^\"]*)\"|'([^']*)'", arguments)]
    return made(given[1], at) if name in _FALLBACKS and len(given) == 2 else hole(name, at)
