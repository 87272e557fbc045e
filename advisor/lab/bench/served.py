"""What a server's event stream says about its steps: step times, tokens a step, waiting prompts.

The figures have the names and units of the vLLM worker's rows, so that one importer reads all
engines. Times are seconds of `time.perf_counter`; figures of rows are in milliseconds.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from advisor.engines.traits import traits
from advisor.lab.bench.point_rows import outside, quantile
from advisor.lab.bench.streams import Event, Reply, ServerError

# Tokens that llama-server accepts in one step arrive one after the other within this time (s).
TOGETHER_S = 1e-3
BURST = 0.3  # or within this share of the usual gap between two steps


def tokens_of(engine: str, event: Event, seen: int) -> list[int]:
    """Token ids that an event brings, after the `seen` ones known before.

    llama-server sends an event per token, SGLang one per step: the new ids, or all so far.
    """
    if traits(engine).gguf:
        return list(event.data.get("tokens") or [])
    ids = list(event.data.get("output_ids") or [])
    total = int((event.data.get("meta_info") or {}).get("completion_tokens", seen + len(ids)))
    return ids[len(ids) - (total - seen) :] if total > seen else []


class TimedRequest:
    """One request's tokens in time.

    Attributes
    ----------
    at : list of float
        When each token arrived.
    tokens : list of int
        Their ids.
    timings : dict
        The server's own account of the request (llama-server `timings`, SGLang `meta_info`).
    """

    def __init__(self, engine: str, reply: Reply, drafts: bool) -> None:
        self.engine, self.drafts, self.sent = engine, drafts, reply.sent
        self.at: list[float] = []
        self.tokens: list[int] = []
        self.timings: dict[str, Any] = {}
        for event in reply.events:
            if "error" in event.data:
                raise ServerError(json.dumps(event.data)[:500])
            new = tokens_of(engine, event, len(self.tokens))
            self.tokens += new
            self.at += [event.at] * len(new)
            self.timings = event.data.get("timings") or event.data.get("meta_info") or self.timings
        if not self.at:
            raise ServerError("no tokens came")

    def steps(self) -> list[float]:
        """When the first token of each step arrived."""
        if not self.drafts:
            return self.at
        if not traits(self.engine).gguf:
            return sorted(set(self.at))
        pairs = list(pairwise(self.at))
        gaps = [b - a for a, b in pairs if b - a > TOGETHER_S]
        limit = max(TOGETHER_S, BURST * statistics.median(gaps)) if gaps else TOGETHER_S
        return self.at[:1] + [b for a, b in pairs if b - a > limit]


def decode_row(served: Sequence[TimedRequest]) -> tuple[dict[str, Any], float, float]:
    """Figures of requests that decode side by side, with the span (s) they hold for: from the last
    one's second step to the first one's end.

    Raises
    ------
    ServerError
        No step lies in that span.
    """
    begin = max(one.steps()[min(1, len(one.steps()) - 1)] for one in served)
    end = min(one.at[-1] for one in served)
    gaps: list[float] = []
    cycles: list[float] = []
    advance: list[float] = []
    for one in served:
        inside = [at for at in one.steps() if begin <= at <= end]
        if len(inside) < 2:
            continue
        count = len(inside) - 1
        gaps += [b - a for a, b in pairwise(inside)]
        cycles.append((inside[-1] - inside[0]) / count)
        advance.append(sum(inside[0] <= at < inside[-1] for at in one.at) / count)
    if not gaps or end <= begin:
        raise ServerError("no step lies in the span in which all requests decode")
    gaps.sort()
    total = sum(begin < at <= end for one in served for at in one.at)
    row = {
        "decode_step_p50_ms": _ms(quantile(gaps, 0.5)),
        "decode_step_mean_ms": _ms(statistics.fmean(cycles)),
        "decode_step_p10_ms": _ms(quantile(gaps, 0.1)),
        "decode_step_p90_ms": _ms(quantile(gaps, 0.9)),
        "decode_steps": len(gaps),
        "window_s": round(end - begin, 4),
        "decode_tok_s": round(total / (end - begin), 2),
        "acceptance_length": round(statistics.fmean(advance), 4),
        "prompts": len(served),
        "tokens": sum(len(one.at) for one in served),
    }
    return row | _server_account(served), begin, end


def _server_account(served: Sequence[TimedRequest]) -> dict[str, Any]:
    """llama-server's own count of drafts and its mean cycle, against which the events are
    checked.
    """
    spans = [one.timings for one in served if "predicted_n" in one.timings]
    if not spans:
        return {}
    drafted, accepted = (
        sum(t.get(name, 0) for t in spans) for name in ("draft_n", "draft_n_accepted")
    )
    predicted = sum(t["predicted_n"] for t in spans)
    seconds = sum(t.get("predicted_ms", 0.0) for t in spans) / 1e3
    return {
        "drafted": drafted,
        "accepted": accepted,
        "server_cycle_ms": _ms(seconds / max(1, predicted - accepted)),
        # More than 1: the slot's state was gone, and its prompt was computed anew.
        "prompt_n": max(t.get("prompt_n", 0) for t in spans),
    }


def closed_row(served: Sequence[TimedRequest], wall: float) -> dict[str, Any]:
    """Figures of a closed loop of clients that took `wall` seconds, as the vLLM worker writes
    them.
    """
    ttft = sorted(one.at[0] - one.sent for one in served)
    tpot = sorted((one.at[-1] - one.at[0]) / max(1, len(one.at) - 1) for one in served)
    gaps: list[tuple[float, float]] = []
    for one in served:
        steps = one.steps()
        gaps += list(pairwise(steps))
    decode = outside([(one.sent, one.at[0]) for one in served], gaps)
    itl = sorted(high - low for low, high in gaps)
    total = sum(len(one.at) for one in served)
    return {
        "prompts": len(served),
        "wall_s": round(wall, 4),
        "output_tok_s": round(total / wall, 2),
        "ttft_ms": _ms(statistics.fmean(ttft)),
        "ttft_p99_ms": _ms(quantile(ttft, 0.99)),
        "tpot_ms": _ms(statistics.fmean(tpot)),
        "tpot_p50_ms": _ms(quantile(tpot, 0.5)),
        "tpot_p99_ms": _ms(quantile(tpot, 0.99)),
        "itl_p50_ms": _ms(quantile(itl, 0.5)),
        "itl_p99_ms": _ms(quantile(itl, 0.99)),
        "decode_step_p50_ms": _ms(quantile(decode, 0.5)),
        "decode_step_mean_ms": _ms(statistics.fmean(decode) if decode else None),
        "decode_steps": len(decode),
        "acceptance_length": round((total - len(served)) / max(1, len(gaps)), 4),
        "tokens": total,
    }


def _ms(value: float | None) -> float | None:
    return None if value is None else round(1e3 * value, 4)
