"""The prefix cache is on where it finds something again and that pays."""

from __future__ import annotations

import pytest

from advisor import recommend
from advisor.domain.nouns import Advice

PAGE = 1056  # tokens, of a hybrid model in vLLM
SHARES = [step / 20 for step in range(20)]


def ask(share: float, tokens: int, hardware: str = "h100", concurrency: int = 64) -> Advice:
    return recommend(
        hardware=hardware,
        concurrency=concurrency,
        ctx_tokens=tokens,
        prefix_share=share,
        what_if=False,
    )


@pytest.mark.parametrize(
    ("hardware", "concurrency", "tokens"),
    [("h100", 64, 2048), ("h100", 64, 3200), ("h100", 4, 6300), ("gb10", 16, 2048)],
)
def test_the_plain_server_is_no_slower_where_more_is_shared(
    hardware: str, concurrency: int, tokens: int
) -> None:
    most = 0.0
    for share in SHARES:
        estimate = ask(share, tokens, hardware, concurrency).estimate
        assert estimate is not None and estimate.output_tok_s.baseline is not None
        assert estimate.output_tok_s.baseline >= 0.98 * most, share
        most = max(most, estimate.output_tok_s.baseline)


@pytest.mark.parametrize(("shared", "cached"), [(PAGE - 32, False), (PAGE + 32, True)])
def test_less_than_a_page_is_not_cached(shared: int, cached: bool) -> None:
    advice = ask(shared / 2048, 2048)
    assert advice.candidate is not None
    assert advice.plan_off.prefix_caching is cached
    assert advice.candidate.prefix_caching is cached


def test_a_cut_prompt_is_cached_where_that_pays() -> None:
    short, long = ask(0.6, 3200), ask(0.6, 32768)
    assert short.plan_off.prefix_caching is False
    assert long.plan_off.prefix_caching is True


def test_no_gain_comes_from_a_slower_plain_server() -> None:
    gains = [ask(share, 2048).gain for share in (0.35, 0.5, 0.65)]
    middles = [gain.p50 for gain in gains if gain is not None]
    assert len(middles) == 3 and max(middles) < 1.1 * min(middles)
