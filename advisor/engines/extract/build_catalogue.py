"""Single releases' options -> one compact catalogue per engine: a record holds what the last
release with the option says, `was` what differed up to an earlier one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from advisor.domain.nouns import AdvisorError
from advisor.domain.paths import knowledge_dir
from advisor.engines.intervals import Record, fold, intervals, unfold, unfold_table, without_none

ENGINES = ("vllm", "sglang", "llama-server")
HOT_CONFIGS = ("SpeculativeConfig",)
GENERATED = (
    "by python -m advisor.engines.extract.build_catalogue; do not edit (hand-kept facts: "
    "*_notes.yaml)"
)
# llama-server's short off-switches, whose spelling alone does not show what they negate
SHORT_NEGATIONS = frozenset({"-nkvo", "-nr", "-nocb", "-no-kvu", "-no-ag", "-nopo"})
Notes = tuple[Mapping[str, Any], str]  # the hand-kept facts and the hash of their file


class Release(NamedTuple):
    """What the catalogue keeps of one release."""

    version: str
    states: tuple[Record, ...]  # of its options
    configs: Mapping[str, Mapping[str, Record]]  # JSON class -> field -> its state
    env: Mapping[str, Record]


def main(argv: Sequence[str] | None = None) -> int:
    """Refresh the hand-kept notes in the catalogues of all engines and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m advisor.engines.extract.build_catalogue", description=__doc__
    )
    parser.add_argument("--notes", action="store_true", required=True, help="refresh the notes")
    parser.add_argument("--out", type=Path, default=knowledge_dir() / "engines")
    folder = parser.parse_args(argv).out
    for engine in ENGINES:
        path = folder / f"{engine}.json"
        hot = json.loads(path.read_text(encoding="utf-8"))
        hot["notes"], hot["notes_sha256"] = load_notes(folder / f"{engine}_notes.yaml")
        path.write_text(dump(hot), encoding="utf-8")
        print(f"{engine}: {len(hot['options'])} options, {len(hot['versions'])} releases")
    return 0


def load_notes(path: Path) -> Notes:
    """(notes, sha256 of the file, so that drift shows)."""
    import yaml

    text = path.read_bytes()
    return yaml.safe_load(text) or {}, hashlib.sha256(text).hexdigest()


def with_release(folder: Path, engine: str, raw: Mapping[str, Any]) -> dict[Path, str]:
    """The catalogue files of an engine with one release added: {path: text}. Raises AdvisorError
    where the notes have no row for a llama.cpp build.
    """
    hot_path, cold_path = folder / f"{engine}.json", folder / f"{engine}_cold.json"
    hot, cold = (json.loads(path.read_text(encoding="utf-8")) for path in (hot_path, cold_path))
    notes = load_notes(folder / f"{engine}_notes.yaml")
    version = raw["version"]
    if engine == "llama-server" and version not in {row["id"] for row in notes[0]["builds"]}:
        raise AdvisorError(
            f"add a row for {version} to `builds` in {engine}_notes.yaml: id, order, from, "
            "commit, date, source"
        )
    kept = [release for release in unfold_catalogue(hot, cold) if release.version != version]
    hot, cold = _compile(engine, [*kept, _release(raw, version, notes[0])], notes)
    return {hot_path: dump(hot), cold_path: dump(cold)}


def _compile(engine: str, releases: Iterable[Release], notes: Notes) -> tuple[Record, Record]:
    """(hot, cold): options and speculative fields; environment and other JSON classes."""
    ordered = sorted(releases, key=lambda release: version_key(release.version, notes[0]))
    versions = [release.version for release in ordered]
    options = _options(ordered, versions)
    for name, preferred in (notes[0].get("canonical") or {}).items():
        options[preferred] = options.pop(name)
    options = dict(sorted(options.items()))
    configs = {
        name: intervals([release.configs.get(name, {}) for release in ordered], versions)
        for name in sorted({name for release in ordered for name in release.configs})
    }
    head = {"generated": GENERATED, "engine": engine, "versions": versions}
    hot_configs = {name: configs.pop(name) for name in HOT_CONFIGS if name in configs}
    hashes = {"content_sha256": content_hash(options), "notes_sha256": notes[1]}
    hot = head | hashes | {"options": options, "json_configs": hot_configs, "notes": notes[0]}
    environment = intervals([release.env for release in ordered], versions)
    return hot, head | {"env": environment, "json_configs": configs}


def _release(raw: Mapping[str, Any], version: str, notes: Mapping[str, Any]) -> Release:
    """What the catalogue keeps of one release as it was read."""
    rows = _correct(raw, version, notes)
    states = tuple(_state(row, raw["engine"], rows) for row in rows)

    def table(rows: Iterable[Record], *keys: str) -> dict[str, Record]:
        return {row["name"]: without_none({key: row[key] for key in keys}) for row in rows}

    configs = {
        name: table((row for row in fields if row["init"]), "type", "default", "choices", "limits")
        for name, fields in raw["json_configs"].items()
    }
    return Release(version, states, configs, table(raw["env"], "default", "type"))


