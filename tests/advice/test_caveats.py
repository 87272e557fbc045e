"""What stands around a decision: experts that could leave the card, idle replicas, linked machines,
engines against hardware.
"""

import csv
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from advisor import engines
from advisor.advice import judge
from advisor.advice.explain import caveats
from advisor.advice.plans import memory_relief, offload, placement, propose
from advisor.advice.recommend import recommend
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Advice, AdvisorError, Request
from advisor.domain.paths import knowledge_dir
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.render.deploy.compose import compose_yaml
from tests.tables import fields

ROOT = Path(__file__).parents[2]


def reasons(advice: Advice) -> str:
    return "\n".join(reason.text for reason in advice.reasons)


def refusal(**asked: Any) -> str:
    with pytest.raises(AdvisorError) as refused:
        recommend(**asked)
    return str(refused.value)


@pytest.mark.parametrize("card", ["rtx5060ti", "rtx5080"])
def test_where_two_bits_were_chosen_four_with_experts_in_memory_are_named(card: str) -> None:
    made = recommend(hardware=card, model="qwen3.6-35b-a3b")
    assert made.facts.quant.id == "ud-q2_k_xl"
    told = next(reason for reason in made.reasons if "--n-cpu-moe" in reason.text)
    assert "not estimated" in told.text and "q4_k_m" in told.text
    assert "-hf unsloth/Qwen3.6-35B-A3B-MTP-GGUF:UD-Q4_K_M --n-cpu-moe" in told.text
    assert "0.43x to 0.86x" in reasons(made)


def test_the_layers_follow_from_the_bill() -> None:
    made = recommend(hardware="rtx5060ti", model="qwen3.6-35b-a3b")
    found = offload.offload(made.facts)
    assert made.facts.model is not None
    asked = made.facts.model_copy(update={"quant": found.quant})
    plain = found.plan.model_copy(update={"extra": ()})  # with the longer context that it takes
    short = memory.bill(asked, plain).short_gib
    each = 256 * 3.1457e6 * found.quant.bytes_ffn / 2**30
    assert short and found.layers >= ceil(short / each) + 1
    assert found.system_gib == pytest.approx(found.layers * each)
    drafts = offload.drafts(asked, found.plan)
    assert drafts.max_num_seqs == found.plan.max_num_seqs
    # the head takes less than a layer: with two layers less the launch does not start
    fewer = ("--n-cpu-moe", str(found.layers - 2))
    extra = (*(pair for pair in found.plan.extra if pair[0] != fewer[0]), fewer)
    assert memory.bill(asked, found.plan.model_copy(update={"extra": extra})).fits is False
    option = engines.get("llama-server").catalogue.option("--n-cpu-moe", made.plan.engine_version)
    assert option.takes_value
    assert found.launch.argv[-2:] == ("--n-cpu-moe", str(found.layers))


def test_a_card_on_which_nothing_fits_is_told_of_it_too() -> None:
    made = recommend(hardware="rtx3060", model="qwen3.6-35b-a3b")
    assert (made.decision, made.decided_by, made.estimate) == ("measure", "spread", None)
    assert "GiB of experts in system memory" in reasons(made) and "0.43x" in reasons(made)
    for arm in (made.launch_off, made.launch_on):
        assert "--n-cpu-moe" in arm.argv
    assert "--spec-draft-n-max" in made.launch_on.argv
    asked_for = refusal(hardware="rtx3060", model="qwen3.6-35b-a3b", engine="vllm")
    assert "--n-cpu-moe" in asked_for


def test_dense_layers_count_and_all_layers_have_a_flag_of_their_own() -> None:
    def find_offload(hardware: str, model: str) -> Any:
        asked = Request(hardware=hardware, model=model, engine="llama-server")
        return offload.offload(facts_for_request(asked))

    # even all experts in system memory leave too much here
    assert find_offload("rtx4050-laptop", "deepseek-v3") is None
    found = find_offload("rtx4090", "glm-4.5-air")
    assert found.of == 46 and found.layers > (knowledge.llm("glm-4.5-air").dense_layers or 0)
    gemma = find_offload("rtx3060", "gemma-4-26b-a4b")  # each layer has a dense part beside experts
    assert gemma.of == 30 and gemma.layers < 30
    assert offload.Offload(found.quant, 46, 46, 1.0, found.launch, found.plan).flag == "--cpu-moe"


