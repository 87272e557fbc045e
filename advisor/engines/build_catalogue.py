"""Turns option catalogues of single releases into one compact catalogue per engine, with intervals
per option.

    python -m advisor.engines.build_catalogue --from DIR     #
    DIR/{vllm,sglang,llama-server}/<version>.json
    python -m advisor.engines.build_catalogue --notes        # only put the hand-kept *_notes.yaml
    back in

A record holds what the last release that has the option says; `was` lists, newest first, what was
different up to and including an earlier release. What it does not know: releases between two
catalogued ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.domain.paths import knowledge_dir

ENGINES = ("vllm", "sglang", "llama-server")
HOT_CONFIGS = ("SpeculativeConfig",)
GENERATED = (
    "by python -m advisor.engines.build_catalogue; do not edit (hand-kept facts: *_notes.yaml)"
)
# llama-server's short off-switches, whose spelling alone does not show what they negate
SHORT_NEGATIONS = frozenset({"-nkvo", "-nr", "-nocb", "-no-kvu", "-no-ag", "-nopo"})

Record = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m advisor.engines.build_catalogue", description=__doc__
    )
    parser.add_argument(
        "--from",
        dest="source",
        type=Path,
        help="folder with one sub-folder of catalogues per engine",
    )
    parser.add_argument("--notes", action="store_true", help="refresh only the hand-kept notes")
    parser.add_argument("--out", type=Path, default=knowledge_dir() / "engines")
    options = parser.parse_args(argv)
    if options.source is None and not options.notes:
        parser.error("give --from DIR or --notes")
    for engine in ENGINES:
        hot_path = options.out / f"{engine}.json"
        notes = load_notes(options.out / f"{engine}_notes.yaml")
        if options.source is not None:
            hot, cold = build(engine, options.source / engine, notes)
            (options.out / f"{engine}_cold.json").write_text(dump(cold), encoding="utf-8")
        else:
            hot = json.loads(hot_path.read_text(encoding="utf-8"))
            hot["notes"], hot["notes_sha256"] = notes
        hot_path.write_text(dump(hot), encoding="utf-8")
        print(
            f"{engine}: {len(hot['options'])} options, {len(hot['versions'])} releases, "
            f"{hot_path.stat().st_size} bytes"
        )
    return 0


def load_notes(path: Path) -> tuple[Mapping[str, Any], str]:
    """(notes, sha256 of the file): the file's hash stands in the generated catalogue, so that drift
    shows.
    """
    import yaml

    text = path.read_bytes()
    return yaml.safe_load(text) or {}, hashlib.sha256(text).hexdigest()


def build(engine: str, folder: Path, notes: tuple[Mapping[str, Any], str]) -> tuple[Record, Record]:
    """(hot, cold): options and speculative JSON fields in the first; environment and other JSON
    classes in the second.
    """
    names = notes[0].get("snapshots") or {}
    raws = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    for raw in raws:
        raw["version"] = names.get(raw["version"], raw["version"])
    raws.sort(key=lambda raw: version_key(raw["version"], notes[0]))
    versions = [raw["version"] for raw in raws]
    options = _options(_corrected(raws, notes[0]), versions)
    for name, preferred in (notes[0].get("canonical") or {}).items():
        options[preferred] = options.pop(name)
    options = dict(sorted(options.items()))
    configs = _configs(raws, versions)
    environment = _intervals(
        [
            {
                item["name"]: {"default": item["default"], "type": item["type"]}
                for item in raw["env"]
            }
            for raw in raws
        ],
        versions,
    )
    head = {"generated": GENERATED, "engine": engine, "versions": versions}
    hot = {
        **head,
        "content_sha256": content_hash(options),
        "notes_sha256": notes[1],
        "options": options,
        "json_configs": {name: configs[name] for name in HOT_CONFIGS if name in configs},
        "notes": notes[0],
    }
    cold = {
        **head,
        "env": environment,
        "json_configs": {n: c for n, c in configs.items() if n not in HOT_CONFIGS},
    }
    return hot, cold


def _corrected(
    raws: Sequence[Mapping[str, Any]], notes: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The raw catalogues with the hand-kept corrections of what a pattern read wrongly."""
    rules = notes.get("corrections") or ()
    result: list[Mapping[str, Any]] = []
    for raw in raws:
        mine = [rule for rule in rules if raw["version"] in rule["versions"]]
        options = [
            {
                **row,
                **{
                    key: value
                    for rule in mine
                    if rule["flag"] in row["flags"]
                    for key, value in rule["set"].items()
                },
            }
            for row in raw["options"]
        ]
        single: dict[str, Mapping[str, Any]] = {}
        for (
            row
        ) in options:  # arg.cpp may define a spelling once per tool: keep the one that says most
            seen = single.get(primary(row["flags"]))
            if seen is None or (row.get("env") and not seen.get("env")):
                single[primary(row["flags"])] = row
        result.append({**raw, "options": list(single.values())})
    return result


