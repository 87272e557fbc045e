"""What predictions do to each other, on numbers that can be worked out on paper: caps, queues,
documented losses, blank cells, adaptive verification.

The model here has measured nothing, and its P(gain) is that of a normal with the mean and sd.
"""

import math
import stat
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

from advisor.domain.normal import Z10, cdf
from advisor.domain.nouns import AdvisorError, Estimate, Interval
from advisor.perf.arrays import METRICS
from advisor.perf.regimes.losses import Strength
from advisor.prediction import (
    acceptance,
    decision,
    documented,
    estimates,
    intervals,
    model,
    neighbours,
    predict,
    predict_rows,
    predict_table,
    spread,
    step_terms,
    switches,
    utility,
)  # fmt: skip
from advisor.prediction.artefact import load
from advisor.prediction.documented import Observed
from advisor.prediction.estimates import Ratio, with_levels
from advisor.prediction.intervals import Predicted
from advisor.prediction.model import Calibration, Model
from advisor.prediction.neighbours import Nearby
from advisor.prediction.spread import Spread
from tests.perf.rows import ROW, points

NORMAL = tuple((z, cdf(z)) for z in np.linspace(-5, 5, 2001).tolist())
MODEL = Model.from_calibration(Spread(), Calibration(gain=(NORMAL, NORMAL)))
YES = np.array([True])


def one(value: float) -> np.ndarray:  # type: ignore[type-arg]
    return np.array([value])


def gain(median: float, sd: float = 0.2, **changes: float) -> Predicted:
    """One gain with this median, as wide to both sides."""
    values = dict.fromkeys(Predicted._fields, 0.0) | {"mean": math.log(median), "sd": sd}
    values |= {"below": Z10 * sd, "above": Z10 * sd, "p50": median, "closeness": 1.0}
    values |= {"p10": median * math.exp(-Z10 * sd), "p90": median * math.exp(Z10 * sd)}
    values["p_gain"] = cdf(values["mean"] / sd)
    made = Predicted(*(one((values | changes)[name]) for name in Predicted._fields))
    return made._replace(known=made.known > 0)


def around(middle: float, sd: float) -> list[float]:
    """The 80 % interval of a level with this sd of its log."""
    return [middle * math.exp(z * sd) for z in (-Z10, 0.0, Z10)]


def ends(span: Interval) -> list[float]:
    return [span.p10, span.p50, span.p90]


# ---------------------------------------------------------------- levels, adaptive verification


def test_levels_of_a_speedup() -> None:
    """100 tok/s with twice the speed are 200, 100 ms are 50; the doubt of both logs is added."""
    speedup = Interval(**dict(zip(("p10", "p50", "p90"), around(2.0, 0.4), strict=True)))
    for name, value in (("output_tok_s", 200.0), ("tpot", 50.0), ("ttft", 50.0)):
        made = with_levels(speedup, 100.0, 0.3, name)
        assert [made.baseline, *ends(made.baseline_range)] == pytest.approx(
            [100.0, *around(100.0, 0.3)]
        )
        assert [made.value, *ends(made.value_range)] == pytest.approx([value, *around(value, 0.5)])