@pytest.mark.parametrize(
    "asked",
    [
        {"hardware": "h100", "model": "qwen3.6-35b-a3b"},  # fits
        {"hardware": "gb10", "model": "deepseek-v3"},  # the card's memory is the system's
        {"hardware": "rtx5060ti", "model": "qwen3.6-27b"},  # dense
        # counts from the first card
        fields("hardware=rtx5060ti model=qwen3.6-35b-a3b gpus=2 engine=llama-server"),
    ],
)  # fmt: skip
def test_nothing_is_offered_where_it_would_not_help(asked: dict[str, Any]) -> None:
    assert offload.offload(facts_for_request(Request(**asked))) is None


def test_where_only_the_requests_are_too_many_experts_stay() -> None:
    made = recommend(
        **fields(
            "hardware=rtx-pro-4000 model=gpt-oss-20b engine=llama-server concurrency=17 "
            "ctx_tokens=32768"
        )
    )
    assert "--n-cpu-moe" not in made.launch.argv and "cpu-moe" not in reasons(made)
    assert made.plan.max_num_seqs is not None and made.plan.max_num_seqs <= 17


def test_a_quantisation_that_was_asked_for_is_kept() -> None:
    made = recommend(hardware="rtx5060ti", model="unsloth/Qwen3.6-35B-A3B-MTP-GGUF:UD-Q4_K_XL")
    assert made.launch.argv[2].endswith(":UD-Q4_K_XL") and "--n-cpu-moe" in made.launch.argv
    assert "ud-q4_k_xl with --n-cpu-moe" in reasons(made)
    two = recommend(hardware="rtx5060ti", model="qwen3.6-35b-a3b", quant="ud-q2_k_xl")
    assert "--n-cpu-moe" not in reasons(two)


OFFLOADED = ("CPU", "expert offload", "cpu-moe", "fit offload")


def test_what_is_said_of_speculation_there_is_what_the_table_holds() -> None:
    def speedups(*sources: str) -> list[float]:
        found: list[float] = []
        for source in sources:
            path = knowledge_dir() / "measurements" / "runs" / f"{source}.csv"
            rows = [r for r in csv.DictReader(path.read_text("utf-8").splitlines()) if r["speedup"]]
            there = [
                float(r["speedup"])
                for r in rows
                if r["is_moe"] == "1"
                and r["spec_method"] == "mtp"
                and any(w in r["notes"] + r["use_why"] + r["spec_extra"] for w in OFFLOADED)
            ]
            found += there
            assert there and knowledge.source(source).title
        return found

    sources = ((offload.LOSSES, "four"), (offload.EVEN, "two"), (offload.GAINS, "four"))
    for names, count in sources:
        found = speedups(*names)
        assert f"{min(found):.2f}x to {max(found):.2f}x in {count}" in offload.MEASURED


def test_idle_replicas_are_named_with_what_would_use_them() -> None:
    asked = {"hardware": "h100", "model": "qwen3-8b"}
    made = recommend(**asked, gpus=3)
    assert (made.plan.tp, made.plan.dp) == (2, 1)  # 32 heads over two of them
    told = reasons(recommend(**asked, gpus=3, tp=1))
    assert "2 of the 3 replicas have nothing to do with 1 request at once" in told
    assert "--concurrency 3" in told
    assert "1 of the 2 replicas has" in reasons(recommend(**asked, gpus=2, tp=1))
    assert "replicas" not in reasons(recommend(**asked, gpus=3, concurrency=3))


def test_heads_that_are_not_known_are_split_by_powers_of_two() -> None:
    facts = facts_for_request(Request(hardware="h100", gpus=6, model="mimo-7b"))
    assert not facts.shape.heads
    assert {tp for tp, _ in propose.splits(facts)} == {1, 2, 4}  # 4 leaves two GPUs idle


def test_vllms_replicas_of_a_mixture_are_said_to_be_coupled() -> None:
    coupled = recommend(hardware="rtx3090", gpus=4, concurrency=16, engine="vllm")
    assert coupled.plan.dp == 2 and "not independent in vLLM" in reasons(coupled)
    dense = recommend(
        hardware="rtx3090", gpus=4, concurrency=16, engine="vllm", model="qwen3-8b", tp=1
    )
    assert dense.plan.dp == 4 and "not independent" not in reasons(dense)


