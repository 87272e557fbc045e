"""Serving limits: what the memory gives for free, what the user sets, what nobody can serve."""

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


def test_the_default_question_gets_what_the_memory_gives() -> None:
    advice = recommend(hardware="gb10")
    assert limits(advice) == (4, 131072)
    told = {field: why for field, _, why in advice.facts.defaults}
    assert "of the KV pool" in told["max_model_len"] and "183" in told["max_num_seqs"]


@pytest.mark.parametrize("hardware", ["rtx5070ti", "rtx5060ti", "l4", "rtx4090"])
def test_one_user_of_llama_server_gets_the_whole_context(hardware: str) -> None:
    """Four slots left 8,192 of 32,768 tokens to the only user, whose model thinks."""
    made = recommend(hardware=hardware, what_if=False)
    assert made.plan_off is not None and made.candidate is not None
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
    assert one.plan.engine == free.plan.engine
    assert limits(one) == (1, limits(free)[1])


@pytest.mark.parametrize(
    ("asked", "binds"),
    [
        ({"hardware": "rtx4090", "concurrency": 4}, "so the KV cache binds"),
        ({"hardware": "rtx5070ti", "concurrency": 4}, "so the recurrent states bind"),
        ({"hardware": "l40s", "concurrency": 16}, "the recurrent states bind, not the KV cache"),
    ],
)
def test_the_bill_counts_reservations_and_says_what_binds(
    asked: dict[str, Any], binds: str
) -> None:
    """5 requests of 2,560 tokens beside room for 132,955 were 5 slots of 16,384."""
    made = recommend(**asked, what_if=False)
    assert made.estimate.memory is not None
    bill, text = made.estimate.memory, " ".join(advice_text(made, explain=True).split())
    assert binds in text
    size = made.plan.max_model_len if made.plan.engine == "llama-server" else 2560
    word = "slots" if made.plan.engine == "llama-server" else "requests"
    assert f"{bill.requests} {word} of {size:,} tokens fit" in text
    if word == "slots":
        assert "of 2,560 tokens fit" not in text and "beside the states of 4 slots" in text


@pytest.mark.parametrize("concurrency", [1, 32])
def test_the_room_of_all_replicas_chooses_the_engine(concurrency: int) -> None:
    """Two of four L4 hold few requests beside the weights, four hold them all: vLLM stays."""
    made = recommend(hardware="l4", gpus=4, concurrency=concurrency)
    assert made.plan.engine == "vllm"
    assert recommend(hardware="l4", concurrency=concurrency).plan.engine == "llama-server"


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
@pytest.mark.parametrize("hardware", ["gb10", "rtx3090", "h100", "l40s"])
def test_never_fewer_than_four_slots_where_they_fit(hardware: str, engine: str) -> None:
    if (hardware, engine) == ("rtx3090", "sglang"):  # its buffers leave too little for the weights
        with pytest.raises(AdvisorError, match="does not fit"):
            recommend(hardware=hardware, engine=engine, quant=None)
        return
    advice = recommend(hardware=hardware, engine=engine, quant=None)
    arm = advice.plan
    room = memory.room(advice.facts, arm, 2560)
    assert arm.max_num_seqs is not None and room is not None
    assert arm.max_num_seqs >= min(4, int(room))


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
def test_four_slots_are_elsewhere(
    hardware: str, model: str, engine: str, cache: str | None
) -> None:
    """In another engine, with an 8-bit cache, or with more experts in system memory; in each
    arm.
    """
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


def test_four_slots_are_not_bought_with_split_graphs() -> None:
    """Up to vLLM 0.27.1 an 8-bit cache costs such a card its full graphs (SD414)."""
    asked: dict[str, Any] = {"hardware": "rtx5090", "model": "gemma-4-31b", "quant": "nvfp4"}
    old = recommend(**asked, engine="vllm", engine_version="0.25.1", what_if=False)
    new = recommend(**asked, engine="vllm", engine_version="0.32.0", what_if=False)
    assert (old.plan.kv_cache_dtype, old.plan.max_num_seqs) == (None, 3)
    assert (new.plan.kv_cache_dtype, new.plan.max_num_seqs) == ("fp8", 4)


