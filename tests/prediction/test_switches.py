"""Mechanisms that depend on a build: the prediction is a mixture of both states."""

from statistics import NormalDist

import numpy as np
import pytest

from advisor.knowledge import store as knowledge
from advisor.perf.constants import Constants
from advisor.perf.encoding import encode_rows
from advisor.prediction import switches
from advisor.prediction.model import loop, of_metric, prepare

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
    row = {**SERIAL, "hardware": "h200"}
    points, _ = encode_rows.from_rows([row])
    _, full = prepare(points)

    def never(*_: object) -> None:
        raise AssertionError("priced again")

    median, between = switches.mix_states(full, Constants(), np.zeros(1), never)  # type: ignore[arg-type]
    assert median[0] == 0 and between[0] == 0