@pytest.mark.parametrize(
    ("model", "link", "tp"),
    [
        ("qwen3.6-35b-a3b", "ethernet", 1),
        ("qwen3-30b-a3b", "ethernet", 1),
        ("qwen3.6-27b", "roce", 2),
        ("llama-3.3-70b", "roce", 2),
    ],
)
def test_linked_machines_are_joined_only_where_that_is_faster_by_the_estimate(
    model: str, link: str, tp: int
) -> None:
    made = recommend(hardware="gb10", gpus=2, interconnect=link, model=model)
    assert made.plan.tp == tp
    speeds = placement.speeds(made.facts, propose.splits(made.facts))
    assert max(speeds, key=lambda split: speeds[split]) == (made.plan.tp, made.plan.dp)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_replicas_on_linked_machines_are_servers_of_their_own(engine: str) -> None:
    made = recommend(hardware="gb10", gpus=2, interconnect="ethernet", engine=engine, concurrency=2)
    for launch in (made.launch, made.launch_off):
        assert not {"--nnodes", "--data-parallel-size", "--dp-size", "--node-rank"} & set(
            launch.argv
        )
    assert "a server on each of the 2 instead of one across them" in reasons(made)
    across = recommend(hardware="gb10", gpus=2, tp=2, interconnect="roce", engine=engine)
    assert "--nnodes" in across.launch.argv and "--node-rank" in reasons(across)


def test_pairs_of_linked_machines_span_two_nodes_each() -> None:
    made = recommend(
        hardware="gb10", gpus=4, tp=2, interconnect="roce", model="llama-3.3-70b", concurrency=8
    )
    at = made.launch.argv.index("--nnodes")
    assert (
        made.plan.dp == 2
        and made.launch.argv[at + 1] == "2"
        and "One of 2 such servers" in reasons(made)
    )


@pytest.mark.parametrize(
    ("hardware", "link"),
    [("gb10", "roce"), ("strix-halo", "ethernet"), ("h100", None), ("gh200", None)],
)
def test_machines_with_one_accelerator_are_linked(hardware: str, link: str | None) -> None:
    two = Request(hardware=hardware, gpus=2)
    facts = facts_for_request(two)
    defaults = {field for field, _, _ in facts.defaults}
    assert facts.interconnect == link and (link is not None) == ("interconnect" in defaults)
    assert facts_for_request(Request(hardware=hardware)).interconnect is None
    given = two.model_copy(update={"interconnect": "pcie"})
    assert facts_for_request(given).interconnect == "pcie"


def test_an_answer_without_a_method_says_how_linked_machines_are_started() -> None:
    made = recommend(
        hardware="gb10", gpus=2, tp=2, model="minimax-m2.7", quant="nvfp4", interconnect="roce"
    )
    assert made.candidate is None and "--node-rank" in reasons(made)


def test_layers_over_machines_are_not_needed_where_one_holds_the_model() -> None:
    told = reasons(recommend(hardware="gb10", gpus=2, engine="llama-server"))
    assert "rpc-server" in told and "--gpus 1 needs no network" in told


def test_a_compose_file_is_for_one_machine() -> None:
    alone = compose_yaml(recommend(hardware="gb10", gpus=2, interconnect="ethernet"))
    assert "count: 1" in alone and "--nnodes" not in alone
    with pytest.raises(AdvisorError, match="covers one machine"):
        compose_yaml(recommend(hardware="gb10", gpus=2, model="qwen3.6-27b"))


def test_an_engine_against_the_hardware_is_contradicted_and_a_plain_case_is_not() -> None:
    assert "llama.cpp runs on Metal" in reasons(recommend(hardware="apple-m4-max", engine="vllm"))
    made = recommend(hardware="h100", engine="vllm")
    assert "was requested; " not in reasons(made)
    assert caveats.around(made.facts, made.plan) == []


def test_a_laptop_is_not_told_to_take_more_gpus() -> None:
    told = refusal(hardware="rtx5070-laptop", model="qwen3.6-27b", engine="vllm")
    assert "--gpus" not in told and "more GPUs" not in told
    assert "--gpus" in refusal(hardware="rtx3060", model="qwen3.6-35b-a3b", engine="vllm")


