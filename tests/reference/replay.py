"""The closed loop played step by step for one configuration: the reference that the fluid
approximation answers to.

Slots are refilled as requests end; a step holds all running decodes and as many prompt tokens as
the budget allows (mixed engines), or prompts alone (prefill first). vLLM makes a step while the one
before it runs: a request that arrives is not in it, and a first token is told once the next step is
launched. Lengths and accepted drafts are drawn with a fixed seed. Stretches in which nothing
changes are jumped over, so a run costs a few milliseconds.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.perf import arrays as P
from advisor.perf import imputation, physics, prompt_cost
from advisor.perf import load as L
from advisor.perf.constants import Constants
from advisor.perf.schedule import Arm

Floats = npt.NDArray[np.float64]
_SEED = 20_261
MAX_REQUESTS = 4000


class Simulation(NamedTuple):
    """One run's results: tokens/s and seconds."""

    output_tok_s: float
    request_tok_s: float
    tpot_s: float
    ttft_s: float
    seconds: float
    steps: int


class _Costs(NamedTuple):
    """Step costs of one configuration, tabulated: decode by batch 0..C, prompts by tokens."""

    decode: list[float]
    alone: list[float]  # the same where no prompt is in the step
    sizes: Floats
    prefill: Floats  # launched kernel by kernel
    held: Floats  # within captured graphs
    graph: float  # tokens of the largest
    each: float  # tokens that a request decodes in a step

    def prompt(self, tokens: float, beside: int) -> float:
        """Seconds that prompt tokens add to a step in which `beside` requests decode."""
        table = self.held if tokens + beside * self.each <= self.graph else self.prefill
        return float(np.interp(tokens, self.sizes, table)) if tokens > 0 else 0.0


def _costs(p: P.Points, c: Constants, load: L.Load, spec: bool) -> _Costs:
    clients = int(load.clients[0])
    many = p.take(np.zeros(clients, dtype=np.int64))
    batch = np.arange(1.0, clients + 1)
    decode = physics.decode_seconds(many, c, batch, np.full(clients, load.context[0]), spec)
    sizes = np.fmax(np.geomspace(1, max(load.budget[0], 2), 24), 1.0)
    some = p.take(np.zeros(len(sizes), dtype=np.int64))
    chunk = min(load.prompt[0], load.budget[0])
    before = max(load.prompt[0] - chunk, 0) / 2 + (p.input_tokens[0] - load.prompt[0])
    # a chunk of several prompts attends within each prompt only
    inside = np.fmin(sizes, chunk)
    prefill, held = (
        prompt_cost.prefill_seconds(some, c, sizes, before + (inside - sizes) / 2, spec, captured)
        for captured in (0.0, 1.0)
    )
    alone = decode + (prompt_cost.eager_seconds(many, c, batch, decode) if spec else 0.0)
    return _Costs(
        [0.0, *decode.tolist()],
        [0.0, *alone.tolist()],
        np.concatenate([[0.0], sizes]),
        np.concatenate([[0.0], prefill]),
        np.concatenate([[0.0], held]),
        float(prompt_cost.graph_tokens(p, spec)[0]),
        (float(p.verify_tokens[0]) if spec else 1.0) if load.mixed[0] else 0.0,
    )


def _draw(
    p: P.Points, load: L.Load, tau: float, spec: bool
) -> tuple[npt.NDArray[np.int64], Floats]:
    """(decode steps, output tokens) of each request."""
    rng = np.random.default_rng(_SEED)
    n = min(int(load.requests[0]), MAX_REQUESTS)
    output = np.fmax(load.output[0] * (1 + float(p.output_spread[0]) * rng.uniform(-1, 1, n)), 1.0)
    mean = np.fmax(output - 1, 0.5) / load.tau[0]
    if not spec:
        return np.fmax(np.round(mean), 1).astype(np.int64), output
    variance = float(L.token_variance(np.array([tau]), p.k[:1])[0]) / tau**2
    own = 1 + L.ACCEPT_SPREAD * rng.standard_normal(n)
    steps = mean * own + np.sqrt(variance * mean) * rng.standard_normal(n)
    return np.fmax(np.round(steps), 1).astype(np.int64), output


