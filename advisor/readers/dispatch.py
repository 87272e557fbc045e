"""Which form a text has, by its name and above all by what it says, and which function reads it:
loaded when it is needed; readers nest, and ask each other by these names through `Reading`.
"""

import os
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from advisor.domain.patterns import lazy_re

_FORMS = "advisor.readers.forms."
READERS = {
    "batch": f"{_FORMS}lines:read_batch",
    "compose": f"{_FORMS}compose:read_compose",
    "dockerfile": f"{_FORMS}dockerfile:read_dockerfile",
    "env": f"{_FORMS}presets:read_env_file",
    "ini": f"{_FORMS}presets:read_presets",
    "kubernetes": f"{_FORMS}kubernetes:read_kubernetes",
    "containers": f"{_FORMS}kubernetes:read_containers",
    "llmkube": f"{_FORMS}llmkube:read_llmkube",
    "mapping": f"{_FORMS}llama_swap:read_mapping",
    "markdown": f"{_FORMS}documents:read_markdown",
    "python": f"{_FORMS}python_calls:read_python",
    "text": f"{_FORMS}lines:read_any",
    "unit": f"{_FORMS}systemd:read_unit",
    "yaml": f"{_FORMS}settings_yaml:read_yaml",
    "script": f"{_FORMS}scripts:read_script",
    # parts of a file
    "command": "advisor.readers.command:read_command",
    "shell": "advisor.readers.syntax.shell:Shell",
    "inside": f"{_FORMS}documents:read_inside",
}


