"""What was measured near the question, beside what is expected of it: runs as reasons, and why the
estimate is another number.

What it does not know: whether the runs were made with care; their source says.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

from advisor.advice.decide import GOAL_METRICS
from advisor.domain.nouns import (
    Candidate,
    Evidence,
    Facts,
    Goal,
    Reason,
)
from advisor.prediction import predict

METRIC_NAMES = {
    "output_tok_s": "output tok/s",
    "request_tok_s": "tok/s per request",
    "tpot": "TPOT speed",
    "ttft": "TTFT speed",
}


def percent(ratio: float) -> str:
    """Return a ratio as a signed change in percent: 1.24 is "+24.0 %"."""
    return f"{100 * (ratio - 1):+.1f} %"


def from_evidence(facts: Facts, goal: Goal, best: Candidate) -> list[Reason]:
    """Covering pairs first, all metrics of a run in one reason; else the two nearest."""
    plan = best.plan
    wanted = [
        e
        for e in facts.evidence
        if e.metric in GOAL_METRICS[goal] or e.metric in ("output_tok_s", "ttft")
    ]
    wanted = [e for e in wanted if e.method == plan.method] or wanted
    runs: dict[str, list[Evidence]] = {}
    for row in sorted(wanted, key=lambda e: (not e.covers, e.k != plan.k)):
        runs.setdefault(row.run_id, []).append(row)
    covering = [rows for rows in runs.values() if rows[0].covers]
    if covering:
        return [
            Reason(
                text=_other_text(facts, rows, best)
                or f"Measured here{_outside(rows, best)}: {evidence_text(rows)}",
                sources=(rows[0].source,),
                weight=2.5 - 0.1 * i,
            )
            for i, rows in enumerate(covering[:3])
        ]
    return [
        Reason(
            text=f"Nearest measurement, of another load or setting: {evidence_text(rows)}",
            sources=(rows[0].source,),
            weight=1.0 - 0.1 * i,
        )
        for i, rows in enumerate(list(runs.values())[:2])
    ]


_PRINTED = {"output_tok_s": "output_tok_s", "tpot": "tpot_ms", "ttft": "ttft_ms"}


def _outside(rows: Sequence[Evidence], best: Candidate) -> str:
    """Which measured gains of this very k the printed intervals do not hold, by name; nothing where
    they hold all.
    """
    names = []
    for row in rows:
        printed = _PRINTED.get(row.metric)
        if best.estimate is None or printed is None or row.k != best.plan.k:
            continue
        told = getattr(best.estimate, printed).speedup
        if not told.p10 <= row.speedup <= told.p90:
            names.append(METRIC_NAMES[row.metric])
    return (
        f" (other prompts or settings: {', '.join(names)} not within the interval above)"
        if names
        else ""
    )


FAR = 0.095  # log ratio: a tenth


def _other_text(facts: Facts, rows: Sequence[Evidence], best: Candidate) -> str:
    """Why the estimate differs from what was measured here with another kind of text; nothing where
    it lies near or the text is the same.
    """
    row, estimate = rows[0], best.estimate
    printed = _PRINTED.get(row.metric)
    if estimate is None or printed is None or row.k != best.plan.k or row.metric == "ttft":
        return ""
    expected = getattr(estimate, printed).speedup.p50
    if not row.workload or row.workload == facts.workload or abs(log(expected / row.speedup)) < FAR:
        return ""
    here = facts.workload or "this"
    then = predict.tokens_per_step(facts.model_copy(update={"workload": row.workload}), best.plan)
    now = estimate.accepted_length.p50
    return (
        f"Measured {row.speedup:.2f}x here with {row.workload} text ({then:.2f} tokens/step); "
        f"{expected:.2f}x is expected as {here} text accepts {now:.2f} (--workload "
        f"{row.workload} if yours does not)"
    )


def evidence_text(rows: Sequence[Evidence]) -> str:
    """The metrics of one measured run in one line."""
    row = rows[0]
    gains = ", ".join(f"{percent(e.speedup)} {METRIC_NAMES.get(e.metric, e.metric)}" for e in rows)
    streams = f"{row.concurrency or 1:g} stream{'s' if (row.concurrency or 1) > 1 else ''}"
    load = (
        f"{row.concurrency or 1:g} x {row.input_tokens:g} tokens" if row.input_tokens else streams
    )
    version = f" {row.engine_version}" if row.engine_version else ""
    k = f" k={row.k}" if row.k else ""
    model = f"{row.model} {row.quant}".strip()
    return f"{row.method}{k} gave {gains} ({row.hardware}, {model}, {row.engine}{version}, {load})"
