"""The prefix cache is on where it finds something again and that pays."""

import pytest

from advisor import recommend
from advisor.domain.nouns import Advice

SHARES = [step / 20 for step in range(20)]


def ask(share: float, tokens: int, hardware: str = "h100", concurrency: int = 64) -> Advice:
    asked = {"hardware": hardware, "concurrency": concurrency, "ctx_tokens": tokens}
    return recommend(**asked, prefix_share=share, what_if=False)


@pytest.mark.parametrize(
    ("hardware", "concurrency", "tokens"),
    [("gb10", 16, 2048),
     *(pytest.param("h100", *load, marks=pytest.mark.slow) for load in ((64, 3200), (4, 6300)))],
)  # fmt: skip
def test_sharing_more_slows_no_plain_server(hardware: str, concurrency: int, tokens: int) -> None:
    most = 0.0
    for share in SHARES:
        estimate = ask(share, tokens, hardware, concurrency).estimate
        assert estimate.output_tok_s.baseline >= 0.98 * most, share
        most = max(most, estimate.output_tok_s.baseline)


def test_drafts_are_weighed_against_the_server_that_caches() -> None:
    """Nine tenths are shared: finding them again is faster than drafts that compute them."""
    advice = ask(0.9, 32768)
    assert advice.decision == "off"
    rate, alone = advice.estimate.output_tok_s, ask(0.0, 32768).estimate
    assert rate.baseline is not None and rate.speedup.p50 < 1
    assert rate.baseline > 2 * (alone.output_tok_s.baseline or 0)
    assert rate.value == pytest.approx(rate.baseline * rate.speedup.p50, rel=1e-6)


def test_no_gain_comes_from_a_slower_plain_server() -> None:
    gains = [ask(share, 2048).gain for share in (0.35, 0.5, 0.65)]
    middles = [gain.p50 for gain in gains if gain is not None]
    # two thirds: the plain server finds a page
    assert len(middles) == 3 and max(middles) < 1.13 * min(middles)
