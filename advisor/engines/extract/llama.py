"""Options of llama-server, from its sources; computed values: `corrections` in its notes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

Row = dict[str, Any]
TYPES = ["TYPES"]  # computed by the sources: see _speculation_types
_OPTION = re.compile(r"\badd_opt\(common_arg\(")
_END = (
    re.compile(r"\n    \)((?:\.set_\w+\((?:[^()]|\([^()]*\))*\))*)\);"),
    re.compile(r"\}\)((?:\.set_\w+\((?:[^()]|\([^()]*\))*\))*)\);"),
)


def of_sources(folder: Path) -> list[Row]:
    """The options that `common/arg.cpp` defines for the server; defaults stay unknown."""
    text = (folder / "common" / "arg.cpp").read_text(encoding="utf-8")
    rows = [row for part in _OPTION.split(text)[1:] if (row := _of_definition(part)) is not None]
    # the words of --spec-type, from the table that the parser looks them up in
    path = folder / "common" / "speculative.cpp"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    table = re.search(r"common_speculative_type_from_name_map = \{(.*?)\n\};", text, re.S)
    types = re.findall(r'\{"([\w-]+)"', table[1]) if table else []
    return [{**row, "choices": types} if types and row["choices"] == TYPES else row for row in rows]


def _of_definition(part: str) -> Row | None:
    end = next((found for pattern in _END if (found := pattern.search(part))), None)
    tail, body = (end[1], part[: end.start()]) if end else ("", part)
    examples, excluded = (
        re.search(rf"set_{word}\(\{{([^}}]*)\}}", tail) for word in ("examples", "excludes")
    )
    if examples and not re.search(r"LLAMA_EXAMPLE_(SERVER|COMMON)\b", examples[1]):
        return None
    spelled = re.match(r"\s*\{([^}]*)\}\s*,?", body)
    if spelled is None or (excluded and "LLAMA_EXAMPLE_SERVER" in excluded[1]):
        return None
    flags, rest = re.findall(r'"(-[^"]+)"', spelled[1]), body[spelled.end() :]
    off = re.match(r"\s*\{([^}]*)\}\s*,", rest)
    if off:
        flags += re.findall(r'"(-[^"]+)"', off[1])
        rest = rest[off.end() :]
    hint = re.match(r'\s*"([^"\n]{1,60})"\s*,\s*(?:"|string_format|std::string|\w)', rest)
    value = hint[1] if hint and not re.match(r'\s*"[^"]*"\s*,?\s*\[', rest) else None
    if re.match(r"\s*common_speculative_all_types_str\(\)", rest):
        value = "TYPES"
    help_text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', rest.split("[](")[0]))
    env = re.search(r'set_env\("(\w+)"\)', tail)
    listed = re.fullmatch(r"\[[\w|-]+\]", value or "")
    removed = "has been removed" in help_text or "arg_removed" in rest
    return {
        "flags": flags,
        "dest": max(flags, key=len).lstrip("-").replace("-", "_"),
        "type": "flag" if not value else "int" if "int value" in rest else "str",
        "default": None,
        "choices": TYPES if value == "TYPES" else listed and listed[0][1:-1].split("|"),
        "nargs": 1 if value else 0,
        "deprecated": removed or bool(re.search(r"\bdeprecated\b", help_text, re.I)),
        "removed": removed,
        "env": env[1] if env else None,
    }


def environment(rows: list[Row]) -> list[Row]:
    """The variables that set these options."""
    return [
        {"name": row["env"], "type": row["type"], "default": row["default"]}
        for row in rows
        if row["env"]
    ]