def test_a_fixed_block_times_the_ratio_of_adaptive_verification() -> None:
    """A log sd of 0.2 beside 0.15 is 0.25; a chance of cdf(0.5) with a mean of 0.06 more is cdf of
    (0.5 x 0.2 + 0.06) / 0.25. The first token's time stays; nothing gains more than steps allow.
    """
    sides = dict(zip(("p10", "p50", "p90"), around(1.5, 0.2), strict=True))
    metric = with_levels(Interval(**sides), 80.0, 0.1)
    bare = metric.replace(baseline=None)
    fixed = Estimate(output_tok_s=metric, tpot_ms=bare, ttft_ms=metric, p_gain=cdf(0.5),
                     accepted_length=Interval(p10=2.0, p50=2.0, p90=2.0))  # fmt: skip
    made, middle = estimates.times(fixed, *[Ratio(0.06, 0.15)] * 2), 1.5 * math.exp(0.06)
    assert (made.p_gain, made.basis) == (pytest.approx(cdf(0.64)), "extrapolated")
    for found in (made.output_tok_s.speedup, made.tpot_ms.speedup):
        assert ends(found) == pytest.approx(around(middle, 0.25))
    told = [made.output_tok_s.value, *ends(made.output_tok_s.value_range)]
    assert told == pytest.approx([80 * middle, *around(80 * middle, math.hypot(0.1, 0.25))])
    assert made.tpot_ms.value == bare.value and made.ttft_ms == metric
    most = Ratio(0.0, 0.0, 1.6)
    assert ends(estimates.times(fixed, most, most).tpot_ms.speedup)[1:] == [1.5, 1.6]
    half = Ratio(math.log(1.25), 0.09).of_share(0.5, math.log(1.1))  # 0.5 + 0.5 / 1.25 of the time
    assert half == pytest.approx((math.log(1.1 / 0.9), 0.04, math.inf, 1.0))


def test_a_log_gain_is_one_by_its_own_doubt_and_that_of_another_curve() -> None:
    """Alone 0.1 / 0.1; beside a curve (sd 0.3, rho 0.8) over hypot(0.1, 0.3 sqrt(2 x 0.2))."""
    curve = Interval(p10=math.exp(-Z10 * 0.3), p50=1.0, p90=math.exp(Z10 * 0.3))
    apart = 0.3 * math.sqrt(2 * (1 - 0.8))
    assert Ratio(0.0, 0.1).beside(0.1) == pytest.approx(cdf(1.0))
    assert Ratio(0.0, 0.1).beside(0.1, curve) == pytest.approx(cdf(0.1 / math.hypot(0.1, apart)))


# ---------------------------------------------------------------- requests that wait


def test_a_cap_moves_the_mean_and_ends_the_quantiles() -> None:
    two = Predicted(*(np.repeat(column, 2) for column in gain(2.0)))
    capped = step_terms._cap(two, np.array([True, False]), np.array([1.5, 1.5]), MODEL)
    assert capped.mean.tolist() == pytest.approx([math.log(1.5), math.log(2.0)])
    spans = [[column[row] for column in capped[:3]] for row in (0, 1)]
    assert spans[0] == pytest.approx(around(1.5, 0.2), rel=1e-3)
    assert spans[1] == pytest.approx(around(2.0, 0.2))
    assert capped.p_gain[0] == pytest.approx(cdf(math.log(1.5) / 0.2), abs=1e-3)
    for where, most in ((~YES, 1.5), (YES, 2.5)):
        assert step_terms._cap(gain(2.0), where, one(most), MODEL) == gain(2.0)


def test_a_queue_is_one_story_of_three_metrics() -> None:
    """Four requests of eight run. A step of 25 ms for two tokens is 12.5 ms a token, so TPOT gains
    1.6 of its 20 ms at most; four in 12.5 ms give 320 tok/s, 0.8 of the 400 without drafts. All 8
    x 101 tokens at that speed take 2,525 ms, of which 100 x 12.5 are a request's own: 1,275 ms is
    the least time to first token, beside 255 ms without drafts.
    """
    full = points({"concurrency": 8, "output_tokens": 101})
    found = {"tpot": gain(2.0), "output_tok_s": gain(1.5), "ttft": gain(0.9)}
    plain = {"tpot": one(20.0), "output_tok_s": one(400.0), "ttft": one(255.0)}
    terms = {"cycle_ms": one(25.0), "requests_verify": one(4.0), "requests_base": one(8.0)}
    made = step_terms.crowded_gains(found, plain, full, terms, one(2.0), MODEL)
    medians = {name: float(made[name].p50[0]) for name in made}
    assert medians == pytest.approx({"tpot": 1.6, "output_tok_s": 0.8, "ttft": 0.2}, rel=0.02)
    assert made["output_tok_s"].sd[0] == pytest.approx(math.hypot(0.2, 0.18))
    sides = (made["output_tok_s"].below[0], made["output_tok_s"].above[0])
    assert sides == pytest.approx((Z10 * made["output_tok_s"].sd[0],) * 2)
    room = terms | {"requests_verify": one(8.0)}
    assert step_terms.crowded_gains(found, plain, full, room, one(2.0), MODEL) == found


