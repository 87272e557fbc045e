"""Fact files (YAML) -> one compiled index (JSON); checks of fact files, shipped ones and the user's
own.

`advisor knowledge build` writes knowledge/index.json from
knowledge/{hardware,llms,quants,methods}/*.yaml and the lists
beside them. This is the only place that parses YAML facts; the recommendation path reads the index
alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from advisor.domain.files import read_yaml_safely
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
from advisor.domain.paths import knowledge_dir, user_dirs
from advisor.domain.sealed import sealed
from advisor.domain.shown import shown
from advisor.knowledge.drafters import odd
from advisor.knowledge.names import (
    architecture_among,
    bare_key,
    find_name,
    key_of,
    nearest,
    squeeze,
)

MAX_FILE_BYTES = 64 * 1024  # a fact file is a page of text; a larger one is a mistake
TABLES: dict[str, type[Frozen]] = {"hardware": Hardware, "llms": LLM, "quants": Quant}
KINDS = TABLES | {"drafters": DrafterFile}  # every kind of fact file that is checked against a noun
GENERATED = "by `advisor knowledge build` from the YAML files of knowledge/; do not edit"
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
    except AdvisorError as error:
        reason = str(error).removeprefix(f"{shown(str(path))}: ")
        where, _, rest = reason.partition(": ")
        line = where if re.fullmatch(r"line \d+", where) else ""
        raise FactFileError([(shown(str(path)), line, rest if line else reason)]) from None


def check_entry(table: str, data: object, file: str) -> tuple[Frozen | None, list[Problem]]:
    """One entry against its noun: the value or None, and every reason against it."""
    if not isinstance(data, dict):
        return None, [(file, "", "expected a mapping of fields to values, such as `id: my-card`")]
    try:
        entry = KINDS[table].model_validate(data)
    except ValidationError as error:
        return None, [(file, ".".join(map(str, e["loc"])), _reason(e)) for e in error.errors()]
    return entry, list(_odd(table, entry, file))


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
        shipped = json.loads((knowledge_dir() / "index.json").read_text(encoding="utf-8"))
        tables = shipped["imputation"]
    found: dict[str, Any] = tables["architectures"]
    return found


def _odd(table: str, entry: Frozen, file: str) -> Iterable[Problem]:
    """What the types cannot say: signs, sources, names."""
    for name, value in entry:
        number = value.value if isinstance(value, Quantity) else value
        if (
            isinstance(number, float | int)
            and not isinstance(number, bool)
            and not 0 <= number < 1e9
        ):
            yield (file, name, f"{number} is out of range: it must be 0 or more and finite")
        if isinstance(value, Quantity) and not value.source.strip():
            yield (file, name, "a number needs a source")
        if isinstance(value, Quantity) and value.value <= 0 and name != "default_temperature":
            yield (file, name, "must be above 0; leave the field out if it is not known")
    ident = str(getattr(entry, "id", ""))
    if not key_of(ident):
        yield (file, "id", "needs at least one letter or digit")
    elif not _ID.fullmatch(ident):
        yield (
            file,
            "id",
            "use small letters, digits, dots, hyphens and underscores, as in rtx3090 or "
            "qwen3.6-27b",
        )
    if isinstance(entry, Hardware) and entry.arch:
        try:
            architecture_among(_architectures(), entry.gpu_family or entry.arch)
        except UnknownFact as error:
            yield (file, "arch", f"{error} Or leave it out.")
    if table in ("llms", "quants") and not str(getattr(entry, "source", "")).strip():
        yield (
            file,
            "source",
            "a model or quantisation needs a source (a page, a file, `own measurement`)",
        )
    if isinstance(entry, LLM):
        yield from _odd_model(entry, file)
    if isinstance(entry, DrafterFile):
        yield from ((file, *problem) for problem in odd(entry))


def _odd_model(entry: LLM, file: str) -> Iterable[Problem]:
    if (
        entry.active_params_b
        and entry.total_params_b
        and entry.active_params_b > entry.total_params_b
    ):
        yield (file, "active_params_b", "is larger than total_params_b")
    if entry.experts and entry.experts_per_token and entry.experts_per_token > entry.experts:
        yield (file, "experts_per_token", "is larger than experts")
    for name in ("layers", "hidden", "heads", "vocab"):
        if getattr(entry, name) == 0:
            yield (file, name, "must be above 0; leave the field out if it is not known")


def check_file(table: str, path: Path) -> list[Problem]:
    """Every problem of one fact file, also beside the shipped ones and the user's others; empty: it
    can be used.
    """
    return _check_alone(table, path) or _check_beside(table, path)


def _check_alone(table: str, path: Path) -> list[Problem]:
    try:
        data = read_yaml(path)
    except FactFileError as error:
        return error.problems
    return check_entry(table, data, str(path))[1]


def _check_beside(table: str, path: Path) -> list[Problem]:
    """What only the other entries tell: a name claimed twice, a proxy that nobody knows."""
    shipped: Table = json.loads((knowledge_dir() / "index.json").read_text(encoding="utf-8")).get(
        table, {}
    )
    own = _usable(table, [path])
    others = [
        file
        for folder in (path.parent, *(d / table for d in user_dirs()))
        for file in sorted(folder.glob("*.yaml"))
    ]
    merged = {**shipped, **_usable(table, others), **own}
    keys, clashes = _claims(merged)
    found = [(str(path), "aliases", str(clash)) for clash in clashes if own.keys() & {*clash.ids}]
    return found + [(str(path), "proxy", reason) for _, reason in _lost_proxies(own, keys)]


def _usable(table: str, paths: Sequence[Path]) -> Table:
    """The entries of the files that can be used, by id."""
    out: Table = {}
    for path in paths:
        if not _check_alone(table, path):
            entry = TABLES[table].model_validate(read_yaml(path))
            out[str(getattr(entry, "id"))] = _tidy(entry)  # noqa: B009
    return out


def _lost_proxies(entries: Table, keys: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(id, reason) of every entry whose proxy is no other model."""
    for ident, entry in entries.items():
        proxy = entry.get("proxy")
        if proxy and find_name(proxy, keys) in (None, ident):
            near = ", ".join(name for name in nearest(proxy, keys) if name != ident)
            yield (
                ident,
                f"'{proxy}' is no other model that is known" + (f"; near: {near}" if near else ""),
            )


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


