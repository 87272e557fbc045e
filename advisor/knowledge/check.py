"""`advisor hardware validate` and its like: what is wrong with one fact file, for its author."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from advisor.domain.paths import knowledge_dir, read_data, user_dirs
from advisor.knowledge.fact_files import (
    TABLES,
    FactFileError,
    Problem,
    Table,
    check_entry,
    claims,
    read_yaml,
    tidy,
)
from advisor.knowledge.names import find_name, nearest


def check_file(table: str, path: Path) -> list[Problem]:
    """Every problem of one fact file, also beside the shipped ones and the user's others; empty: it
    can be used.
    """
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
        for folder in (path.parent, *(d / table for d in user_dirs()))
        if folder.resolve() != (knowledge_dir() / table).resolve()  # those are in the index
        for file in sorted(folder.glob("*.yaml"))
    ]
    merged = {**shipped, **usable(table, others), **own}
    keys, clashes = claims(merged)
    found = [(str(path), "aliases", str(clash)) for clash in clashes if own.keys() & {*clash.ids}]
    return found + [(str(path), "proxy", reason) for _, reason in lost_proxies(own, keys)]


def usable(table: str, paths: Sequence[Path]) -> Table:
    """The entries of the files that can be used, by id."""
    out: Table = {}
    for path in paths:
        if not check_alone(table, path):
            entry = TABLES[table].model_validate(read_yaml(path))
            out[str(getattr(entry, "id"))] = tidy(entry)  # noqa: B009
    return out


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