def simulate(
    points: P.Points, constants: Constants, tau: Floats, arm: Arm = "spec", index: int = 0
) -> Simulation:
    """Play one point. `tau` (N,) as in schedule.replay."""
    p = imputation.impute(points.take(np.array([index])))
    spec = arm == "spec"
    load = L.load(p, constants, np.asarray(tau[index : index + 1], dtype=np.float64), spec)
    costs = _costs(p, constants, load, spec)
    steps, output = _draw(p, load, float(tau[index]), spec)
    clients = min(int(p.concurrency[0]), len(steps))
    return _play(_State(costs, load, steps, output, clients), float(load.tau[0]))


class _State:
    """The run's moving parts: waiting and running requests, the clock, and what was recorded."""

    def __init__(
        self,
        costs: _Costs,
        load: L.Load,
        steps: npt.NDArray[np.int64],
        output: Floats,
        clients: int,
    ) -> None:
        self.costs, self.budget, self.prompt = costs, float(load.budget[0]), float(load.prompt[0])
        self.tail = float(load.tail[0])
        self.slots, self.mixed = int(load.clients[0]), bool(load.mixed[0])
        self.steps, self.output = steps, output
        self.clock, self.count, self.next = 0.0, 0, clients
        self.arrived = np.zeros(len(steps))
        self.first = np.zeros(len(steps))
        self.ended = np.zeros(len(steps))
        self.ahead = bool(load.ahead[0] > 0)
        self.queue: list[int] = list(range(clients))
        # how many calls have been made when a request can be in one: all but the first wait for it
        self.ready = {request: int(self.ahead and request > 0) for request in self.queue}
        self.told: list[int] = []  # requests whose first token the step behind holds up
        self.prefilling: list[list[float]] = []  # [request, prompt tokens left], in order
        self.running: dict[int, int] = {}  # request -> decode steps left
        self.decode_s, self.decodes = (
            0.0,
            0,
        )  # decode seconds weighted by the requests that lived them

    def admit(self) -> None:
        while (
            self.queue
            and len(self.running) + len(self.prefilling) < self.slots
            and self.ready[self.queue[0]] <= self.count
        ):
            self.prefilling.append([float(self.queue.pop(0)), self.prompt])

    def finish(self, request: int) -> None:
        self.ended[request] = self.clock
        if self.next < len(self.steps):
            self.arrived[self.next] = self.clock
            self.queue.append(self.next)
            others = self.running or self.prefilling
            self.ready[self.next] = self.count + int(self.ahead and bool(others))
            self.next += 1

    def decode(self, times: int, alone: bool = False) -> None:
        """`times` decode steps have just passed for everyone running."""
        here = len(self.running) * times
        self.decode_s += (
            here * (self.costs.alone if alone else self.costs.decode)[len(self.running)]
        )
        self.decodes += here
        self.count += times
        done = []
        for request in self.running:
            self.running[request] -= times
            if self.running[request] <= 0:
                done.append(request)
        for request in done:
            del self.running[request]
        for request in done:
            self.finish(request)

    def prompt_step(self) -> None:
        """One step with prompt tokens in it."""
        left, ready = self.budget, []
        for item in self.prefilling:
            taken = min(item[1] - self.tail if item[1] > self.tail else item[1], left)
            item[1] -= taken
            left -= taken
            if item[1] <= 0:
                ready.append(int(item[0]))
            if left <= 0:
                break
        beside = self.costs.decode[max(len(self.running), 1)] if self.mixed else 0.0
        added = self.costs.prompt(self.budget - left, len(self.running))
        self.clock += added + beside
        for request in self.told:
            self.first[request] += added
        self.told = list(ready) if self.ahead else []
        if self.mixed:
            self.decode(1)
        else:
            self.count += 1
        self.prefilling = self.prefilling[len(ready) :]
        for request in ready:
            self.first[request] = self.clock
            self.running[request] = int(self.steps[request])


def _play(state: _State, tau: float) -> Simulation:
    while True:
        state.admit()
        if state.prefilling:
            state.prompt_step()
        elif state.running:
            coming = state.queue and state.ready[state.queue[0]] > state.count
            times = 1 if coming else min(state.running.values())
            state.clock += times * state.costs.alone[len(state.running)]
            state.told = []
            state.decode(times, alone=True)
        else:
            break
    tokens = np.fmax(state.output - 1, 0.5)
    per_step = state.decode_s / max(state.decodes, 1)
    return Simulation(
        output_tok_s=float(state.output.sum() / state.clock),
        request_tok_s=tau / per_step,
        tpot_s=float(((state.ended - state.first) / tokens).mean()),
        ttft_s=float((state.first - state.arrived).mean()),
        seconds=state.clock,
        steps=state.count,
    )
