"""Advice -> the JSON object that `advisor schema recommend` describes.

Numbers that are not finite become null: the object is strict JSON. Keys are stable; new ones may be
added.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from advisor.domain.nouns import (
    Advice,
    Candidate,
    Estimate,
    Evidence,
    Finding,
    Interval,
    LaunchText,
    MemoryBill,
    MetricEstimate,
    NextRun,
    Plan,
)

PLAN_FIELDS = (
    "engine",
    "engine_version",
    "model",
    "method",
    "k",
    "k_schedule",
    "draft_model",
    "prefix_caching",
    "kv_cache_dtype",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "memory_fraction",
    "tp",
)
MEMORY_FIELDS = (
    "weights_gib",
    "spec_gib",
    "state_gib",
    "kv_gib",
    "overhead_gib",
    "available_gib",
    "kv_tokens",
    "kv_tokens_lost",
    "requests",
    "requests_without",
    "request_tokens",
    "fits",
)
EVIDENCE_FIELDS = (
    "run_id",
    "source",
    "hardware",
    "model",
    "quant",
    "engine",
    "engine_version",
    "method",
    "k",
    "concurrency",
    "input_tokens",
    "output_tokens",
    "metric",
    "speedup",
    "date",
    "covers",
)
DRAFTER_FIELDS = (
    "method",
    "repository",
    "target",
    "engines",
    "k",
    "params_b",
    "size_gb",
    "reported",
    "sources",
    "conflicts",
    "note",
)
SCHEMA_ID = "urn:mtp-advisor:recommend:1"


def advice_json(advice: Advice) -> dict[str, Any]:
    """The answer as plain dicts, lists, strings, numbers, booleans and None; speed-ups above 1 mean
    faster.
    """
    return {
        "schema": SCHEMA_ID,
        "request": finite(advice.request.model_dump(mode="json")),
        "decision": advice.decision,
        "decided_by": advice.decided_by,
        "gain": None if advice.gain is None else finite(advice.gain.model_dump()),
        "plan": plan_json(advice.plan),
        "estimate": estimate_json(advice.estimate),
        "candidate": None if advice.candidate is None else plan_json(advice.candidate),
        "drafter": drafter_json(advice),
        "findings": [finding_json(f) for f in advice.findings],
        "reasons": [
            {"text": r.text, "sources": list(r.sources)}
            for r in sorted(advice.reasons, key=lambda r: -r.weight)
        ],
        "runners_up": [runner_up_json(c) for c in advice.runners_up],
        "evidence": {
            "newest": advice.evidence_newest or None,
            "rows": [evidence_json(row) for row in advice.facts.evidence],
        },
        "would_change": list(advice.would_change),
        "defaults": [{"field": f, "value": v, "why": w} for f, v, w in advice.facts.defaults],
        "launch": launch_json(advice.launch),
        "launch_off": launch_json(advice.launch_off),
        "launch_on": None if advice.launch_on is None else launch_json(advice.launch_on),
        "measure_with": list(advice.measure_with),
        "next_run": None if advice.next_run is None else next_run_json(advice.next_run),
    }


def advice_json_text(advice: Advice) -> str:
    """The object as indented ASCII JSON that ends in a line feed: it survives any output
    encoding.
    """
    return json.dumps(advice_json(advice), indent=2, allow_nan=False) + "\n"


def plan_json(plan: Plan) -> dict[str, Any]:
    """What to run: k counts draft tokens beyond the bonus token; a schedule row is [batch from,
    batch to, k].
    """
    told: dict[str, Any] = {name: getattr(plan, name) for name in PLAN_FIELDS}
    told["k_schedule"] = [list(row) for row in plan.k_schedule]
    told["memory_fraction"] = number_or_none(plan.memory_fraction)
    return told


def drafter_json(advice: Advice) -> dict[str, Any] | None:
    """The published drafter that the candidate uses, with its sources; `engines` names the first
    release known to load it.
    """
    wanted = advice.candidate.draft_model if advice.candidate is not None else None
    known = next((d for d in advice.facts.drafters if d.repository == wanted), None)
    if known is None:
        return None
    plain = known.model_dump(mode="json")
    return {name: plain[name] for name in DRAFTER_FIELDS}


def estimate_json(estimate: Estimate | None) -> dict[str, Any] | None:
    """Return an estimate in the form of the `recommend` JSON output, None for none."""
    if estimate is None:
        return None
    return {
        "output_tok_s": metric_json(estimate.output_tok_s),
        "tpot_ms": metric_json(estimate.tpot_ms),
        "ttft_ms": metric_json(estimate.ttft_ms),
        "accepted_length": finite(estimate.accepted_length.model_dump()),
        "p_gain": number_or_none(estimate.p_gain),
        "memory": None if estimate.memory is None else memory_json(estimate.memory),
        "basis": estimate.basis,
        "notes": list(estimate.notes),
    }


def memory_json(bill: MemoryBill) -> dict[str, Any]:
    """GiB per GPU; KV tokens over all GPUs of one replica."""
    return {name: number_or_none(getattr(bill, name)) for name in MEMORY_FIELDS}


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return a finding in the form of the `recommend` JSON output."""
    fix = None if finding.fix is None else {"text": finding.fix.text, "safe": finding.fix.safe}
    return {
        "code": finding.code,
        "severity": finding.severity,
        "message": finding.message,
        "flag": finding.flag,
        "fix": fix,
        "sources": list(finding.sources),
        "conflicts": list(finding.conflicts),
    }


def runner_up_json(candidate: Candidate) -> dict[str, Any]:
    """Return a rejected candidate with its estimate, regret and findings."""
    return {
        "plan": plan_json(candidate.plan),
        "estimate": estimate_json(candidate.estimate),
        "regret": number_or_none(candidate.regret),
        "findings": [finding_json(f) for f in candidate.findings],
    }


def evidence_json(row: Evidence) -> dict[str, Any]:
    """Return one published benchmark; a number that is not finite becomes null."""
    return {name: number_or_none(getattr(row, name)) for name in EVIDENCE_FIELDS}


def launch_json(launch: LaunchText) -> dict[str, Any]:
    """Return a launch as arguments, environment and shell text."""
    return {
        "argv": list(launch.argv),
        "env": dict(launch.env),
        "text": launch.text,
        "files": dict(launch.files),
    }


def next_run_json(run: NextRun) -> dict[str, Any]:
    """Return the A/B on the user's machine that is worth most; `value` is a log ratio."""
    return {
        "method": run.method,
        "k": run.k,
        "concurrency": run.concurrency,
        "now": finite(run.now.model_dump()),
        "then": finite(run.then.model_dump()),
        "value": number_or_none(run.value),
    }


def metric_json(metric: MetricEstimate) -> dict[str, Any]:
    """Return the speed-up of a metric and its values without and with speculation."""
    return {
        "speedup": finite(metric.speedup.model_dump()),
        "predictable": metric.predictable,
        "baseline": number_or_none(metric.baseline),
        "value": number_or_none(metric.value),
        "baseline_range": _range(metric.baseline_range),
        "value_range": _range(metric.value_range),
    }


def _range(span: Interval | None) -> dict[str, Any] | None:
    return None if span is None else finite(span.model_dump())


def finite(table: dict[str, Any]) -> dict[str, Any]:
    """The same table with NaN and infinities as None."""
    return {key: number_or_none(value) for key, value in table.items()}


def number_or_none(value: Any) -> Any:
    """Return the value, None in place of a number that JSON cannot hold."""
    return None if isinstance(value, float) and not isfinite(value) else value
