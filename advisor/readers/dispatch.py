"""Which function reads which form: the one place where a reader is found, and loaded when a file
needs it.

Readers nest: a compose file holds a shell script that writes a preset. They ask each other by these
names, through `Reading`, and import nothing of one another that leads back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

_FORMS = "advisor.readers.forms."
READERS = {
    "batch": f"{_FORMS}batch:read_batch",
    "compose": f"{_FORMS}compose:read_compose",
    "dockerfile": f"{_FORMS}dockerfile:read_dockerfile",
    "env": f"{_FORMS}presets:read_env_file",
    "ini": f"{_FORMS}presets:read_presets",
    "kubernetes": f"{_FORMS}kubernetes:read_kubernetes",
    "containers": f"{_FORMS}kubernetes:read_containers",
    "llmkube": f"{_FORMS}llmkube:read_llmkube",
    "mapping": f"{_FORMS}llama_swap:read_mapping",
    "markdown": f"{_FORMS}documents:read_markdown",
    "plist": f"{_FORMS}systemd:read_plist",
    "python": f"{_FORMS}python_calls:read_python",
    "rst": f"{_FORMS}documents:read_rst",
    "text": f"{_FORMS}anywhere:read_anywhere",
    "unit": f"{_FORMS}systemd:read_unit",
    "yaml": f"{_FORMS}yaml_files:read_yaml",
    "script": f"{_FORMS}scripts:read_script",
    # parts of a file
    "command": "advisor.readers.command:read_command",
    "shell": "advisor.readers.syntax.shell:Shell",
    "inside": "advisor.readers.inside:read_inside",
}


@cache
def reader(name: str) -> Callable[..., Any]:
    """The function that reads a form. Raises KeyError for a name that is none."""
    module, _, function = READERS[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
