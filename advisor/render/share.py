"""A receipt's runs in the form of knowledge/measurements: a row for each side of an A/B."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from advisor.advice.own_runs.machine import MachineRun
from advisor.advice.own_runs.receipt import Receipt
from advisor.domain.printable import csv_cell

# of the same names as the fields of a plan
_PLAN = ("prefix_caching", "max_num_seqs", "max_num_batched_tokens", "kv_cache_dtype")
_COLUMN_OF = {"output_tok_s": "output_tok_s", "tpot": "tpot_ms", "ttft": "ttft_ms"}


def rows_of(receipt: Receipt) -> Iterator[dict[str, str]]:
    """The speculating side's figures follow from the baseline and the gain."""
    for number, run in enumerate(receipt.runs, 1):
        for side in ("off", "on") if run.gains else ("off",):
            row = _row(receipt, run, f"{receipt.id}-{number}", side == "on")
            yield {name: csv_cell(str(v)) for name, v in row.items() if v is not None}


def _row(receipt: Receipt, run: MachineRun, group: str, on: bool) -> dict[str, Any]:
    values = dict(run.baseline)
    if on:
        values = {
            name: values[name] * math.exp(gain.log if name == "output_tok_s" else -gain.log)
            for name, gain in run.gains.items()
            if name in values
        }
    plan = {name: int(v) if isinstance(v, bool) else v for name, v in run.plan.items()}
    names = ("model", "quant", "tp", "engine", "engine_version", "workload", "output_spread",
             "temperature")  # fmt: skip
    return {
        "run_id": f"{group}-{'on' if on else 'off'}",
        "source_id": receipt.id,
        "group_id": group,
        "hardware": receipt.hardware,
        "gpu_count": run.gpus or receipt.gpus,
        "spec_method": run.method if on else "none",
        "k": run.k if on else None,
        "concurrency": f"{run.concurrency:g}",
        "input_tokens": round(run.input_tokens) if run.input_tokens else None,
        "output_tokens": round(run.output_tokens) if run.output_tokens else None,
        "acceptance_length": run.accepted_length if on else None,
        "use": "eval",
        "use_why": "a user's own A/B, sent for review",
        "notes": f"measured {run.date}",
        **{name: getattr(run, name) for name in names},
        **{name: plan.get(name) for name in _PLAN},
        **{_COLUMN_OF[name]: f"{value:.6g}" for name, value in values.items()},
    }


def source_of(receipt: Receipt) -> dict[str, Any]:
    """Who, when, how."""
    return {
        "id": receipt.id,
        "kind": "own",
        "title": f"runs of a {receipt.hardware}",
        "address": "sent by its owner" if receipt.source == "own" else "a public table",
        "date": receipt.newest,
        "holds": f"{len(receipt.runs)} settings",
        "how": "advisor receipt",
        "reliability": "medium",
        "caveats": "figures with speculation follow from the baseline and the measured gain",
        "inputs_sha256": sorted({sha for run in receipt.runs for sha in run.inputs_sha256}),
    }