def test_a_few_steps_in_milliseconds() -> None:
    """Of one request: the parts of a cycle are those of the step without drafts scaled to it."""
    full = points({"concurrency": 1}, {"concurrency": 64, "max_num_seqs": 16})
    made = step_terms.terms(full, load())
    assert made["cycle_ms"] == pytest.approx(made["verify_step_ms"] + made["draft_ms"])
    assert made["requests_base"].tolist() == [1.0, 16.0] == made["requests_verify"].tolist()
    assert (made["weights_ms"] + made["launch_ms"] < made["base_step_ms"] * (1 + 1e-9)).all()
    assert (made["cycle_ms"] > made["base_step_ms"]).all() and (made["prefill_ms"] > 1).all()
    assert (made["experts_verify"] > made["experts_base"]).all()


# ---------------------------------------------------------------- what is documented


@pytest.mark.parametrize(
    ("strength", "log", "sd", "own"),
    [  # two owners of one setting differ by 0.17 in log, of any text by 0.27; a typical loss is
        # 0.78, a caution 0.95 (knowledge/thresholds.yaml)
        (Strength(1.0, 0.0, 0.6), math.log(0.6), 0.17, 1.0),
        (Strength(1.0, 1.0, math.nan), math.log(0.78), 0.17, 1.0),
        (Strength(0.0, 1.0, math.nan), math.log(0.95), 0.27, 0.0),
        (Strength(0.25, 0.0, 0.6), math.log(0.6), 0.34, 1.0),  # a quarter of the weight
        (Strength(0.021, 0.0, 0.6), math.log(0.6), 0.17 / 0.021**0.5, 1.0),
        (Strength(0.019, 0.0, 0.6), 0.0, math.inf, 0.0),
    ],
)
def test_losses_and_cautions_as_one(strength: Strength, log: float, sd: float, own: float) -> None:
    made = documented.observation(Strength(*(one(part) for part in strength)))
    assert [column[0] for column in made] == pytest.approx([log, sd, own])
    assert made.here.tolist() == [math.isfinite(sd)]


def test_a_loss_and_a_caution_are_weighed_by_precision() -> None:
    """Half a loss of 0.6 and, of what it leaves, half a caution: 0.5 / 0.17^2 and 0.25 / 0.27^2."""
    made = documented.observation(Strength(one(0.5), one(0.5), one(0.6)))
    loss, near = 0.5 / 0.17**2, 0.25 / 0.27**2
    log = (loss * math.log(0.6) + near * math.log(0.95)) / (loss + near)
    expected = (log, (loss + near) ** -0.5, loss / (loss + near))
    assert [column[0] for column in made] == pytest.approx(expected)


def observed_loss(ratio: float, sd: float = 0.2, own: float = 1.0) -> Observed:
    return Observed(one(math.log(ratio)), one(sd), one(own))


@pytest.mark.parametrize(("own", "sd"), [(1.0, 0.2 * 0.5**0.5), (0.0, 0.2)])
def test_an_observation_as_sure_as_the_estimate_moves_it_halfway(own: float, sd: float) -> None:
    """Of its own setting it narrows as well; of a neighbour's it does not."""
    made = documented.move(gain(1.5, evidence=-0.8), observed_loss(0.6, own=own), MODEL)
    expected = ((math.log(1.5) + math.log(0.6)) / 2, sd, -0.4, Z10 * sd, Z10 * sd)
    assert [column[0] for column in made[6:11]] == pytest.approx(expected)
    assert documented.move(gain(1.5, evidence=0.8), observed_loss(0.6), MODEL).evidence[0] == 0.8
    assert documented.move(gain(0.5), observed_loss(0.6), MODEL) == gain(0.5), (
        "it expects a larger loss"
    )


