"""Fact files (YAML): read, checked against their nouns, and what names their entries claim."""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from advisor.domain.files import UnusableFile, read_yaml_safely
from advisor.domain.nouns import (
    LLM,
    AdvisorError,
    DrafterFile,
    Frozen,
    Hardware,
    Quant,
    Quantity,
    UnknownFact,
)
from advisor.domain.paths import knowledge_dir, read_data
from advisor.domain.printable import printable
from advisor.knowledge.drafters import odd
from advisor.knowledge.names import architecture_among, key_of, squeeze

MAX_FILE_BYTES = 64 * 1024  # a fact file is a page of text; a larger one is a mistake
TABLES: dict[str, type[Frozen]] = {"hardware": Hardware, "llms": LLM, "quants": Quant}
KINDS = TABLES | {"drafters": DrafterFile}  # every kind of fact file that is checked against a noun
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
Problem = tuple[str, str, str]  # file, field, reason
Index = dict[str, Any]
Table = dict[str, dict[str, Any]]


class FactFileError(AdvisorError):
    """A fact file that cannot be used; `problems` lists (file, field, reason)."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        file, field, reason = problems[0]
        super().__init__(f"{file}: {field}: {reason}" if field else f"{file}: {reason}")


class NameClash(AdvisorError):
    """One name that two entries claim."""

    def __init__(self, name: str, first: str, second: str) -> None:
        self.ids = (first, second)
        super().__init__(
            f"the name '{name}' belongs to both {first} and {second}: remove one alias"
        )


def read_yaml(path: Path) -> Any:
    """One YAML document of bounded size and depth, with plain types only. Raises FactFileError."""
    try:
        return read_yaml_safely(path, MAX_FILE_BYTES)
    except UnusableFile as error:
        line = f"line {error.line}" if error.line else ""
        raise FactFileError([(printable(str(path)), line, error.reason)]) from None


def check_entry(table: str, data: object, file: str) -> tuple[Frozen | None, list[Problem]]:
    """One entry against its noun: the value or None, and every reason against it."""
    if not isinstance(data, dict):
        return None, [(file, "", "expected a mapping of fields to values, such as `id: my-card`")]
    try:
        entry = KINDS[table].model_validate(data)
    except ValidationError as error:
        return None, [(file, ".".join(map(str, e["loc"])), _reason(e)) for e in error.errors()]
    return entry, [(file, *problem) for problem in _odd(table, entry)]


def _reason(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "no such field"
    if error["type"] == "missing":
        return "is missing"
    return f"{error['msg']} (got {str(error['input'])[:60]!r})"


@cache
def _architectures() -> dict[str, Any]:
    """From the YAML file of a checkout, else from the index of an installed package."""
    path = knowledge_dir() / "imputation.yaml"
    if path.is_file():
        tables = read_yaml(path)
    else:
        tables = json.loads(read_data("knowledge/index.json"))["imputation"]
    found: dict[str, Any] = tables["architectures"]
    return found


def _odd(table: str, entry: Frozen) -> Iterable[tuple[str, str]]:
    """(field, reason) of what the types cannot say: signs, sources, names."""
    yield from _odd_numbers(entry)
    ident = str(getattr(entry, "id", ""))
    if not key_of(ident):
        yield "id", "needs at least one letter or digit"
    elif not _ID.fullmatch(ident):
        like = "as in rtx3090 or qwen3.6-27b"
        yield "id", f"use small letters, digits, dots, hyphens and underscores, {like}"
    if isinstance(entry, Hardware) and entry.arch:
        try:
            architecture_among(_architectures(), entry.gpu_family or entry.arch)
        except UnknownFact as error:
            yield "arch", f"{error} Or leave it out."
    if table in ("llms", "quants") and not str(getattr(entry, "source", "")).strip():
        like = "a page, a file, `own measurement`"
        yield "source", f"a model or quantisation needs a source ({like})"
    if isinstance(entry, LLM):
        yield from _odd_model(entry)
    if isinstance(entry, DrafterFile):
        yield from odd(entry)


def _odd_numbers(entry: Frozen) -> Iterable[tuple[str, str]]:
    for name, value in entry:
        number = value.value if isinstance(value, Quantity) else value
        counts = isinstance(number, float | int) and not isinstance(number, bool)
        if counts and not 0 <= number < 1e9:
            yield name, f"{number} is out of range: it must be 0 or more and finite"
        if isinstance(value, Quantity) and not value.source.strip():
            yield name, "a number needs a source"
        if isinstance(value, Quantity) and value.value <= 0 and name != "default_temperature":
            yield name, "must be above 0; leave the field out if it is not known"


def _odd_model(entry: LLM) -> Iterable[tuple[str, str]]:
    parts = {"active_params_b": "total_params_b", "experts_per_token": "experts"}
    for part, whole in (parts | {"kv_heads": "heads"}).items():
        few, all_of = getattr(entry, part), getattr(entry, whole)
        if few and all_of and few > all_of:
            yield part, f"is larger than {whole}"
    for name in ("layers", "hidden", "heads", "vocab"):
        if getattr(entry, name) == 0:
            yield name, "must be above 0; leave the field out if it is not known"


def tidy(entry: Frozen) -> dict[str, Any]:
    """Return the entry as plain JSON data, without the fields that have their default."""
    return entry.model_dump(mode="json", exclude_defaults=True)


def read_table(table: str, folder: Path) -> dict[str, dict[str, Any]]:
    """All entries of a folder by id, in file order. Raises FactFileError with every problem."""
    out: dict[str, dict[str, Any]] = {}
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.yaml")):
        entry, bad = check_entry(table, _name_engines(read_yaml(path)), path.name)
        problems += bad
        if entry is not None:
            ident = str(getattr(entry, "id"))  # noqa: B009
            if ident in out:
                problems.append((path.name, "id", f"'{ident}' is used twice"))
            out[ident] = tidy(entry)
    if problems:
        raise FactFileError(problems)
    return out


def _name_engines(data: Any) -> Any:
    """The data with checkpoints open to all engines where they name none."""
    found = data.get("checkpoints") if isinstance(data, dict) else None
    for checkpoint in found if isinstance(found, list) else ():
        if isinstance(checkpoint, dict):
            checkpoint.setdefault("engines", [])
    return data


def name_keys(table: Table) -> dict[str, str]:
    """Normal form of every id, name and alias -> id. Raises NameClash for one claimed twice."""
    keys, clashes = claims(table)
    if clashes:
        raise clashes[0]
    return keys


def claims(table: Table) -> tuple[dict[str, str], list[NameClash]]:
    """The keys of `name_keys`, and what it would refuse; an id goes before an alias."""
    keys: dict[str, str] = {}
    clashes: dict[tuple[str, str, str], NameClash] = {}
    for ident, entry in table.items():
        for name in (ident, *entry.get("aliases", ())):
            for form in (key_of(name), key_of(name).replace(".", "")):
                holder = keys.setdefault(form, ident)
                if ident not in (holder, name):
                    clashes[name, holder, ident] = NameClash(name, holder, ident)
                keys[form] = ident if name == ident else holder
    for ident, entry in table.items():
        if entry.get("name"):
            keys.setdefault(key_of(entry["name"]), ident)
    return keys, list(clashes.values())


def model_forms(
    llms: dict[str, dict[str, Any]], text_aliases: dict[str, list[str]]
) -> list[tuple[str, str, bool]]:
    """(form, id, loose) to look for in longer texts, longest first; loose: without its dots."""
    forms: dict[str, tuple[str, bool]] = {}
    for ident, entry in llms.items():
        if ident.startswith("unknown"):
            continue
        names = [ident, *text_aliases.get(ident, ())]
        names += [
            alias
            for alias in entry.get("aliases", ())
            if len(key_of(alias)) >= 5 and not alias[0].isdigit()
        ]
        for form in map(squeeze, names):
            forms[form] = (ident, False)
            if "." in form:
                forms.setdefault(form.replace(".", ""), (ident, True))
    rows = [(form, ident, loose) for form, (ident, loose) in forms.items()]
    return sorted(rows, key=lambda row: (-len(row[0]), row[0]))


def repositories(*tables: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Repository in lower case -> [model id, quantisation or "" where it holds several]."""
    out: dict[str, list[str]] = {}
    for ident, entry in ((i, entry) for table in tables for i, entry in table.items()):
        for point in entry.get("checkpoints", ()):
            name = point["repository"].lower()
            old = out.get(name)
            quant = point["quant"] if old is None or old[1] == point["quant"] else ""
            out[name] = [ident, "" if point.get("file") else quant]
    return out
