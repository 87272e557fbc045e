"""The prefix cache is on where it finds something again and that pays."""

from typing import Any

import pytest

from advisor import recommend
from advisor.domain.nouns import Advice

PAGE = 1056  # tokens, of a hybrid model in vLLM
SHARES = [step / 20 for step in range(20)]


def ask(share: float, tokens: int, hardware: str = "h100", concurrency: int = 64) -> Advice:
    asked = {"hardware": hardware, "concurrency": concurrency, "ctx_tokens": tokens}
    return recommend(**asked, prefix_share=share, what_if=False)


@pytest.mark.parametrize(
    ("hardware", "concurrency", "tokens"),
    [("gb10", 16, 2048),
     *(pytest.param("h100", *load, marks=pytest.mark.slow) for load in ((64, 3200), (4, 6300)))],
)  # fmt: skip
def test_the_plain_server_is_no_slower_where_more_is_shared(
    hardware: str, concurrency: int, tokens: int
) -> None:
    most = 0.0
    for share in SHARES:
        estimate = ask(share, tokens, hardware, concurrency).estimate
        assert estimate.output_tok_s.baseline >= 0.98 * most, share
        most = max(most, estimate.output_tok_s.baseline)


@pytest.mark.parametrize(("shared", "cached"), [(PAGE - 32, False), (PAGE + 32, True)])
def test_less_than_a_page_is_not_cached(shared: int, cached: bool) -> None:
    advice = ask(shared / 2048, 2048)
    assert advice.plan_off.prefix_caching is cached
    assert advice.candidate.prefix_caching is False  # vllm#43559: a hybrid with MTP


def test_a_cut_prompt_is_cached_where_that_pays() -> None:
    short, long = ask(0.6, 3200), ask(0.6, 32768)
    assert short.plan_off.prefix_caching is False
    assert long.plan_off.prefix_caching is True


# vLLM: for hybrids on from 0.26 on (config/model.py); SGLang: on
@pytest.mark.parametrize(
    ("model", "engine", "workload", "plain", "drafting"),
    [
        ("qwen3.6-35b-a3b", "vllm", "chat", True, False),
        ("qwen3.6-35b-a3b", "vllm", "mixed", True, False),
        ("qwen3.6-35b-a3b", "vllm@0.25.1", "agent", False, False),
        ("qwen3.6-27b", "sglang", "code", True, False),
        ("qwen3-32b", "vllm", "mixed", True, True),
        ("deepseek-v3.1", "vllm", "agent", True, True),
    ],
)
def test_off_only_for_a_hybrid_with_mtp(
    model: str, engine: str, workload: str, plain: bool, drafting: bool
) -> None:
    name, _, release = engine.partition("@")
    advice = recommend(
        hardware="h200", gpus=8, model=model, engine=name, engine_version=release or None,
        workload=workload, what_if=False,
    )  # fmt: skip
    assert advice.plan_off.prefix_caching is plain
    assert advice.candidate.prefix_caching is drafting
    if advice.decision != "on":
        assert "--no-enable-prefix-caching" not in advice.launch.argv or not plain


@pytest.mark.parametrize(
    "asked", [{"prefix_share": 0.8, "ctx_tokens": 16384}, {"goal": "ttft"}, {}]
)
def test_the_launch_that_keeps_the_cache_is_an_alternative(asked: dict[str, Any]) -> None:
    advice = recommend(hardware="gb10", concurrency=2, what_if=False, **asked)
    texts = [one for one in advice.reasons if "Drafts and prefix cache together" in one.text]
    assert len(texts) == (1 if asked else 0)
    for one in texts:
        assert "--enable-prefix-caching in place of --no-enable-prefix-caching" in one.text
        assert "vllm-project/vllm#43559" in one.sources


def test_drafts_are_weighed_against_the_server_that_caches() -> None:
    """Long prompts of which nine tenths are shared: a server that finds them again is faster than
    one that drafts and computes them each time.
    """
    advice = ask(0.9, 32768)
    assert advice.decision == "off"
    rate, alone = advice.estimate.output_tok_s, ask(0.0, 32768).estimate
    assert rate.baseline is not None and rate.speedup.p50 < 1
    assert rate.baseline > 2 * (alone.output_tok_s.baseline or 0)
    assert rate.value == pytest.approx(rate.baseline * rate.speedup.p50, rel=1e-6)


def test_no_gain_comes_from_a_slower_plain_server() -> None:
    gains = [ask(share, 2048).gain for share in (0.35, 0.5, 0.65)]
    middles = [gain.p50 for gain in gains if gain is not None]
    assert len(middles) == 3 and max(middles) < 1.1 * min(middles)
