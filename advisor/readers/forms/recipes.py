"""YAML that keeps commands as text: recipes of cluster launchers, tasks, pipelines."""

from __future__ import annotations

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.engine_command import Env, Surroundings
from advisor.readers.forms.pods import environment, image_of
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, join, literal, replace_matches, synthetic
from advisor.readers.syntax.scope import Scope
from advisor.readers.syntax.yamlnodes import Node, scalar

_ARGUMENTS = lazy_re(r"args|extraArgs|extra_args|command|entrypoint")
_IMAGE = lazy_re(
    r"[\w.-]+(?::\d+)?(?:/[\w.-]+)*[:@][\w.:-]+|[\w.-]+(?:/[\w.-]+)+"
    r"|[\w.-]*(?:vllm|sglang|llama)[\w.-]*"
)
_SCRIPTS = ("commands", "script", "run")
_VARIABLES = ("env", "envs", "environment", "variables")
MAX_LINES = 500
_DOUBLED = lazy_re(r"'\{\{[ \t]*\"")  # of a JSON text that `str.format` is to make
_NAMED = lazy_re(r"\{\{\s*(\w+)\s*\}\}|\{\{|\}\}|(?<![$\w])\{(\w+)\}")
_KEY = lazy_re(
    r"(?:^|[._-]|(?<=[a-z]))(?:command|cmd|run|script|shell|exec|start|launch|args"
    r"|entrypoint|serve)s?$",
    re.I,
)


def read_scripts(
    node: Node, env: Env, reading: Reading, around: Surroundings | None = None
) -> None:
    """The texts of a mapping that start an engine: scripts, lists of their lines, and files."""
    for key, value in node.entries():
        if value.kind == "seq":
            _script_lines(key, value, env, reading, around)
        elif value.kind != "scalar" or not ENGINE_TEXT.search(value.text):
            continue
        elif _KEY.search(key.text):
            whole = scalar(value, reading.source)
            # a folded text is one line to its writer; YAML keeps newlines before deeper lines
            if value.style == ">":
                whole = Mapped(re.sub(r"\n(?=[ \t])", " ", whole.text), whole.pos)
            defaults = node.get("defaults")  # `{name}` in the text of a recipe
            filled = defaults is not None or _DOUBLED.search(whole.text)
            text = _fill(whole, defaults, reading) if filled else whole
            _read_script(text, env, reading, around or _task(node, reading))
        elif "\n" in value.text:
            _read_file(node, key, value, reading)


def _read_script(text: Mapped, env: Env, reading: Reading, around: Surroundings | None) -> None:
    scope = Scope({name: item.value for name, item in env.items() if item.value is not None})
    reading.form = "recipe"
    reading.shell(text, scope, around=around or Surroundings(kind="recipe"), passed=env)


def _task(node: Node, reading: Reading) -> Surroundings:
    """What a task asks for: `resources.accelerators` of SkyPilot, `container` of sparkrun."""
    around = Surroundings(kind="recipe")
    wanted = node.path("resources.accelerators")
    count = re.fullmatch(r"[\w-]+:(\d{1,3})", wanted.text) if wanted is not None else None
    if count is not None and wanted is not None:
        around.gpus = count.group(1)
        around.asked = [scalar(wanted, reading.source).part(*count.span(1))]
        around.whole = True
    image = node.get("container", "container_image", "docker_image", "image")
    if image is not None and image.kind == "scalar" and _IMAGE.fullmatch(image.text):
        around.image = scalar(image, reading.source)
    return around


def _script_lines(
    key: Node, value: Node, env: Env, reading: Reading, around: Surroundings | None
) -> None:
    """A list of whole commands; single words are a container's."""
    lines = [item for item in value.items if item.kind == "scalar" and item.text.strip()]
    if _ARGUMENTS.fullmatch(key.text) or not any(
        " " in line.text and ENGINE_TEXT.search(line.text) for line in lines
    ):
        return
    parts = [
        part
        for line in lines[:MAX_LINES]
        for part in (
            scalar(line, reading.source),
            synthetic("" if line.text.endswith("\n") else "\n"),
        )
    ]
    _read_script(join(parts), env, reading, around)


def _read_file(node: Node, key: Node, value: Node, reading: Reading) -> None:
    """`content:` of a file that a machine gets, or prose with code blocks."""
    path = node.get("path", "dest", "filename")
    name = (
        path.text
        if path is not None and path.kind == "scalar"
        else "x.md"
        if "```" in value.text
        else ""
    )
    if name or key.text in ("content", "data", "user_data", "userData", "cloud-init"):
        reading.inside(scalar(value, reading.source), 1, name)


def _fill(text: Mapped, defaults: Node | None, reading: Reading) -> Mapped:
    """As Python's `str.format` and Jinja fill it; doubled braces stand for single ones."""

    def value_of(mark: re.Match[str], at: int) -> Mapped | None:
        if mark[0] in ("{{", "}}"):
            return literal(mark[0][0], at)
        value = defaults.get(mark[1] or mark[2]) if defaults is not None else None
        known = value if value is not None and value.kind == "scalar" else None
        return None if known is None else scalar(known, reading.source)

    return replace_matches(text, _NAMED, value_of)


def read_task(node: Node, reading: Reading) -> list[Node]:
    """Read the scripts of a task; the nodes that were read, none if it is no task."""
    replicas = node.get("replicas")
    holders = [
        one for one in (node, *(replicas.items if replicas is not None else [])) if _has_script(one)
    ]
    if node.get("image") is None or not holders:
        return []
    shared = environment(node.get(*_VARIABLES), reading)
    for holder in holders:
        around = Surroundings(kind="recipe")
        image_of(around, holder if holder.get("image") is not None else node, reading)
        own = environment(holder.get(*_VARIABLES), reading) if holder is not node else {}
        read_scripts(holder, {**shared, **own}, reading, around)
    return holders


def _has_script(node: Node) -> bool:
    script = node.get(*_SCRIPTS) if node.kind == "map" else None
    if script is None:
        return False
    return any(
        ENGINE_TEXT.search(one.text) for one in (script, *script.items) if one.kind == "scalar"
    )
