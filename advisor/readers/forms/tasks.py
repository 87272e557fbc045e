"""Tasks that run a script in a container: dstack's `commands`, a pipeline's `script`. The image and
the environment stand beside them, and once for all `replicas`.
"""

from __future__ import annotations

from advisor.readers.engine_command import Surroundings
from advisor.readers.forms.pods import environment, image_of
from advisor.readers.forms.recipes import read_scripts
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.reading import Reading
from advisor.readers.syntax.yamlnodes import Node

_SCRIPTS = ("commands", "script", "run")
_VARIABLES = ("env", "envs", "environment", "variables")


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
