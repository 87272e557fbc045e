"""What a running server does, from two readings of its counters, and what to change."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from advisor.advice import judge
from advisor.advice.own_runs.ab_test import WORTH, acceptance_fields
from advisor.advice.own_runs.setting import setting
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import AdvisorError
from advisor.domain.sourced import sourced
from advisor.engines.benchmarks import METRICS_FLAG
from advisor.readers.exchange import BadAnswer
from advisor.readers.results import exposition
from advisor.readers.results.run import BenchmarkRun
from advisor.readers.server import ServerInfo

FULL = sourced(
    0.95, "share of the KV cache in use", "above it the next request waits for memory", "assumed"
)
LOW_RATE = sourced(
    0.35,
    "share of drafted tokens accepted",
    "below it drafts rarely pay, all else unknown",
    "assumed",
)


class Traffic(NamedTuple):
    """Traffic between two readings."""

    server: ServerInfo
    run: BenchmarkRun
    seconds: float
    running: float | None
    waiting: float | None
    kv_usage: float | None
    requests: float | None
    replicas: tuple[str, ...] = ()  # whose counters these are


class WatchWord(NamedTuple):
    """What to do: on, off, another k, keep, or unknown; why."""

    decision: str
    why: tuple[str, ...]


def observe(
    server: ServerInfo,
    before: exposition.Scrape | None,
    after: exposition.Scrape | None,
    seconds: float,
) -> Traffic:
    """Raises BadAnswer where the server has no counters."""
    if before is None or after is None:
        hint = METRICS_FLAG.get(server.engine or "", "its metrics")
        raise BadAnswer(f"{server.url}/metrics has no counters: start the server with {hint}")
    traffic = exposition.between(before, after)
    running, waiting, usage = map(after.gauges.get, ("running", "waiting", "kv_usage"))
    run = exposition.run_of(traffic, server.url, seconds=seconds)
    requests = traffic.counters.get("requests")
    return Traffic(server, run, seconds, running, waiting, usage, requests, traffic.replicas)


def advise(seen: Traffic, asked: Mapping[str, Any]) -> WatchWord:
    """What to change: by prediction where the setting is known, else by what was accepted."""
    why = []
    run = seen.run
    if seen.waiting:
        why.append(f"{seen.waiting:.0f} requests wait: slots or KV memory are short")
    if seen.kv_usage is not None and seen.kv_usage > FULL:
        why.append(
            f"{seen.kv_usage:.0%} of the KV cache is in use: drafts cost memory that requests need"
        )
    if not run.output_tok_s:
        return WatchWord(
            "unknown", ("no tokens were generated in this time: try again under load", *why)
        )
    server, load = seen.server, {"ctx_tokens": run.input_tokens, "output_tokens": run.output_tokens}
    load["concurrency"] = seen.running or 1
    given: dict[str, Any] = {name: max(round(x), 1) for name, x in load.items() if x}
    given |= {key: value for key, value in asked.items() if value is not None}
    stated = {"engine": server.engine, "engine_version": server.version}
    described = run.model_copy(update={"model": run.model or server.model, **stated})
    known = setting([], [described], given)
    if known.request is None:
        rate = run.acceptance.rate if run.acceptance else None
        if rate is not None and rate < LOW_RATE:
            why.append(
                f"{rate:.0%} of drafted tokens are accepted: fewer draft tokens, or off, are "
                "likely faster"
            )
        return WatchWord("unknown", (*why, f"no decision: {known.problem}"))
    k = known.k or server.k
    if run.acceptance and not k:
        return WatchWord("unknown", (*why, "drafts run, but their number is not known: pass --k"))
    request = known.request.replace(**acceptance_fields([run], k))
    try:
        question = judge.candidate_plans(facts_for_request(request))
        # a server without drafts may start any method
        plans = [plan for plan in question.plans if known.method in ("none", plan.method)]
        expected = judge.estimate_plans(question.facts, plans)
    except AdvisorError as error:
        return WatchWord("unknown", (*why, str(error)))
    if not expected:
        return WatchWord("unknown", (*why, "no way to draft is known for this setting"))
    pairs = sorted(zip(expected, plans, strict=True), key=lambda r: r[0].output_tok_s.speedup.p50)
    rows = {plan.k: (row, plan.method) for row, plan in pairs}  # of one k the faster, the last
    gains = {k: math.log(row.output_tok_s.speedup.p50) for k, (row, _) in rows.items()}
    word = _choose(gains, k if run.acceptance else 0, why)
    runs = k if run.acceptance and k in gains else max(gains, key=lambda k: gains[k])
    row, method = rows[runs]
    least = row.accepted_length.p50 / row.output_tok_s.speedup.p50  # a step costs that many tokens
    change = f"alert: k={runs} is off below {least:.2f} accepted tokens a step at this load"
    return word._replace(why=(*word.why, f"{change} ({method})"))


def _choose(gains: Mapping[int, float], k: int | None, why: list[str]) -> WatchWord:
    """What to do by the expected log gain of each k, where `k` runs now (none: 0)."""
    best, here = max(gains, key=lambda k: gains[k]), gains.get(k) if k else 0.0
    if k:
        speed = f"{math.exp(here):.2f}x output tok/s at this load" if here is not None else ""
        why.append(f"k={k} is expected to give {speed}" if speed else f"k={k} runs")
    if max(gains[best], 0.0) - (here or 0.0) < WORTH:
        why.append("nothing else is expected to be 3 % faster")
        return WatchWord("keep" if here is not None else "unknown", tuple(why))
    if gains[best] < 0 or (k and gains[best] < WORTH):
        return WatchWord("off", (*why, "without drafts it is expected to be faster"))
    expected = f"k={best} is expected to give {math.exp(gains[best]):.2f}x"
    return WatchWord(f"{'other k' if k else 'on'}: k={best}", (*why, expected))