def test_a_documented_loss_of_the_whole_lets_the_others_wait() -> None:
    """Where requests wait the step of those that run stays. All tokens come half as fast as the
    estimate: what the time to first token of 100 ms and the answer's 99 x 10 ms take together
    doubles, and all of that is waited for: 2 x 1,090 - 990 = 1,190 ms.
    """
    full = points({"concurrency": 8, "output_tokens": 100})
    found = {"tpot": gain(1.0), "output_tok_s": gain(1.0), "ttft": gain(1.0)}
    plain = {"tpot": one(10.0), "output_tok_s": one(400.0), "ttft": one(100.0)}
    sure = observed_loss(0.5, 1e-9)
    made = documented.take_in(found, sure, plain, full, one(1.0), MODEL)
    assert made["tpot"] == found["tpot"] and made["output_tok_s"].p50[0] == pytest.approx(0.5)
    assert made["ttft"].p50[0] == pytest.approx(100 / 1190)
    assert made["ttft"].mean[0] == pytest.approx(math.log(100 / 1190))
    open_server = documented.take_in(found, sure, plain, full, one(0.0), MODEL)
    assert open_server["tpot"].p50[0] == open_server["output_tok_s"].p50[0] == pytest.approx(0.5)
    assert open_server["ttft"] == found["ttft"]
    few = documented.take_in(found, sure, plain, full, one(0.01), MODEL)
    assert few["tpot"].p50[0] == pytest.approx(0.5)  # no step where the first request waits
    assert few["ttft"].p50[0] == pytest.approx(100 / (100 + 0.01 * (1190 - 990 - 100)))
    nothing = documented.take_in(found, observed_loss(0.5, math.inf), plain, full, one(1.0), MODEL)
    assert nothing == found


# ---------------------------------------------------------------- blank cells


def test_a_blank_cell_is_half_of_each_end() -> None:
    """Ends at log 0.0 and 0.4 with sd 0.1 and 0.3: mean 0.2, variance 0.05 and 0.2^2 between."""
    low, high = gain(1.0, 0.1, p_gain=0.5), gain(math.exp(0.4), 0.3, p_gain=0.9)
    wide = gain(1.2, 2.0)
    made = switches._mix(wide, low, high)
    found = (made.mean, made.p_gain, made.sd, made.below, made.above)
    assert [x[0] for x in found] == pytest.approx([0.2, 0.7, 0.3, Z10 * 0.3, Z10 * 0.3])
    assert (made.p10[0], made.p90[0]) == (wide.p10[0], wide.p90[0]), "not narrower than before"


def test_only_the_ends_that_are_not_at_hand_are_predicted() -> None:
    """Nobody says how many requests there are: one or 32. What stands in for it is one of them."""
    read = points({"concurrency": 4}, {"concurrency": 4}, {"concurrency": 4, "spec_method": "none"})
    raw = read.replace(concurrency=np.array([np.nan, 4.0, np.nan]))
    full = read.replace(concurrency=np.array([1.0, 4.0, 1.0]))
    asked: list[tuple[list[int], str, float]] = []

    def again(rows: np.ndarray, column: str, end: float) -> Predicted:  # type: ignore[type-arg]
        asked.append((rows.tolist(), column, end))
        return gain(math.exp(0.4))

    three = Predicted(*(np.repeat(column, 3) for column in gain(1.0)))
    made = switches.widen(raw, full, three, again)
    assert asked == [([0], "concurrency", 32.0)]
    assert made.mean.tolist() == pytest.approx([0.2, 0.0, 0.0])
    tight = full.replace(held_spec=np.array([1.9, 7.9, 2.1]))  # half of the slots are taken
    empty = raw.replace(gpus=np.nan, tp=np.nan, prefix_caching=np.nan)
    blank = [(one.column, one.where.tolist(), one.ends) for one in switches.blanks(empty, tight)]
    assert blank == [
        ("concurrency", [True, False, True], (1.0, 32.0)), ("gpus", [True] * 3, (1.0, 4.0)),
        ("prefix_caching", [True, True, False], (0.0, 1.0)),
    ]  # fmt: skip


