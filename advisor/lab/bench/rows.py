"""From step-cost rows (JSON lines of `advisor bench step-cost`) to measured runs in the project's
tidy form.

`advisor bench import FOLDER` reads every *.jsonl of a folder and its `about.yaml` (which machine,
what differs from a default
install, which engine starts are weak evidence and why) and writes runs/ID.csv and sources/ID.yaml.
A plain arm and the speculative arms of one campaign at one point make a group. All rows of one
machine are one source, whatever their number.

What the rows do not know: acceptance (set by the sampler) and routing (random weights route almost
uniformly). Acceptance is therefore marked as forced and never learned from.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.domain.nouns import AdvisorError
from advisor.lab.bench import served_rows
from advisor.lab.bench.row_files import Measured, read_about, read_rows
from advisor.lab.measurements import files
from advisor.lab.measurements.schema import known_ids

LEAST_PROMPTS = 12  # with fewer in a timed point, one stray compilation decides the figure
CROWDED_TOKENS = 262_144  # prompt tokens of all clients together
SPREAD = 0.5  # worker.JITTER: output lengths of a point differ by +-50 %
NOTE = "random weights, forced (synthetic) acceptance; step cost only"


@dataclass(frozen=True)
class Weak:
    """Engine starts, or some `keys` of them, whose rows are kept but not trained on. From
    `decode_from` concurrent requests on, and up to `decode_to_input` prompt tokens, the decode
    step still counts.
    """

    labels: str
    why: str
    keys: tuple[str, ...] = ()
    decode_from: int | None = None
    decode_to_input: int = 8192
    decode_why: str = ""


def reason_of(row: Measured, about: Mapping[str, Any]) -> Weak | None:
    """The first entry of `weak` that covers the row."""
    for item in about.get("weak", ()):
        found = Weak(**{**item, "keys": tuple(item.get("keys", ()))})
        if fnmatch.fnmatch(row["label"], found.labels) and (
            not found.keys or row["key"] in found.keys
        ):
            return found
    return None


def machine_of(label: str, about: Mapping[str, Any]) -> str:
    """Which machine of the kind ran an engine start: the first entry of `machines` that covers its
    label, or nothing.
    """
    listed = about.get("machines", ())
    return next(
        (str(item["machine"]) for item in listed if fnmatch.fnmatch(label, item["labels"])), ""
    )


def campaign(label: str) -> str:
    """What the arms of one campaign share in their label: all but the draft length."""
    return re.sub(r"-(eagle3|dflash|ngram)$", "", re.sub(r"-k\d+(?=-|$)", "", label))


def is_decode_biased(row: Measured) -> bool:
    """Many prompt tokens at several requests: somebody waits for a prompt in almost every step, and
    the few steps where nobody does come from the emptying end with fewer requests (H200, k = 2:
    8 x 32768 seems faster than 8 x 2048, 128 x 2048 than 128 x 64).
    """
    return bool(
        row["concurrency"] > 1 and row["input_tokens"] * row["concurrency"] >= CROWDED_TOKENS
    )


def decode_tok_s(row: Measured) -> float | None:
    """One request's decode speed while no prompt is computed: tokens per step over the median
    decode step.
    """
    step = row.get("decode_step_p50_ms")
    if row.get("kind") == "decode":  # nothing but decode steps: the mean is what users get
        step = row["decode_step_mean_ms"]
    return None if not step else 1000 * row["acceptance_length"] / step


# ---------------------------------------------------------------- rows


def runs(rows: Sequence[Measured], about: Mapping[str, Any]) -> list[dict[str, str]]:
    """Measured points as rows of the measurement table, in a fixed order.

    Parameters
    ----------
    rows : Sequence[Measured]
        Measured points.
    about : Mapping[str, Any]
        The sweep's about.yaml.

    Returns
    -------
    list of dict
        One a row, columns by name.
    """
    ordered = sorted(
        rows,
        key=lambda r: (campaign(r["label"]), r["input_tokens"], r["concurrency"], r["k"], r["key"]),
    )
    made: list[dict[str, str]] = []
    for row in ordered:
        reason = reason_of(row, about)
        if row.get("kind") != "decode":
            made.append(_run(row, about, reason))
        if decode_tok_s(row):
            made.append(_decode_run(row, about, reason))
    offs = {row["group_id"] for row in made if row["spec_method"] == "none"}
    arms = {row["group_id"] for row in made if row["spec_method"] != "none"}
    kept = []
    for row in made:
        if row["group_id"].endswith("/decode") and row["group_id"] not in offs & arms:
            continue
        alone = row["group_id"] not in offs & arms
        kept.append(
            row | {"use": "eval", "use_why": "only one arm at this point"} if alone else row
        )
    _add_speedups(kept)
    return [{"run_id": f"{about['id']}-{i:03d}"} | row for i, row in enumerate(kept, 1)]


def _decode_counts(row: Measured, weak: Weak) -> bool:
    from_, to = weak.decode_from, weak.decode_to_input
    return from_ is not None and row["concurrency"] >= from_ and row["input_tokens"] <= to


def _text(value: Any, digits: int = 2) -> str:
    return (
        "" if value is None else f"{value:.{digits}f}" if isinstance(value, float) else str(value)
    )


def _setting(row: Measured, about: Mapping[str, Any], group: str) -> dict[str, str]:
    """The columns that say what was run, equal in all arms but for the method."""
    k = row["k"]
    return {
        "source_id": about["id"],
        "group_id": f"{about['id']}/{group}",
        "model": row["model"],
        "quant": row["quant"],
        "kv_cache_dtype": row.get("kv_cache_dtype", "bf16"),
        "hardware": about["hardware"],
        "machine": machine_of(row["label"], about),
        "gpu_count": "1",
        "interconnect": "none",
        "tp": "1",
        "engine": about.get("engine", "vllm"),
        "engine_version": str(row["vllm"]),
        "spec_method": row.get("method", "mtp") if k else "none",
        "k": str(k) if k else "",
        "concurrency": str(row["concurrency"]),
        "input_tokens": str(row["input_tokens"]),
        "output_tokens": str(round(row["tokens"] / row["prompts"])),
        "workload": "random",
        "temperature": row.get("temperature", "1"),
        "prefix_caching": "1" if row["prefix_caching"] else "0",
        "n_trials": "1",
        "n_requests": str(row["prompts"]),
        "output_spread": "0" if row.get("kind") == "decode" else str(SPREAD),
        "max_num_seqs": str(row["max_num_seqs"]),
        "max_num_batched_tokens": str(row["max_num_batched_tokens"]),
        "prefix_share": f"{row.get('prefix_share', 0.0):g}" if row.get("prefix_share") else "",
        "acceptance_length": f"{row['acceptance_length']:.4f}" if k else "",
        "acceptance_rate": f"{(row['acceptance_length'] - 1) / k:.4f}" if k else "",
        "acceptance_forced": "1" if k else "",
        "notes": row.get("notes", NOTE),
    }


def runs_columns(row: Measured, hardware: str) -> dict[str, str]:
    """One measured point in the columns that `encode_rows.from_rows` reads."""
    return _setting(row, {"id": "", "hardware": hardware}, "")


def _group(row: Measured) -> str:
    return f"{campaign(row['label'])}/{row['key']}"


def _run(row: Measured, about: Mapping[str, Any], weak: Weak | None) -> dict[str, str]:
    few = row["prompts"] < LEAST_PROMPTS
    why = (
        weak.why
        if weak
        else f"{row['prompts']} prompts at this point"
        if few
        else "both arms on one machine"
    )
    return _setting(row, about, _group(row)) | {
        "output_tok_s": _text(row["output_tok_s"]),
        "ttft_ms": _text(row["ttft_ms"], 3),
        "tpot_ms": _text(row["tpot_ms"], 4),
        "itl_p99_ms": _text(row["itl_p99_ms"], 3),
        "use": "eval" if weak or few else "train",
        "use_why": why,
    }


def _decode_run(row: Measured, about: Mapping[str, Any], weak: Weak | None) -> dict[str, str]:
    """The decode step alone, an arm of its own group: TPOT and output tok/s carry the prompts of
    others, this does not.
    """
    few = served_rows.few_steps(row) if "kind" in row else row["prompts"] < LEAST_PROMPTS
    biased = row.get("kind") != "decode" and is_decode_biased(row)
    counts = not (few or biased) and (weak is None or _decode_counts(row, weak))
    why = "median step while nobody waits for a first token"
    if biased:
        why = "steps without a waiting prompt are the emptying end here"
    elif weak is not None:
        why = weak.decode_why if counts else weak.why
    elif few:
        why = f"{row['prompts']} prompts at this point"
    elif row.get("kind") == "decode":
        why = "mean step while all slots decode and no prompt is computed"
    made = _setting(row, about, f"{_group(row)}/decode")
    return made | {
        "request_tok_s": _text(decode_tok_s(row)),
        "use": "train" if counts else "eval",
        "use_why": why,
    }


def _add_speedups(rows: list[dict[str, str]]) -> None:
    """The published speed-up of each arm: output tok/s, or the decode speed where only that
    counts.
    """
    offs = {row["group_id"]: row for row in rows if row["spec_method"] == "none"}
    for row in rows:
        off = offs.get(row["group_id"])
        if off is None or row is off:
            continue
        metric = "output_tok_s" if row.get("output_tok_s") else "request_tok_s"
        if row.get(metric) and off.get(metric):
            row["speedup"] = f"{float(row[metric]) / float(off[metric]):.4f}"
            row["speedup_metric"] = metric


# ---------------------------------------------------------------- folders


def import_folder(
    folder: Path, into: Path, changes: Mapping[str, Any] | None = None, replace: bool = False
) -> tuple[str, int]:
    """Write runs/ID.csv and sources/ID.yaml of a sweep's folder; returns (ID, rows). `replace`
    rewrites the same source.

    Parameters
    ----------
    folder : Path
        Where the files are.
    into : Path
        Measurements folder.
    changes : Mapping[str, Any] | None
        Of about.yaml.
    replace : bool
        Rewrite the same source.

    Returns
    -------
    tuple
        Source id and number of rows.

    Raises
    ------
    AdvisorError
        The folder holds no points or no description, or the source is there already.
    """
    import tempfile

    about = read_about(folder, changes or {})
    made = runs(read_rows(folder), about)
    known = known_ids()
    if known.hardware and about["hardware"] not in known.hardware:
        raise AdvisorError(
            f"hardware '{about['hardware']}' is not known; its ids are the file names in "
            f"knowledge/hardware."
        )
    source = str(about["id"])
    if replace:
        for path in (into / "runs" / f"{source}.csv", into / "sources" / f"{source}.yaml"):
            path.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        table, facts = Path(scratch, "runs.csv"), Path(scratch, "sources.csv")
        _write(table, made)
        _write(facts, [_sidecar(about, made)])
        files.add(into, table, None, facts)
    return source, len(made)


def _write(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    import csv

    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)


def _sidecar(about: Mapping[str, Any], made: Sequence[Mapping[str, str]]) -> dict[str, str]:
    train = sum(row["use"] == "train" for row in made)
    differs = "; ".join(about.get("differs", ())) or "not said"
    dropped = "; ".join(about.get("dropped", ())) or "nothing"
    return {
        "source_id": about["id"],
        "kind": "own measurement",
        "title": about.get("title", f"Step costs of {about['hardware']}"),
        "address": about.get("address", "measured with `advisor bench step-cost`"),
        "date": str(about["date"]),
        "what_it_holds": f"{len(made)} arms, {train} of them for training; one machine type, "
        f"one source",
        "how": f"advisor bench step-cost; {about.get('versions', 'versions in the rows')}",
        "reliability": about.get("reliability", "high for step costs; acceptance is an input"),
        "caveats": f"{about.get('caveats', NOTE)}. Differs from a default install: {differs}. "
        f"Dropped or missing: {dropped}",
    }
