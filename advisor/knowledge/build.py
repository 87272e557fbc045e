"""Fact files (YAML) -> one compiled index (JSON), the user's own merged in; and what is wrong with
one of them, for its author.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.domain.paths import knowledge_dir, read_data, seal, user_dirs
from advisor.knowledge.fact_files import (
    KINDS,
    TABLES,
    FactFileError,
    Index,
    NameClash,
    Problem,
    Table,
    check_entry,
    claims,
    model_forms,
    name_keys,
    read_table,
    read_yaml,
    repositories,
    tidy,
)
from advisor.knowledge.names import find_name, nearest

GENERATED = "by `advisor knowledge build` from the YAML files of knowledge/; do not edit"
LISTED = {*KINDS, "sources", "thresholds", "methods", "imputation"}  # an entry a line
LAUNCHED = ("vllm", "sglang", "llama-server")  # the engines that have a catalogue


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
    # title, address and date of the measured runs' sources
    rows = map(read_yaml, sorted((root / "measurements" / "sources").glob("*.yaml")))
    kept = ("title", "address", "date")
    runs = {str(row["id"]): {x: str(row[x]) for x in kept if row.get(x)} for row in rows}
    index.update(
        sources=dict(sorted({**runs, **lists["sources"]}.items())),
        thresholds=lists["thresholds"],
        defaults=lists["defaults"],
        imputation=_imputation(lists["imputation"]),
    )
    # the newest day of a source, and the newest release catalogued of each engine
    days = (str(entry.get("date", "")) for entry in index["sources"].values())
    files = (root / "engines" / f"{name}.json" for name in LAUNCHED)
    catalogues = [json.loads(file.read_text("utf-8")) for file in files]
    index["facts"] = {
        "date": max(day for day in days if len(day) == len("YYYY-MM-DD")),
        "releases": {one["engine"]: one["versions"][-1] for one in catalogues},
    }
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


def with_keys(index: Index, names: dict[str, Any]) -> Index:
    """Add the lookup tables that follow from the entries."""
    index["names"] = names
    for table in TABLES:
        index[f"{table}_keys"] = name_keys(index[table])
    index["llm_forms"] = model_forms(index["llms"], names["text_aliases"])
    index["llm_exclude"] = names["text_exclude"]
    index["repositories"] = repositories(index["llms"], index.get("drafters", {}))
    return index


def index_text(index: Index) -> str:
    """The index as text, one entry a line, so that a change is readable in a diff."""
    lines = []
    for name, value in index.items():
        if isinstance(value, dict) and name in LISTED:
            rows = ",\n".join(
                f" {json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in value.items()
            )
            lines.append(f"{json.dumps(name)}:{{\n{rows}\n}}")
        else:
            lines.append(f"{json.dumps(name)}:{json.dumps(value, separators=(',', ':'))}")
    return seal("{" + ",\n".join(lines) + "\n}\n")


def write_index(check: bool = False) -> tuple[Path, bool]:
    """Write knowledge/index.json (`check`: compare only): its path, and whether it was current."""
    path = knowledge_dir() / "index.json"
    text = index_text(compile_index())
    same = path.exists() and path.read_text(encoding="utf-8") == text
    if not same and not check:
        path.write_text(text, encoding="utf-8")
    return path, same


def merge_user_files(index: Mapping[str, Any], folders: Iterable[str | Path]) -> Mapping[str, Any]:
    """A copy of the index with the user's files, which win. Raises FactFileError for an unusable
    one: none is dropped in silence.
    """
    merged = dict(index)
    own: dict[str, Table] = {"hardware": {}, "llms": {}}
    places = [*map(Path, folders)]
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
        for i, why in lost_proxies(own["llms"], merged["llms_keys"])
    ]
    if lost:
        raise FactFileError(lost)
    return merged


def _file_of(table: str, ids: Sequence[str], folders: Sequence[Path]) -> str:
    """The user's file of one of these entries, the last one's first."""
    paths = [path for folder in folders for path in sorted((folder / table).glob("*.yaml"))]
    found = {ident: str(path) for path in paths for ident in usable(table, [path])}
    return next((found[ident] for ident in reversed(ids) if ident in found), "an own file")


def _user_table(table: str, folder: Path) -> Table:
    problems = [p for path in sorted(folder.glob("*.yaml")) for p in check_alone(table, path)]
    if problems:
        raise FactFileError(problems)
    return read_table(table, folder)


def check_file(table: str, path: Path) -> list[Problem]:
    """Every problem of one fact file, also beside shipped and own ones; empty: it is usable."""
    return check_alone(table, path) or _check_beside(table, path)


def check_alone(table: str, path: Path) -> list[Problem]:
    """Return the problems of one fact file, without its references to other tables."""
    try:
        data = read_yaml(path)
    except FactFileError as error:
        return error.problems
    return check_entry(table, data, str(path))[1]


def _check_beside(table: str, path: Path) -> list[Problem]:
    """What only the other entries tell: a name claimed twice, a proxy that nobody knows."""
    shipped: Table = json.loads(read_data("knowledge/index.json")).get(table, {})
    own = usable(table, [path])
    others = [
        file
        for folder in (path.parent, *(Path(d) / table for d in user_dirs()))
        if folder.resolve() != (knowledge_dir() / table).resolve()  # those are in the index
        for file in sorted(folder.glob("*.yaml"))
    ]
    keys, clashes = claims({**shipped, **usable(table, others), **own})
    found = [(str(path), "aliases", str(clash)) for clash in clashes if own.keys() & {*clash.ids}]
    return found + [(str(path), "proxy", reason) for _, reason in lost_proxies(own, keys)]


def usable(table: str, paths: Sequence[Path]) -> Table:
    """The entries of the files that can be used, by id."""
    good = (path for path in paths if not check_alone(table, path))
    entries = (TABLES[table].model_validate(read_yaml(path)) for path in good)
    return {str(getattr(entry, "id")): tidy(entry) for entry in entries}  # noqa: B009


def lost_proxies(entries: Table, keys: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(id, reason) of every entry whose proxy is no other model."""
    for ident, entry in entries.items():
        proxy = entry.get("proxy")
        if proxy and find_name(proxy, keys) in (None, ident):
            near = ", ".join(name for name in nearest(proxy, keys) if name != ident)
            yield (
                ident,
                f"'{proxy}' is no other model that is known" + (f"; near: {near}" if near else ""),
            )