# ---------------------------------------------------------------- the end of a prediction


def finish(metric: str, **change: object) -> Predicted:
    """A log gain of 0.3 +- 0.2 of one point, finished."""
    full = points({"speedup_metric": metric, **change}).replace(metric=METRICS.index(metric))
    return predict._finish(MODEL, full, full, load().raw(full)._replace(mean=one(0.3), sd=one(0.2)))


@pytest.mark.parametrize("metric", ["output_tok_s", "request_tok_s", "tpot"])
def test_an_answer_of_one_token_has_no_step_to_gain(metric: str) -> None:
    made = finish(metric, output_tokens=1)
    if metric == "output_tok_s":  # the prompt may take longer, and tokens do not come sooner
        assert made.p90[0] == 1.0 and made.mean[0] == 0.0 and made.p_gain[0] <= 0.1
        assert made.sd[0] == pytest.approx(0.2)
        return
    assert (made.p10[0], made.p50[0], made.p90[0], made.p_gain[0]) == (1.0, 1.0, 1.0, 0.5)
    assert (made.sd[0], made.open[0]) == (0.0, 0.0)


@pytest.mark.parametrize("metric", ["output_tok_s", "tpot", "ttft"])
def test_without_measured_pairs_a_prediction_is_what_physics_says(metric: str) -> None:
    made = finish(metric)
    expected = (cdf(1.5), 0.3, 0.2, Z10 * 0.2, Z10 * 0.2, 0.0, 0.0, 0.0)
    found = (*(made.p_gain, made.mean, made.sd, made.below, made.above),
             *(made.evidence, made.closeness, made.measured_gain))  # fmt: skip
    assert [x[0] for x in found] == pytest.approx(expected, abs=1e-4)
    assert made.open[0] > 0 and predict.BASES[made.basis[0]] == "physics"  # no path was seen
    none = finish(metric, spec_method="none", k="")
    assert (none.p10[0], none.p50[0], none.p90[0], none.p_gain[0]) == (1.0, 1.0, 1.0, 0.5)


def test_a_question_states_its_acceptance_and_a_published_run_is_noisy() -> None:
    stated = points({"acceptance_length": 2.9})
    exact, noisy = (predict.predict_points(stated, exact=exact) for exact in (True, False))
    assert exact.tau[0] == pytest.approx(2.9, abs=1e-3) and noisy.tau[0] < 2.89
    row = ROW | {"acceptance_length": "2.9"}  # a row of a table asks, too
    told = predict_table.compute({name: [cell] for name, cell in row.items()}, 1)[0]
    assert told.tau[0] == pytest.approx(2.9, abs=1e-3)
    hidden = predict.predict_points(stated, hide=True)
    assert not hidden.known[0] and hidden.tau[0] == predict.predict_points(points({})).tau[0]


def test_a_model_is_read_back_as_it_was() -> None:
    saved = load().to_dict()
    back = Model.from_dict(saved)
    assert back.to_dict() == saved and {*saved} >= {"acceptance", "nearby", "paths_seen"}
    assert back.nearby is not None and (back.nearby.rows[:, :5] > 0).any(axis=0).all()
    for part in saved:
        with pytest.raises(KeyError):
            Model.from_dict({name: saved[name] for name in saved if name != part})
    assert Model.from_dict({**saved, "nearby": None}).nearby is None