@pytest.mark.parametrize("concurrency", [2, 3, 4])
def test_the_cache_type_is_chosen_by_what_the_arm_with_drafts_holds(concurrency: int) -> None:
    """Three long requests fit without drafts, two with three of them: k was 1 between two loads
    with 3.
    """
    made = recommend(
        hardware="l40s", model="qwen3.6-27b", concurrency=concurrency, ctx_tokens=32768
    )
    plan, off = made.candidate, made.plan_off
    assert (made.decision, plan.k) == ("on", 3)
    assert plan.kv_cache_dtype == off.kv_cache_dtype == (None if concurrency < 3 else "fp8")
    assert (plan.max_num_seqs or 0) >= concurrency


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


def test_a_cache_of_8_bits_is_told_first_where_the_load_chose_it() -> None:
    asked: dict[str, Any] = {"hardware": "gb10", "what_if": False}
    chosen, own = recommend(**asked, concurrency=5000), recommend(**asked, concurrency=256)
    given = recommend(**asked, concurrency=5000, kv_cache_dtype="fp8")
    assert chosen.plan.kv_cache_dtype == given.plan.kv_cache_dtype == "fp8"
    assert own.plan.kv_cache_dtype is None
    said = ["the KV cache is fp8: compare" in advice_text(one) for one in (chosen, given)]
    assert said == [True, False]


@pytest.mark.parametrize(
    ("hardware", "told"),
    [("rtx3090", True), ("rtx5090", True), ("l4", False), ("h100", False), ("gb10", False)],
)
def test_a_card_that_may_drive_a_display_is_told(hardware: str, told: bool) -> None:
    made = recommend(hardware=hardware, model="qwen3-8b", engine="vllm", what_if=False)
    whys = {field: why for field, _, why in made.facts.defaults}
    assert ("--gpu-memory-utilization 0.9" in whys.get("gpu_memory_utilization", "")) == told


