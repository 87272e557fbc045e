"""The closed loop in mean values: output tok/s, decode speed, TPOT and TTFT of both arms, vectorised over points.

Bookkeeping in steps, not in seconds, keeps it simple. A request spends `waiting` steps until its prompt is done and
`steps` decoding; by Little's law in steps, steps / (steps + waiting) of the slots decode. Each decode step completes
batch / steps requests, and each completion brings one prompt to compute, which stretches the steps of everybody. How
many prompts meet in one step decides how the same work splits into TTFT and TPOT: with equal lengths and a joint start
all prompts meet (long TTFT, undisturbed TPOT); unequal lengths, and the chance in accepting drafts, spread them.

`replay.simulate` plays the same load step by step; a test holds the two together. Open-loop arrivals are not modelled.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from advisor import load as L
from advisor import physics
from advisor import points as P
from advisor.constants import Constants
from advisor.types import Metric

Floats = npt.NDArray[np.float64]
Arm = Literal["spec", "base"]


class Served(NamedTuple):
    """What clients see, (N,). Rates in tokens/s, times in seconds."""

    output_tok_s: Floats
    request_tok_s: Floats  # one request's decode speed while no prompt is computed
    tpot_s: Floats
    ttft_s: Floats


class Prefill(NamedTuple):
    """Seconds that n prompt tokens add to one step: linear between two sizes."""

    small_tokens: Floats
    small_s: Floats
    per_token_s: Floats

    def seconds(self, tokens: Floats) -> Floats:
        return np.asarray(np.fmax(self.small_s + (tokens - self.small_tokens) * self.per_token_s, 0.0))


def prefill_line(p: P.Points, c: Constants, load: L.Load, spec: bool) -> Prefill:
    """The prompt cost of a step as a line through one prompt's chunk and the largest chunk that can come up."""
    small = np.fmin(load.prompt, load.budget)
    large = np.fmax(np.fmin(load.prompt * load.clients, load.budget), small * 1.01 + 1)
    before = np.fmax(load.prompt - small, 0.0) / 2 + (p.input_tokens - load.prompt)
    low = physics.prefill_seconds(p, c, small, before, spec)
    high = physics.prefill_seconds(p, c, large, before, spec)
    # several prompts in one chunk do not attend to each other: price the slope without the longer attention span
    slope = np.fmin((high - low) / (large - small), low / small)
    return Prefill(small, low, np.fmax(slope, 0.0))


class Prompts(NamedTuple):
    """How prompts get through, in steps and in prompts, (N,)."""

    meeting: Floats  # prompts that arrive in one step after the first round, where any does
    seen: Floats  # the same, as an arriving prompt sees it, itself included
    wait_first: Floats  # steps until a prompt is done, in the joint start
    wait_later: Floats  # the same in the rounds after it
    later_share: Floats  # share of requests after the first round


def prompts(load: L.Load) -> Prompts:
    """Waiting and meeting of prompts.

    The first round starts together. Later, two requests that started together end as many steps apart as their lengths
    differ: a normal difference that widens with the root of the rounds. In lockstep (no difference) the chunks of the
    first round stagger the later ones so that none waits; chance makes some meet and wait. That wait is a closed queue
    with one deterministic server: Schweitzer's approximate mean value analysis, `service` steps a prompt, the clients
    away for the steps over which ends are spread.
    """
    rounds = np.fmax(load.requests / load.clients, 1.0)
    later = rounds - 1
    widened = load.steps_sd * np.sqrt((later + 1) / 2)
    with np.errstate(divide="ignore"):
        chance = np.clip(np.fmax(1 / (2 * widened * np.sqrt(np.pi)), 1 / (load.steps + 1)), 0.0, 1.0)
    arrivals = load.clients * chance
    service = load.prompt / load.budget
    alone = np.ceil(service)
    away = np.fmin(load.steps, 3.5 * widened + load.clients * service) + 1
    queue, seen = np.zeros_like(service), (load.clients - 1) / load.clients
    wait = alone
    for _ in range(8):
        busy = load.clients * service / (away + wait)
        wait = alone + service * seen * np.fmax(queue - 0.5 * np.fmin(busy, 1.0), 0.0)
        queue = load.clients * wait / (away + wait) * np.fmin(service, 1.0)
    disorder = widened / (widened + service)
    return Prompts(
        meeting=np.clip(arrivals / -np.expm1(-arrivals), 1.0, load.clients),
        seen=1 + (load.clients - 1) * chance,
        wait_first=(np.fmax(load.clients * service, 1.0) + alone) / 2,
        wait_later=alone + disorder * (wait - alone),
        later_share=later / rounds,
    )


def replay(points: P.Points, constants: Constants, tau: Floats, arm: Arm = "spec") -> Served:
    """What the closed loop serves in one arm. `tau`: tokens per step with speculation (N,), ignored for "base"."""
    p, c, spec = P.fill(points), constants, arm == "spec"
    load = L.load(p, c, tau, spec)
    line, meet = prefill_line(p, c, load, spec), prompts(load)
    first = 1 - meet.later_share
    waiting = np.where(load.mixed, first * meet.wait_first + meet.later_share * meet.wait_later, 0.0)
    batch = np.fmax(load.clients * load.steps / (load.steps + waiting), np.fmin(load.clients, 1.0))
    step = physics.decode_seconds(p, c, batch, load.context, spec)
    decode = np.where(load.mixed, step, 0.0)

    tokens = meet.meeting * load.prompt
    calls = np.ceil(tokens / load.budget)
    call_s = line.seconds(tokens / calls)
    cycle = call_s * calls / meet.meeting + load.steps * step / batch  # seconds per completed request
    start_s = line.seconds(np.fmin(load.clients * load.prompt, load.budget))
    ttft_first = meet.wait_first * (start_s + 0.5 * decode)
    chunks = np.ceil(meet.seen * load.prompt / load.budget)
    seen_s = line.seconds(meet.seen * load.prompt / chunks)
    alone = np.ceil(load.prompt / load.budget)
    ttft_later = np.where(load.mixed, meet.wait_later, (chunks + alone) / 2) * (seen_s + decode)
    residence = load.clients * cycle
    ttft = np.fmin(first * ttft_first + meet.later_share * ttft_later, 0.98 * residence)
    tpot = (residence - ttft) / np.fmax(load.output - 1, 0.5)
    total = load.requests * cycle + drain_seconds(load, step)
    return Served(
        output_tok_s=load.requests * load.output / total,
        request_tok_s=load.tau / step,
        tpot_s=tpot,
        ttft_s=ttft + load.queued * cycle * meet.later_share,
    )


def drain_seconds(load: L.Load, step: Floats) -> Floats:
    """Extra time at the end of a benchmark, when slots empty one after another (0 if all end together)."""
    rounds = np.fmax(load.requests / load.clients, 1.0)
    spread = np.fmin(load.steps_sd * np.sqrt(rounds) / load.steps, 0.3)
    return np.asarray(spread * np.sqrt(3) * load.steps * step * np.where(load.clients > 1, 0.5, 0.0))


def speedups(points: P.Points, constants: Constants, tau: Floats) -> dict[Metric, Floats]:
    """Speculation against none for every metric, (N,); above 1 is always faster, TPOT and TTFT included."""
    filled = P.fill(points)
    spec, base = replay(filled, constants, tau, "spec"), replay(filled, constants, tau, "base")
    return {
        "output_tok_s": spec.output_tok_s / base.output_tok_s,
        "request_tok_s": spec.request_tok_s / base.request_tok_s,
        "tpot": base.tpot_s / spec.tpot_s,
        "ttft": base.ttft_s / spec.ttft_s,
    }