def test_pairs_stand_in_the_order_of_their_cells() -> None:
    """Those of no cell are left out; rows of one cell keep theirs."""
    keys, n = np.array([9, 3, -1, 9, 3]), np.arange(5.0)
    where, whole = np.column_stack([n] * 5), n / 10
    made = Nearby.build(keys, where, np.array(["b", "a", "c", "a", "b"]), whole, -whole)
    assert made.keys.tolist() == [3, 3, 9, 9]
    columns = ([1.0, 4, 0, 3], [0.0, 1, 1, 0], [0.1, 0.4, 0, 0.3], [-0.1, -0.4, 0, -0.3])
    assert pytest.approx(np.array(columns)) == made.rows[:, [0, 5, 6, 7]].T


def test_a_metric_that_cannot_change_leaves_the_sign_to_the_other() -> None:
    for sds, chance in (((0.0, 0.2), 0.8), ((0.2, 0.0), 0.3), ((0.0, 0.0), 0.3)):
        found = {"output_tok_s": gain(1.1, p_gain=0.3), "tpot": gain(1.2, p_gain=0.8)}
        both = {x: p._replace(sd=one(sd)) for sd, (x, p) in zip(sds, found.items(), strict=True)}
        made = decision.goal_chances(["balanced"], np.zeros(1), both | {"ttft": gain(1.0)})
        assert made.tolist() == [chance]


def test_a_choice_among_plans_has_one_width_and_no_quantile_is_endless() -> None:
    low, middle, high = utility.symmetric(one(-0.1), one(0.2), one(0.6))
    assert (low[0], middle[0], high[0]) == pytest.approx((-0.15, 0.2, 0.55))
    assert spread.quantile(np.array([0.0, 1.0])) == pytest.approx([-5.998, 5.998], abs=1e-3)


def test_numbers_that_stand_for_what_a_row_leaves_out() -> None:
    """Defaults of the engines and of published launches by method, middles of what is usual, and
    how far from them a setting counts (each with its source in acceptance.py and model.py).
    """
    methods = ["mtp", "eagle", "eagle3", "draft_model", "ngram", "dflash", "dspark", "none"]
    bare = points(*({"spec_method": name, "k": ""} for name in methods)).replace(k=np.nan)
    assert acceptance.draft_k(bare).tolist() == [2, 3, 3, 8, 8, 8, 5, 0]
    llama = points({"spec_method": "draft_model", "k": 16, "engine": "llama.cpp"},
                   {"spec_method": "ngram", "k": 16})  # fmt: skip
    assert model.prepare(llama)[0].k.tolist() == [8, 3]
    names = ("temperature", "depth_tokens", "quant_bits", "active_params", "thinking", "is_moe",
             "verify_tokens", "p_min")  # fmt: skip
    blank = bare.take(slice(0, 1)).replace(**dict.fromkeys(names, np.nan))
    assert acceptance._numbers(blank)[0].tolist() == [0.4, 0, 0, 0, 0, 0, 0, 0]
    far = blank.replace(quant_bits=0.5, active_params=1e15, verify_tokens=99.0, k=2.0)
    ends = [acceptance._numbers(far)[0], acceptance._numbers(far.replace(active_params=1.0))[0]]
    expected = [3.0, math.log(50), 3.0, 3.0, math.log(1 / 200), 3.0]
    assert [x for row in ends for x in row[[3, 4, 7]]] == pytest.approx(expected)


