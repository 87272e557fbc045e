"""How prompts meet in the steps of the closed loop, and how many calls they take, vectorised
over points.

Calls with prompts are the busy steps of a discrete queue: a prompt is `service` budgets long, and
the other requests end, each with a prompt behind it, at `rate` a step. A call costs the host much
the same whatever is in it, so their number counts. Lengths vary: a token more moves an expectation
and no whole number.
"""

import numpy as np

from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf import load as L
from advisor.perf.arrays import Floats, Mask, Requests
from advisor.perf.constants import Constants
from advisor.perf.prompt_cost import call_seconds, graph_tokens

SPREAD = sourced(
    3.5,
    "standard deviations",
    "2 sqrt(pi): a uniform law as dense as two normal ones at 0",
    "derived",
)
ROUNDS = sourced(8, "iterations", "own choice, of Schweitzer's approximation", "chosen")
EQUAL_PROMPTS = sourced(
    0.01, "share of a prompt", "own choice: how far what fits beside decodes varies", "chosen"
)
COUNTED = sourced(
    6, "prompts", "own choice: up to here each number that can meet is priced", "chosen"
)
LEAST_RATE = sourced(
    1e-4, "prompts a step", "own choice: below it nothing meets, and digits would cancel", "chosen"
)
MOST_BUSY = sourced(
    1 - 1e-9, "share", "own choice: a queue that is always full has a limit, not a value", "chosen"
)


class Prompts(NamedTuple):
    """How prompts get through, in steps and in prompts, (N,)."""

    calls_first: Floats  # calls per prompt in the joint start
    calls_later: Floats  # the same in the rounds after it
    seen: Floats  # prompts that meet, as an arriving one sees it, itself included
    calls_seen: Floats  # calls of those
    calls_alone: Floats  # calls of one, but for its tail
    wait_first: Floats  # steps until a prompt is done, in the joint start
    wait_later: Floats  # the same in the rounds after it
    later_share: Floats  # share of requests after the first round
    disorder: Floats  # how far ends have drifted apart since the joint start, 0 to 1
    captured_first: Floats  # share of the calls within captured CUDA graphs in the joint start
    captured_later: Floats  # the same in the rounds after it
    captured_alone: Floats  # the same of calls that hold one prompt and nothing else


class Sizes(NamedTuple):
    """A prompt beside the budget of a step, (N,)."""

    service: Floats  # budgets that a prompt fills
    spread: Floats  # half of the width of its uniform law, as a share of the prompt
    equal: Mask  # no prompt is longer than `service`: what fits into a budget on paper does fit
    captured: Floats  # budget that a call within captured CUDA graphs holds
    captured_cost: Floats  # what such a call costs of one that is launched kernel by kernel
    graph: Floats  # tokens of the largest graph, over those of a prompt
    token: Floats  # one token, over those of a prompt
    each: Floats  # tokens that a request decodes beside prompts in a step


def sizes(p: P.Points, c: Constants, load: L.Load, spec: bool) -> Sizes:
    """Prompts in budgets. Synthetic ones are equal; others vary as the answers do."""
    equal = p.workload == P.WORKLOADS.index("random")
    graph = graph_tokens(p, spec)
    return Sizes(
        service=load.prompt / load.budget,
        equal=equal,
        spread=np.where(equal, EQUAL_PROMPTS, np.fmax(p.output_spread, EQUAL_PROMPTS)),
        captured=np.fmax(graph - (p.max_num_batched_tokens - load.budget), 0.0) / load.budget,
        captured_cost=call_seconds(p, c, 1.0) / np.fmax(call_seconds(p, c, 0.0), LEAST_RATE**2),
        graph=graph / load.prompt,
        token=1 / load.prompt,
        each=np.where(load.mixed, p.verify_tokens if spec else 1.0, 0.0),
    )


def captured_share(of: Sizes, prompts: Floats | float, beside: Requests | float) -> Floats:
    """Share of calls with this many prompts that fit a captured graph with `beside` decodes."""
    half = np.where(of.equal, of.token / 2, of.spread * np.sqrt(prompts))
    room = of.graph - prompts - beside * of.each * of.token + np.where(of.equal, half, 0.0)
    return np.asarray((0.5 + room / (2 * half)).clip(0.0, 1.0))


def captured_calls(of: Sizes, rate: Floats, clients: Requests) -> Floats:
    """Share of the calls with prompts that fit a captured graph in the steady state: a call holds
    those that arrived in one step, a Poisson number, and all other requests decode beside them.
    """
    rate = np.fmax(rate, LEAST_RATE)
    chance, share = np.exp(-rate), np.zeros_like(rate)
    for number in range(1, COUNTED + 1):
        chance = chance * rate / number
        share = share + chance * captured_share(of, number, np.fmax(clients - number, 0.0))
    return np.asarray(share / -np.expm1(-rate))


def mean_ceiling(size: Floats, half: Floats) -> Floats:
    """Mean of the ceiling of a number that is uniform within `half` around `size`."""
    return np.asarray((_ceilings_below(size + half) - _ceilings_below(size - half)) / (2 * half))


def _ceilings_below(size: Floats) -> Floats:
    """Integral of the ceiling from 0 to `size`."""
    whole = np.ceil(size)
    return np.asarray(whole * (size - (whole - 1) / 2))


def calls_together(of: Sizes, prompts: Floats | float, more: Floats | float = 0.0) -> Floats:
    """Calls that this many prompts take if they are computed together and nothing else is.

    What is left for a last call counts less where captured graphs hold it. `more`: variance of that
    number.
    """
    mean = prompts * of.service
    # the sum of uniform lengths, as a uniform one of the same variance
    half = np.fmin(of.service * np.sqrt(prompts * of.spread**2 + 3 * more), mean)
    mean = mean - np.where(of.equal, half, 0.0)
    whole = mean_ceiling(mean, half)
    held = np.fmax(mean_ceiling(mean - of.captured, half), 1.0)
    return np.asarray(np.fmax(held + of.captured_cost * (whole - held), 1.0))


