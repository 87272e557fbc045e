"""Size and sign of a gain as one distribution."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.knowledge import store as knowledge
from advisor.lab.training import fitting
from advisor.perf import physics, prompt_cost
from advisor.perf.arrays import METRICS
from advisor.perf.constants import Constants
from advisor.perf.encoding import encode_rows
from advisor.prediction import acceptance as acc
from advisor.prediction import intervals, predict, spread, switches
from advisor.prediction.model import loop, of_metric, prepare
from tests.perf.rows import points


def one(value: float) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([value])


def prediction(**values: float | bool) -> intervals.Predicted:
    """One point; a column that is not given is 1."""
    return intervals.Predicted(*(one(values.get(n, 1.0)) for n in intervals.Predicted._fields))


@given(st.floats(-2, 2), st.floats(0.01, 1.5), st.floats(0.01, 1.5), st.floats(0.006, 0.994))
def test_quantiles_and_chance_agree(mean: float, below: float, above: float, chance: float) -> None:
    made = intervals.posterior(one(mean), one(mean - below), one(mean + above), one(chance))
    assert made.low[0] <= made.median[0] <= made.high[0]
    for quantile, share in ((made.low, 0.1), (made.median, 0.5), (made.high, 0.9)):
        if abs(share - (1 - chance)) > 1e-6:
            assert quantile[0] >= 0 if share > 1 - chance else quantile[0] <= 0


def test_normal_distribution() -> None:
    exact = NormalDist()
    shares = np.array([1e-6, 0.001, 0.02, 0.1, 0.5, 0.9, 0.98, 0.999])
    assert spread.quantile(shares) == pytest.approx([exact.inv_cdf(p) for p in shares], abs=1e-7)
    values = np.array([-4.0, -1.0, 0.0, 0.3, 2.0])
    assert spread.cdf(values) == pytest.approx([exact.cdf(z) for z in values], abs=2e-7)


def test_a_side_of_its_own_width_stays_on_its_side() -> None:
    """Below the mode 0.1, above it 0.4, by hand: half of each side's normal makes the
    distribution, so that with the chance which it has by itself the tenths are those widths away.
    """
    mean, below, above = 0.2, 0.1, 0.4
    chance = 1 - NormalDist(mean, below / NormalDist().inv_cdf(0.9)).cdf(0.0)
    made = intervals.posterior(one(mean), one(mean - below), one(mean + above), one(chance))
    assert made.low[0] == pytest.approx(0.1, abs=1e-5)
    assert made.median[0] == pytest.approx(0.2, abs=1e-5)
    assert made.high[0] == pytest.approx(0.6, abs=1e-5)


def test_no_gain_is_above_the_tokens_of_a_cycle_with_their_error() -> None:
    """Two tokens a cycle, known to a variance of 0.04: log 2 + 1.2816 x 0.2 = 0.9495 at most, which
    is 2.584; the time to first token is not bound by it.
    """
    values = {"p10": 1.5, "p50": 4.0, "p90": 9.0, "p_gain": 0.9, "basis": 0, "tau": 2.0}
    values |= {"mean": 1.4, "sd": 0.5, "evidence": 0.0, "below": 0.9, "above": 0.8, "known": True}
    values |= {"closeness": 0.0, "measured_gain": 0.0, "open": 0.04}
    point = prediction(**values)
    full = points({"k": 8, "output_tokens": 512})  # whose steps leave room for more
    bound = intervals.within_tokens(point, np.array([False]), full)
    assert bound.p10[0] == pytest.approx(1.5 * np.exp(0.9495 - 1.4), abs=1e-3)  # as far below
    assert (bound.p50[0], bound.p90[0]) == pytest.approx((2.584, 2.584), abs=1e-3)
    assert bound.mean[0] == pytest.approx(0.9495, abs=1e-3)
    assert intervals.within_tokens(point, np.array([True]), full).p90[0] == 9.0


def test_a_mean_of_gains_is_one_from_where_its_weighted_quantiles_are() -> None:
    """By hand: 0.6 (0.2 + 0.3 z) + 0.4 (-0.1 + 0.2 z) is 0 at z = -0.08 / 0.26."""
    parts, tenth = [], NormalDist().inv_cdf(0.9)
    for weight, mean, sd in ((0.6, 0.2, 0.3), (0.4, -0.1, 0.2)):
        chance = 1 - NormalDist(mean, sd).cdf(0.0)
        sides = {"below": tenth * sd, "above": tenth * sd}
        parts.append((one(weight), prediction(mean=mean, p_gain=chance, **sides)))
    both = intervals.chance_of_both(parts)[0]
    assert both == pytest.approx(NormalDist().cdf(0.08 / 0.26), abs=1e-4)
    alone = [(one(1.0), parts[0][1]), (one(0.0), parts[1][1])]
    assert intervals.chance_of_both(alone)[0] == pytest.approx(parts[0][1].p_gain[0], abs=1e-4)


def test_each_reason_for_doubt_has_its_size() -> None:
    """Of the first token, then of one request's rate; four requests at once on a card, then one
    with a block drafter on four cards of a platform whose kernels nobody timed.
    """
    far = {"engine": "mlx", "hardware": "m4-max-40core", "spec_method": "dflash", "gpu_count": 4}
    full = points({"concurrency": 4}, {"concurrency": 1} | far)
    belief = acc.believe(predict.load().acceptance, full)
    metrics = [np.full(2, METRICS.index(name)) for name in ("ttft", "request_tok_s")]
    states = np.array([[0.1, 0.2], [0.3, 0.4]])
    sizes = spread.reasons(full, full, belief, Constants(), states, metrics)
    sizes = sizes.reshape(2, 2, len(spread.REASONS))
    tokens = np.array([[0.15], [1.0]]) * belief.log_tau_sd
    expected = {"row": np.ones((2, 2)), "tokens": tokens**2, "stand_ins": np.zeros((2, 2))}
    expected |= {"ttft": [[1, 0], [0, 0]], "switches": states}
    expected |= {"drafter": [[0, 1]] * 2, "gpus": [[0, 2]] * 2, "platform": [[0, 1]] * 2}
    for column, name in enumerate(spread.REASONS):
        assert sizes[..., column] == pytest.approx(np.array(expected[name])), name


def test_tokens_of_a_step_count_as_far_as_time_goes_to_decode() -> None:
    """Four requests: beside its 512 steps each waits for four prompts; alone a request's own rate
    is decode, and of the time to first token 0.15 was assumed.
    """
    full, physical = points({"concurrency": 4, "output_tokens": 512}), Constants()
    four, no, after = np.array([4.0]), np.zeros(1), full.depth_tokens + 256
    step = physics.step_seconds(full, physical, four, np.ones(1), False, after).total
    prompt = prompt_cost.prefill_seconds(full, physical, full.input_tokens, no, False)
    share = 512 * step[0] / (512 * step[0] + 4 * prompt[0])
    metrics = [np.array([METRICS.index(name)]) for name in METRICS[1:]]
    found = spread.elasticity(full, physical, metrics)[:, 0]
    assert found == pytest.approx([share, 1.0, share, 0.15]) and 0.1 < share < 0.99


@pytest.mark.parametrize(
    ("p_gain", "evidence", "measured", "chance"),
    [  # evidence of a whole pair at log odds of log 3: 0.5 becomes 3 to 1, against it 1 to 3
        (0.5, 1.0, 1.0, 0.75),
        (0.5, -1.0, 1.0, 0.25),
        (0.9, 0.0, 1.0, 0.9),
        (1.0, 0.0, 1.0, 0.995),
        (1.0, 0.0, 0.0, 0.94),  # nobody measured this: `chance_most`, and `chance_least`
        (0.0, 0.0, 0.0, 0.16),
        (1.0, 0.0, 0.25, 0.25 * 0.995 + 0.75 * 0.94),
    ],
)
def test_a_chance_is_surer_where_the_configuration_was_measured(
    p_gain: float, evidence: float, measured: float, chance: float
) -> None:
    seen = intervals.chance(one(p_gain), one(evidence), one(measured), math.log(3))
    assert seen[0] == pytest.approx(chance, abs=1e-9)


def test_a_drafter_that_may_overflow_costs_its_share_of_the_loss() -> None:
    """By hand: with a chance of 0.25 a loss of 0.70 in log leaves 0.5 - 0.175; between the states
    lie 0.25 x 0.75 x 0.7^2, and owners scatter by 0.27: 0.091875 + 0.018225 beside 0.4^2.
    """
    values = {"mean": 0.5, "sd": 0.4, "below": 0.5, "above": 0.5, "p_gain": 0.9, "basis": 0}
    values |= {"measured_gain": 0.8, "known": False}
    spilled = switches.with_overflow(prediction(**values), one(0.25))
    assert spilled.mean[0] == pytest.approx(0.325)
    assert spilled.sd[0] == pytest.approx(math.sqrt(0.16 + 0.091875 + 0.018225), abs=1e-3)
    below = NormalDist().cdf((0.5 - 0.7) / math.sqrt(0.16 + 0.091875 + 0.018225))
    assert spilled.p_gain[0] == pytest.approx(0.75 * 0.9 + 0.25 * below, abs=1e-3)
    assert spilled.measured_gain[0] == pytest.approx(0.6)


def test_trust_falls_with_the_miss_of_the_whole_rig() -> None:
    which = np.array([0, 0, 0, 1, 1, 1, 2])
    trust = fitting.rig_trust(np.array([0.05, -0.05, 0.0, 0.9, 0.8, 1.0, fitting.RIG_SD]), which)
    assert trust[:3] == pytest.approx(1.0)
    assert (trust[3:6] == trust[3]).all() and trust[3] == pytest.approx(1 / (1 + (0.9 / 0.35) ** 2))
    assert trust[6] == pytest.approx(0.5)


def test_one_row_far_off_leaves_its_rig_trusted() -> None:
    miss = np.array([0.02, 0.0, -0.03, 1.5])
    assert fitting.rig_trust(miss, np.zeros(4, dtype=np.int64)).min() > 0.99


SERIAL = {
    "hardware": "rtx3090", "model": "qwen3.8-27b", "quant": "awq-int4", "engine": "vllm",
    "spec_method": "mtp", "k": "3", "concurrency": "1", "context_depth": "65536",
    "input_tokens": "65536", "output_tokens": "512", "speedup_metric": "request_tok_s",
}  # fmt: skip
APPLE9 = {
    "hardware": "apple-m3-ultra", "model": "qwen3.8-27b", "quant": "q4_k_m",
    "engine": "llama.cpp", "spec_method": "mtp", "k": "4", "concurrency": "1",
    "input_tokens": "512", "output_tokens": "256", "speedup_metric": "request_tok_s",
}  # fmt: skip


def states(row: dict[str, str]) -> tuple[float, float, float, float]:
    """Log speed-up with the mechanism, without it, the mixture's median, the variance between."""
    points, _ = encode_rows.from_rows([row])
    _, full = prepare(points)
    constants, tau = Constants(), np.array([2.5])

    def price(part, c, here, same=False):  # type: ignore[no-untyped-def]
        return of_metric(loop(part, c, tau[here])[0], part.metric)

    everything = np.ones(1, dtype=bool)
    slow = price(full, constants, everything)
    fast = slow
    for switch in switches.SWITCHES:
        if switch.where(full, constants).any():
            without = switches._without(constants, switch)
            fast = price(full, without, everything)
            plain = [loop(full, c, tau)[1]["tpot"][0] for c in (constants, without)]
            assert plain[0] == plain[1] or not switch.drafts_only
    median, between = switches.mix_states(full, constants, slow, price)
    return float(slow[0]), float(fast[0]), float(median[0]), float(between[0])


