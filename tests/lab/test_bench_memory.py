"""KV pools that vLLM 0.25.1 logged on one H200 (Qwen3.6-35B-A3B FP8), against the memory model."""

import pytest

from advisor.domain.nouns import Facts, Plan
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.perf.sizes import pools
from advisor.perf.sizes.weights import GIB

# (k, prefix caching) -> memory for the cache (GiB), pool (tokens), page (tokens), as logged
POOLS = {
    (0, False): (90.45, 4_228_297, 1056),
    (1, False): (89.01, 3_484_218, None),
    (2, False): (89.11, 3_263_864, 1072),
    (3, False): (88.90, 3_029_253, None),
    (4, False): (88.91, 2_790_852, 1088),
    (0, True): (90.46, 3_895_351, None),
    (2, True): (89.11, 3_036_919, None),
}

LLM = knowledge.llm("qwen3.6-35b-a3b")
SHAPE = knowledge.shape_of(LLM)


@pytest.mark.parametrize(("k", "caching"), POOLS)
def test_pool_to_the_token(k: int, caching: bool) -> None:
    """Given the memory that the log states (two decimals of GiB), the pool follows to a few
    requests' rounding.
    """
    gib, tokens, page = POOLS[k, caching]
    requests = pools.hybrid_requests(SHAPE, 20_480.0, gib * GIB, 32_960, k, caching)
    assert requests * 32_960 == pytest.approx(tokens, rel=5e-4)
    assert page is None or pools._pages(SHAPE, 2048.0, k)[2] == page


@pytest.mark.parametrize(("k", "caching"), POOLS)
def test_bill_within_one_percent(k: int, caching: bool) -> None:
    """The whole bill, memory share and overhead included."""
    facts = Facts(
        hardware=knowledge.hardware("h200"), model=LLM, shape=SHAPE, quant=knowledge.quant("fp8")
    )
    plan = Plan(engine="vllm", method="mtp" if k else "none", k=k, engine_version="0.25.1",
                max_model_len=32_960, memory_fraction=0.9, max_num_seqs=128,
                max_num_batched_tokens=8192, prefix_caching=caching)  # fmt: skip
    assert memory.bill(facts, plan).kv_tokens == pytest.approx(POOLS[k, caching][1], rel=0.01)
