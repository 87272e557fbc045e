"""The measurements folder as a whole: sidecars, hashes, adding a table, and the compiled index of
clean pairs.

`check` is behind `advisor data check`, `add` behind `advisor data add`, `write_index` behind
`advisor data index`. Nothing here
is on the way of a recommendation; only the compiled `index.jsonl` is read there.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from advisor.domain.files import read_yaml_safely
from advisor.domain.nouns import AdvisorError, UnknownFact
from advisor.engines import canonical
from advisor.knowledge import evidence
from advisor.knowledge import store as knowledge
from advisor.lab.measurements import bounds
from advisor.lab.measurements.columns import ACCEPTANCE_COLUMNS, RARE_COLUMNS, RUN_COLUMNS
from advisor.lab.measurements.index_text import (
    client_text,
    native_quant,
    to_text,
    tokens_a_step,
)
from advisor.lab.measurements.schema import (
    KnownIds,
    Problem,
    Row,
    _id_problems,
    by_group,
    check_row,
    group_problems,
    ratio,
    read_acceptance,
    read_csv,
    read_runs,
    sha256,
    source_files,
)

MAX_SIDECAR_BYTES = 2**20
DATE = re.compile(r"\d{4}(-\d{2}){0,2}")
SIDECAR_FIELDS = (
    "id",
    "kind",
    "title",
    "address",
    "date",
    "holds",
    "how",
    "reliability",
    "caveats",
    "files",
)
INDEX_COMMAND = "advisor data index"
DERIVED_METRICS = ("tpot", "ttft")


def check(folder: Path, known: KnownIds | None = None) -> tuple[int, list[Problem]]:
    """Check a measurements folder (or one CSV of runs). Returns the number of good rows and every
    problem.

    Parameters
    ----------
    folder : Path
        Where the files are.
    known : KnownIds | None
        Ids that rows may use; None: those of the knowledge folder.

    Returns
    -------
    tuple
        Number of good rows, and every problem found.

    Raises
    ------
    AdvisorError
        It is neither a measurements folder nor a table of runs.
    """
    if folder.is_file():
        return _check_file(folder, known)
    if not (folder / "runs").is_dir():
        raise AdvisorError(
            f"{folder} has no folder runs/; give a measurements folder or a CSV of runs."
        )
    rows, problems = read_runs(folder, known)
    accepted, more = read_acceptance(folder)
    problems += more + list(_sidecar_problems(folder)) + bounds.problems(rows)
    return len(rows) + len(accepted), sorted(problems)


def _check_file(path: Path, known: KnownIds | None) -> tuple[int, list[Problem]]:
    rows: list[Row] = []
    problems: list[Problem] = []
    table = list(read_csv(path))
    if not table or not {"run_id", "source_id", "model"} <= table[0][1].keys():
        raise AdvisorError(
            f"{path.name} is no table of measured runs: it needs at least one row, and the columns "
            "run_id, source_id and model; `advisor results` reads benchmark files."
        )
    for line, raw in table:
        run, reasons = check_row(raw)
        if run is not None and known:
            reasons += list(_id_problems(run, known))
        problems += [Problem(path.name, line, reason) for reason in reasons]
        if run is not None and not reasons:
            rows.append(Row(run, raw, path.name, line))
    for group in by_group(rows).values():
        problems += group_problems(group)
    problems += bounds.problems(rows)
    return len(rows), sorted(problems)


def _sidecar_problems(folder: Path) -> Iterable[Problem]:
    for part in ("runs", "acceptance"):
        for path in source_files(folder, part):
            sidecar = folder / "sources" / f"{path.stem}.yaml"
            name = f"sources/{path.stem}.yaml"
            if not sidecar.is_file():
                yield Problem(f"{part}/{path.name}", 0, f"no sidecar {name}")
                continue
            facts = read_yaml_safely(sidecar, MAX_SIDECAR_BYTES) or {}
            noted = (facts.get("files") or {}).get(part) or {}
            if noted.get("sha256") != sha256(path):
                yield Problem(
                    f"{part}/{path.name}",
                    0,
                    f"differs from the hash in {name}: rows are superseded, not edited",
                )
    for sidecar in sorted((folder / "sources").glob("*.yaml")):
        facts = read_yaml_safely(sidecar, MAX_SIDECAR_BYTES) or {}
        missing = [field for field in SIDECAR_FIELDS if field not in facts]
        if missing or facts.get("id") != sidecar.stem:
            yield Problem(
                f"sources/{sidecar.name}", 0, f"lacks {', '.join(missing) or 'its own id'}"
            )
        date = str(facts.get("date") or "")
        if date and not DATE.fullmatch(date):
            yield Problem(
                f"sources/{sidecar.name}", 0, f"date {date!r} is not YYYY, YYYY-MM or YYYY-MM-DD"
            )


def read_sidecars(folder: Path) -> dict[str, dict[str, Any]]:
    """Every sidecar by source id."""
    files = sorted((folder / "sources").glob("*.yaml"))
    return {path.stem: read_yaml_safely(path, MAX_SIDECAR_BYTES) for path in files}


def _csv_text(columns: tuple[str, ...], rows: Iterable[Mapping[str, str]]) -> str:
    out, listed = io.StringIO(), list(rows)
    kept = [c for c in columns if c not in RARE_COLUMNS or any(row.get(c) for row in listed)]
    writer = csv.DictWriter(out, kept, lineterminator="\n")
    writer.writeheader()
    writer.writerows({column: row.get(column, "") for column in kept} for row in listed)
    return out.getvalue()


def add(
    folder: Path, runs: Path | None, acceptance: Path | None = None, sources: Path | None = None
) -> list[str]:
    """Take tables (one row an arm, one row a position, one row a source) into the folder, split by
    source.

    Raises AdvisorError if a source is there already (supersede it under a new id) or a row is bad.
    Returns the source ids.
    """
    tables: dict[str, dict[str, list[dict[str, str]]]] = {}
    for part, path in (("runs", runs), ("acceptance", acceptance)):
        for row in _rows_by_source(path) if path else ():
            tables.setdefault(row["source_id"], {}).setdefault(part, []).append(row)
    described = _facts_by_source(sources) if sources else {}
    for source in sorted(set(tables) | set(described)):
        if (folder / "sources" / f"{source}.yaml").exists():
            raise AdvisorError(
                f"source {source!r} is there already; rows are superseded under a new source id, "
                f"not edited."
            )
    if runs:
        _, problems = _check_file(runs, None)
        if problems:
            raise AdvisorError(
                f"{len(problems)} bad rows, the first: {problems[0]}; nothing was added."
            )
    for part in ("runs", "acceptance", "sources"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for source in sorted(set(tables) | set(described)):
        _write_source(folder, source, tables.get(source, {}), described.get(source, {}))
    return sorted(set(tables) | set(described))


def _rows_by_source(path: Path) -> list[dict[str, str]]:
    rows = [row for _, row in read_csv(path)]
    if rows and "source_id" not in rows[0]:
        raise AdvisorError(f"{path.name} has no column source_id, which says whose rows they are.")
    return rows


def _facts_by_source(path: Path) -> dict[str, dict[str, Any]]:
    """What describes each source: a row of a CSV, or the sidecar that `advisor share` writes."""
    if path.suffix not in (".yaml", ".yml"):
        return {row["source_id"]: dict(row) for row in _rows_by_source(path)}
    facts = read_yaml_safely(path, MAX_SIDECAR_BYTES)
    if not isinstance(facts, dict) or not isinstance(facts.get("id"), str):
        raise AdvisorError(f"{path.name} describes no source: it has no id.")
    return {facts["id"]: facts | {"what_it_holds": facts.get("holds", "")}}


def _write_source(
    folder: Path, source: str, parts: Mapping[str, list[dict[str, str]]], facts: Mapping[str, Any]
) -> None:
    import yaml

    files: dict[str, dict[str, Any]] = {}
    for part, rows in parts.items():
        path = folder / part / f"{source}.csv"
        path.write_text(
            _csv_text(RUN_COLUMNS if part == "runs" else ACCEPTANCE_COLUMNS, rows), encoding="utf-8"
        )
        files[part] = {"rows": len(rows), "sha256": sha256(path)}
    sidecar = {
        "id": source,
        "kind": facts.get("kind", ""),
        "title": facts.get("title", ""),
        "address": facts.get("address", ""),
        "date": facts.get("date", ""),
        "holds": facts.get("what_it_holds", ""),
        "how": facts.get("how", "transcribed from the publication"),
        "reliability": facts.get("reliability", ""),
        "caveats": facts.get("caveats", ""),
        "files": files,
    }
    if inputs := facts.get("inputs_sha256"):
        sidecar["inputs_sha256"] = inputs
    text = yaml.safe_dump(sidecar, sort_keys=False, allow_unicode=True, width=110)
    (folder / "sources" / f"{source}.yaml").write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- the compiled index of measured
# pairs


def index_entries(rows: Iterable[Row], dates: Mapping[str, str]) -> list[dict[str, Any]]:
    """Measured pairs for the nearest-evidence look-up: one entry an arm and metric, TPOT and TTFT
    pairs derived.
    """
    entries: list[dict[str, Any]] = []
    for group in by_group(rows).values():
        off = next((row.run for row in group if row.run.spec_method == "none"), None)
        for row in group:
            run = row.run
            if run.spec_method == "none" or run.use == "no":
                continue
            found: dict[str, float] = {}
            if run.speedup and run.speedup_metric:
                found[run.speedup_metric] = run.speedup
            for metric in DERIVED_METRICS:
                value = ratio(run, off, metric) if off else None
                if value and metric not in found:
                    found[metric] = value
            entries += [
                _entry(row, metric, value, dates.get(run.source_id, ""))
                for metric, value in found.items()
            ]
    return entries


def _entry(row: Row, metric: str, speedup: float, date: str) -> dict[str, Any]:
    run = row.run
    entry = {
        "run_id": run.run_id,
        "source": run.source_id,
        "hardware": run.hardware,
        "gpu_count": run.gpu_count,
        "tp": run.tp,
        "model": run.model,
        "quant": _quant_id(run.quant) or native_quant(run.model),
        "kv_cache_dtype": run.kv_cache_dtype,
        "engine": canonical(run.engine) or run.engine,
        "engine_version": run.engine_version,
        "method": run.spec_method,
        "k": run.k,
        "concurrency": run.concurrency,
        "input_tokens": run.input_tokens,
        "output_tokens": run.output_tokens,
        "depth_tokens": run.depth_tokens,
        "workload": run.workload or client_text(run.notes),
        "accepted": tokens_a_step(run),
        "output_spread": run.output_spread,
        "prefix_share": run.prefix_share or None,
        "metric": metric,
        "speedup": round(speedup, 4),
        "date": date,
        "clean": run.use == "train",
    }
    return {key: value for key, value in entry.items() if value not in (None, "")}


@cache
def _quant_id(name: str | None) -> str | None:
    """The quantisation's own id where a row names it by an alias, so that a question for it finds
    the row.
    """
    try:
        return knowledge.quant(name).id if name else name
    except UnknownFact:
        return name


def _all_entries(folder: Path) -> list[dict[str, Any]]:
    """Pairs that are clean (use=train) or weak (use=eval), in the order of the files."""
    rows, problems = read_runs(folder)
    if problems:
        raise AdvisorError(
            f"{len(problems)} bad rows in the measurements, the first: {problems[0]}."
        )
    dates = {source: str(facts.get("date", "")) for source, facts in read_sidecars(folder).items()}
    return index_entries(rows, dates)


def index_text(folder: Path) -> str:
    """The text of index.jsonl."""
    return to_text(
        _all_entries(folder), f"by `{INDEX_COMMAND}` from runs/ and sources/; do not edit"
    )


def write_index(folder: Path) -> int:
    """Write index.jsonl; returns the number of pairs."""
    text = index_text(folder)
    (folder / evidence.INDEX_NAME).write_text(text, encoding="utf-8")
    found = evidence.from_text(text)
    return sum(len(found.pairs(group)) for group in range(len(found.groups)))