def queued_calls(of: Sizes, rate: Floats) -> tuple[Floats, Floats]:
    """Calls per prompt where prompts and decodes share steps: the share of busy steps of a queue
    with Poisson arrivals, over `rate`.

    By Spitzer's identity nothing is left over after a step with the chance exp(-sum over n of P(the
    prompts of n steps take more than n steps) / n). Ordered by the number of prompts instead of
    steps, one and two of them are summed exactly; the further ones are those of the queue in
    continuous time, M/D/1, whose whole sum is -log(1 - rate x service). Within 4 % of a played
    queue (tests/perf/test_prompt_queue.py). Returns calls per prompt, and the busy periods per
    prompt.
    """
    rate = np.fmax(rate, LEAST_RATE)
    busy, none = np.fmin(rate * of.service, MOST_BUSY), np.exp(-rate)
    one, two = calls_together(of, 1.0) - 1, calls_together(of, 2.0) - 1
    # sums of rate e^(-n rate) up to n = one, and of rate^2 / 2 n e^(-n rate) up to n = two
    first = rate * none * -np.expm1(-rate * one) / (1 - none)
    beyond = 1 + two * (1 - none)
    second = rate**2 / 2 * none * (1 - beyond * np.exp(-rate * two)) / (1 - none) ** 2
    alone = np.exp(-busy)
    in_time = 1 - alone + 0.5 * (1 - alone**2 * (1 + 2 * busy))
    idle = none * np.exp(np.fmin(np.log1p(-busy) + in_time - first - second, 0.0))
    return np.fmax(of.service, (1 - idle) / rate), np.asarray(idle * (1 - none) / rate)


def burst_calls(of: Sizes, rate: Floats) -> Floats:
    """Calls per prompt where decodes wait for prompts: those that arrive in one step, a Poisson
    number, are computed before any other request can end.
    """
    rate = np.fmax(rate, LEAST_RATE)
    chance = np.exp(-rate)
    beyond, met, calls = 1 - chance, rate, np.zeros_like(rate)
    for number in range(1, COUNTED + 1):
        chance = chance * rate / number
        beyond, met = beyond - chance, met - number * chance
        calls = calls + chance * calls_together(of, float(number))
    # the rest around its mean, with the variance of a Poisson number about it
    beyond = np.fmax(beyond, LEAST_RATE**3)
    mean = np.fmax(met / beyond, COUNTED + 1.0)
    return np.asarray((calls + beyond * calls_together(of, mean, mean - COUNTED - 1)) / rate)


def prompts(load: L.Load, of: Sizes) -> Prompts:
    """Waiting and meeting of prompts.

    The first round starts together. Later, two requests that started together end as many steps
    apart as their lengths differ: a normal difference that widens with the root of the rounds. In
    lockstep (no difference) the chunks of the first round stagger the later ones so that none
    waits; chance makes some meet and wait. That wait is a closed queue with one deterministic
    server: Schweitzer's approximate mean value analysis, `service` steps a prompt, the clients away
    for the steps over which ends are spread.
    """
    rounds = np.fmax(load.requests / load.clients, 1.0)
    later = rounds - 1
    widened = load.steps_sd * np.sqrt((later + 1) / 2)
    with np.errstate(divide="ignore"):
        chance = np.clip(
            np.fmax(1 / (2 * widened * np.sqrt(np.pi)), 1 / (load.steps + 1)), 0.0, 1.0
        )
    service, tail = of.service, load.tail > 0
    alone = calls_together(of, 1.0) + tail
    away = np.fmin(load.steps, SPREAD * widened + load.clients * service) + 1
    queue, seen = np.zeros_like(service), (load.clients - 1) / load.clients
    wait = alone
    for _ in range(ROUNDS):
        busy = load.clients * service / (away + wait)
        wait = alone + service * seen * np.fmax(queue - 0.5 * np.fmin(busy, 1.0), 0.0)
        queue = load.clients * wait / (away + wait) * np.fmin(service, 1.0)
    disorder = widened / (widened + service)
    first = (calls_together(of, load.clients) + tail) / load.clients
    others = (load.clients - 1) * chance
    return Prompts(
        calls_first=first,
        # all that started together may still meet: no fewer calls than those of all at once
        calls_later=np.fmax(_calls_later(load, of, others), first),
        calls_seen=calls_together(of, 1 + others) + tail,
        calls_alone=alone - tail,
        seen=1 + others,
        wait_first=(np.fmax(load.clients * service, 1.0) + alone) / 2,
        wait_later=np.fmax(alone + disorder * (wait - alone), load.clients * service - load.steps),
        later_share=later / rounds,
        disorder=disorder,
        captured_first=captured_share(of, load.clients, 0.0),
        captured_later=captured_calls(of, others, load.clients),
        captured_alone=captured_share(of, 1.0, 0.0),
    )


def _calls_later(load: L.Load, of: Sizes, others: Floats) -> Floats:
    calls, periods = queued_calls(of, others)
    # the last prompt of a busy period computes its tail in a call of its own
    calls = calls + np.where(load.tail > 0, periods, 0.0)
    if load.mixed.all():
        return calls
    met = np.fmax(others, LEAST_RATE)
    apart = burst_calls(of, others) + np.where(load.tail > 0, -np.expm1(-met) / met, 0.0)
    return np.where(load.mixed, calls, apart)
