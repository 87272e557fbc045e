"""The measurements folder as a whole: `advisor data check`, `add` and `index`."""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from advisor.domain.files import read_yaml_safely
from advisor.domain.nouns import AdvisorError, UnknownFact
from advisor.engines import canonical
from advisor.knowledge import evidence
from advisor.knowledge import store as knowledge
from advisor.lab.measurements import bounds, schema
from advisor.lab.measurements.columns import ACCEPTANCE_COLUMNS, RARE_COLUMNS, RUN_COLUMNS, Run
from advisor.lab.measurements.index_text import client_text, native_quant, to_text, tokens_a_step
from advisor.lab.measurements.schema import ANY_ID, KnownIds, Problem, Row

MAX_SIDECAR_BYTES = 2**20
DATE = re.compile(r"\d{4}(-\d{2}){0,2}")
SIDECAR_FIELDS = (
    "id", "kind", "title", "address", "date", "holds", "how", "reliability", "caveats", "files",
)  # fmt: skip
INDEXED = (  # columns that the index takes as they are
    "run_id", "hardware", "gpu_count", "tp", "model", "kv_cache_dtype", "engine_version", "k",
    "concurrency", "input_tokens", "output_tokens", "depth_tokens", "output_spread",
)  # fmt: skip


def check(path: Path, known: KnownIds = ANY_ID) -> tuple[int, list[Problem]]:
    """The number of good rows of a measurements folder (or one CSV of runs), and every problem.
    Raises AdvisorError where it is neither.
    """
    if path.is_file():
        rows, problems = _check_file(path, known)
        return len(rows), sorted(problems)
    if not (path / "runs").is_dir():
        raise AdvisorError(f"{path} has no folder runs/; give a measurements folder or CSV of runs")
    rows, problems = schema.read_runs(path, known)
    accepted, more = schema.read_acceptance(path)
    problems += [*more, *_sidecar_problems(path), *bounds.problems(rows)]
    return len(rows) + len(accepted), sorted(problems)


def _check_file(path: Path, known: KnownIds) -> tuple[list[Row], list[Problem]]:
    if not {"run_id", "source_id", "model"} <= next(schema.read_csv(path), (0, {}))[1].keys():
        raise AdvisorError(
            f"{path.name} is no table of measured runs: it needs at least one row, and the columns "
            "run_id, source_id and model; `advisor results` reads benchmark files."
        )
    rows, problems = schema.read_table(path, path.name, known, lambda *_: ())
    for group in schema.by_group(rows).values():
        problems += schema.group_problems(group)
    return rows, problems + bounds.problems(rows)


def _sidecar_problems(folder: Path) -> Iterable[Problem]:
    sidecars = read_sidecars(folder)
    for part in ("runs", "acceptance"):
        for path in schema.source_files(folder, part):
            name, sidecar = f"{part}/{path.name}", f"sources/{path.stem}.yaml"
            if path.stem not in sidecars:
                yield Problem(name, 0, f"no sidecar {sidecar}")
                continue
            noted = (sidecars[path.stem].get("files") or {}).get(part) or {}
            if noted.get("sha256") != schema.sha256(path):
                reason = f"differs from the hash in {sidecar}: rows are superseded, not edited"
                yield Problem(name, 0, reason)
    for source, facts in sidecars.items():
        name = f"sources/{source}.yaml"
        missing = [field for field in SIDECAR_FIELDS if field not in facts]
        if missing or facts.get("id") != source:
            yield Problem(name, 0, f"lacks {', '.join(missing) or 'its own id'}")
        date = str(facts.get("date") or "")
        if date and not DATE.fullmatch(date):
            yield Problem(name, 0, f"date {date!r} is not YYYY, YYYY-MM or YYYY-MM-DD")


def read_sidecars(folder: Path) -> dict[str, dict[str, Any]]:
    """Every sidecar by source id."""
    files = sorted((folder / "sources").glob("*.yaml"))
    return {path.stem: read_yaml_safely(path, MAX_SIDECAR_BYTES) or {} for path in files}


def csv_text(columns: tuple[str, ...], rows: Iterable[Mapping[str, str]]) -> str:
    """A table of these columns, without rare ones that no row fills."""
    out, listed = io.StringIO(), list(rows)
    kept = [c for c in columns if c not in RARE_COLUMNS or any(row.get(c) for row in listed)]
    writer = csv.DictWriter(out, kept, lineterminator="\n")
    writer.writeheader()
    writer.writerows({column: row.get(column, "") for column in kept} for row in listed)
    return out.getvalue()


