"""What a draft costs, by method, kernel path and constant."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from advisor.perf import arrays as P
from advisor.perf import physics
from advisor.perf.constants import Constants
from tests.perf import rows

C = Constants()
points = partial(rows.points, base=rows.DENSE)


def seconds(p: P.Points, c: Constants = C) -> npt.NDArray[np.float64]:
    return physics.draft_seconds(p, c, p.concurrency, p.input_tokens)


@pytest.mark.parametrize("method", ["mtp", "eagle", "eagle3", "draft_model", "dflash"])
def test_one_draft_costs_something_and_none_costs_nothing(method: str) -> None:
    p = points({"spec_method": method, "k": "1"})
    assert seconds(p)[0] > 0
    assert seconds(p.replace(k=0.0))[0] == 0


def test_eagle3_reads_a_smaller_head_than_eagle() -> None:
    p = points({"spec_method": "eagle"}, {"spec_method": "eagle3"})
    assert seconds(p)[1] < seconds(p)[0]


def test_without_graphs_a_layer_of_a_drafter_is_launched_by_the_host() -> None:
    p = points({"spec_method": "eagle3", "concurrency": "1"})
    slow = dataclasses.replace(C, eager_layer_s=1.0)
    assert seconds(p.replace(eager=1.0), slow)[0] > 1.0
    assert seconds(p.replace(eager=0.0), slow)[0] < 0.1


@pytest.mark.parametrize("hardware", ["rtx3090", "m3-ultra"])
@pytest.mark.parametrize(("model", "cost"), [("qwen3.6-27b", True), ("qwen3-32b", False)])
def test_llama_cpp_keeps_a_copy_of_the_states_of_a_hybrid_beside_a_draft(
    hardware: str, model: str, cost: bool
) -> None:
    p = points(
        {
            "spec_method": "draft_model",
            "model": model,
            "quant": "q4_k_m",
            "engine": "llama-server",
            "engine_version": "b10000",
            "hardware": hardware,
        }
    )
    slow = dataclasses.replace(C, state_checkpoint_s=1.0)
    assert bool(seconds(p, slow)[0] > seconds(p)[0]) is cost


def test_an_eagle_layer_is_read_every_pass() -> None:
    """17 h^2 numbers and the head, read k times from memory at full speed at the least."""
    p = points({"spec_method": "eagle", "concurrency": "1", "k": "2"})
    least = 2 * 17 * p.hidden[0] ** 2 / p.bw[0]
    assert seconds(p)[0] > least
