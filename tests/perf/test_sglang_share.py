"""SGLang's memory share by its own source (0.5.21, 0.5.23, arg_groups/memory_hook.py,
handle_gpu_memory_settings), worked out by hand in MiB.
"""

import pytest

from advisor.advice import recommend, resolve
from advisor.domain.nouns import Plan, Request
from advisor.perf import memory
from advisor.perf.sizes.shares import prefill_graphs, sglang_share

# 512 + 1.5 * tokens + 128 * ranks + 2 * largest graph + 8 * prefill graphs (1,536 where MLA), at
# least 10,240 above 60 GiB; prefill graphs: 58 of 8,192 tokens, 50 of 4,096, 42 of 2,048
CASES = [
    # hardware, tp, model, tokens, release, MiB of the card, MiB reserved
    ("h100", 1, "qwen3-8b", 8192, "0.5.21", 81_592, 512 + 12_288 + 128 + 512 + 464),
    ("h100", 1, "qwen3-8b", 8192, "0.5.23", 81_592, 512 + 12_288 + 128 + 8 + 464),
    ("h100", 4, "qwen3-8b", 8192, "0.5.21", 81_592, 512 + 12_288 + 512 + 1_024 + 464),
    ("h100", 1, "qwen3-8b", 2048, "0.5.21", 81_592, 10_240),
    ("h200", 8, "deepseek-v3.1", 8192, "0.5.21", 143_806, 512 + 12_288 + 1_024 + 1_024 + 1_536),
    ("l40s", 1, "qwen3-8b", 8192, "0.5.21", 46_068, 512 + 12_288 + 128 + 64 + 464),
    ("l40s", 4, "qwen3-8b", 4096, "0.5.21", 46_068, 512 + 6_144 + 512 + 320 + 400),
    ("rtx4090", 1, "qwen3-8b", 4096, "0.5.21", 24_478, 512 + 6_144 + 128 + 96 + 400),
    ("rtx4080", 1, "qwen3-8b", 2048, "0.5.21", 16_318, 512 + 3_072 + 128 + 16 + 336),
]


@pytest.mark.parametrize(("hw", "tp", "model", "tokens", "release", "total", "reserved"), CASES)
def test_the_share_is_that_of_the_engine(
    hw: str, tp: int, model: str, tokens: int, release: str, total: int, reserved: int
) -> None:
    asked = Request(hardware=hw, gpus=tp, engine="sglang", engine_version=release, model=model)
    facts = resolve.bare_facts(asked)
    plan = Plan(engine="sglang", engine_version=release, method="none", tp=tp, max_num_seqs=4,
                max_num_batched_tokens=tokens)  # fmt: skip
    assert sglang_share(facts, plan, facts.shape) == pytest.approx(1 - reserved / total, abs=2e-4)


@pytest.mark.parametrize(("tokens", "graphs"), [(2048, 42), (4096, 50), (8192, 58)])
def test_prefill_graphs_as_counted_by_hand(tokens: int, graphs: int) -> None:
    assert prefill_graphs(tokens) == graphs


@pytest.mark.parametrize(
    ("hw", "model", "most"),
    [
        ("h100", "qwen3-8b", 0.83),
        ("l40s", "qwen3-8b", 0.71),
        ("h100", "qwen3.6-35b-a3b", 0.83 * 0.925),  # images: 24 layers of 1,152 by its config.json
        ("gb10", "qwen3.6-35b-a3b", 0.75),
    ],
)
def test_the_launch_takes_no_more(hw: str, model: str, most: float) -> None:
    advice = recommend.recommend(Request(hardware=hw, engine="sglang", model=model), what_if=False)
    share = advice.plan.memory_fraction
    assert share is not None and most - 0.03 <= share <= most
    assert f"--mem-fraction-static {share:g}" in advice.launch.text


def test_the_bill_of_a_launch_without_the_option_is_the_engines() -> None:
    facts = resolve.bare_facts(Request(hardware="l40s", engine="sglang", model="qwen3-8b"))
    bare = Plan(engine="sglang", method="none", tp=1, max_num_batched_tokens=8192)
    shape = facts.shape
    told = bare.model_copy(update={"memory_fraction": sglang_share(facts, bare, shape)})
    assert memory.bill(facts, bare).available_gib == memory.bill(facts, told).available_gib
