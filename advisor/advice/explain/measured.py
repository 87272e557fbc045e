"""What was measured near the question, beside what is expected of it: runs as reasons, and why the
estimate is another number.

What it does not know: whether the runs were made with care; their source says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, log, log2, prod
from typing import Protocol

from advisor.advice.decide import GOAL_METRICS
from advisor.domain.nouns import (
    Candidate,
    Evidence,
    Facts,
    Goal,
    Plan,
    Reason,
)
from advisor.domain.question import USUAL_PROMPT
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge

METRIC_NAMES = {
    "output_tok_s": "output tok/s",
    "request_tok_s": "tok/s per request",
    "tpot": "TPOT speed",
    "ttft": "TTFT speed",
}


class Told(Protocol):
    """What the model says of a plan under a load that was measured (advice/beside.py)."""

    def of_load(self, facts: Facts, plan: Plan) -> tuple[float, Mapping[str, float]]:
        """Tokens a step, and the gain of each metric."""


def percent(ratio: float) -> str:
    """Return a ratio as a signed change in percent: 1.24 is "+24.0 %"."""
    return f"{100 * (ratio - 1):+.1f} %"


def whole_percent(ratio: float) -> str:
    """The same of what is expected, which no decimal of a percent can tell: 1.24 is "+24 %"."""
    return f"{100 * (ratio - 1):+.0f} %"


def from_evidence(facts: Facts, goal: Goal, best: Candidate, told: Told) -> list[Reason]:
    """Covering pairs first, all metrics of a run in one reason; else the two nearest."""
    plan = best.plan
    runs = _runs(facts, goal, plan)
    covering = [rows for rows in runs if rows[0].covers][:COVERING]
    difference = _difference(facts, runs[0], best, told) if runs else ""
    if covering:
        return [
            Reason(
                text=(
                    (difference if i == 0 else _difference(facts, rows, best, told))
                    or f"Measured here{_unlike(facts)}{_outside(rows, best)}: "
                )
                + evidence_text(rows),
                sources=(rows[0].source,),
                weight=2.5 - 0.1 * i,
            )
            for i, rows in enumerate(covering)
        ]
    return [
        Reason(
            text=(
                ("" if i else difference)
                or f"Nearest measurement{_elsewhere(facts, plan, rows[0])}: "
            )
            + evidence_text(rows)
            + ("" if difference and not i else _against(facts, rows[0], best)),
            sources=(rows[0].source,),
            weight=1.0 - 0.1 * i,
        )
        for i, rows in enumerate(runs[:2])
    ]


def _against(facts: Facts, row: Evidence, best: Candidate) -> str:
    """How much a run of this setting says that lies on the other side of 1 than what is expected;
    nothing of a run of another one, which is named as such.
    """
    if set(_differences_of(facts, best.plan, row)) - {"k"}:
        return ""
    printed = _PRINTED.get(row.metric)
    if best.estimate is None or printed is None or row.metric == "ttft":
        return ""
    expected = getattr(best.estimate, printed).speedup.p50
    if (expected - 1) * (row.speedup - 1) >= 0:
        return ""
    if not row.clean:
        return (
            "; against the estimate, which does not count it: too few prompts, or settings that "
            "are not stated or not alike"
        )
    share = knowledge.threshold("stranger_weight").value
    return f"; against the estimate, which follows {100 * share:.0f} % of the miss of such a run"


_PRINTED = {
    "output_tok_s": "output_tok_s",
    "request_tok_s": "tpot_ms",
    "tpot": "tpot_ms",
    "ttft": "ttft_ms",
}
_LIKE = {"request_tok_s": "tpot"}  # one thing seen twice
COVERING = sourced(3, "runs", "of those that cover a question an answer tells as many", "chosen")
TWICE = sourced(1.0, "doublings", "from which on a load is called another one", "chosen")


def _others(facts: Facts, row: Evidence) -> list[str]:
    """What is another one in a measured run than in the question, machine and model first."""
    asked = (
        ("machine", facts.hardware.id if facts.hardware else None, row.hardware),
        ("model", facts.model.id if facts.model else None, row.model),
        ("quantisation", facts.quant.id if facts.quant else None, row.quant),
        ("engine", facts.engine, row.engine),
    )
    return [name for name, ours, theirs in asked if ours != theirs]


def _differences_of(facts: Facts, plan: Plan, row: Evidence) -> list[str]:
    """The same, with a load that is far from the one asked about, and k."""
    names = _others(facts, row)
    if row.method != plan.method:
        names.append("method")
    pairs = ((row.concurrency, facts.concurrency), (row.input_tokens, facts.ctx_tokens))
    far = [abs(log2(theirs / ours)) > TWICE for theirs, ours in pairs if theirs and ours]
    if any(far):
        names.append("load")
    if row.method == plan.method and row.k != plan.k:
        names.append("k")
    return names


def _elsewhere(facts: Facts, plan: Plan, row: Evidence) -> str:
    """The same in words."""
    names = _differences_of(facts, plan, row)
    listed = ", ".join(names[:-2] + [" and ".join(names[-2:])])
    return f" (another {listed})" if names else ""


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
LOAD = ("concurrency", "ctx_tokens", "output_tokens")
OTHER_K_FAR = sourced(log(1.1), "log ratio", "the same of a run at another k", "chosen")


def loads(facts: Facts, plans: Sequence[Plan]) -> list[tuple[Facts, Plan]]:
    """What `from_evidence` asks of plans under the loads that were measured nearby, each once."""
    goal: Goal = facts.goal or "balanced"
    found: list[tuple[Facts, Plan]] = []
    for plan in plans:
        of_plan: list[tuple[Facts, Plan]] = []
        for i, rows in enumerate(_runs(facts, goal, plan)[:COVERING]):
            if (rows[0].covers or i == 0) and _comparable(facts, rows[0], plan):
                for case in _towards(facts, rows[0], plan):
                    if case not in of_plan:
                        of_plan.append(case)
        found += of_plan
    return found


def _runs(facts: Facts, goal: Goal, plan: Plan) -> list[list[Evidence]]:
    """The runs that say something for a goal, each with its metrics: those that cover the question
    first, then those of the fewest other settings.
    """
    wanted = [
        e
        for e in facts.evidence
        if e.metric in GOAL_METRICS[goal] or e.metric in ("output_tok_s", "ttft")
    ]
    wanted = [e for e in wanted if e.method == plan.method] or wanted
    runs: dict[str, list[Evidence]] = {}
    order = sorted(wanted, key=lambda e: (not e.covers, len(_others(facts, e)), e.k != plan.k))
    for row in order:
        runs.setdefault(row.run_id, []).append(row)
    return list(runs.values())


def _comparable(facts: Facts, row: Evidence, plan: Plan) -> bool:
    """Whether a run's first metric can be set beside the plan's estimate."""
    same = row.method == plan.method and bool(row.k) and (row.covers or not _others(facts, row))
    return same and row.metric in _PRINTED and row.metric != "ttft"


def _towards(facts: Facts, row: Evidence, plan: Plan) -> list[tuple[Facts, Plan]]:
    """From the question to a measured run: as asked, without a stated acceptance, with the run's
    text, under its load, and at its k.
    """
    unsaid = without_acceptance(facts)
    read = unsaid.model_copy(update={"workload": row.workload}) if row.workload else unsaid
    load = {
        "concurrency": int(row.concurrency or facts.concurrency or 1),
        "ctx_tokens": int(row.input_tokens or facts.ctx_tokens or USUAL_PROMPT),
        "output_tokens": int(row.output_tokens or facts.output_tokens or 0) or None,
    }
    there = read.model_copy(update=load)
    own = plan if row.k == plan.k else plan.model_copy(update={"k": row.k})
    return [(facts, plan), (unsaid, plan), (read, plan), (there, plan), (there, own)]


def _difference(facts: Facts, rows: Sequence[Evidence], best: Candidate, told: Told) -> str:
    """Why the estimate is not what was measured here, by cause and share: text, load, k, and what
    is left, so that the measured gain times all shares is the expected one. Nothing where it
    lies near, or where the run is of another setting.
    """
    row, estimate, plan = rows[0], best.estimate, best.plan
    printed = _PRINTED.get(row.metric)
    if estimate is None or printed is None or not _comparable(facts, row, plan):
        return ""
    expected = getattr(estimate, printed).speedup.p50
    if abs(log(expected / row.speedup)) < (FAR if row.k == plan.k else OTHER_K_FAR):
        return ""
    text = facts.workload or "this"
    cases = _towards(facts, row, plan)
    unsaid, read, there = (one for one, _ in cases[1:4])
    found = [told.of_load(*case) for case in cases]
    tokens = [tau for tau, _ in found]
    alone, *gain = (gains[_LIKE.get(row.metric, row.metric)] for _, gains in found)
    shares: list[tuple[str, float]] = []
    if unsaid is not facts:
        what = f"the acceptance that you state gives {tokens[0]:.2f} instead of {tokens[1]:.2f}"
        shares.append((f"{what} tokens a step", alone / gain[0]))
    if read.workload != facts.workload:
        accepts, whole = round(tokens[1], 2) / round(tokens[2], 2), gain[0] / gain[1]
        what = f"{text} text accepts {tokens[1]:.2f} instead of {tokens[2]:.2f} tokens a step"
        shares.append((what, accepts))
        # random prompts share no experts, and prompts are a part of the time
        if abs(log(whole / accepts)) >= FAR / 2:
            cheaper = "less" if whole > accepts else "more"
            shares.append((f"its steps cost {cheaper} than with that text", whole / accepts))
    if any(getattr(there, name) != getattr(facts, name) for name in LOAD):
        shares.append(("the load is another", gain[1] / gain[2]))
    if abs(log(expected / alone)) >= FAR / 2:
        codes = sorted({f.code for f in best.findings if f.effect in ("loss", "caution")})
        waits = estimate.terms.get("requests_verify", 1) < estimate.terms.get("requests_base", 1)
        if codes or waits:  # else the pairs nearby moved the median: a part of what is left
            what = f"documented losses ({', '.join(codes)})" if codes else "the requests that wait"
            shares.append((what, expected / alone))
    if row.k != plan.k:
        shares.append((f"k={plan.k} instead of {row.k}", gain[2] / gain[3]))
    parts = [f"{what} ({_share(ratio)})" for what, ratio in shares]
    left = expected / (row.speedup * prod(ratio for _, ratio in shares))
    if _share(left) not in NOTHING:
        spread = knowledge.threshold("owner_sd_same_regime").value
        more = "" if abs(log(left)) <= spread else "only "
        parts.append(
            f"{_share(left)} is unexplained: owners of one setting differ by {more}"
            f"{100 * (exp(spread) - 1):.0f} %"
        )
    how = f" with {row.workload} text" if row.workload else ""
    why, place = "; ".join(parts), "here" if row.covers else "nearest"
    return f"Measured {row.speedup:.2f}x {place}{how}, {expected:.2f}x expected: {why}. The run: "


def _unlike(facts: Facts) -> str:
    """That a run accepted what it accepted, where the question states another acceptance."""
    return "" if without_acceptance(facts) is facts else ", at that run's acceptance and not yours"


def without_acceptance(facts: Facts) -> Facts:
    """The facts as if no acceptance had been stated; the same ones where none was."""
    request = facts.request
    if request is None or (request.acceptance is None and request.acceptance_length is None):
        return facts
    bare = {"acceptance": None, "acceptance_length": None, "acceptance_k": None}
    return facts.model_copy(update={"request": request.model_copy(update=bare)})


NOTHING = ("+0 %", "-0 %")


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