def test_a_chip_that_no_released_build_serves_is_named_like_its_neighbours() -> None:
    told = recommend(hardware="rx7600xt", engine="vllm", model="qwen3-8b").findings
    assert any(
        one.code == "SD268" and "gfx1102" in one.message and "gfx110x" not in one.message
        for one in told
    )


def test_a_chip_below_the_engine_is_refused_before_its_memory() -> None:
    asked = {"hardware": "v100", "engine": "sglang", "model": "gemma-4-31b", "ctx_tokens": 100_000}
    assert "[SD268]" in refusal(**asked) and "--ctx" not in refusal(**asked)


def test_more_machines_are_offered_only_where_they_can_be_linked() -> None:
    assert memory_relief.more_counts(knowledge.hardware("gb10"), 1)
    for name in ("apple-m1", "strix-halo", "jetson-agx-orin-64gb"):
        assert not memory_relief.more_counts(knowledge.hardware(name), 1)


def test_a_head_that_is_reported_not_to_load_is_named() -> None:
    asked = {"hardware": "gb10", "model": "qwen3-next-80b-a3b", "engine": "vllm"}
    made = recommend(**asked, quant="nvfp4")
    assert made.decision == "measure"
    found = next(one for one in made.reasons if "did not load the MTP head" in one.text)
    assert found.sources == ("vllm-project/vllm#35031",) and "NVFP4" in found.text
    assert any("vllm-project/vllm#35031" in one.sources for one in made.findings)


@pytest.mark.parametrize(
    ("engine", "ranks"), [("vllm", (8, 2)), ("vllm@0.29.0", (16, 1)), ("sglang", (16, 1))]
)
def test_sixteen_of_eight_a_machine_are_two_machines(engine: str, ranks: tuple[int, int]) -> None:
    """A machine holds eight H100: --tensor-parallel-size 16 cannot start on one. Each holds half of
    the layers where the release drafts so (vLLM 0.30 on).
    """
    name, _, version = engine.partition("@")
    asked = {"hardware": "h100", "gpus": 16, "model": "deepseek-v3.1", "engine": name}
    made = recommend(**asked, engine_version=version or None)
    assert (made.plan.tp, made.plan.pp) == ranks and "--nnodes 2" in made.launch.text
    assert ("--pipeline-parallel-size 2" in made.launch.text) == (ranks == (8, 2))
    assert "--node-rank 0" in made.launch.text
    assert "16 are 2 machines" in reasons(made) and "--node-rank" in reasons(made)
    with pytest.raises(AdvisorError, match="16 GPUs are several"):
        compose_yaml(made)


def test_stages_are_priced_as_one_machine_that_takes_turns() -> None:
    """Two machines with half of the layers each step as fast as one with all of them; they serve
    more only where two batches run at once, which wait for each other (1.2: rates.py).
    """

    def plain(gpus: int, concurrency: int) -> float:
        asked = {"hardware": "h200", "model": "deepseek-v3.1", "quant": "fp8", "engine": "vllm"}
        facts = facts_for_request(Request(**asked, gpus=gpus, concurrency=concurrency))
        plan = propose.with_method(facts, propose.base_plan(facts, (gpus, 1)), "mtp", 1)
        assert (plan.tp, plan.pp) == (8, gpus // 8)
        return judge.estimate_plans(facts, [plan])[0].output_tok_s.baseline or 0.0

    assert plain(16, 1) == pytest.approx(plain(8, 1), rel=0.02)
    assert plain(16, 64) == pytest.approx(2 / 1.2 * plain(8, 32), rel=0.05)


def test_replicas_of_two_machines_are_those_of_one_on_each() -> None:
    made = recommend(hardware="h100", gpus=16, model="qwen3.6-27b", concurrency=64)
    ranks = made.plan.tp * made.plan.dp
    assert ranks == 16 and made.plan.tp <= 8 and "--nnodes" not in made.launch.text
    assert f"--data-parallel-size {8 // made.plan.tp} " in made.launch.text + " "
    assert "start the launch on each" in reasons(made)
    one = recommend(hardware="h100", gpus=8, model="deepseek-v3.1", quant="awq-int4")
    assert "--nnodes" not in one.launch.text and "machines" not in reasons(one)
