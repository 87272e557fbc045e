"""Serving limits: what the memory gives for free, what the user sets, what nobody can serve."""

from itertools import pairwise
from typing import Any

import pytest

from advisor import recommend
from advisor.domain.nouns import Advice, AdvisorError
from advisor.knowledge import store
from advisor.perf import memory
from advisor.perf.sizes.pools import shares_context
from advisor.render.deploy.compose import compose_yaml
from advisor.render.text import advice_text
from tests.tables import spread


def limits(advice: Advice) -> tuple[int | None, int | None]:
    return advice.plan.max_num_seqs, advice.plan.max_model_len


@pytest.mark.parametrize("hardware", ["rtx5070ti", "rtx5060ti", "l4", "rtx4090"])
def test_one_user_of_llama_server_gets_the_whole_context(hardware: str) -> None:
    """Four slots left 8,192 of 32,768 tokens to the only user, whose model thinks."""
    made = recommend(hardware=hardware, what_if=False)
    for arm in (made.plan_off, made.candidate):
        room = memory.room(made.facts, arm, 32768)
        assert arm.max_model_len == 32768 and room is not None and room >= 1
        assert arm.max_num_seqs is not None and 1 <= arm.max_num_seqs <= 4
    for launch in (made.launch_off, made.launch_on):
        assert "--kv-unified" in launch.argv
        assert launch.argv[launch.argv.index("--ctx-size") + 1] == "32768"
        # 2,048 and 512 are the engine's own; more of the first alone computes nothing faster
        assert "--batch-size" not in launch.argv and "--ubatch-size" not in launch.argv


@pytest.mark.parametrize("concurrency", [2, 3, 5])
@pytest.mark.parametrize("hardware", ["rtx4090", "h100", "m4-max"])
def test_slots_of_llama_server_are_as_many_as_requests(hardware: str, concurrency: int) -> None:
    made = recommend(
        hardware=hardware, engine="llama-server", concurrency=concurrency, what_if=False
    )
    words = made.launch_off.argv
    slots, total = (int(words[words.index(name) + 1]) for name in ("--parallel", "--ctx-size"))
    assert slots == concurrency and total // slots >= 2560 and "--kv-unified" not in words


def test_a_limit_of_requests_does_not_choose_the_engine() -> None:
    asked: dict[str, Any] = {"hardware": "rx7900xtx", "model": "qwen3.6-27b", "what_if": False}
    one, free = recommend(**asked, max_num_seqs=1), recommend(**asked)
    assert one.plan.engine == free.plan.engine and limits(one) == (1, limits(free)[1])


@pytest.mark.parametrize(
    ("asked", "binds"),
    [
        ({"hardware": "rtx4090", "concurrency": 4}, "so the KV cache binds"),
        ({"hardware": "rtx5070ti", "concurrency": 4}, "so the recurrent states bind"),
        ({"hardware": "l40s", "concurrency": 16}, "the recurrent states bind, not the KV cache"),
    ],
)
def test_a_bill_counts_reservations_and_says_what_binds(asked: dict[str, Any], binds: str) -> None:
    """5 requests of 2,560 tokens beside room for 132,955 were 5 slots of 16,384."""
    made = recommend(**asked, what_if=False)
    bill, text = made.estimate.memory, " ".join(advice_text(made, explain=True).split())
    assert binds in text
    size = made.plan.max_model_len if made.plan.engine == "llama-server" else 2560
    word = "slots" if made.plan.engine == "llama-server" else "requests"
    assert f"{bill.requests} {word} of {size:,} tokens fit" in text
    if word == "slots":
        assert "of 2,560 tokens fit" not in text and "beside the states of 4 slots" in text


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
@pytest.mark.parametrize("hardware", ["gb10", "rtx3090", "h100", "l40s"])
def test_never_fewer_than_four_slots_where_they_fit(hardware: str, engine: str) -> None:
    if (hardware, engine) == ("rtx3090", "sglang"):  # its buffers leave too little for the weights
        with pytest.raises(AdvisorError, match="does not fit"):
            recommend(hardware=hardware, engine=engine, quant=None)
        return
    advice = recommend(hardware=hardware, engine=engine, quant=None)
    arm = advice.plan
    assert arm.max_num_seqs >= min(4, int(memory.room(advice.facts, arm, 2560)))


