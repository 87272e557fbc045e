"""From the rows and about.yaml of a step-cost sweep to measured runs of one source.

Arms of one campaign at one point make a group; acceptance is marked as forced, never learned from.
"""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from advisor.domain.nouns import AdvisorError
from advisor.lab.bench.worker import JITTER, LEAST_PROMPTS
from advisor.lab.measurements import files
from advisor.lab.measurements.columns import RUN_COLUMNS
from advisor.lab.measurements.schema import known_ids

Row = dict[str, Any]  # a measured point, as a sweep wrote it
LEAST_STEPS = 40  # of a point's decode steps: with fewer, a stray pause decides the figure
NOTE = "random weights, forced (synthetic) acceptance; step cost only"
ABOUT = "about.yaml"
CROWDED_TOKENS = 262_144  # prompt tokens of all clients together
About = Mapping[str, Any]  # about.yaml
Run = dict[str, str]  # a row of the measurement table


def read_rows(folder: Path) -> list[Row]:
    """All points; a line without `key` is shared by its label's. Raises AdvisorError."""
    rows: list[Row] = []
    for path in sorted(folder.glob("*.jsonl")):
        shared: dict[str, Row] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            try:
                row = json.loads(line or "{}")
            except ValueError as error:
                raise AdvisorError(
                    f"{path.name}:{number} is not JSON; delete the broken line and import again."
                ) from error
            if "key" in row:
                rows.append({**shared.get(row["label"], {}), **row})
            elif row:
                shared[row["label"]] = row
    if not rows:
        raise AdvisorError(f"{folder} holds no measured points (*.jsonl of a step-cost sweep).")
    return rows


def read_about(folder: Path) -> dict[str, Any]:
    """What about.yaml says. Raises AdvisorError where it lacks a name."""
    path = folder / ABOUT
    read = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    about: dict[str, Any] = read or {}
    for name in ("id", "hardware", "date"):
        if not about.get(name):
            raise AdvisorError(f"`{name}` is not known: put it into {ABOUT} in {folder}.")
    return about


def weakness(row: Row, about: About) -> About | None:
    """The first entry of `weak` that covers the row by `labels`, and by `keys` if it has any."""
    for item in about.get("weak", ()):
        if fnmatch(row["label"], item["labels"]) and row["key"] in item.get("keys", (row["key"],)):
            return dict(item)
    return None


def campaign(label: str) -> str:
    """What the arms of one campaign share in their label: all but the draft length."""
    return re.sub(r"-(eagle3|dflash|dspark|ngram)$", "", re.sub(r"-k\d+(?=-|$)", "", label))


def is_decode_biased(row: Row) -> bool:
    """Many prompt tokens at several requests: somebody waits for a prompt in almost every step, and
    the few steps where nobody does come from the emptying end with fewer requests (H200, k = 2:
    8 x 32768 seems faster than 8 x 2048, 128 x 2048 than 128 x 64).
    """
    clients = row["concurrency"]
    return bool(clients > 1 and row["input_tokens"] * clients >= CROWDED_TOKENS)


def decode_tok_s(row: Row) -> float | None:
    """A request's decode speed: tokens over the median step, the mean where none but decode ran."""
    middle = "mean" if row.get("kind") == "decode" else "p50"
    step = row.get(f"decode_step_{middle}_ms")
    return 1000 * row["acceptance_length"] / step if step else None


def runs(rows: Sequence[Row], about: About) -> list[Run]:
    """Measured points as rows of the measurement table, in a fixed order."""
    columns = ("input_tokens", "concurrency", "k", "key")
    out: list[Run] = []
    for row in sorted(rows, key=lambda r: (campaign(r["label"]), *(r[name] for name in columns))):
        weak = weakness(row, about)
        if row.get("kind") != "decode":
            out.append(_run(row, about, weak))
        if decode_tok_s(row):
            out.append(_decode_run(row, about, weak))
    offs = {row["group_id"]: row for row in out if row["spec_method"] == "none"}
    paired = {row["group_id"] for row in out if row["spec_method"] != "none"} & offs.keys()
    out = [r for r in out if r["group_id"] in paired or not r["group_id"].endswith("/decode")]
    for row in out:
        if row["group_id"] not in paired:
            row |= {"use": "eval", "use_why": "only one arm at this point"}
        elif row["spec_method"] != "none":
            _add_speedup(row, offs[row["group_id"]])
    return [{"run_id": f"{about['id']}-{i:03d}"} | row for i, row in enumerate(out, 1)]


def _add_speedup(row: Run, off: Run) -> None:
    """The published speed-up: of output tok/s, or of the decode speed where only that counts."""
    metric = "output_tok_s" if row.get("output_tok_s") else "request_tok_s"
    if row.get(metric) and off.get(metric):
        row["speedup"] = f"{float(row[metric]) / float(off[metric]):.4f}"
        row["speedup_metric"] = metric


