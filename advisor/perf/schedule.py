"""The closed loop in mean values: output tok/s, decode speed, TPOT and TTFT of both arms,
vectorised over points.

Bookkeeping is in steps: a request spends `waiting` steps until its prompt is done and `steps`
decoding; by Little's law steps / (steps + waiting) of the slots decode, and each completion brings
one prompt to compute, which stretches the steps of everybody. tests/reference/replay.py plays the
same load step by step; a test holds the two together. Open-loop arrivals are not modelled.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf import imputation, physics, prompt_cost
from advisor.perf import load as L
from advisor.perf.arrays import Floats, Mask, Seconds, Tokens
from advisor.perf.constants import Constants
from advisor.perf.prompt_queue import Prompts, prompts, sizes

Arm = Literal["spec", "base"]
APART = sourced(1.01, "ratio", "own choice: two prompt sizes whose slope is taken", "chosen")
MOST_SPREAD = sourced(
    0.3, "share", "own choice: of a request's steps, against negative lengths", "chosen"
)


class ServedLoad(NamedTuple):
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
    saved_s: Floats  # what a call within captured CUDA graphs takes less

    def seconds(self, tokens: Floats, captured: Floats | float) -> Floats:
        """Seconds for so many prompt tokens in a step; a share of steps fits a captured graph."""
        made = self.small_s + (tokens - self.small_tokens) * self.per_token_s
        return np.asarray(np.fmax(made - captured * self.saved_s, 0.0))

    def each(self, load: L.Load, calls: Floats, captured: Floats) -> Seconds:
        """Seconds per prompt of so many calls, which others may share: linear in both."""
        return np.asarray(self.seconds(load.prompt / calls, captured) * calls)


def prefill_line(p: P.Points, c: Constants, load: L.Load, spec: bool) -> Prefill:
    """A step's prompt cost as a line through one prompt's chunk and the largest chunk."""
    small = np.fmin(load.prompt, load.budget)
    large = np.fmax(np.fmin(load.prompt * load.clients, load.budget), small * APART + 1)
    before = np.fmax(load.prompt - small, 0.0) / 2 + (p.input_tokens - load.prompt)
    chunks, captured = np.stack([small, large, small]), np.array([[0.0], [0.0], [1.0]])
    low, high, held = prompt_cost.prefill_seconds(p, c, chunks, before, spec, captured)
    # several prompts in one chunk do not attend to each other: price the slope without the longer
    # attention span
    slope = np.fmin((high - low) / (large - small), low / small)
    return Prefill(small, low, np.fmax(slope, 0.0), low - held)


class Queue(NamedTuple):
    """What an arm's steps do not change: its load, what its prompts cost and how they meet."""

    load: L.Load
    line: Prefill
    meet: Prompts

    def take(self, rows: Mask) -> Queue:
        """That of some of the points (M,)."""
        load, line, meet = ([column[rows] for column in part] for part in self)
        return Queue(L.Load._make(load), Prefill._make(line), Prompts._make(meet))


def queue(p: P.Points, c: Constants, tau: Tokens, spec: bool) -> Queue:
    """That of filled points in one arm."""
    load = L.load(p, c, tau, spec)
    return Queue(load, prefill_line(p, c, load, spec), prompts(load, sizes(p, c, load, spec)))


def replay(
    points: P.Points,
    constants: Constants,
    tau: Tokens,
    arm: Arm = "spec",
    known: Queue | None = None,
) -> ServedLoad:
    """What the closed loop serves in one arm. `tau`: tokens per step with speculation (N,), ignored
    for "base". Rates in tokens/s and times in seconds. `known`: the arm's queue.
    """
    p, c, spec = imputation.impute(points), constants, arm == "spec"
    load, line, meet = known or queue(p, c, tau, spec)
    first = 1 - meet.later_share
    waiting = first * meet.wait_first + meet.later_share * meet.wait_later
    waiting = np.where(load.mixed, waiting + load.ahead, 0.0)
    batch = load.clients * load.steps / (load.steps + waiting)
    step = physics.decode_seconds(p, c, np.fmax(batch, 1.0), load.context, spec)
    if spec:  # the steps that hold no prompt
        calls = first * meet.calls_first + meet.later_share * meet.calls_later
        quiet = (1 - calls * batch / load.steps).clip(0.0, 1.0)
        step = step + prompt_cost.eager_seconds(p, c, batch, step) * quiet

    start_s = line.each(load, meet.calls_first, meet.captured_first)
    later_s = line.each(load, meet.calls_later, meet.captured_later)
    prompt_s = first * start_s + meet.later_share * later_s
    cycle = prompt_s + load.steps * step / batch  # seconds per completed request
    residence = load.clients * cycle
    start = _first_round(load, meet, line, step)
    steady = _later_rounds(load, meet, line, step, residence, batch)
    ttft, decoding = (first * a + meet.later_share * b for a, b in zip(start, steady, strict=True))
    total = load.requests * cycle + drain_seconds(load, step)
    return ServedLoad(
        output_tok_s=load.requests * load.output / total,
        request_tok_s=load.tau / step,
        tpot_s=decoding / np.fmax(load.output - 1, 0.5),
        ttft_s=ttft + load.queued * cycle * meet.later_share,
    )