@pytest.mark.parametrize(
    ("hardware", "model", "engine", "cache"),
    [
        ("rtx4090", "gemma-4-31b", "llama-server", None),  # 2 in vLLM
        ("rtx3090", "qwen3.6-27b", "llama-server", None),  # 1 beside the head in vLLM
        ("rtx4090", "qwen3-32b", "vllm", "fp8"),  # 2 with 16 bits
        ("rtx5090", "qwen3-32b", "vllm", "fp8"),  # 3 beside the drafter with 16 bits
        ("rtx5090", "llama-3.3-70b", "llama-server", "q8_0"),
        ("rtx4090", "nemotron-3-super-120b-a12b", "llama-server", None),  # experts leave the card
    ],
)
def test_four_slots_elsewhere(hardware: str, model: str, engine: str, cache: str | None) -> None:
    """In another engine, with an 8-bit cache, or more experts in system memory; each arm."""
    advice = recommend(hardware=hardware, model=model, what_if=False)
    assert (advice.plan.engine, advice.plan.kv_cache_dtype) == (engine, cache)
    for arm in (advice.plan, advice.plan_off, advice.candidate):
        assert arm is None or arm.max_num_seqs == 4 or shares_context(arm)
    told = {field: why for field, _, why in advice.facts.defaults}
    what = "a longer context" if advice.plan.engine == "llama-server" else "more requests"
    assert cache is None or f"so {what}" in told["kv_cache_dtype"]


@pytest.mark.parametrize(("ctx", "slots"), [(32768, [4, 4]), (65536, [4, 4])])
def test_four_slots_of_a_long_prompt_do_not_cost_precision(ctx: int, slots: list[int]) -> None:
    """One user of 64k tokens got four slots of it, and an 8-bit cache to hold them."""
    made = recommend(hardware="rtx4090", ctx_tokens=ctx, what_if=False)
    arms = [arm for arm in (made.plan_off, made.candidate) if arm is not None]
    assert [(arm.max_num_seqs, arm.kv_cache_dtype) for arm in arms] == [(n, None) for n in slots]
    four = recommend(hardware="rtx4090", ctx_tokens=ctx, concurrency=4, what_if=False)
    arms = [arm for arm in (four.plan_off, four.candidate) if arm is not None]
    assert all(arm.kv_cache_dtype == "q8_0" for arm in arms)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
def test_what_is_given_stands_in_both_arms(engine: str) -> None:
    kv = {"llama-server": "q8_0"}.get(engine, "fp8")
    given: dict[str, Any] = {"max_num_seqs": 6, "max_model_len": 12288, "kv_cache_dtype": kv}
    if engine != "llama-server":
        given["memory_fraction"] = 0.8
    advice = recommend(hardware="h100", engine=engine, **given)
    for arm in (advice.plan_off, advice.candidate):
        assert (arm.max_num_seqs, arm.max_model_len) == (6, 12288)
        assert arm.kv_cache_dtype.startswith(kv)
        assert arm.memory_fraction == given.get("memory_fraction")