def name_keys(table: Table) -> dict[str, str]:
    """Normal form of every id, name and alias -> id. Raises NameClash where two entries claim one
    name.
    """
    keys, clashes = _claims(table)
    if clashes:
        raise clashes[0]
    return keys


def _claims(table: Table) -> tuple[dict[str, str], list[NameClash]]:
    """The keys of `name_keys`, and what it would refuse. An id goes before another entry's alias."""
    keys: dict[str, str] = {}
    clashes: dict[tuple[str, str, str], NameClash] = {}
    for ident, entry in table.items():
        for name in (ident, *entry.get("aliases", ())):
            for form in (key_of(name), bare_key(name)):
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
    """(form, id, loose) to look for inside longer texts, longest first; loose: a spelling that
    dropped its dots.
    """
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
    lists = {
        name: read_yaml(root / f"{name}.yaml")
        for name in ("sources", "thresholds", "defaults", "names", "imputation")
    }
    index: Index = {"generated": GENERATED}
    for table in TABLES:
        index[table] = read_table(table, root / table)
    index["drafters"] = read_table("drafters", root / "drafters")
    index["methods"] = {
        path.stem: read_yaml(path) for path in sorted((root / "methods").glob("*.yaml"))
    }
    sources = {**_run_sources(root / "measurements" / "sources"), **lists["sources"]}
    index.update(
        sources=dict(sorted(sources.items())),
        thresholds=lists["thresholds"],
        defaults=lists["defaults"],
        imputation=_imputation(lists["imputation"]),
    )
    return with_keys(index, lists["names"])


def _imputation(tables: dict[str, Any]) -> dict[str, Any]:
    """The imputed values, each with a source. Raises FactFileError for one that has none."""
    for quantity in _quantities(tables):
        if not str(quantity.get("source", "")).strip() or not quantity.get("status"):
            raise FactFileError([("imputation.yaml", str(quantity), "a number needs a source")])
    return tables


def _quantities(node: object) -> Iterable[dict[str, Any]]:
    if isinstance(node, dict):
        if "value" in node:
            yield node
        else:
            for part in node.values():
                yield from _quantities(part)


def _run_sources(folder: Path) -> dict[str, dict[str, str]]:
    """Title, address and date of the measured runs' sources, by id."""
    out: dict[str, dict[str, str]] = {}
    for path in sorted(folder.glob("*.yaml")):
        sidecar = read_yaml(path)
        fields = {
            name: str(sidecar[name]) for name in ("title", "address", "date") if sidecar.get(name)
        }
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
        if isinstance(value, dict) and name in {
            *KINDS,
            "sources",
            "thresholds",
            "methods",
            "imputation",
        }:
            rows = ",\n".join(
                f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in value.items()
            )
            lines.append(f"{json.dumps(name)}:{{\n{rows}}}")
        else:
            lines.append(f"{json.dumps(name)}:{json.dumps(value, separators=(',', ':'))}")
    return sealed("{" + ",\n".join(lines) + "}\n")


def write_index(check: bool = False) -> tuple[Path, bool]:
    """Write knowledge/index.json (or only compare, with `check`). Returns the path and whether it
    was up to date.
    """
    path = knowledge_dir() / "index.json"
    text = index_text(compile_index())
    same = path.exists() and path.read_text(encoding="utf-8") == text
    if not same and not check:
        path.write_text(text, encoding="utf-8")
    return path, same


def merge_user_files(index: Index, folders: Iterable[Path]) -> Index:
    """A copy of the index with the user's hardware/*.yaml and llms/*.yaml; theirs win over shipped
    ones of the same id.

    Raises FactFileError if a file is unusable: a fact that was meant to count is never dropped in
    silence.
    """
    merged = dict(index)
    own: dict[str, Table] = {"hardware": {}, "llms": {}}
    places = list(folders)
    for table, entries in own.items():
        for folder in places:
            if (folder / table).is_dir():
                entries.update(_user_table(table, folder / table))
        merged[table] = {**merged[table], **entries}
    if not any(own.values()):
        return index
    try:
        with_keys(merged, index["names"])
    except NameClash as clash:
        table = next(table for table, entries in own.items() if entries.keys() & {*clash.ids})
        raise FactFileError([(_file_of(table, clash.ids, places), "aliases", str(clash))]) from None
    lost = [
        (_file_of("llms", (i,), places), "proxy", why)
        for i, why in _lost_proxies(own["llms"], merged["llms_keys"])
    ]
    if lost:
        raise FactFileError(lost)
    return merged


def _file_of(table: str, ids: Sequence[str], folders: Sequence[Path]) -> str:
    """The user's file of one of these entries, the last one's first."""
    paths = [path for folder in folders for path in sorted((folder / table).glob("*.yaml"))]
    found = {ident: str(path) for path in paths for ident in _usable(table, [path])}
    return next((found[ident] for ident in reversed(ids) if ident in found), "an own file")


def _user_table(table: str, folder: Path) -> Table:
    problems = [p for path in sorted(folder.glob("*.yaml")) for p in _check_alone(table, path)]
    if problems:
        raise FactFileError(problems)
    return read_table(table, folder)
