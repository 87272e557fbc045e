"""Fact files (YAML) -> one compiled index (JSON); checks of fact files, shipped ones and the user's own.

`advisor knowledge build` writes knowledge/index.json from knowledge/{hardware,llms,quants,methods}/*.yaml and the lists
beside them. This is the only place that parses YAML facts; the recommendation path reads the index alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from advisor.knowledge_names import bare_key, key_of, squeeze
from advisor.paths import knowledge_dir
from advisor.types import LLM, AdvisorError, Frozen, Hardware, Quant, Quantity

MAX_FILE_BYTES = 64 * 1024  # a fact file is a page of text; a larger one is a mistake
TABLES: dict[str, type[Frozen]] = {"hardware": Hardware, "llms": LLM, "quants": Quant}
GENERATED = "by `advisor knowledge build` from the YAML files of knowledge/; do not edit"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Problem = tuple[str, str, str]  # file, field, reason
Index = dict[str, Any]


class FactFileError(AdvisorError):
    """A fact file that cannot be used; `problems` lists (file, field, reason)."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        file, field, reason = problems[0]
        super().__init__(f"{file}: {field}: {reason}" if field else f"{file}: {reason}")


def read_yaml(path: Path) -> Any:
    """One YAML document of bounded size, with plain types only. Raises FactFileError."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise FactFileError([(str(path), "", f"larger than {MAX_FILE_BYTES // 1024} KiB: not a fact file")])
        text = path.read_text(encoding="utf-8")
        if "&" in text and any(isinstance(t, yaml.AliasToken) for t in yaml.scan(text, Loader=_LOADER)):
            raise FactFileError([(str(path), "", "YAML aliases (*name) are not allowed in a fact file")])
        return yaml.load(text, Loader=_LOADER)
    except OSError as error:
        raise FactFileError([(str(path), "", error.strerror or "cannot be read")]) from None
    except UnicodeDecodeError:
        raise FactFileError([(str(path), "", "not UTF-8 text")]) from None
    except RecursionError:
        raise FactFileError([(str(path), "", "nested too deeply")]) from None
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark else ""
        raise FactFileError([(str(path), where, f"not YAML: {reason}")]) from None


def check_entry(table: str, data: object, file: str) -> tuple[Frozen | None, list[Problem]]:
    """One entry against its noun: the value or None, and every reason against it."""
    if not isinstance(data, dict):
        return None, [(file, "", "expected a mapping of fields to values, such as `id: my-card`")]
    try:
        entry = TABLES[table].model_validate(data)
    except ValidationError as error:
        return None, [(file, ".".join(map(str, e["loc"])), _reason(e)) for e in error.errors()]
    return entry, list(_odd(table, entry, file))


def _reason(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "no such field"
    if error["type"] == "missing":
        return "is missing"
    return f"{error['msg']} (got {str(error['input'])[:60]!r})"


def _odd(table: str, entry: Frozen, file: str) -> Iterable[Problem]:
    """What the types cannot say: signs, sources, names."""
    for name, value in entry:
        number = value.value if isinstance(value, Quantity) else value
        if isinstance(number, float | int) and not isinstance(number, bool) and not 0 <= number < 1e9:
            yield (file, name, f"{number} is out of range: it must be 0 or more and finite")
        if isinstance(value, Quantity) and not value.source.strip():
            yield (file, name, "a number needs a source")
        if isinstance(value, Quantity) and value.value <= 0 and name != "default_temperature":
            yield (file, name, "must be above 0; leave the field out if it is not known")
    ident = str(getattr(entry, "id", ""))
    if not key_of(ident):
        yield (file, "id", "needs at least one letter or digit")
    if table != "hardware" and not str(getattr(entry, "source", "")).strip():
        yield (file, "source", "a model or quantisation needs a source (a page, a file, `own measurement`)")
    if isinstance(entry, LLM):
        yield from _odd_model(entry, file)


def _odd_model(entry: LLM, file: str) -> Iterable[Problem]:
    if entry.active_params_b and entry.total_params_b and entry.active_params_b > entry.total_params_b:
        yield (file, "active_params_b", "is larger than total_params_b")
    if entry.experts and entry.experts_per_token and entry.experts_per_token > entry.experts:
        yield (file, "experts_per_token", "is larger than experts")
    for name in ("layers", "hidden", "heads", "vocab"):
        if getattr(entry, name) == 0:
            yield (file, name, "must be above 0; leave the field out if it is not known")


def check_file(table: str, path: Path) -> list[Problem]:
    """Every problem of one fact file; an empty list means that it can be used."""
    try:
        data = read_yaml(path)
    except FactFileError as error:
        return error.problems
    return check_entry(table, data, str(path))[1]


def _tidy(entry: Frozen) -> dict[str, Any]:
    return entry.model_dump(mode="json", exclude_defaults=True)


def read_table(table: str, folder: Path) -> dict[str, dict[str, Any]]:
    """All entries of a folder by id, in file order. Raises FactFileError with every problem found."""
    out: dict[str, dict[str, Any]] = {}
    problems: list[Problem] = []
    for path in sorted(folder.glob("*.yaml")):
        data = read_yaml(path)
        entry, bad = check_entry(table, data, path.name)
        problems += bad
        if entry is not None:
            ident = str(getattr(entry, "id"))  # noqa: B009
            if ident in out:
                problems.append((path.name, "id", f"'{ident}' is used twice"))
            out[ident] = _tidy(entry)
    if problems:
        raise FactFileError(problems)
    return out


def name_keys(table: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Normal form of every id, name and alias -> id. Raises AdvisorError where two entries claim one name."""
    keys: dict[str, str] = {}
    for ident, entry in table.items():
        for name in (ident, *entry.get("aliases", ())):
            for form in (key_of(name), bare_key(name)):
                if keys.setdefault(form, ident) != ident and name != ident:
                    raise AdvisorError(f"the name '{name}' belongs to both {keys[form]} and {ident}: remove one alias")
                keys[form] = ident if name == ident else keys[form]
    for ident, entry in table.items():
        if entry.get("name"):
            keys.setdefault(key_of(entry["name"]), ident)
    return keys


