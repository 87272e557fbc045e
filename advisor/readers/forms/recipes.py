"""YAML that keeps commands as text: recipes of cluster launchers, tasks, pipelines."""

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.engine_command import Env, Surroundings
from advisor.readers.forms.pods import environment, image_of
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, join, literal, replace_matches, synthetic
from advisor.readers.syntax.scope import Scope
from advisor.readers.syntax.yamlnodes import Node

_ARGUMENTS = lazy_re(r"args|extraArgs|extra_args|command|entrypoint")
_IMAGE = lazy_re(
    r"[\w.-]+(?::\d+)?(?:/[\w.-]+)*[:@][\w.:-]+|[\w.-]+(?:/[\w.-]+)+"
    r"|[\w.-]*(?:vllm|sglang|llama)[\w.-]*"
)
_SCRIPTS = ("commands", "script", "run")
_OF_FILES = ("content", "data", "user_data", "userData", "cloud-init")
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
            text = value.text_map
            # a folded text is one line to its writer; YAML keeps newlines before deeper lines
            if value.style == ">":
                text = Mapped(re.sub(r"\n(?=[ \t])", " ", text.text), text.pos)
            defaults = node.get("defaults")  # `{name}` in the text of a recipe
            if defaults or _DOUBLED.search(text.text):
                text = _fill(text, defaults)
            _read_script(text, env, reading, around or _task(node))
        elif "\n" in value.text:  # `content:` of a file that a machine gets, or prose with code
            path = node.get("path", "dest", "filename")
            name = path.text if path.kind == "scalar" else "x.md" if "```" in value.text else ""
            if name or key.text in _OF_FILES:
                reading.inside(value.text_map, 1, name)


def _read_script(text: Mapped, env: Env, reading: Reading, around: Surroundings | None) -> None:
    reading.form, about = "recipe", around or Surroundings(kind="recipe")
    reading.shell(text, Scope.inside(env), around=about, passed=env)


def _task(node: Node) -> Surroundings:
    """What a task asks for: `resources.accelerators` of SkyPilot, `container` of sparkrun."""
    around = Surroundings(kind="recipe")
    if count := re.fullmatch(r"[\w-]+:(\d{1,3})", node.path("resources.accelerators").text):
        around.gpus = count[1]
    image = node.get("container", "container_image", "docker_image", "image")
    if image.kind == "scalar" and _IMAGE.fullmatch(image.text):
        around.image = image.text_map
    return around


def _script_lines(
    key: Node, value: Node, env: Env, reading: Reading, around: Surroundings | None
) -> None:
    lines = [item for item in value.items if item.kind == "scalar" and item.text.strip()]
    if _ARGUMENTS.fullmatch(key.text) or not any(
        " " in line.text and ENGINE_TEXT.search(line.text) for line in lines
    ):
        return
    parts: list[Mapped] = []
    for line in lines[:MAX_LINES]:
        parts += (line.text_map, synthetic("" if line.text.endswith("\n") else "\n"))
    _read_script(join(parts), env, reading, around)


def _fill(text: Mapped, defaults: Node) -> Mapped:
    """As Python's `str.format` and Jinja fill it; doubled braces stand for single ones."""

    def value_of(mark: re.Match[str], at: int) -> Mapped | None:
        if mark[0] in ("{{", "}}"):
            return literal(mark[0][0], at)
        value = defaults.get(mark[1] or mark[2])
        return value.text_map if value.kind == "scalar" else None

    return replace_matches(text, _NAMED, value_of)


def read_task(node: Node, reading: Reading) -> list[Node]:
    """Read the scripts of a task; the nodes that were read, none if it is no task."""
    if not node.get("image"):
        return []
    holders = [
        one
        for one in (node, *node.get("replicas").items)
        if any(ENGINE_TEXT.search(text.text) for text in one.get(*_SCRIPTS).members)
    ]
    for holder in holders:
        around = Surroundings(kind="recipe")
        image_of(around, holder if holder.get("image") else node)
        env = environment(node.get(*_VARIABLES)) | environment(holder.get(*_VARIABLES))
        read_scripts(holder, env, reading, around)
    return holders