def _text(value: float | None, digits: int = 2) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def _setting(row: Row, about: About, group: str) -> Run:
    """The columns that say what was run, equal in all arms but for the method."""
    k = row["k"]
    machines = (
        m["machine"] for m in about.get("machines", ()) if fnmatch(row["label"], m["labels"])
    )
    share, ranks = row.get("prefix_share"), str(row.get("gpus", "").count(",") + 1)
    accepted = {
        "acceptance_length": f"{row['acceptance_length']:.4f}",
        "acceptance_rate": f"{(row['acceptance_length'] - 1) / max(k, 1):.4f}",
        "acceptance_forced": "1",
    }
    return {
        "source_id": about["id"],
        "group_id": f"{about['id']}/{campaign(row['label'])}/{row['key']}{group}",
        "model": row["model"],
        "quant": row["quant"],
        "kv_cache_dtype": row.get("kv_cache_dtype", "bf16"),
        "hardware": about["hardware"],
        "machine": str(next(machines, "")),
        "gpu_count": ranks,
        "interconnect": "none" if ranks == "1" else "nvlink",
        "tp": ranks,
        "engine": "vllm",
        "engine_version": str(row["vllm"]),
        "spec_method": row.get("method", "mtp") if k else "none",
        "k": str(k) if k else "",
        "concurrency": str(row["concurrency"]),
        "input_tokens": str(row["input_tokens"]),
        "output_tokens": str(round(row["tokens"] / row["prompts"])),
        "workload": "random",
        "temperature": "1",
        "prefix_caching": "1" if row["prefix_caching"] else "0",
        "n_trials": "1",
        "n_requests": str(row["prompts"]),
        "output_spread": "0" if row.get("kind") == "decode" else str(JITTER),
        "max_num_seqs": str(row["max_num_seqs"]),
        "max_num_batched_tokens": str(row["max_num_batched_tokens"]),
        "prefix_share": f"{share:g}" if share else "",
        **(accepted if k else dict.fromkeys(accepted, "")),
        "notes": NOTE,
    }


def _run(row: Row, about: About, weak: About | None) -> Run:
    why = "both arms on one machine"
    if few := row["prompts"] < LEAST_PROMPTS:
        why = f"{row['prompts']} prompts at this point"
    return _setting(row, about, "") | {
        "output_tok_s": _text(row["output_tok_s"]),
        "ttft_ms": _text(row["ttft_ms"], 3),
        "tpot_ms": _text(row["tpot_ms"], 4),
        "itl_p99_ms": _text(row["itl_p99_ms"], 3),
        "use": "eval" if weak or few else "train",
        "use_why": weak["why"] if weak else why,
    }


def _decode_run(row: Row, about: About, weak: About | None) -> Run:
    """The decode step alone, an arm of its own group: it does not carry the prompts of others."""
    alone = row.get("kind") == "decode"
    few = row["decode_steps"] < LEAST_STEPS if "kind" in row else row["prompts"] < LEAST_PROMPTS
    biased = not alone and is_decode_biased(row)
    counts = not (few or biased)
    if weak is not None:
        from_, to = weak.get("decode_from"), weak.get("decode_to_input", 8192)
        counts &= from_ is not None and row["concurrency"] >= from_ and row["input_tokens"] <= to
    why = "median step while nobody waits for a first token"
    if biased:
        why = "steps without a waiting prompt are the emptying end here"
    elif weak is not None:
        why = weak.get("decode_why", "") if counts else weak["why"]
    elif few:
        why = f"{row['prompts']} prompts at this point"
    elif alone:
        why = "mean step while all slots decode and no prompt is computed"
    use = "train" if counts else "eval"
    speed = {"request_tok_s": _text(decode_tok_s(row)), "use": use, "use_why": why}
    return _setting(row, about, "/decode") | speed


def import_folder(folder: Path, into: Path) -> tuple[str, int]:
    """Write runs/ID.csv and sources/ID.yaml of a sweep's folder; returns (ID, rows). Raises
    AdvisorError without points or a description, or where the source is there.
    """
    about = read_about(folder)
    table = runs(read_rows(folder), about)
    known = known_ids()
    if known.hardware and about["hardware"] not in known.hardware:
        raise AdvisorError(
            f"hardware '{about['hardware']}' is not known; its ids are the file names in "
            f"knowledge/hardware."
        )
    source = str(about["id"])
    with tempfile.TemporaryDirectory() as scratch:
        rows = Path(scratch, "runs.csv")
        rows.write_text(files.csv_text(RUN_COLUMNS, table), encoding="utf-8")
        files.add(into, rows, sources=_sidecar(about, table))
    return source, len(table)


def _sidecar(about: About, rows: Sequence[Run]) -> Run:
    train = sum(row["use"] == "train" for row in rows)
    differs = "; ".join(about.get("differs", ())) or "not said"
    dropped = "; ".join(about.get("dropped", ())) or "nothing"
    return {
        "id": about["id"],
        "kind": "own measurement",
        "title": about.get("title", f"Step costs of {about['hardware']}"),
        "address": about.get("address", "measured with advisor.lab.bench.step_cost"),
        "date": str(about["date"]),
        "holds": f"{len(rows)} arms, {train} of them for training; one machine type, one source",
        "how": f"advisor.lab.bench.step_cost; {about.get('versions', 'versions in the rows')}",
        "reliability": about.get("reliability", "high for step costs; acceptance is an input"),
        "caveats": f"{about.get('caveats', NOTE)}. Differs from a default install: {differs}. "
        f"Dropped or missing: {dropped}",
    }
