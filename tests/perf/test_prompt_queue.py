"""How prompts meet: expectations against a queue that is played, and no jump where a prompt passes
a share of the budget.
"""

import itertools
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from advisor.perf import arrays as P
from advisor.perf import imputation, load, prompt_queue, schedule
from advisor.perf.constants import Constants
from advisor.perf.prompt_queue import Sizes
from tests.perf import rows
from tests.reference import replay
from tests.tables import cells

C = Constants()
Floats = npt.NDArray[np.float64]
STEPS = 100_000
SERVICES = (0.1, 0.2, 0.4, 0.49, 0.52, 0.7, 0.9, 0.98, 1.03, 1.3, 1.9, 2.5, 4.05, 8.1)
RATES = (0.02, 0.2, 0.7, 1.5, 4.0)
B200 = rows.ROW | cells(
    "hardware=b200 engine_version=0.32.0 k=3 concurrency=64 n_requests=512 output_spread=0.5 "
    "max_num_batched_tokens=8192 prefix_caching=0"
)
points = partial(rows.points, base=B200)


def of(service: float, spread: float) -> Sizes:
    one = np.ones(1)
    none = 0 * one
    return Sizes(service * one, spread * one, one < 0, none, one, none, one, one)


def arrivals(service: float, spread: float, rate: float, seed: int) -> Floats:
    """Budgets that arrive in each of many steps."""
    random = np.random.default_rng(seed)
    counts = random.poisson(rate, STEPS)
    lengths = service * (1 + spread * random.uniform(-1, 1, int(counts.sum())))
    return np.diff(np.concatenate([[0.0], np.cumsum(lengths)])[np.cumsum(counts)], prepend=0.0)


def played_queue(service: float, spread: float, rate: float) -> float:
    """Busy steps per prompt where what is left over waits for the next step."""
    more = arrivals(service, spread, rate, 3)
    drift = np.cumsum(more - 1)  # Lindley: what is left is the rise above the lowest point so far
    left = drift - np.minimum(np.minimum.accumulate(drift), 0.0)
    busy = np.concatenate([[0.0], left[:-1]]) + more > 1e-9
    return float(busy.sum()) / (rate * STEPS)


@pytest.mark.parametrize("spread", [0.02, 0.5])
def test_calls_are_the_busy_steps_of_a_queue(spread: float) -> None:
    """Within 4 % of 100,000 played steps; a mean number of prompts in a step is up to 56 % off."""
    for service, rate in itertools.product(SERVICES, RATES):
        if service * rate < 0.95:
            found = prompt_queue.queued_calls(of(service, spread), np.array([rate]))[0][0]
            exact = played_queue(service, spread, rate)
            assert found == pytest.approx(exact, rel=0.04), (service, rate)


def test_a_full_queue_leaves_no_room_in_a_call() -> None:
    for service in (0.3, 1.0, 2.7):
        found = prompt_queue.queued_calls(of(service, 0.02), np.array([1.2 / service]))[0]
        assert found[0] == pytest.approx(service)


@pytest.mark.parametrize("spread", [0.02, 0.5])
def test_calls_of_prompts_that_no_decode_runs_beside(spread: float) -> None:
    """Those of one step are computed before the next ends: within 4 % of drawn ones."""
    for service, rate in itertools.product(SERVICES, RATES):
        found = prompt_queue.burst_calls(of(service, spread), np.array([rate]))[0]
        exact = np.ceil(arrivals(service, spread, rate, 5)).sum() / (rate * STEPS)
        assert found == pytest.approx(exact, rel=0.04), (service, rate)


def test_mean_ceiling_is_that_of_drawn_numbers() -> None:
    random = np.random.default_rng(1)
    for size, half in ((0.4, 0.1), (0.95, 0.1), (3.0, 0.001), (2.2, 1.7), (9.5, 0.5)):
        exact = np.ceil(size + half * random.uniform(-1, 1, 200_000)).mean()
        found = prompt_queue.mean_ceiling(np.array([size]), np.array([half]))[0]
        assert found == pytest.approx(exact, rel=0.005)


def test_what_is_left_costs_less_where_captured_graphs_hold_it() -> None:
    """8,192 equal tokens take one call alone; beside another request a few tokens are left over."""
    change = [{"concurrency": c, "workload": "random", "input_tokens": 8192} for c in (1, 2)]

    def calls(asked: dict[str, object]) -> Floats:
        p = imputation.impute(points(asked))
        sizes = prompt_queue.sizes(p, C, load.load(p, C, np.ones(1), False), False)
        return prompt_queue.calls_together(sizes, 1)

    one, two = map(calls, change)
    assert one[0] == pytest.approx(1) and 1 < two[0] < 1.5
    assert calls({**change[0], "input_tokens": 9216})[0] == pytest.approx(2)