@cache
def reader(name: str) -> Callable[..., Any]:
    """The function that reads a form. Raises KeyError for a name that is none."""
    module, _, function = READERS[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


_YAML_START = lazy_re(r"^(?:---|[\w\"'.$/{}-]+[ \t]*:(?:[ \t\r]|$))", re.M)
_PYTHON = lazy_re(
    r"^\s*(from [\w.]+ import |import (vllm|sglang|os|modal|torch|subprocess)\b|def \w+\(|class "
    r"\w+|@\w+)",
    re.M,
)
_INI_SECTION = lazy_re(r"^[ \t]*\[[^\]\[\n\"',]+\][ \t]*\r?$", re.M)
_INI_PAIR = lazy_re(r"^[ \t]*[A-Za-z][\w.-]*[ \t]*=", re.M)
_ENV_LINE = lazy_re(r"^[ \t]*(?:export[ \t]+)?[A-Z_][A-Z0-9_]*=", re.M)
_UNIT = lazy_re(r"^[ \t]*\[(Services?|Containers?)\][ \t]*\r?$", re.M)
_DOCKERFILE_NAME = lazy_re(r"(^|[/\\.])(docker|container)file", re.I)
_FROM = lazy_re(r"^FROM [\w./:${}@-]+", re.M)
_STARTS = lazy_re(r"^(CMD|ENTRYPOINT)[ \t]", re.M)
# what only a command file of Windows says; without it `.cmd` holds a plain command line
_WINDOWS = lazy_re(
    r"\^[ \t]*\r?$|^\s*@|^\s*(?:set|setlocal|rem|call|start)\b|^\s*::|%\w+%|\.exe\b"
    r"|(?<![\w/])[A-Za-z]:[\\/]",
    re.M | re.I,
)
_CARET = lazy_re(r"(?<=[ \t])\^[ \t]*\r?$", re.M)
_UNFINISHED = lazy_re(r"\.(?:j2|jinja2?|tmpl|tpl|template|example|sample|dist|bak|orig|in)$")
_HERE_DOCUMENT = lazy_re(r"<<-?[ \t]*['\"\\]?[A-Za-z_]\w*['\"]?[ \t]*(?:\r?$|[|>;&])", re.M)
_FENCE = lazy_re(r"^[ \t]*```", re.M)
_FRONT_MATTER = lazy_re(r"\s*---[ \t]*\r?\n(?:(?!---)[^\n]*\n){0,200}---[ \t]*\r?\n")
_MAKEFILE_NAME = lazy_re(r"(^|[/\\])(gnu)?makefile([._-][\w.-]+)?$|\.mk$", re.I)
_JUSTFILE_NAME = lazy_re(r"(^|[/\\])\.?justfile$|\.just$", re.I)
_MAKE_RULE = lazy_re(
    r"^[A-Za-z.][\w./%$() -]*:(?!=)[^\n]*\n(?:[ \t]*#[^\n]*\n|[ \t]*\n)*\t[ \t]*\S", re.M
)  # YAML has no tabs there
_JUST_RULE = lazy_re(
    r"^@?[A-Za-z_][\w-]*(?:[ \t][^:\n]*)?:[^=\n]*\n(?:[ \t][^\n]*\n){0,200}?[ \t][^\n]*\{\{", re.M
)  # one blank begins a line: with `+` each line could be split in as many ways as it has blanks
_JUST_ASSIGN = lazy_re(r"^(?:export[ \t]+)?[A-Za-z_][\w-]*[ \t]*:=|^set [a-z-]+", re.M)

_SUFFIXES = {
    "script": ".sh .bash .zsh", "unit": ".service .container", "ini": ".ini", "python": ".py",
    "batch": ".cmd .bat", "yaml": ".yaml .yml .json", "env": ".env",
    "markdown": ".md .markdown .mdx", "text": ".ps1 .nix .tf .hcl .nomad .tofu",
}  # fmt: skip
BY_SUFFIX = {suffix: form for form, listed in _SUFFIXES.items() for suffix in listed.split()}


def form_of(name: str, text: str) -> str:
    """The form of a text, a key of READERS."""
    by_name = BY_SUFFIX.get(os.path.splitext(_UNFINISHED.sub("", name.lower()))[1])
    first = text.lstrip()[:300]
    if first.startswith("#!"):
        return "python" if "python" in first.split("\n", 1)[0] else "script"
    if by_name in (None, "unit", "ini") and _UNIT.search(text) and not _HERE_DOCUMENT.search(text):
        return "unit"
    if by_name:
        return _correct_form(by_name, text)
    if _MAKEFILE_NAME.search(name) or _JUSTFILE_NAME.search(name):
        return "text"
    if _DOCKERFILE_NAME.search(name) or (_FROM.search(text) and _STARTS.search(text)):
        return "dockerfile"
    return "env" if re.search(r"(^|[/\\])\.env(\.|$)", name) else _by_content(text, first)


def _correct_form(form: str, text: str) -> str:
    """A suffix that the content contradicts plainly: a shell line in a .yaml, YAML in a .sh."""
    if form == "script" and re.match(r"\s*(?:#[^\n]*\n\s*)*(apiVersion|services|models)\s*:", text):
        return "yaml"
    if form == "batch" and not _WINDOWS.search(text):
        return "script"
    if (
        form == "script"
        and re.match(r"\s*\[[^\]\[\s$\"'][^\]\[\n$\"']*\][ \t]*\r?\n", text)
        and _INI_PAIR.search(text)
    ):
        return "ini"  # a preset of llama-server that a document calls bash
    if form == "script" and _CARET.search(text) and "\\\n" not in text:
        return "batch"  # a command of Windows that a document calls bash
    if form == "yaml" and not _YAML_START.search(text) and text.lstrip()[:1] not in "[{-":
        return "script"
    return form


def _by_content(text: str, first: str) -> str:
    if first.startswith("---") and _FRONT_MATTER.match(text) and _FENCE.search(text):
        return "markdown"
    just = _JUST_ASSIGN.search(text) and _JUST_RULE.search(text)
    if just or (_MAKE_RULE.search(text) and not _FENCE.search(text)):
        return "text"
    if first.startswith(("{", "[")) and not _INI_SECTION.match(first):
        return "yaml"
    if re.search(r"^\s*(@echo off|setlocal\b)", text, re.M | re.I) or (
        _CARET.search(text) and "\\\n" not in text
    ):
        return "batch"
    if (
        re.search(r"[ \t]`[ \t]*\r?$", text, re.M)
        and re.search(r"^\s*(&|\$\w+|[\w./\\-]+)", first)
        and not _FENCE.search(text)
    ):
        return "text"
    if (
        _INI_SECTION.search(text)
        and _INI_PAIR.search(text)
        and not re.search(r"^\s*(if|for|while)\b|\[\[", text, re.M)
    ):
        return "ini"
    if re.match(
        r"(?:\s*#[^\n]*\n|\s)*(?:---|[\w\"'-]+:(?:[ \t\r]*\n|[ \t]+[^\s]))", text
    ) and not re.match(r"\s*[\w.-]+://", text):
        return "yaml"
    if _FENCE.search(text):
        return "markdown"
    if _PYTHON.search(text) and re.search(
        r"\b(LLM|Engine|AsyncEngineArgs|EngineArgs|ServerArgs|subprocess)\b\s*[.(]", text
    ):
        return "python"
    return "env" if _only_assignments(text) else "script"


def _only_assignments(text: str) -> bool:
    """Whether every line is NAME=value, and none holds a command."""
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    return (
        bool(lines)
        and all(_ENV_LINE.match(line) for line in lines)
        and not re.search(r"(?:vllm|sglang)\s+serve|launch_server|llama-server\s", text)
    )