@pytest.mark.parametrize("kind", ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"])
def test_every_cache_type_of_llama_server_can_be_asked_for(kind: str) -> None:
    """The choices of --cache-type-k (llama-server 0.5.0 --help)."""
    made = recommend(hardware="rtx4090", model="qwen3-32b", engine="llama-server",
                     kv_cache_dtype=kind, what_if=False)  # fmt: skip
    words = made.launch.argv
    assert [words[words.index(f"--cache-type-{part}") + 1] for part in "kv"] == [kind, kind]


@pytest.mark.parametrize("model", ["deepseek-v4-flash", "deepseek-v4-pro"])
def test_a_model_that_takes_one_cache_type_gets_it(model: str) -> None:
    """vLLM's attention of DeepSeek-V4 asserts an fp8 cache: `auto` does not start."""
    made = recommend(hardware="b300", gpus=8, model=model, engine="vllm", what_if=False)
    for launch in (made.launch_off, made.launch_on):
        assert launch is None or launch.argv[launch.argv.index("--kv-cache-dtype") + 1] == "fp8"
    told = {field: why for field, _, why in made.facts.defaults}
    assert told["kv_cache_dtype"] == "the model's attention takes no other"
    with pytest.raises(AdvisorError, match="--kv-cache-dtype fp8 only"):
        recommend(hardware="b300", gpus=8, model=model, engine="vllm", kv_cache_dtype="auto")
    other = recommend(hardware="b300", gpus=8, model=model, engine="sglang", what_if=False)
    assert other.plan.kv_cache_dtype is None


def test_the_free_context_is_not_one_that_crashes_with_drafts() -> None:
    """llama-server sizes the head's context from the total of all slots (SD209)."""
    advice = recommend(hardware="h100", engine="llama-server", what_if=False)
    total = advice.candidate.max_model_len or 0  # which four slots share
    assert 131_072 <= total <= advice.facts.model.max_context_tokens
    assert "SD209" not in {found.code for found in (*advice.findings, *advice.plan_findings)}


@pytest.mark.parametrize("hardware", ["gb10", "strix-halo"])
def test_the_system_keeps_its_part_of_a_shared_memory(hardware: str) -> None:
    """llama-server has no option for its share: it was given all 119.68 of 119.7 GiB."""
    advice = recommend(hardware=hardware, engine="llama-server", what_if=False)
    bill = memory.bill(advice.facts, advice.plan)
    assert bill.available_gib == pytest.approx(119.68 - 8, abs=0.01)
    with pytest.raises(AdvisorError, match=r"does not fit.*111\.7 GiB usable"):
        recommend(hardware=hardware, model="glm-4.6", engine="llama-server", quant="ud-iq2_m")


def test_a_mac_and_a_card_keep_what_they_had() -> None:
    """Metal has its own limit, three quarters; a card's memory is not the system's."""
    mac, card = (
        recommend(hardware=name, engine="llama-server", what_if=False)
        for name in ("m4-max", "rtx5090")
    )
    assert memory.bill(mac.facts, mac.plan).available_gib == pytest.approx(96)
    assert (memory.bill(card.facts, card.plan).available_gib or 0) > 31


def test_integrated_radeon_starts_the_vulkan_that_the_reason_names() -> None:
    advice = recommend(hardware="strix-halo", what_if=False)
    assert "Vulkan" in {field: why for field, _, why in advice.facts.defaults}["engine"]
    assert "ghcr.io/ggml-org/llama.cpp:server-vulkan-" in compose_yaml(advice)


@pytest.mark.parametrize("word", ["int4", "4bit"])
@pytest.mark.parametrize("hardware", ["rtx4090", "h100", "gb10", "m4-max"])
def test_four_bits_without_a_layout_are_a_published_checkpoint(hardware: str, word: str) -> None:
    """Once `vllm serve YOUR-ORG/Qwen3.6-35B-A3B-INT4`."""
    advice = recommend(hardware=hardware, quant=word, what_if=False)
    assert 4 <= (advice.facts.quant.bits or 0) < 5
    for plan in (advice.plan, advice.plan_off, advice.candidate):
        assert plan is None or "YOUR-ORG" not in (plan.model or "")


# config.json (max_position_embeddings) of models whose context the files here do not have
PUBLIC = {"mimo-7b": 32_768, "minicpm3": 32_768, "glm-5.2": 1_048_576, "deepseek-v3": 163_840}


CONTEXTS = {
    name: store.llm(name).max_context_tokens or PUBLIC.get(name)
    for name in store.llm_ids()
    if not store.llm(name).is_class and name != "hochelaga-8b"  # refused: a name alone
}
GPUS = {"vllm": 64, "sglang": 64, "llama-server": 16}  # as many as llama.cpp takes
SERVED = [(name, engine) for name in CONTEXTS for engine in GPUS]


@pytest.mark.parametrize(
    ("name", "engine"), spread([one for one in SERVED if CONTEXTS[one[0]]], 10)
)
def test_a_launch_stays_within_the_context_of_its_model(name: str, engine: str) -> None:
    advice = recommend(hardware="b300", gpus=GPUS[engine], model=name, engine=engine, what_if=False)
    length = advice.plan.max_model_len
    if length is None:
        assert engine != "vllm" or "--max-model-len auto" in advice.launch.text.replace("\\\n", "")
    else:
        assert length <= (CONTEXTS[name] or 0)


@pytest.mark.parametrize(
    ("name", "engine"), spread([one for one in SERVED if not CONTEXTS[one[0]]], 2)
)
def test_no_context_is_made_up(name: str, engine: str) -> None:
    advice = recommend(hardware="b300", gpus=GPUS[engine], model=name, engine=engine, what_if=False)
    length = advice.plan.max_model_len
    assert length is None or 2048 + 512 <= length <= 2 * 4096  # the question's, with room to spare
    assert any(field == "max_model_len" for field, _, _ in advice.facts.defaults)


@pytest.mark.parametrize(
    ("question", "size"),
    [
        ({"ctx_tokens": 256}, "4352"),  # 256 + 16 tokens, vLLM's own are of 2 x 16
        ({"ctx_tokens": 256, "model": "qwen3.6-27b"}, "1024"),  # no experts
        ({"ctx_tokens": 256, "hardware": "rtx5090"}, "512"),  # no room for more
        ({"ctx_tokens": 8192}, None),  # none holds such a prompt
        ({"ctx_tokens": 40960, "prefix_share": 0.9}, "4352"),  # of which 4,096 are computed
        ({"ctx_tokens": 8192, "concurrency": 200}, "4352"),  # 600 tokens a step with k = 2
        ({"ctx_tokens": 256, "engine": "sglang"}, None),  # has no such option
        ({"ctx_tokens": 256, "engine_version": "0.25.1"}, None),  # 4,352 pages at the start
    ],
)
def test_calls_find_cuda_graphs(question: dict[str, Any], size: str | None) -> None:
    """vllm/config/vllm.py: 2 x max_num_seqs x (k + 1) tokens, at most 512 (research/h200.md)."""
    asked = {"hardware": "h200", "concurrency": 16, "engine": "vllm"} | question
    few, many = (recommend(**asked | more) for more in ({}, {"max_num_seqs": 256}))
    for launch in (few.launch_on, few.launch_off):
        assert dict(pairwise(launch.argv)).get("--max-cudagraph-capture-size") == size
    assert few.estimate.output_tok_s.baseline == pytest.approx(
        many.estimate.output_tok_s.baseline, rel=0.3 if "engine_version" in asked else 0.01
    )