def test_policies_and_units_are_those_that_are_written() -> None:
    """Weights of goals, the curve before a fit, far from every adaptive run, units of the artefact,
    samples by the roots of the first primes, and what counts as clearly measured.
    """
    weights = {goal: decision.goal_weights(goal, 0.0) for goal in decision.GOAL_WEIGHTS}
    assert weights == {"throughput": (1, 0, 0), "tpot": (0, 1, 0), "ttft": (0, 0, 1),
                       "balanced": (0.6, 0.4, 0)}  # fmt: skip
    unfitted = Model.from_calibration(Spread(), Calibration())
    chances = [float(unfitted.p_gain(one(z), one(1.0), ~YES)[0]) for z in (-9, -2, 0, 1, 2, 9)]
    assert chances == pytest.approx([0.05, 0.05, 0.5, 0.725, 0.95, 0.95])
    assert estimates.ratio_at(2.0**18)[:2] == pytest.approx((-0.06, math.hypot(0.15, 0.09)))
    whole = np.array([100, 200, 300, 100, 100, 1, 1000, -32768], "<i2")
    row = neighbours._unpack(b64encode(whole.tobytes()).decode(), neighbours.STEPS)[0]
    assert row[:7].tolist() == [1, 2, 3, 1, 1, 1, 1] and math.isnan(row[7])
    primes = [n for n in range(2, 44) if all(n % d for d in range(2, n))]
    assert [round(step**2) for step in utility._STEPS] == primes and len(utility.normal()[0]) == 128
    assert intervals.measured_gain(np.ones(3), np.array([-1, 0.25, 1])).tolist() == [0.0, 0.5, 1.0]


def test_rows_that_do_not_fit_and_names_that_nobody_knows(tmp_path: Path) -> None:
    """100 B parameters in the least bits, 2, are 25 GB; of strange names five are shown."""
    card = {"total_params": 1e11, "quant_bits": np.nan, "gpus": 1.0}
    large = points({}, {}).replace(memory_bytes=np.array([24e9, 26e9]), **card)
    rows = "".join(f"qwen3.6-27b,mtp,2,no-card-{n}\n" for n in range(7))
    (tmp_path / "in.csv").write_text(f"model,spec_method,k,hardware\n{rows}")
    done = predict_rows.predict_rows(tmp_path / "in.csv", tmp_path / "out.csv")
    told = (*predict_table.overflow(large).tolist(), done.rows, len(done.strange))
    assert told == (True, False, 7, 5)
    numbers, blank = predict_table.predict_dicts([ROW, ROW | {"temperature": None}])
    assert blank == {k: round(x, 4) if isinstance(x, float) else x for k, x in numbers.items()}


# ---------------------------------------------------------------- files


def refusal(source: Path, target: Path) -> str:
    with pytest.raises(AdvisorError) as error:
        predict_rows.predict_rows(source, target)
    return str(error.value)


def test_what_stops_a_table_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("model,spec_method\nqwen3.6-27b,mtp\n")
    assert refusal(source, source) == "--out is the input itself; write to another file."
    gone = tmp_path / "none.csv"
    assert refusal(gone, target) == f"{gone}: there is no such file"
    for data, problem in (
        (b"model\n\xff\xfe", "in.csv is not UTF-8 text; save it as UTF-8 CSV."),
        (b"", "the input is empty; it needs a header line with the column names."),
        (b"a;b", "the header has no column model or total_params_b (it looks separated by ';'); "
         "name the columns in the first line, separated by commas."),
        (b"model", "the header has no column spec_method (spec_method and model or total_params_b "
         "are needed); name the columns in the first line, separated by commas."),
        (b'{"model"', "the header has no column model or total_params_b (it looks like JSON); name "
         "the columns in the first line, separated by commas."),
    ):  # fmt: skip
        other = tmp_path / "other" / "in.csv"
        other.parent.mkdir(exist_ok=True)
        other.write_bytes(data)
        assert refusal(other, target) == problem and not target.exists()
    target.write_text("old")
    target.chmod(0o440)
    real = predict_rows.os.access

    def access(path: Path, mode: int) -> bool:  # as for a user who is not root
        return bool(path.stat().st_mode & stat.S_IWUSR) if path == target else real(path, mode)

    monkeypatch.setattr(predict_rows.os, "access", access)
    locked = "out.csv is write-protected; name another file with --out."
    assert refusal(source, target) == locked and target.read_text() == "old"
    # a folder in which nothing can be made: the file itself is written
    target.chmod(0o640)
    monkeypatch.setattr(predict_rows.os, "access", lambda path, _: path != tmp_path)
    assert predict_rows.predict_rows(source, target).rows == 1
    assert target.read_text().startswith("model,spec_method,speedup_p10")
