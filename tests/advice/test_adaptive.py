"""Adaptive verification beside a fixed block, against published pairs: no pair is priced by its own
owner's runs.
"""

import json
from math import exp, log
from pathlib import Path
from typing import NamedTuple

import pytest
from cli_run import run

from advisor import recommend
from advisor.advice.adaptive import SURE
from advisor.engines.vllm import verifies_adaptively
from advisor.knowledge.rule_data import table
from advisor.prediction.estimates import Ratio, ratio_at
from tests.advice.test_one_answer import medians, read_back

NOISE = log(1.02)
PAGE = Path(__file__).parents[2] / "docs/research/adaptive.md"


class Pair(NamedTuple):
    """One published comparison: output tok/s of a fixed block and of adaptive verification."""

    owner: str
    source: str
    k: int
    requests: int
    fixed: float
    adaptive: float
    prices: bool

    @property
    def ratio(self) -> Ratio:
        """What is priced without the owner's own runs."""
        return ratio_at(self.requests * (self.k + 1.0), without=self.owner)

    @property
    def probability(self) -> float:
        """That adaptive is the faster one."""
        return self.ratio.beside(self.ratio.log)

    @property
    def log_gain(self) -> float:
        """Log of adaptive over fixed speed."""
        return log(self.adaptive / self.fixed)


def every_pair() -> list[Pair]:
    """Every published comparison that the knowledge has."""
    (row,) = table("regime")["adaptive_verification"]
    return [
        Pair(one["owner"], one["source"], one["k"], *run, prices=name == "runs")
        for name in ("runs", "compared")
        for one in row[name]
        for run in one["tok_s"]
    ]


def share_of_loss(least: float) -> float:
    """The share of the speed that is lost where adaptive is named from a probability on."""
    pairs = every_pair()
    each = (-p.log_gain if p.probability >= least else p.log_gain for p in pairs)
    return sum(max(0.0, log_ratio) for log_ratio in each) / len(pairs)


def lines() -> list[str]:
    """The comparisons as rows of the page's table."""
    return [
        f"| {p.source} | {p.k} | {p.requests} | {p.fixed:,.0f} | {p.adaptive:,.0f} | "
        f"{exp(p.log_gain):.2f} | {exp(p.ratio.log):.2f} | {p.probability:.2f} | "
        f"{'adaptive' if p.probability >= SURE else 'fixed'} | {'' if p.prices else 'no'} |"
        for p in every_pair()
    ]


def test_the_page_has_every_published_comparison() -> None:
    """`python tests/advice/test_adaptive.py` prints the rows."""
    text = PAGE.read_text(encoding="utf-8")
    assert "\n".join(lines()) in text and text.count("\n| ") == len(lines()) + 1
    for least in (SURE, 0.8):
        assert f"{100 * share_of_loss(least):.1f} %" in text


def test_adaptive_is_named_where_it_was_faster() -> None:
    """Fixed was faster in two pairs at most; the pick loses less than each way, or than 0.8."""
    named = [p for p in every_pair() if p.probability >= SURE]
    assert sum(p.log_gain < -NOISE for p in named) <= 2 and len(named) >= 10
    assert share_of_loss(SURE) < min(share_of_loss(0.0), share_of_loss(1.1), share_of_loss(0.8))


def test_pairs_lie_where_they_are_priced() -> None:
    """80 % intervals of owners left out hold 70 to 100 % of the pairs."""
    inside = [abs(p.log_gain - p.ratio.log) <= 1.2816 * p.ratio.sd for p in every_pair()]
    assert 0.7 <= sum(inside) / len(inside) <= 1.0


@pytest.mark.parametrize(
    ("requests", "adaptive"), [(4, False), (8, False), (16, False), (64, True), (256, True)]
)
def test_crossing_of_deepseek_v4_on_mi355x(requests: int, adaptive: bool) -> None:
    """vllm#52362: fixed is faster up to 32 requests, adaptive verification from 64 on."""
    answer = recommend(hardware="mi355x", gpus=8, tp=8, engine="vllm", engine_version="0.33.0",
                       what_if=False, model="deepseek-v4-flash", workload="chat", ctx_tokens=256,
                       output_tokens=512, concurrency=requests)  # fmt: skip
    assert verifies_adaptively(answer.candidate) is adaptive
    assert ('"enable_adaptive_verification":true' in answer.launch_on.text) is adaptive
    assert any("Adaptive verification" in reason.text for reason in answer.reasons)
    # and `validate` expects of the launch what was said of it
    assert medians(read_back(answer)) == pytest.approx(medians(answer.estimate), rel=1e-6)


@pytest.mark.parametrize(("loads", "adaptive"), [("4..16", False), ("64..128", True)])
def test_a_range_of_loads_is_verified_adaptively_where_faster(loads: str, adaptive: bool) -> None:
    """vllm#52362 again: one launch for the few requests, and one for the many."""
    ran = run("recommend", "--hw", "mi355x", "--gpus", "8", "--tp", "8", "--engine",
              "vllm@0.33.0", "--model", "deepseek-v4-flash", "--workload", "chat", "--ctx", "256",
              "--concurrency", loads, "--format", "json")  # fmt: skip
    told = json.loads(ran.out)
    assert told["decision"] == "on"
    assert ('"enable_adaptive_verification":true' in told["launch"]["text"]) is adaptive


if __name__ == "__main__":
    print("\n".join(lines()))