def add(
    folder: Path,
    runs: Path | None,
    acceptance: Path | None = None,
    sources: Path | Mapping[str, Any] | None = None,
) -> list[str]:
    """Take tables into the folder, split by source; the ids. `sources` describes them: a file, or
    the one source itself. Raises AdvisorError, nothing added.
    """
    tables: dict[str, dict[str, list[dict[str, str]]]] = {}
    for part, path in (("runs", runs), ("acceptance", acceptance)):
        for row in _rows_by_source(path) if path else ():
            tables.setdefault(row["source_id"], {}).setdefault(part, []).append(row)
    described = _facts_by_source(sources) if sources else {}
    names = sorted(tables.keys() | described.keys())
    hashes = {sha for facts in described.values() for sha in facts.get("inputs_sha256") or ()}
    for name, facts in read_sidecars(folder).items():
        if name not in names and hashes & set(facts.get("inputs_sha256") or ()):
            raise AdvisorError(f"{', '.join(names)}: a duplicate, of the same files as {name}")
    for source in names:
        if (folder / "sources" / f"{source}.yaml").exists():
            raise AdvisorError(
                f"source {source!r} is there already; rows are superseded under a new source id, "
                f"not edited."
            )
    problems = sorted(_check_file(runs, ANY_ID)[1]) if runs else []
    if problems:
        raise AdvisorError(f"{len(problems)} bad rows, the first: {problems[0]}; nothing was added")
    for part in ("runs", "acceptance", "sources"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for source in names:
        _write_source(folder, source, tables.get(source, {}), described.get(source, {}))
    return names


def _rows_by_source(path: Path) -> list[dict[str, str]]:
    rows = [row for _, row in schema.read_csv(path)]
    if rows and "source_id" not in rows[0]:
        raise AdvisorError(f"{path.name} has no column source_id, which says whose rows they are.")
    return rows


def _facts_by_source(sources: Path | Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What describes each source: a row of a CSV, or the one source itself."""
    if isinstance(sources, Path):
        return {row["source_id"]: dict(row) for row in _rows_by_source(sources)}
    return {sources["id"]: {**sources, "what_it_holds": sources["holds"]}}


def _write_source(
    folder: Path, source: str, parts: Mapping[str, list[dict[str, str]]], facts: Mapping[str, Any]
) -> None:
    files: dict[str, dict[str, Any]] = {}
    for part, rows in parts.items():
        path = folder / part / f"{source}.csv"
        columns = RUN_COLUMNS if part == "runs" else ACCEPTANCE_COLUMNS
        path.write_text(csv_text(columns, rows), encoding="utf-8")
        files[part] = {"rows": len(rows), "sha256": schema.sha256(path)}
    names = {name: name for name in SIDECAR_FIELDS} | {"holds": "what_it_holds"}
    sidecar = {name: facts.get(field, "") for name, field in names.items()}
    how = facts.get("how", "transcribed from the publication")
    sidecar |= {"id": source, "how": how, "files": files}
    if inputs := facts.get("inputs_sha256"):
        sidecar["inputs_sha256"] = inputs
    text = yaml.safe_dump(sidecar, sort_keys=False, allow_unicode=True, width=110)
    (folder / "sources" / f"{source}.yaml").write_text(text, encoding="utf-8")


def index_entries(rows: Iterable[Row], dates: Mapping[str, str]) -> list[dict[str, Any]]:
    """Measured pairs: one entry for each arm and metric, TPOT and TTFT pairs derived."""
    entries: list[dict[str, Any]] = []
    for group in schema.by_group(rows).values():
        off = next((row.run for row in group if row.run.spec_method == "none"), None)
        for run in (row.run for row in group):
            if run.spec_method == "none" or run.use == "no":
                continue
            published = {run.speedup_metric: run.speedup} if run.speedup else {}
            missing = [metric for metric in ("tpot", "ttft") if metric not in published]
            derived = {metric: schema.ratio(run, off, metric) for metric in missing} if off else {}
            date = dates.get(run.source_id, "")
            entries += [
                _entry(run, metric, value, date)
                for metric, value in (published | derived).items()
                if metric and value
            ]
    return entries


def _entry(run: Run, metric: str, speedup: float, date: str) -> dict[str, Any]:
    entry = {name: getattr(run, name) for name in INDEXED} | {
        "source": run.source_id,
        "quant": _quant_id(run.quant) or native_quant(run.model),
        "engine": canonical(run.engine) or run.engine,
        "method": run.spec_method,
        "workload": run.workload or client_text(run.notes),
        "accepted": tokens_a_step(run),
        "prefix_share": run.prefix_share or None,
        "metric": metric,
        "speedup": round(speedup, 4),
        "date": date,
        "clean": run.use == "train",
    }
    return {key: value for key, value in entry.items() if value not in (None, "")}


@cache
def _quant_id(name: str) -> str:
    """The quantisation's own id where a row names it by an alias."""
    try:
        return knowledge.quant(name).id if name else name
    except UnknownFact:
        return name


def index_text(folder: Path) -> str:
    """The text of index.jsonl, in the files' order. Raises AdvisorError where a row is bad."""
    rows, problems = schema.read_runs(folder)
    if problems:
        raise AdvisorError(f"{len(problems)} bad rows of measurements, the first: {problems[0]}")
    dates = {source: str(facts.get("date", "")) for source, facts in read_sidecars(folder).items()}
    note = "by `advisor data index` from runs/ and sources/; do not edit"
    return to_text(index_entries(rows, dates), note)


def write_index(folder: Path) -> int:
    """Write index.jsonl; returns the number of pairs."""
    text = index_text(folder)
    (folder / evidence.INDEX_NAME).write_text(text, encoding="utf-8")
    index = evidence.from_text(text)
    return sum(len(index.pairs(group)) for group in range(len(index.groups)))
