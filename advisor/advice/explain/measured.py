"""What was measured near the question, beside what is expected of it: runs as reasons, and why the
estimate is another number.

What it does not know: whether the runs were made with care; their source says.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from advisor.advice.decide import GOAL_METRICS
from advisor.domain.nouns import (
    Candidate,
    Evidence,
    Facts,
    Goal,
    Reason,
)
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
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
                text=(_difference(facts, rows, best) or f"Measured here{_outside(rows, best)}: ")
                + evidence_text(rows),
                sources=(rows[0].source,),
                weight=2.5 - 0.1 * i,
            )
            for i, rows in enumerate(covering[:3])
        ]
    return [
        Reason(
            text=f"Nearest measurement (another load or setting): {evidence_text(rows)}",
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


FAR = sourced(
    log(1.05),
    "log ratio",
    "from it on a measured run near the question is said to differ from what is expected",
    "chosen",
)


def _difference(facts: Facts, rows: Sequence[Evidence], best: Candidate) -> str:
    """Why the estimate is not what was measured here, by cause and share: the text, the load, and
    what is left; nothing where it lies near or is of another k.
    """
    row, estimate = rows[0], best.estimate
    printed = _PRINTED.get(row.metric)
    if estimate is None or printed is None or row.k != best.plan.k or row.metric == "ttft":
        return ""
    expected = getattr(estimate, printed).speedup.p50
    if abs(log(expected / row.speedup)) < FAR:
        return ""
    text = facts.workload or "this"
    other = row.workload if row.workload and row.workload != facts.workload else facts.workload
    load = {
        "concurrency": int(row.concurrency or facts.concurrency or 1),
        "ctx_tokens": int(row.input_tokens or facts.ctx_tokens or 2048),
    }
    read = facts.model_copy(update={"workload": other})
    there = read.model_copy(update=load)
    tokens, gains = predict.medians([(one, best.plan) for one in (facts, read, there)])
    gain = [float(value) for value in gains[row.metric]]
    parts = []
    if other != facts.workload:
        parts.append(
            f"{text} text accepts {tokens[0]:.2f} instead of {tokens[1]:.2f} tokens a step "
            f"({_share(gain[0] / gain[1])})"
        )
    if any(getattr(facts, name) != value for name, value in load.items()):
        parts.append(f"the load is another ({_share(gain[1] / gain[2])})")
    if abs(log(expected / gain[0])) >= FAR / 2:
        codes = sorted({f.code for f in best.findings if f.effect in ("loss", "caution")})
        what = f"documented losses ({', '.join(codes)})" if codes else "the requests that wait"
        parts.append(f"{what} ({_share(expected / gain[0])})")
    gain_left = row.speedup / gain[2]
    if abs(log(gain_left)) >= FAR / 2:
        spread = knowledge.threshold("owner_sd_same_regime").value
        parts.append(
            f"{_share(gain_left)} is left: owners of one setting differ by "
            f"{100 * (exp(spread) - 1):.0f} %"
        )
    how = f" with {row.workload} text" if row.workload else ""
    why = "; ".join(parts)
    return f"Measured {row.speedup:.2f}x here{how}, {expected:.2f}x expected: {why}. The run: "


def _share(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %"


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