def model_forms(llms: dict[str, dict[str, Any]], text_aliases: dict[str, list[str]]) -> list[tuple[str, str, bool]]:
    """(form, id, loose) to look for inside longer texts, longest first; loose: a spelling that dropped its dots."""
    forms: dict[str, tuple[str, bool]] = {}
    for ident, entry in llms.items():
        if ident.startswith("unknown"):
            continue
        names = [ident, *text_aliases.get(ident, ())]
        names += [alias for alias in entry.get("aliases", ()) if len(key_of(alias)) >= 5 and not alias[0].isdigit()]
        for form in map(squeeze, names):
            forms[form] = (ident, False)
            if "." in form:
                forms.setdefault(form.replace(".", ""), (ident, True))
    rows = [(form, ident, loose) for form, (ident, loose) in forms.items()]
    return sorted(rows, key=lambda row: (-len(row[0]), row[0]))


def repositories(llms: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Repository name in lower case -> [model id, quantisation id or "" where it holds several]."""
    out: dict[str, list[str]] = {}
    for ident, entry in llms.items():
        for point in entry.get("checkpoints", ()):
            name = point["repository"].lower()
            old = out.get(name)
            quant = point["quant"] if old is None or old[1] == point["quant"] else ""
            out[name] = [ident, "" if point.get("file") else quant]
    return out


def compile_index(folder: Path | None = None) -> Index:
    """The index of a knowledge folder. Raises FactFileError on any bad file."""
    root = folder or knowledge_dir()
    lists = {name: read_yaml(root / f"{name}.yaml") for name in ("sources", "thresholds", "defaults", "names")}
    index: Index = {"generated": GENERATED}
    for table in TABLES:
        index[table] = read_table(table, root / table)
    index["methods"] = {path.stem: read_yaml(path) for path in sorted((root / "methods").glob("*.yaml"))}
    sources = {**_run_sources(root / "measurements" / "sources"), **lists["sources"]}
    index.update(sources=dict(sorted(sources.items())), thresholds=lists["thresholds"], defaults=lists["defaults"])
    return with_keys(index, lists["names"])


def _run_sources(folder: Path) -> dict[str, dict[str, str]]:
    """Title, address and date of the measured runs' sources, by id."""
    out: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.yaml")):
        sidecar = read_yaml(path)
        fields = {name: str(sidecar[name]) for name in ("title", "address", "date") if sidecar.get(name)}
        out[str(sidecar["id"])] = fields
    return out


def with_keys(index: Index, names: dict[str, Any]) -> Index:
    """Add the lookup tables that follow from the entries."""
    index["names"] = names
    for table in TABLES:
        index[f"{table}_keys"] = name_keys(index[table])
    index["llm_forms"] = model_forms(index["llms"], names["text_aliases"])
    index["llm_exclude"] = names["text_exclude"]
    index["repositories"] = repositories(index["llms"])
    return index


def index_text(index: Index) -> str:
    """The index as text, one entry a line, so that a change is readable in a diff."""
    lines = []
    for name, value in index.items():
        if isinstance(value, dict) and name in {*TABLES, "sources", "thresholds", "methods"}:
            rows = ",\n".join(f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in value.items())
            lines.append(f"{json.dumps(name)}:{{\n{rows}}}")
        else:
            lines.append(f"{json.dumps(name)}:{json.dumps(value, separators=(',', ':'))}")
    return "{" + ",\n".join(lines) + "}\n"


def write_index(check: bool = False) -> tuple[Path, bool]:
    """Write knowledge/index.json (or only compare, with `check`). Returns the path and whether it was up to date."""
    path = knowledge_dir() / "index.json"
    text = index_text(compile_index())
    same = path.exists() and path.read_text(encoding="utf-8") == text
    if not same and not check:
        path.write_text(text, encoding="utf-8")
    return path, same


def merge_user_files(index: Index, folders: Iterable[Path]) -> Index:
    """A copy of the index with the user's hardware/*.yaml and llms/*.yaml; theirs win over shipped ones of the same id.

    Raises FactFileError if a file is unusable: a fact that was meant to count is never dropped in silence.
    """
    merged = dict(index)
    found = False
    for table in ("hardware", "llms"):
        for folder in folders:
            files = folder / table
            if files.is_dir() and (entries := _user_table(table, files)):
                merged[table] = {**merged[table], **entries}
                found = True
    return with_keys(merged, index["names"]) if found else index


def _user_table(table: str, folder: Path) -> dict[str, dict[str, Any]]:
    problems = [p for path in sorted(folder.glob("*.yaml")) for p in check_file(table, path)]
    if problems:
        raise FactFileError(problems)
    return read_table(table, folder)
