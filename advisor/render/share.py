"""A machine's runs in the form that a maintainer takes into knowledge/measurements: arms as CSV,
the sidecar as YAML.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math

from advisor.advice.own_runs.machine import Machine, MachineRun
from advisor.domain.printable import csv_cell

_TABLE = (
    "run_id source_id group_id model quant hardware gpu_count tp engine engine_version "
    "spec_method k concurrency input_tokens output_tokens workload output_tok_s ttft_ms tpot_ms "
    "acceptance_length use use_why notes"
)
_PLAN = "prefix_caching max_num_seqs max_num_batched_tokens kv_cache_dtype"
PLAN_COLUMNS = tuple(_PLAN.split())  # of the same names as the fields of a plan
COLUMNS = (*_TABLE.split(), "output_spread", "temperature", *PLAN_COLUMNS)
_COLUMN_OF = {"output_tok_s": "output_tok_s", "tpot": "tpot_ms", "ttft": "ttft_ms"}


def source_id(machine: Machine) -> str:
    """An id that no other owner's machine of that name has, nor this one with other runs."""
    told = machine.model_dump_json(include={"hardware", "gpus", "runs"})
    return f"own-{machine.name}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def shared_csv(machine: Machine, source: str) -> str:
    """One arm a row; the speculating arm's figures follow from the baseline and the gain."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n", restval="")
    writer.writeheader()
    for number, run in enumerate(machine.runs, 1):
        group = f"{source}-{number}"
        writer.writerow(_row(machine, run, source, group, "off"))
        if run.gains:
            writer.writerow(_row(machine, run, source, group, "on"))
    return out.getvalue()


def _row(machine: Machine, run: MachineRun, source: str, group: str, arm: str) -> dict[str, object]:
    on = arm == "on"
    values = dict(run.baseline)
    for name, gain in run.gains.items() if on else ():
        if name in values:
            values[name] *= math.exp(gain.log if name == "output_tok_s" else -gain.log)
    if on:
        values = {name: value for name, value in values.items() if name in run.gains}
    shared = {
        "run_id": f"{group}-{arm}",
        "source_id": source,
        "group_id": group,
        "model": run.model,
        "quant": run.quant or "",
        "hardware": machine.hardware,
        "gpu_count": run.gpus or machine.gpus,
        "tp": run.tp or "",
        "engine": run.engine,
        "engine_version": run.engine_version or "",
        "spec_method": run.method if on else "none",
        "k": run.k if on else "",
        "concurrency": f"{run.concurrency:g}",
        "input_tokens": round(run.input_tokens) if run.input_tokens else "",
        "output_tokens": round(run.output_tokens) if run.output_tokens else "",
        "workload": run.workload or "",
        "output_spread": "" if run.output_spread is None else run.output_spread,
        "temperature": "" if run.temperature is None else run.temperature,
        **{
            name: int(value) if isinstance(value, bool) else value
            for name, value in run.plan.items()
            if name in PLAN_COLUMNS
        },
        "acceptance_length": run.accepted_length if on and run.accepted_length else "",
        "use": "eval",
        "use_why": "a user's own A/B, sent for review",
        "notes": f"measured {run.date}",
    }
    shared = {
        name: csv_cell(value) if isinstance(value, str) else value for name, value in shared.items()
    }
    return shared | {_COLUMN_OF[name]: f"{value:.6g}" for name, value in values.items()}


def shared_sidecar(machine: Machine, source: str, table: str) -> str:
    """Who, when, how; the table's hash."""
    import yaml  # start-up: only where it is written

    rows = table.count("\n") - 1
    text = {
        "id": source,
        "kind": "own",
        "title": f"own runs of a {machine.hardware}",
        "address": "sent by its owner",
        "date": machine.newest,
        "holds": f"{len(machine.runs)} settings, {rows} runs",
        "how": "advisor calibrate, advisor share",
        "reliability": "medium",
        "caveats": "figures with speculation follow from the baseline and the measured gain",
        "inputs_sha256": sorted({sha for run in machine.runs for sha in run.inputs_sha256}),
        "files": {"runs": {"rows": rows, "sha256": hashlib.sha256(table.encode()).hexdigest()}},
    }
    return str(yaml.safe_dump(text, sort_keys=False, width=100))
