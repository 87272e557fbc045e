"""YAML that keeps commands as text: recipes of cluster launchers, tasks, pipelines."""

from __future__ import annotations

import re

from advisor.readers.mapped import Mapped, join
from advisor.readers.reading import Env, Reading, Surroundings
from advisor.readers.scope import Scope
from advisor.readers.yamlnodes import Node, scalar

_KEYS = frozenset(("command", "cmd", "run", "script", "shell", "exec", "start", "launch", "args", "entrypoint"))


def read_scripts(node: Node, env: Env, reading: Reading) -> None:
    """The texts of a mapping that start an engine; `{name}` is filled from the mapping `defaults` beside them."""
    from advisor.readers.command import ENGINE_TEXT
    from advisor.readers.shell import Shell

    for key, script in node.entries():
        if script.kind != "scalar" or key.text.rsplit(".", 1)[-1] not in _KEYS or not ENGINE_TEXT.search(script.text):
            continue
        text = _filled(scalar(script, reading.source), node.get("defaults", "vars", "variables"), reading)
        scope = Scope({name: item.value for name, item in env.items() if item.value is not None})
        reading.form = "recipe"
        Shell(text, reading, scope, around=Surroundings(kind="recipe"), passed=env).run()


def _filled(text: Mapped, defaults: Node | None, reading: Reading) -> Mapped:
    if defaults is None or "{" not in text.text:
        return text
    if not re.search(r"\{\{\s*\w+\s*\}\}", text.text):
        return _formatted(text, defaults, reading)
    parts: list[Mapped] = []
    done = 0
    for found in re.finditer(r"(?<![$\w])\{\{?\s*(\w+)\s*\}?\}", text.text):
        value = defaults.get(found.group(1))
        if value is not None and value.kind == "scalar":
            parts += [text.part(done, found.start()), scalar(value, reading.source)]
            done = found.end()
    return join((*parts, text.part(done, len(text))))


def _formatted(text: Mapped, defaults: Node, reading: Reading) -> Mapped:
    """As Python's `str.format` fills it: `{name}`, and doubled braces for single ones."""
    doubled = "{{" in text.text
    parts: list[Mapped] = []
    done = 0
    for found in re.finditer(r"\{\{|\}\}|(?<![$\w])\{(\w+)\}", text.text):
        name = found.group(1)
        value = defaults.get(name) if name else None
        if name and (value is None or value.kind != "scalar"):
            continue
        if not name and not doubled:
            continue
        parts.append(text.part(done, found.start()))
        parts.append(
            scalar(value, reading.source) if value is not None else text.part(found.start(), found.start() + 1)
        )
        done = found.end()
    return join((*parts, text.part(done, len(text))))