@pytest.mark.parametrize("kind", ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"])
def test_every_cache_type_of_llama_server_can_be_asked_for(kind: str) -> None:
    """The choices of --cache-type-k (llama-server 0.5.0 --help)."""
    made = recommend(hardware="rtx4090", model="qwen3-32b", engine="llama-server",
                     kv_cache_dtype=kind, what_if=False)  # fmt: skip
    words = made.launch.argv
    assert [words[words.index(f"--cache-type-{part}") + 1] for part in "kv"] == [kind, kind]


def test_a_limit_that_cannot_serve_the_question_is_refused() -> None:
    with pytest.raises(AdvisorError, match="--max-model-len 2048 is shorter"):
        recommend(hardware="gb10", max_model_len=2048)
    with pytest.raises(AdvisorError, match="no KV cache type 'int3'"):
        recommend(hardware="gb10", kv_cache_dtype="int3")


def test_eight_bits_are_proposed_where_they_decide() -> None:
    tight = recommend(hardware="rtx5090", concurrency=64)
    assert tight.plan.kv_cache_dtype == "fp8"
    assert any(field == "kv_cache_dtype" for field, _, _ in tight.facts.defaults)
    for asked in ({"concurrency": 4}, {"concurrency": 64, "kv_cache_dtype": "auto"}):
        assert recommend(hardware="rtx5090", **asked).plan.kv_cache_dtype is None


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


def test_slots_are_not_multiplied_by_a_floor() -> None:
    """64 slots of 1,024 tokens fit a 24 GB card; 64 of 4,096 do not."""
    advice = recommend(hardware="rtx4090", concurrency=64, ctx_tokens=512, output_tokens=512)
    assert advice.plan_off.max_num_seqs == 64
    assert (advice.plan_off.max_model_len or 0) < 2048


def test_the_free_context_is_not_one_that_crashes_with_drafts() -> None:
    """llama-server sizes the head's context from the total of all slots (SD209)."""
    advice = recommend(hardware="h100", engine="llama-server", what_if=False)
    total = advice.candidate.max_model_len or 0  # which four slots share
    assert 131_072 <= total <= advice.facts.model.max_context_tokens
    assert "SD209" not in {found.code for found in (*advice.findings, *advice.plan_findings)}


def test_a_drafter_that_is_off_does_not_cost_the_model() -> None:
    """Once iq4_xs for sixteen slots with a drafter that was then switched off."""
    advice = recommend(hardware="rtx3090", concurrency=16)
    assert advice.facts.quant.id == "q4_k_m"


@pytest.mark.parametrize(
    ("hardware", "said"),
    [("rtx3090", "published with MTP on RTX 3090s"), ("rtx4090", "a choice for the room")],
)
def test_a_gguf_taken_for_room_says_what_is_known_of_its_speed(hardware: str, said: str) -> None:
    advice = recommend(hardware=hardware, model="qwen3.6-27b")
    told = {field: why for field, _, why in advice.facts.defaults}
    assert advice.facts.engine == "llama-server" and said in told["engine"]


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


def test_the_kernel_parameter_of_strix_halo_is_named_where_it_is_needed() -> None:
    large = recommend(hardware="strix-halo", model="glm-4.5-air", what_if=False)
    first = [reason.text for reason in large.reasons if "ttm.pages_limit" in reason.text]
    assert first and "ttm.pages_limit=29097984 (111 GiB)" in first[0]
    small = recommend(hardware="strix-halo", what_if=False)
    other = recommend(hardware="gb10", model="glm-4.5-air", what_if=False)
    for advice in (small, other):
        assert not [reason for reason in advice.reasons if "ttm" in reason.text]


@pytest.mark.parametrize("hardware", ["rtx4090", "m4-max", "arc-b580", "strix-halo", "rtx3060"])
def test_one_release_of_llama_server_is_named_on_all_machines(hardware: str) -> None:
    """Once 0.5.0 here, b11312 in the image and b11434 there; --version prints a build."""
    advice = recommend(hardware=hardware, engine="llama-server", what_if=False)
    assert advice.plan.engine_version == "0.5.0"
    assert "llama-server b11312 (0.5.0);" in " ".join(advice_text(advice).split())


def test_integrated_radeon_starts_the_vulkan_that_the_reason_names() -> None:
    advice = recommend(hardware="strix-halo", what_if=False)
    told = {field: why for field, _, why in advice.facts.defaults}
    assert "Vulkan" in told["engine"]
    assert "ghcr.io/ggml-org/llama.cpp:server-vulkan-" in compose_yaml(advice)


@pytest.mark.parametrize("word", ["int4", "4bit"])
@pytest.mark.parametrize("hardware", ["rtx4090", "h100", "gb10", "m4-max"])
def test_four_bits_without_a_layout_are_a_published_checkpoint(hardware: str, word: str) -> None:
    """Once `vllm serve YOUR-ORG/Qwen3.6-35B-A3B-INT4`."""
    advice = recommend(hardware=hardware, quant=word, what_if=False)
    assert 4 <= (advice.facts.quant.bits or 0) < 5
    for plan in (advice.plan, advice.plan_off, advice.candidate):
        assert plan is None or "YOUR-ORG" not in (plan.model or "")


@pytest.mark.parametrize("model", ["kimi-k2.6", "kimi-k2.7-code"])
def test_the_public_drafters_of_kimi_are_known(model: str) -> None:
    advice = recommend(hardware="b200", gpus=8, model=model, what_if=False)
    assert advice.candidate.method == "eagle3"


# config.json (max_position_embeddings) of models whose context the files here do not have
PUBLIC = {"mimo-7b": 32_768, "minicpm3": 32_768, "glm-5.2": 1_048_576, "deepseek-v3": 163_840}


# hochelaga-8b is known by its name alone, and refused (test_proposed_checkpoints)
CONTEXTS = {
    name: store.llm(name).max_context_tokens or PUBLIC.get(name)
    for name in store.llm_ids()
    if not store.llm(name).is_class and name != "hochelaga-8b"
}
SERVED = [(name, engine) for name in CONTEXTS for engine in ("vllm", "sglang", "llama-server")]


@pytest.mark.parametrize(
    ("name", "engine"), spread([one for one in SERVED if CONTEXTS[one[0]]], 10)
)
def test_a_launch_stays_within_the_context_of_its_model(name: str, engine: str) -> None:
    advice = recommend(hardware="b300", gpus=64, model=name, engine=engine, what_if=False)
    length = advice.plan.max_model_len
    if length is None:
        assert engine != "vllm" or "--max-model-len auto" in advice.launch.text.replace("\\\n", "")
    else:
        assert length <= (CONTEXTS[name] or 0)


@pytest.mark.parametrize(
    ("name", "engine"), spread([one for one in SERVED if not CONTEXTS[one[0]]], 2)
)
def test_no_context_is_made_up(name: str, engine: str) -> None:
    advice = recommend(hardware="b300", gpus=64, model=name, engine=engine, what_if=False)
    length = advice.plan.max_model_len
    need = 2048 + 512  # the question's own, with room to spare
    assert length is None or need <= length <= 2 * 4096
    assert any(field == "max_model_len" for field, _, _ in advice.facts.defaults)
