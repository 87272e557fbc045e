"""What an A/B says over several runs: repeats of a load, and several loads."""

import pytest

from advisor.advice.own_runs.ab_reasons import Step, why_cycle
from advisor.advice.own_runs.ab_test import judge_ab, tokens_per_step
from advisor.advice.own_runs.setting import setting
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency


def test_the_tokens_of_a_step_are_the_mean_of_the_repeats_that_say_them() -> None:
    runs = [
        BenchmarkRun(file="f", format="test", k=2, acceptance=accepted)
        for accepted in (Acceptance(length=2.0), Acceptance(length=2.6), None)
    ]
    assert tokens_per_step(runs, 2) == pytest.approx(2.3)
    assert tokens_per_step(runs[2:], 2) is None


def run(clients: int, speed: float, **more: object) -> BenchmarkRun:
    fields = {"concurrency": clients, "requests": 64, "input_tokens": 1000, "output_tokens": 200}
    times = {"output_tok_s": speed, "tpot_ms": Latency(mean=1e3 * clients / speed)}
    about = {"file": "f", "format": "test"} | fields | times | more
    return BenchmarkRun.model_validate(about)


@pytest.mark.parametrize(
    ("alone", "many", "verdict"),
    [(200.0, 1600.0, "faster"), (50.0, 400.0, "slower"), (200.0, 400.0, "mixed")],
)
def test_loads_of_different_verdicts_are_mixed(alone: float, many: float, verdict: str) -> None:
    off = [run(1, 100.0), run(8, 800.0)]
    about = {"acceptance": Acceptance(length=2.4), "k": 2}
    on = [run(1, alone, **about), run(8, many, **about)]
    assert judge_ab(off, on, setting(off, on, {})).verdict == verdict


@pytest.mark.parametrize(("ratio", "fast"), [(0.81, False), (0.79, True)])
def test_a_step_is_fast_where_it_takes_a_fifth_less_than_expected(ratio: float, fast: bool) -> None:
    (words,) = why_cycle(Step(cycle_ratio=1.6 * ratio, expected_cycle_ratio=1.6), None)
    assert ("faster than expected" in words) is fast


@pytest.mark.parametrize(("speed", "advice"), [(85.0, "k="), (20.0, "turn speculation off")])
def test_a_loss_that_another_k_makes_up_does_not_turn_it_off(speed: float, advice: str) -> None:
    """Nearly all of one draft is accepted, so that more of them gain far more than 15 %."""
    about = {"acceptance": Acceptance(length=1.95), "k": 1, "method": "mtp"}
    off, on = ([run(1, rate, **more)] * 2 for rate, more in ((100.0, {}), (speed, about)))
    told = {"hardware": "h100", "model": "qwen3.6-27b", "gpus": 1, "k": 1}
    (load,) = judge_ab(off, on, setting(off, on, told)).loads
    assert load.gains[0].verdict == "slower" and (load.next or "").startswith(advice)
