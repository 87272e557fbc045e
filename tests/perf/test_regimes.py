"""A rule asks a formula about one case, the estimate about a table of them: both hear the same."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.resolve import bare_facts
from advisor.domain.nouns import Plan, Request
from advisor.perf import imputation
from advisor.perf.encoding import encode_plans, things
from advisor.perf.regimes import losses, setting
from advisor.perf.regimes.losses import Strength
from advisor.perf.regimes.setting import Setting, Word
from advisor.prediction.documented import observation

NUMBERS = st.floats(1e-3, 1e7)
MAYBE = st.one_of(NUMBERS, st.just(math.nan))


@given(MAYBE, NUMBERS)
def test_how_near_a_number_lies_is_what_an_array_of_it_hears(value: float, limit: float) -> None:
    one = setting.nearness(value, limit)
    (of_table,) = setting.nearness(np.array([value]), limit)
    assert isinstance(one, float) and 0 <= one <= 1
    assert math.isclose(one, of_table, rel_tol=1e-12, abs_tol=1e-12)
    (between,) = setting.between(np.array([value]), limit / 3, limit)
    assert math.isclose(
        setting.between(value, limit / 3, limit), between, rel_tol=1e-12, abs_tol=1e-12
    )


def test_nearness_is_none_at_half_of_the_limit_and_whole_from_there_on() -> None:
    assert setting.nearness(2048, 4096) == 0 and setting.nearness(1, 4096) == 0
    assert setting.nearness(4096, 4096) == 1 and setting.nearness(10**6, 4096) == 1
    assert math.isclose(setting.nearness(4096 / math.sqrt(2), 4096), 0.5)
    assert setting.nearness(math.nan, 4096) == 0
    assert setting.between(8, 2, 8) == 1 and setting.between(2, 2, 8) == 0
    assert math.isclose(setting.between(4, 2, 8), 0.5)


@given(NUMBERS, NUMBERS, st.booleans())
def test_numbers_and_arrays_are_compared_alike(a: float, b: float, mask: bool) -> None:
    left, right, truth = np.array([a]), np.array([b]), np.array([mask])
    assert [setting.lesser(a, b)] == setting.lesser(left, right) == setting.lesser(left, b)
    assert [setting.greater(a, b)] == setting.greater(left, right) == setting.greater(a, right)
    assert [setting.negate(mask)] == setting.negate(truth) == [not mask]
    assert [setting.choose(mask, a, b)] == setting.choose(truth, left, b) == [a if mask else b]
    known = setting.is_known(np.array([a, math.nan]))
    assert setting.is_known(a) is True and known.tolist() == [True, False]


def question(streams: float, engine: str, hardware: str, vendor: str = "nvidia") -> Setting:
    """A sparse mixture with MTP, k = 2, on a card of its own."""
    words = {"engine": engine, "method": "mtp", "hardware": hardware, "vendor": vendor}
    words |= {"hardware_class": "consumer", "arch": "sm_86", "model": "qwen3.6-35b-a3b"}
    named = {name: Word(words.get(name)) for name in Setting._fields[:13]}
    return Setting(*(named[name] for name in Setting._fields[:13]), known=True, unified=False,
                   sparse=True, dense=False, hybrid=True, latent=False, wide_kv=True,
                   suffix=False, total_params_b=35.0, streams=streams, ctx=2048.0, output=512.0,
                   k=2.0)  # fmt: skip


@pytest.mark.parametrize(
    ("regime", "asked", "first", "whole"),
    [
        (losses.gguf_streams, ("llama-server", "rtx3090"), 2, 4),
        (losses.gguf_streams, ("llama-server", "r9700", "amd"), 1, 2),
        (losses.saturated_sglang, ("sglang", "h100"), 32, 64),
    ],
)
def test_a_documented_regime_of_many_streams_begins_without_an_edge(
    regime: Callable[[Setting], Strength], asked: tuple[str, ...], first: int, whole: int
) -> None:
    """What is observed in it pulls no more at once than a tenth of its whole pull."""
    found = [regime(question(float(n), *asked)) for n in np.geomspace(first / 2, 4 * whole, 400)]
    pull = np.array([observed_log(one) for one in found])
    assert pull[0] == 0 and pull[-1] < 0 and np.abs(np.diff(pull)).max() < 0.1 * np.abs(pull).max()
    assert regime(question(float(first), *asked)).caution == 0
    assert regime(question(float(whole), *asked)).caution == 1


@pytest.mark.parametrize(
    ("arch", "caution"), [("dense", 1), ("hybrid-gdn-dense", 1), ("hybrid-gdn-moe", 0), ("moe", 0)]
)
def test_a_saturated_sglang_server_lost_with_dense_models_only(arch: str, caution: int) -> None:
    asked = question(64.0, "sglang", "h100")._replace(model_arch=Word(arch))
    assert losses.saturated_sglang(asked) == Strength(caution=caution)


@pytest.mark.parametrize(("k", "strength"), [(1, (0, 1)), (2, (1, 0)), (4, (1, 0))])
def test_a_draft_model_of_a_mixture_lost_from_two_on(k: int, strength: tuple[int, int]) -> None:
    """H100, vLLM 0.31, one stream: 0.93 to 1.04 at k = 1, 0.71 to 0.82 at 2 (runarah100)."""
    asked = question(1.0, "vllm", "h100")._replace(method=Word("draft_model"), k=float(k))
    assert losses.sparse_draft(asked)[:2] == strength


@pytest.mark.parametrize(
    ("hardware", "model", "kinds"),
    [("gb10", "qwen3.6-27b", "unified hybrid"), ("h200", "qwen3-8b", ""),
     ("h200", "glm-4.7-flash", "latent")],
)  # fmt: skip
def test_a_setting_is_as_the_models_configuration(hardware: str, model: str, kinds: str) -> None:
    facts, plan = bare_facts(Request(hardware=hardware, model=model)), Plan(engine="vllm", k=2)
    full = imputation.impute(encode_plans.from_plans(facts, [plan]))
    made = things.of_cases([(facts, plan)], full)
    assert [x for x in ("unified", "hybrid", "latent") if getattr(made, x)[0]] == kinds.split()


def observed_log(found: Strength, prior: float = 0.2) -> float:
    """By how much what is observed moves a log speed-up of 0.2 with a standard deviation of 0.2."""
    seen = observation(Strength(*(np.array([float(part)]) for part in found)))
    share = 1 / (1 + (seen.sd[0] / 0.2) ** 2)
    return float(share * (seen.log[0] - prior)) if np.isfinite(seen.sd[0]) else 0.0