def test_decodes_beside_a_prompt_count_for_the_graph() -> None:
    """H100, vLLM 0.25.1: 512 prompt tokens fit the graph of 512 alone; with 3 decodes, or verified
    tokens of one request, a call takes 130 ms where 64 and 256 beside 15 take 40 to 60.
    """
    base = {"workload": "random", "max_num_seqs": 256, "output_spread": "0.5", "k": 2}
    loads = [(1, 512), (4, 512), (4, 256), (16, 256), (64, 256), (64, 448)]
    p = imputation.impute(points(*(base | {"concurrency": c, "input_tokens": t} for c, t in loads)))

    def shares(spec: bool) -> list[float]:
        made = load.load(p, C, np.full(len(p), 2.45 if spec else 1.0), spec)
        of = prompt_queue.sizes(p, C, made, spec)
        return prompt_queue.captured_calls(of, np.full(len(p), 1e-3), made.clients).tolist()

    assert shares(False) == pytest.approx([1, 0, 1, 1, 1, 1], abs=0.01)
    assert shares(True) == pytest.approx([0, 0, 1, 1, 1, 0], abs=0.01)


def test_prompts_that_meet_leave_the_graph_together() -> None:
    """256 tokens beside 63 decodes fit, two prompts of a step do not, as drawn ones show."""
    random = np.random.default_rng(3)
    for workload, spread in (("random", 0.0), ("chat", 0.5)):
        base = {"workload": workload, "concurrency": 64, "input_tokens": 256, "k": 2}
        p = imputation.impute(points({**base, "output_spread": spread or 0.5}))
        made = load.load(p, C, np.ones(1), False)
        of = prompt_queue.sizes(p, C, made, False)
        for rate in (0.1, 0.7, 1.5):
            count = random.poisson(rate, 200_000)
            count = count[count > 0]
            ends = np.cumsum(count)
            lengths = 256 * (1 + spread * random.uniform(-1, 1, int(ends[-1])))
            tokens = np.diff(np.concatenate([[0.0], np.cumsum(lengths)])[ends], prepend=0.0)
            exact = (tokens + 64 - count <= 512).mean()
            found = prompt_queue.captured_calls(of, np.array([rate]), made.clients)[0]
            assert found == pytest.approx(exact, abs=0.04), (workload, rate)


def gains(workload: str, step: float) -> dict[str, Floats]:
    tokens = np.round(1024 * np.exp(np.arange(0, np.log(16), step)))
    p = points(*({"input_tokens": int(x), "workload": workload} for x in tokens))
    found = rows.speedups(p, C, np.full(len(p), 2.47))
    return {name: found[name] for name in ("output_tok_s", "tpot", "ttft")}


@pytest.mark.parametrize("workload", ["random", "chat"])
def test_gains_do_not_jump_along_context(workload: str) -> None:
    """64 requests on a B200: the gain in TPOT fell from 1.22 to 0.95 where one and a half prompts
    passed the budget of a step. Half the step of context, half the change at most.
    """
    coarse, fine = gains(workload, 0.004), gains(workload, 0.002)
    for name, found in fine.items():
        moved = np.abs(np.diff(np.log(found))).max()
        assert moved < 0.02, name
        assert moved < 0.65 * np.abs(np.diff(np.log(coarse[name]))).max(), name


def test_gains_along_context_are_those_of_the_replay() -> None:
    """Both arms and their ratio, where 1 to 3 prompts fill a step and where it takes several."""
    contexts = (2048, 3584, 4608, 5120, 5632, 6144, 7168, 9216, 10240)
    p = points(*({"input_tokens": x, "workload": "random"} for x in contexts))
    tau = np.full(len(p), 2.47)
    ratios: list[Floats] = []
    arms: tuple[schedule.Arm, ...] = ("base", "spec")
    for arm in arms:
        found = schedule.replay(p, C, tau, arm)
        exact = [replay.simulate(p, C, tau, arm, i) for i in range(len(p))]
        served = np.array([one.output_tok_s for one in exact])
        assert np.abs(np.log(found.output_tok_s / served)).max() < 0.08
        ratios.append(np.log(found.tpot_s / np.array([one.tpot_s for one in exact])))
    assert np.abs(ratios[0] - ratios[1]).max() < 0.06


def test_the_first_round_packs_what_waits() -> None:
    """All prompts are there at once: as few calls as their tokens fill."""
    p: P.Points = imputation.impute(points({"input_tokens": 3000, "workload": "random"}))
    made = load.load(p, C, np.ones(1), False)
    calls = prompt_queue.prompts(made, prompt_queue.sizes(p, C, made, False)).calls_first
    assert calls[0] * 64 == pytest.approx(np.ceil(64 * 3000 / made.budget[0]), rel=0.03)