def content_hash(options: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


def version_key(version: str, notes: Mapping[str, Any]) -> tuple[int, ...]:
    """Order of releases: llama-server by build number, else by the numbers of the version."""
    for row in notes.get("builds", ()):
        if row["id"] == version:
            return (int(row["order"]),)
    return tuple(int(part) for part in version.split("."))


def _options(raws: Sequence[Mapping[str, Any]], versions: Sequence[str]) -> dict[str, Record]:
    """Follow each option through the releases by shared spellings; name it by its newest first long
    spelling.
    """
    owner: dict[str, int] = {}
    history: list[dict[str, Record]] = []
    for raw in raws:
        taken: set[int] = set()
        rows = sorted(raw["options"], key=lambda row: primary(row["flags"]) not in owner)
        current: dict[str, int] = {}
        for row in rows:
            spellings = [*row["flags"], *row.get("also_accepts", ())]
            found = next(
                (
                    owner[s]
                    for s in [primary(row["flags"]), *spellings]
                    if owner.get(s, -1) not in taken | {-1}
                ),
                None,
            )
            if found is None:
                found = len(history)
                history.append({})
            taken.add(found)
            history[found][raw["version"]] = _state(row, raw)
            current.update(dict.fromkeys(spellings, found))
        owner = {**owner, **current}
    named = [
        (primary(states[max(states, key=versions.index)]["flags"]), states) for states in history
    ]
    result = {}
    for name, states in sorted(named, key=lambda item: item[0]):
        key = name if name not in result else f"{name}#{min(states, key=versions.index)}"
        negations = _negations({s for state in states.values() for s in state["flags"]})
        record = _fold(states, versions)
        if negations:
            record["neg"] = negations
        result[key] = record
    return result


def primary(flags: Sequence[str]) -> str:
    """The first long spelling, else the first."""
    return next((flag for flag in flags if flag.startswith("--")), flags[0])


def _state(row: Mapping[str, Any], raw: Mapping[str, Any]) -> Record:
    """What one release says of one option, without what is the rule (type str, no choices ...)."""
    state: Record = {"flags": list(row["flags"])}
    if row.get("also_accepts"):
        state["hidden"] = list(row["also_accepts"])
    if row["type"] not in ("str", None):
        state["type"] = row["type"]
    if row["default"] not in (None, "==SUPPRESS=="):
        state["default"] = row["default"]
    if row["choices"]:
        state["choices"] = [str(choice) for choice in row["choices"]]
    nargs = row["nargs"] if raw["engine"] != "llama-server" or row["nargs"] == 0 else None
    if nargs is not None:
        state["nargs"] = nargs
    for key in ("deprecated", "removed", "positional"):
        if row.get(key):
            state[key] = True
    if row.get("env"):
        state["env"] = row["env"]
    if "Deprecated" in (row.get("action") or ""):
        target = [
            o
            for o in raw["options"]
            if o["dest"] == row["dest"] and "Deprecated" not in (o["action"] or "")
        ]
        if target and primary(target[0]["flags"]) != primary(row["flags"]):
            state["successor"] = primary(target[0]["flags"])
    return state


def _negations(spellings: Iterable[str]) -> list[str]:
    """The off forms among the spellings of a switch: --no-x beside --x, --disable-x beside
    --enable-x.
    """
    known = set(spellings)
    off = {s for s in known if s.startswith(("--no-", "-no-")) or s in SHORT_NEGATIONS}
    off |= {s for s in known if s.startswith("--disable-") and "--enable-" + s[10:] in known}
    return sorted(off) if off < known else []


def _fold(states: Mapping[str, Record], versions: Sequence[str]) -> Record:
    """One record of a history: the last state, `span` unless it is the whole range, `was` for
    earlier differences.
    """
    have = [v for v in versions if v in states]
    record = dict(states[have[-1]])
    was: list[list[Any]] = []
    for newer, older in zip(reversed(have), list(reversed(have))[1:], strict=False):
        keys = {*states[newer], *states[older]}
        change = {
            k: states[older].get(k)
            for k in sorted(keys)
            if states[older].get(k) != states[newer].get(k)
        }
        if change:
            was.append([older, change])
    if was:
        record["was"] = was
    if (have[0], have[-1]) != (versions[0], versions[-1]):
        record["span"] = [have[0], have[-1]]
    gaps = [
        v for v in versions[versions.index(have[0]) : versions.index(have[-1])] if v not in states
    ]
    if gaps:
        record["absent"] = gaps
    return record


def _intervals(
    tables: Sequence[Mapping[str, Record]], versions: Sequence[str]
) -> dict[str, Record]:
    names = sorted({name for table in tables for name in table})
    trimmed = [
        {n: {k: v for k, v in row.items() if v is not None} for n, row in table.items()}
        for table in tables
    ]
    return {
        n: _fold({v: t[n] for v, t in zip(versions, trimmed, strict=True) if n in t}, versions)
        for n in names
    }


def _configs(
    raws: Sequence[Mapping[str, Any]], versions: Sequence[str]
) -> dict[str, dict[str, Record]]:
    classes = sorted({name for raw in raws for name in raw["json_configs"]})
    result = {}
    for name in classes:
        tables = []
        for raw in raws:
            rows = raw["json_configs"].get(name, ())
            tables.append(
                {
                    r["name"]: {k: r[k] for k in ("type", "default", "choices", "limits")}
                    for r in rows
                    if r["init"]
                }
            )
        result[name] = _intervals(tables, versions)
    return result


def dump(data: Mapping[str, Any]) -> str:
    """JSON with one record a line: small, and readable as a diff."""
    parts = []
    for key, value in data.items():
        if isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
            rows = ",\n".join(
                f"  {json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}"
                for k, v in value.items()
            )
            parts.append(f"{json.dumps(key)}: {{\n{rows}\n }}")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
