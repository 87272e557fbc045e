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


def meeting(load: L.Load) -> tuple[Floats, Floats]:
    """(requests whose prompts fall into one step's reach, share of the full joint start), averaged over the rounds.

    The first round starts together. Later, two requests that started together end the same number of steps apart as
    their lengths differ, a normal difference that widens with the root of the rounds; `reach` is the number of steps
    that one prompt occupies.
    """
    rounds = np.fmax(load.requests / load.clients, 1.0)
    later = rounds - 1
    reach = np.fmax(load.prompt / load.budget, 1.0)
    with np.errstate(divide="ignore"):
        same = reach / (2 * load.steps_sd * np.sqrt(np.pi))
    mean_root = np.where(later > 0.5, (2 * np.sqrt(np.fmax(later, 0.5)) - 1) / np.fmax(later, 0.5), 1.0)
    floor = reach / (load.steps + reach)
    together = 1 + (load.clients - 1) * np.clip(same * mean_root + floor, 0.0, 1.0)
    return (load.clients + later * together) / rounds, together


def replay(points: P.Points, constants: Constants, tau: Floats, arm: Arm = "spec") -> Served:
    """What the closed loop serves in one arm. `tau`: tokens per step with speculation (N,), ignored for "base"."""
    p, c, spec = P.fill(points), constants, arm == "spec"
    load = L.load(p, c, tau, spec)
    line = prefill_line(p, c, load, spec)
    first_share, together = meeting(load)
    chunks = np.fmax(first_share * load.prompt / load.budget, 1.0)  # steps that the prompts which meet need together
    waiting = np.where(load.mixed, (chunks + 1) / 2, 0.0)
    full = load.clients * load.prompt / load.budget - load.steps  # the token budget is the bottleneck
    waiting = np.where(load.mixed, np.fmax(waiting, full), waiting)
    batch = np.fmax(load.clients * load.steps / (load.steps + waiting), np.fmin(load.clients, 1.0))
    step = physics.decode_seconds(p, c, batch, load.context, spec)

    per_call = np.fmin(together * load.prompt, load.budget)
    prompt_s = line.seconds(per_call) * load.prompt / per_call
    cycle = prompt_s + load.steps * step / batch  # seconds per completed request
    group_s = line.seconds(np.fmin(first_share * load.prompt, load.budget)) * chunks
    ttft = group_s * (1 + 1 / chunks) / 2 + np.where(load.mixed, waiting * step, 0.0)
    residence = load.clients * cycle
    ttft = np.fmin(ttft, 0.95 * residence)
    tpot = (residence - ttft) / np.fmax(load.output - 1, 0.5)
    total = load.requests * cycle + drain_seconds(p, c, load, cycle, step, spec)
    rounds = np.fmax(load.requests / load.clients, 1.0)
    queue = load.queued * cycle * np.clip(1 - 1 / rounds, 0.0, 1.0)
    return Served(
        output_tok_s=load.requests * load.output / total,
        request_tok_s=load.tau / step,
        tpot_s=tpot,
        ttft_s=ttft + queue,
    )


def drain_seconds(p: P.Points, c: Constants, load: L.Load, cycle: Floats, step: Floats, spec: bool) -> Floats:
    """Extra time at the end of a benchmark, when slots empty one after another (0 if all end together)."""
    spread = np.fmin(
        load.steps_sd * np.sqrt(np.fmax(load.requests / load.clients, 1.0)) / np.fmax(load.steps, 1e-9), 0.3
    )
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
