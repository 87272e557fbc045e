"""What a release has: options, fields of JSON options, environment; for `probe` alone."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import importlib
import re
import types
import typing
from pathlib import Path
from typing import Any

from release_parsers import module  # type: ignore[import-not-found]  # beside this file

# tables of names that vLLM checks only at the start: option -> (modules that held it, its name)
VLLM_NAMES = {
    "--tool-call-parser": (
        ("vllm.tool_parsers", "vllm.entrypoints.openai.tool_parsers"),
        "_TOOL_PARSERS_TO_REGISTER",
    ),
    "--reasoning-parser": (("vllm.reasoning",), "_REASONING_PARSERS_TO_REGISTER"),
}
LOAD_FORMATS = ("vllm/model_executor/model_loader/__init__.py", "LoadFormats")
VLLM_CONFIGS = (
    "SpeculativeConfig", "CompilationConfig", "CacheConfig", "SchedulerConfig", "ModelConfig",
    "ParallelConfig", "KVTransferConfig", "KVEventsConfig", "AttentionConfig", "MambaConfig",
    "KernelConfig", "StructuredOutputsConfig", "LoadConfig", "ObservabilityConfig", "EPLBConfig",
    "PassConfig", "ReasoningConfig", "OffloadConfig", "UVAOffloadConfig", "PrefetchOffloadConfig",
    "MultiModalConfig", "LoRAConfig", "PoolerConfig", "WeightTransferConfig", "ProfilerConfig",
    "VllmConfig",
)  # fmt: skip


def plain(value: object) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, type(None) | bool | int | float | str):
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value) if isinstance(value.value, str | int) else value.name
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"<{type(value).__name__}()>"
    return str(value)[:120]


def options(parser: argparse.ArgumentParser, names: dict[str, list[str]]) -> list[dict[str, Any]]:
    """One row per option; `names`: values that the server checks at its start."""
    accepted: dict[int, set[str]] = {}
    for spelling, action in parser._option_string_actions.items():
        accepted.setdefault(id(action), set()).add(spelling)
    rows = []
    for action in parser._actions:
        if action.dest == "help" and not names:  # vLLM documents its own
            continue
        kind = type(action).__name__
        choices: Any = action.choices or ()
        if not isinstance(choices, set | frozenset):
            choices = list(choices)
        marked = re.search(r"\bdeprecated\b", str(action.help or ""), re.I)
        row = {
            "flags": list(action.option_strings) or [action.dest],
            "dest": action.dest,
            "type": _type(action),
            "default": plain(action.default),
            "choices": plain(choices) or None,
            "nargs": action.nargs,
            "deprecated": "Deprecated" in kind or bool(marked or getattr(action, "deprecated", 0)),
            "also_accepts": sorted(accepted.get(id(action), set()) - set(action.option_strings)),
            "positional": not action.option_strings,
            "action": kind,
        }
        found = next((names[flag] for flag in action.option_strings if flag in names), None)
        rows.append(row if found is None else {**row, "values": found})
    return rows


def _type(action: argparse.Action) -> str:
    if isinstance(action, argparse.BooleanOptionalAction) or action.nargs == 0:
        return "flag"
    if action.type is None:
        return "str"
    name = getattr(action.type, "__name__", None) or type(action.type).__name__
    whole = getattr(action.type, "__qualname__", name)
    if "parse_type" in whole or name in ("_optional_type", "parse", "_inner"):
        for cell in getattr(action.type, "__closure__", None) or ():
            if callable(cell.cell_contents):
                name = getattr(cell.cell_contents, "__name__", str(cell.cell_contents))
    return {"loads": "json"}.get(name, name)


def vllm_names(folder: Path) -> dict[str, list[str]]:
    """Names of the tool and reasoning parsers that the release registers, and of load formats."""
    found = {"--load-format": load_formats(folder)}
    for option, (modules, table) in VLLM_NAMES.items():
        held = next(
            (getattr(module(name), table) for name in modules if hasattr(module(name), table)), None
        )
        if held is None:
            raise RuntimeError(f"names of {option} are elsewhere in this release: see VLLM_NAMES")
        found[option] = sorted(held)
    return found


def load_formats(folder: Path) -> list[str]:
    """The members of vLLM's LoadFormats, read off its source: importing it asks for kernels."""
    path, name = LOAD_FORMATS
    for node in ast.parse((folder / path).read_text(encoding="utf-8")).body:
        names = [target.id for target in getattr(node, "targets", ()) if hasattr(target, "id")]
        if isinstance(node, ast.Assign) and name in names:
            return [str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)]
    raise RuntimeError(f"this release keeps {name} elsewhere: change LOAD_FORMATS")


