"""What would change the answer: the nearest load, acceptance, goal or setting at which it would be another one.

What it does: asks the predictor about neighbouring loads of the chosen plan in one call, and answers each by the rule that decides
(stakes.py). What it does not know: measured pairs and documented findings at those loads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from advisor import knowledge_drafters, points, predictor, propose, stakes
from advisor.decide import Verdict, goal_interval, vetoes
from advisor.reasons import percent
from advisor.types import Candidate, Estimate, Facts, Goal, Plan

_LOADS = {"concurrency": (1, 4, 16, 64, 256), "ctx_tokens": (512, 2048, 8192, 32768, 131072)}
_LOAD_NAMES = {"concurrency": "concurrent requests", "ctx_tokens": "prompt tokens per request"}


def would_change(facts: Facts, verdict: Verdict) -> tuple[str, ...]:
    """Sentences that name the nearest change of load, acceptance or goal that flips the answer."""
    if verdict.best is None:
        if propose.methods(facts):
            return ("an engine version with a path for it, or more memory: see the reason",)
        asked = facts.request.method if facts.request is not None else None
        other = f"another --method than {asked}" if asked else "a checkpoint with an MTP head, or a drafter for this model"
        helps = knowledge_drafters.would_help(facts, asked)
        if asked == "mtp" and facts.model is not None and facts.model.assistant and facts.engine != "vllm":
            helps = (f"--engine vllm, which takes the model's assistant from {facts.model.assistant_since} on",)
        return (*helps, other)
    best = verdict.candidates[verdict.best]
    if verdict.rule == "one_token":
        return ("answers of more than one token",)
    if verdict.rule == "rule":  # no load lifts a veto
        codes = sorted({finding.code for finding in vetoes(best.findings)})
        return (f"a release or setting to which {' and '.join(codes)} does not apply (`advisor explain {codes[0]}`)",)
    lines = _flips(facts, verdict, best)
    line = _acceptance_break_even(best.estimate)
    if line:
        lines.insert(0, line)
    # the estimate may point the other way than a measured pair or a rule that decided: then it names no change
    lines = [line for line in lines if not line.endswith(f": {verdict.decision}")]
    lines += _flip_of_goal(facts, verdict, best)
    if verdict.decision == "measure":
        where = "of this very load" if verdict.rule == "conflict" else "on this machine"
        lines.insert(0, f"a measured pair {where}: its sign decides")
    return tuple(lines)


def _acceptance_break_even(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    base, cycle = estimate.terms.get("base_step_ms"), estimate.terms.get("cycle_ms")
    if not base or not cycle:
        return ""
    need, now = cycle / base, estimate.accepted_length.p50
    if now > need:
        return f"an acceptance length below {need:.2f} tokens per step (expected {now:.2f}): off"
    return f"an acceptance length above {need:.2f} tokens per step (expected {now:.2f}): on"


def _flips(facts: Facts, verdict: Verdict, best: Candidate) -> list[str]:
    """The nearest load, each way and along each parameter, at which the estimate of this plan would be answered otherwise."""
    goal: Goal = facts.goal or "balanced"
    tried = [(field, v) for field, grid in _LOADS.items() for v in grid if v != (getattr(facts, field) or grid[0])]
    low, middle, high = predictor.goal_logs(_loads(facts, best.plan, tried), goal)
    worth = stakes.expected(low, middle, high)
    silent = stakes.unsure(stakes.certainty(worth, low, high))
    words = np.where(silent, "measure first", np.where(worth > 0, "on", "off")).tolist()
    here = "measure first" if verdict.decision == "measure" else verdict.decision
    lines = []
    for field, label in _LOAD_NAMES.items():
        now = getattr(facts, field) or _LOADS[field][0]
        flips = [(v, word) for (name, v), word in zip(tried, words, strict=True) if name == field and word != here]
        above, below = [flip for flip in flips if flip[0] > now], [flip for flip in flips if flip[0] < now]
        lines += [f"about {value} {label} or more: {word}" for value, word in [min(above)]] if above else []
        lines += [f"about {value} {label} or fewer: {word}" for value, word in [max(below)]] if below else []
    return lines


def _loads(facts: Facts, plan: Plan, tried: Sequence[tuple[str, int]]) -> points.Points:
    """The plan at each load of (field, value); slots grow with the concurrency, as a new recommendation would let them."""
    from advisor import memory

    one = points.from_plans(memory.replica(facts, plan), [plan]).take(np.zeros(len(tried), dtype=np.int64))
    streams = np.array([v if field == "concurrency" else facts.concurrency or 1 for field, v in tried], dtype=np.float64)
    tokens = np.array([v if field == "ctx_tokens" else facts.ctx_tokens or 2048 for field, v in tried], dtype=np.float64)
    share = np.ceil(streams / plan.dp)  # each replica serves its part of the requests
    return one.replace(concurrency=share, input_tokens=tokens, max_num_seqs=np.fmax(one.max_num_seqs, share))


def _flip_of_goal(facts: Facts, verdict: Verdict, best: Candidate) -> list[str]:
    """Goals under which the median has the other sign."""
    if best.estimate is None or verdict.rule == "rule":
        return []
    goal: Goal = facts.goal or "balanced"
    here = goal_interval(best.estimate, goal).p50 > 1
    others: list[Goal] = [g for g in ("throughput", "tpot", "ttft") if g != goal]
    flips = [g for g in others if (goal_interval(best.estimate, g).p50 > 1) != here]
    return [f"the goal {g} instead of {goal} ({percent(goal_interval(best.estimate, g).p50)})" for g in flips]