def _first_round(load: L.Load, meet: Prompts, line: Prefill, step: Floats) -> tuple[Floats, Floats]:
    """(TTFT, seconds decoding) of the joint start: prompts done early decode meanwhile."""
    tokens = load.clients * load.prompt
    calls, service = load.clients * meet.calls_first, load.prompt / load.budget
    chunk = np.where(load.tail > 0, tokens / calls, np.fmin(tokens, load.budget))
    chunk_s = line.seconds(chunk, meet.captured_first)
    # the first call holds what has arrived when it starts, and the others wait for it
    early_s = line.seconds(np.fmin(load.prompt, load.budget), meet.captured_alone)
    early = early_s * np.fmax(1 - service, 0.0)
    # a first token is told once the next call is launched, but for those of the last one
    last = np.fmin(load.clients - 1, 1 / np.fmin(service, 1.0)) / load.clients
    # steps with other clients' prompts
    others = np.fmax(load.clients * service - np.fmax(service, 1.0), 0.0)
    decode = np.where(load.mixed, step, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        late = load.steps - load.steps**2 / (2 * others)
        beside = np.where(others <= load.steps, others / 2, late)
    # prompts alone: whoever is done early waits for the rest
    overlap = np.where(load.mixed, beside, others / 2)
    ahead = load.ahead * early + np.sign(load.ahead) * (1 - last) * chunk_s
    return meet.wait_first * (chunk_s + 0.5 * decode) + ahead, load.steps * step + overlap * chunk_s


def _later_rounds(
    load: L.Load, meet: Prompts, line: Prefill, step: Floats, residence: Floats, batch: Floats
) -> tuple[Floats, Floats]:
    """(TTFT, seconds decoding) in the steady state: they add up to `residence`, and no step holds
    more than a full chunk.

    The step that is under way when a request arrives was made without it, and its first token is
    told once the step behind its own is launched: both may hold prompts of others.
    """
    chunks = meet.calls_seen
    seen_s = line.seconds(meet.seen * load.prompt / chunks, meet.captured_later)
    call_s = line.seconds(load.prompt / meet.calls_later, meet.captured_later)
    busy = (meet.calls_later * batch / load.steps).clip(0.0, 1.0)
    # those that started together end together: all calls of theirs but one have another beside it
    together = 1 - np.fmin(load.clients, np.fmax(load.budget / load.prompt, 1.0)) / load.clients
    ahead = load.ahead * (step + 2 * (together + meet.disorder * (busy - together)) * call_s)
    ttft = np.where(
        load.mixed,
        meet.wait_later * (seen_s + step) + ahead,
        (chunks + meet.calls_alone) / 2 * seen_s,
    )
    most = np.where(load.mixed, load.steps * (step + line.seconds(load.budget, 0.0)), np.inf)
    decoding = (residence - ttft).clip(load.steps * step, most)
    return np.fmax(residence - decoding, np.fmin(ttft, residence)), decoding


def drain_seconds(load: L.Load, step: Seconds) -> Seconds:
    """Extra time at a benchmark's end, when slots empty one by one (0 if all end together)."""
    rounds = np.fmax(load.requests / load.clients, 1.0)
    spread = np.fmin(load.steps_sd * np.sqrt(rounds) / load.steps, MOST_SPREAD)
    return np.asarray(
        spread * np.sqrt(3) * load.steps * step * np.where(load.clients > 1, 0.5, 0.0)
    )
