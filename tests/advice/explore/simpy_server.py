"""A server and its clients event by event, by simpy: what the closed formulas for mixes are held
to.

One process is the engine: it admits requests to its slots, and each of its steps holds all running
decodes and as many prompt tokens as the budget allows. A step is made while the one before runs: a
request that arrives is not in it, and a first token is told once the next is launched. Every client
is a process of its own. Step times come from the same physics; everything else (who waits, which
prompts meet, what a class sees) is played, not computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy

from advisor.perf import arrays as P
from advisor.perf import imputation, physics, prompt_cost
from advisor.perf import load as L
from advisor.perf.constants import Constants


@dataclass
class ClientClass:
    """A class of clients: each sends its next request when the last one ends."""

    clients: int
    prompt: int
    output: int


@dataclass
class ClassTimes:
    """What a class saw, seconds of each request."""

    ttft: list[float] = field(default_factory=list)
    tpot: list[float] = field(default_factory=list)
    stay: list[float] = field(default_factory=list)


class _Request:
    def __init__(self, kind: int, one: ClientClass, env: simpy.Environment, steps: int) -> None:
        self.kind, self.left, self.context = kind, float(one.prompt), one.prompt + one.output / 2
        self.output, self.steps, self.arrived = one.output, steps, env.now
        self.first = 0.0
        self.done = env.event()


class Server:
    """Tabulated step costs of one point (one configuration) and the engine's loop."""

    def __init__(
        self, point: P.Points, constants: Constants, classes: Sequence[ClientClass], budget: float
    ) -> None:
        self.p, self.c = imputation.impute(point), constants
        self.budget = budget
        total = sum(one.clients for one in classes)
        contexts = np.array([one.prompt + one.output / 2 for one in classes])
        many = self.p.take(np.zeros(total, dtype=np.int64))
        batch = np.arange(1.0, total + 1)
        # a step's cost is linear in the context of its requests: two tables carry it
        self.low, self.high = float(contexts.min()), float(contexts.max() + 1)
        self.tables = [
            physics.decode_seconds(many, constants, batch, np.full(total, context), False)
            for context in (self.low, self.high)
        ]
        self.sizes = np.geomspace(1, budget, 24)
        some = self.p.take(np.zeros(24, dtype=np.int64))
        self.eager, self.held = (
            prompt_cost.prefill_seconds(
                some, constants, self.sizes, np.zeros(24), False, captured=share
            )
            for share in (0.0, 1.0)
        )
        self.graph = float(prompt_cost.graph_tokens(self.p, False)[0])

    def decode(self, running: Sequence[_Request]) -> float:
        if not running:
            return 0.0
        mean = sum(one.context for one in running) / len(running)
        part = (mean - self.low) / (self.high - self.low)
        a, b = (float(table[len(running) - 1]) for table in self.tables)
        return a + part * (b - a)

    def prompt(self, tokens: float, beside: int) -> float:
        table = self.held if tokens + beside <= self.graph else self.eager
        return float(np.interp(tokens, self.sizes, table)) if tokens > 0 else 0.0


def play(
    server: Server, classes: Sequence[ClientClass], seconds: float, seed: int = 1
) -> list[ClassTimes]:
    """All clients start together, as in a benchmark; requests sent within so many seconds count."""
    env = simpy.Environment()
    rng = np.random.default_rng(seed)
    arrivals = simpy.Store(env)
    seen = [ClassTimes() for _ in classes]

    def client(kind: int, one: ClientClass):
        while True:
            length = max(2, round(one.output * rng.uniform(0.8, 1.2)))
            request = _Request(kind, ClientClass(1, one.prompt, length), env, length - 1)
            yield arrivals.put(request)
            yield request.done
            if request.arrived < seconds:
                seen[kind].ttft.append(request.first - request.arrived)
                seen[kind].tpot.append((env.now - request.first) / (length - 1))
                seen[kind].stay.append(env.now - request.arrived)

    def engine():
        waiting: list[_Request] = []
        running: list[_Request] = []
        coming: list[_Request] = []
        told: list[_Request] = []
        while True:
            while arrivals.items or not (waiting or running or coming):
                coming.append((yield arrivals.get()))
            if not (waiting or running):  # no step is under way
                waiting, coming = coming[:1], coming[1:]
            left, ready = server.budget - len(running), []
            for one in waiting:
                taken = min(one.left, left)
                one.left -= taken
                left -= taken
                if one.left <= 0:
                    ready.append(one)
                if left <= 0:
                    break
            added = server.prompt(server.budget - len(running) - left, len(running))
            for one in told:
                one.first += added
            told = list(ready)
            yield env.timeout(added + server.decode(running or ready[:1]))
            ended = []
            for one in running:
                one.steps -= 1
                if one.steps <= 0:
                    ended.append(one)
            for one in ready:
                one.first = env.now
                waiting.remove(one)
                running.append(one)
            waiting, coming = waiting + coming, []
            for one in ended:
                running.remove(one)
                one.done.succeed()
            yield env.timeout(0)  # the clients answer before the next step

    for kind, one in enumerate(classes):
        for _ in range(one.clients):
            env.process(client(kind, one))
    env.process(engine())
    env.run(until=3 * seconds)
    return seen


def budget_of(point: P.Points, constants: Constants) -> float:
    """Prompt tokens that fit into one step of this configuration."""
    return float(L.load(imputation.impute(point), constants, np.ones(1), False).budget[0])