@pytest.mark.parametrize("row", [SERIAL, APPLE9], ids=["serial verify", "Apple9"])
def test_the_median_lies_between_the_states_nearer_to_the_likely_one(row: dict[str, str]) -> None:
    slow, fast, median, between = states(row)
    assert slow < fast - 0.05, "a row on which the two states differ"
    assert slow < median < fast and median - slow < fast - median
    assert 0 < between < (fast - slow) ** 2 / 4 + 1e-9


@pytest.mark.parametrize(("gap", "share"), [(0.4, 0.3), (-0.6, 0.55), (0.2, 0.9)])
def test_the_median_of_two_states(gap: float, share: float) -> None:
    """Half of the mixture of two normals with a row's own spread, 0.21, lies below it."""
    median = float(switches._median(np.array([gap]), share)[0])
    below = (share * NormalDist(0, 0.21).cdf(median), NormalDist(gap, 0.21).cdf(median))
    assert below[0] + (1 - share) * below[1] == pytest.approx(0.5, abs=1e-4)
    assert switches._median(np.array([0.004]), share)[0] == 0  # as good as one state


def test_a_certain_state_is_that_state(monkeypatch: pytest.MonkeyPatch) -> None:
    real = knowledge.threshold

    def sure(name: str):  # type: ignore[no-untyped-def]
        found = real(name)
        return found.model_copy(update={"value": 1.0}) if name.startswith("switch_") else found

    monkeypatch.setattr(switches.knowledge, "threshold", sure)
    slow, _, median, between = states(SERIAL)
    assert median == pytest.approx(slow, abs=1e-4) and between == 0.0


def test_nothing_is_priced_twice_where_no_mechanism_is_uncertain() -> None:
    points, _ = encode_rows.from_rows([{**SERIAL, "hardware": "h200"}])
    _, full = prepare(points)

    def never(*_: object) -> None:
        raise AssertionError("priced again")

    median, between = switches.mix_states(full, Constants(), np.zeros(1), never)  # type: ignore[arg-type]
    assert median[0] == 0 and between[0] == 0