def unfold_catalogue(hot: Mapping[str, Any], cold: Mapping[str, Any]) -> list[Release]:
    """The single releases of a compiled catalogue, oldest first: the inverse of `_compiled`."""
    versions = hot["versions"]
    options = [unfold(record, versions) for record in hot["options"].values()]
    configs = {
        name: unfold_table(table, versions)
        for name, table in {**cold["json_configs"], **hot["json_configs"]}.items()
    }
    environment = unfold_table(cold["env"], versions)
    return [
        Release(
            version,
            tuple(states[version] for states in options if version in states),
            {name: tables[version] for name, tables in configs.items() if tables[version]},
            environment[version],
        )
        for version in versions
    ]


def _correct(
    raw: Mapping[str, Any], version: str, notes: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The rows of one release with the hand-kept corrections of what a pattern read wrongly."""
    mine = [rule for rule in notes.get("corrections") or () if version in rule["versions"]]
    single: dict[str, Mapping[str, Any]] = {}
    for given in raw["options"]:
        row = dict(given)
        for rule in mine:
            row |= rule["set"] if rule["flag"] in row["flags"] else {}
        # arg.cpp may define a spelling once per tool: keep the one that says most
        seen = single.get(primary(row["flags"]))
        if seen is None or (row.get("env") and not seen.get("env")):
            single[primary(row["flags"])] = row
    return list(single.values())


def content_hash(options: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the options as sorted JSON."""
    return hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


def version_key(version: str, notes: Mapping[str, Any]) -> tuple[int, ...]:
    """Order of releases: llama-server by build number, else by the numbers of the version."""
    for row in notes.get("builds", ()):
        if row["id"] == version:
            return (int(row["order"]),)
    return tuple(int(part) for part in version.split("."))


def _options(releases: Sequence[Release], versions: Sequence[str]) -> dict[str, Record]:
    """Follow each option by shared spellings; its name is its newest first long one."""
    owner: dict[str, int] = {}
    history: list[dict[str, Record]] = []
    for release in releases:
        taken: set[int] = set()
        current: dict[str, int] = {}
        for state in sorted(
            release.states,
            key=lambda row: (primary(row["flags"]) not in owner, bool(row.get("deprecated"))),
        ):
            spellings = [*state["flags"], *state.get("hidden", ())]
            owners = (owner.get(s, -1) for s in [primary(state["flags"]), *spellings])
            found = next((one for one in owners if one not in taken | {-1}), len(history))
            if found == len(history):
                history.append({})
            taken.add(found)
            history[found][release.version] = state
            current.update(dict.fromkeys(spellings, found))
        owner = {**owner, **current}
    named = [
        (primary(states[max(states, key=versions.index)]["flags"]), states) for states in history
    ]
    result: dict[str, Record] = {}
    for name, states in sorted(named, key=lambda row: (row[0], min(map(versions.index, row[1])))):
        key = name if name not in result else f"{name}#{min(states, key=versions.index)}"
        negations = _negations(name, {s for state in states.values() for s in state["flags"]})
        result[key] = fold(states, versions) | ({"neg": negations} if negations else {})
    return result


def primary(flags: Sequence[str]) -> str:
    """The first long spelling, else the first."""
    return next((flag for flag in flags if flag.startswith("--")), flags[0])


def _state(row: Mapping[str, Any], engine: str, rows: Sequence[Mapping[str, Any]]) -> Record:
    """What one release says of an option, without what is the rule (type str, no choices ...)."""
    state: Record = {"flags": list(row["flags"])}
    if row.get("also_accepts"):
        state["hidden"] = list(row["also_accepts"])
    if row["type"] not in ("str", None):
        state["type"] = row["type"]
    if row["default"] not in (None, "==SUPPRESS=="):
        state["default"] = row["default"]
    for key in ("choices", "values"):
        if row.get(key):
            state[key] = [str(choice) for choice in row[key]]
    nargs = row["nargs"] if engine != "llama-server" or row["nargs"] == 0 else None
    if nargs is not None:
        state["nargs"] = nargs
    for key in ("deprecated", "removed", "positional"):
        if row.get(key):
            state[key] = True
    if row.get("env"):
        state["env"] = row["env"]
    successor = _successor(row, rows)
    return state | ({"successor": successor} if successor else {})


def _successor(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str | None:
    """The option that stands for a deprecated one; None where there is none of another name."""
    if "Deprecated" not in (row.get("action") or ""):
        return None
    same = (o for o in rows if o["dest"] == row["dest"])
    name = primary(next((o for o in same if "Deprecated" not in (o["action"] or "")), row)["flags"])
    return name if name != primary(row["flags"]) else None


def _negations(name: str, spellings: Iterable[str]) -> list[str]:
    """The off forms of a switch: --no-x beside --x, and the twin of --enable-x or --disable-x."""
    known = set(spellings)
    off = {s for s in known if s.startswith(("--no-", "-no-")) or s in SHORT_NEGATIONS}
    twins = (("--enable-", "--disable-"), ("--disable-", "--enable-"))
    off |= known & {name.replace(*twin) for twin in twins} - {name}
    return sorted(off) if off < known else []


def dump(data: Mapping[str, Any]) -> str:
    """JSON with one record a line: small, and readable as a diff."""
    parts = []
    for key, value in data.items():
        said = json.dumps(value, separators=(",", ":"))
        if isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values()):
            pairs = (
                (json.dumps(k), json.dumps(v, separators=(",", ":"))) for k, v in value.items()
            )
            said = "{\n" + ",\n".join(f"  {name}: {row}" for name, row in pairs) + "\n }"
        parts.append(f"{json.dumps(key)}: {said}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