def vllm_configs() -> dict[str, list[dict[str, Any]]]:
    """Fields of the classes behind JSON options."""
    parts = ("compilation", "cache", "mamba", "offload", "parallel")
    places = [importlib.import_module("vllm.config"), *(module(f"vllm.config.{p}") for p in parts)]
    configs = {}
    for name in VLLM_CONFIGS:
        kind = next((kind for place in places if (kind := getattr(place, name, None))), None)
        if kind is None:
            continue
        try:
            hints = typing.get_type_hints(kind)
        except Exception:  # a name for type checkers only: the annotation's text has to do
            hints = {}
        configs[name] = [_field(field, hints) for field in dataclasses.fields(kind)]
    return configs


def _field(field: dataclasses.Field[Any], hints: dict[str, Any]) -> dict[str, Any]:
    hint: Any = hints.get(field.name, field.type)
    default: Any = field.default
    limits: list[str] = []
    if type(default).__name__ == "FieldInfo":
        limits = [str(limit) for limit in default.metadata]
        factory = default.default_factory
        undefined = str(default.default) == "PydanticUndefined"
        shown = "<required>" if undefined else plain(default.default)
        shown = f"<factory {getattr(factory, '__name__', '?')}>" if factory is not None else shown
    elif default is not dataclasses.MISSING:
        shown = plain(default)
    elif callable(field.default_factory):
        try:
            shown = plain(field.default_factory())
        except Exception:  # needs a model or a device
            shown = "<factory>"
    else:
        shown = "<required>"
    name = hint if isinstance(hint, str) else hint.__name__ if isinstance(hint, type) else str(hint)
    name = re.sub(r"\b(typing|collections\.abc|vllm\.[\w.]+)\.", "", name)[:160]
    choices = list(dict.fromkeys(_literals(hint))) or None
    row = {"name": field.name, "type": name, "default": shown, "choices": choices}
    return row | {"limits": limits or None, "init": field.init}


def _literals(hint: Any) -> list[Any]:
    if typing.get_origin(hint) is typing.Literal:
        parts = (
            [plain(x)] if typing.get_origin(x) is not typing.Literal else _literals(x)
            for x in typing.get_args(hint)
        )
        return [value for part in parts for value in part]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [member.name for member in hint]
    if typing.get_origin(hint) in (typing.Union, types.UnionType, typing.Annotated):
        return [value for part in typing.get_args(hint) for value in _literals(part)]
    return []


def vllm_environment() -> list[dict[str, Any]]:
    """Return the environment variables of the imported vLLM with type and default."""
    envs = importlib.import_module("vllm.envs")
    typed: dict[str, dict[str, str | None]] = {}
    for node in ast.walk(ast.parse(Path(str(envs.__file__)).read_text(encoding="utf-8"))):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            default = ast.unparse(node.value) if node.value else None
            typed[node.target.id] = {"type": ast.unparse(node.annotation), "default": default}
    unknown = {"type": None, "default": None}
    names = sorted(getattr(envs, "environment_variables", {}))
    return [{"name": name, **typed.get(name, unknown)} for name in names]


def sglang_environment(folder: Path) -> list[dict[str, Any]]:
    """Return the environment variables of an unpacked SGLang with type and default."""
    tree = ast.parse((folder / "sglang/srt/environ.py").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Envs"]
    rows = []
    for node in (node for kind in classes for node in kind.body if isinstance(node, ast.Assign)):
        target, call = node.targets[0], node.value
        if isinstance(call, ast.Call) and isinstance(target, ast.Name):
            default = ast.unparse(call.args[0]) if call.args else None
            rows.append({"name": target.id, "type": ast.unparse(call.func), "default": default})
    return rows
