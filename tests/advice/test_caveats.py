"""What stands around a decision: experts that could leave the card, idle replicas, linked machines,
engines against hardware.
"""

import csv
from math import ceil
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


def reasons(advice: Advice) -> str:
    return "\n".join(reason.text for reason in advice.reasons)


def test_the_layers_follow_from_the_bill() -> None:
    made = recommend(hardware="rtx5060ti", model="qwen3.6-35b-a3b")
    found = offload.offload(made.facts)
    asked = made.facts.model_copy(update={"quant": found.quant})
    plain = found.plan.model_copy(update={"extra": ()})  # with the longer context that it takes
    short = memory.bill(asked, plain).short_gib
    each = 256 * 3.1457e6 * found.quant.bytes_ffn / 2**30
    assert short and found.layers >= ceil(short / each) + 1
    assert found.system_gib == pytest.approx(found.layers * each)
    assert offload.drafts(asked, found.plan).max_num_seqs == found.plan.max_num_seqs
    # the head takes less than a layer: with two layers less the launch does not start
    fewer = ("--n-cpu-moe", str(found.layers - 2))
    extra = (*(pair for pair in found.plan.extra if pair[0] != fewer[0]), fewer)
    assert memory.bill(asked, found.plan.model_copy(update={"extra": extra})).fits is False
    option = engines.get("llama-server").catalogue.option("--n-cpu-moe", made.plan.engine_version)
    assert option.takes_value and found.launch.argv[-2:] == ("--n-cpu-moe", str(found.layers))


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


def test_heads_that_are_not_known_are_split_by_powers_of_two() -> None:
    facts = facts_for_request(Request(hardware="h100", gpus=6, model="mimo-7b"))
    assert not facts.shape.heads
    assert {tp for tp, _ in propose.splits(facts)} == {1, 2, 4}  # 4 leaves two GPUs idle


@pytest.mark.parametrize(
    ("model", "link", "tp"),
    [
        ("qwen3.6-35b-a3b", "ethernet", 1),
        ("qwen3-30b-a3b", "ethernet", 1),
        ("qwen3.6-27b", "roce", 2),
        ("llama-3.3-70b", "roce", 2),
    ],
)
def test_linked_machines_are_joined_where_that_is_faster(model: str, link: str, tp: int) -> None:
    made = recommend(hardware="gb10", gpus=2, interconnect=link, model=model)
    assert made.plan.tp == tp
    speeds = placement.speeds(made.facts, propose.splits(made.facts))
    assert max(speeds, key=lambda split: speeds[split]) == (made.plan.tp, made.plan.dp)


@pytest.mark.parametrize(
    ("hardware", "link"),
    [("gb10", "roce"), ("strix-halo", "ethernet"), ("h100", None), ("gh200", "roce")],
)
def test_machines_with_one_accelerator_are_linked(hardware: str, link: str | None) -> None:
    two = Request(hardware=hardware, gpus=2)
    facts = facts_for_request(two)
    defaults = {field for field, _, _ in facts.defaults}
    assert facts.interconnect == link and (link is not None) == ("interconnect" in defaults)
    assert facts_for_request(Request(hardware=hardware)).interconnect is None
    assert facts_for_request(two.model_copy(update={"interconnect": "pcie"})).interconnect == "pcie"


def test_a_compose_file_is_for_one_machine() -> None:
    alone = compose_yaml(recommend(hardware="gb10", gpus=2, interconnect="ethernet"))
    assert "count: 1" in alone and "--nnodes" not in alone
    with pytest.raises(AdvisorError, match="covers one machine"):
        compose_yaml(recommend(hardware="gb10", gpus=2, model="qwen3.6-27b"))


def test_an_engine_against_the_hardware_is_contradicted_and_a_plain_case_is_not() -> None:
    assert "llama.cpp runs on Metal" in reasons(recommend(hardware="apple-m4-max", engine="vllm"))
    made = recommend(hardware="h100", engine="vllm")
    assert "was requested; " not in reasons(made) and caveats.around(made.facts, made.plan) == []


def test_more_machines_are_offered_only_where_they_can_be_linked() -> None:
    assert memory_relief.more_counts(knowledge.hardware("gb10"), 1)
    for name in ("apple-m1", "strix-halo", "jetson-agx-orin-64gb"):
        assert not memory_relief.more_counts(knowledge.hardware(name), 1)


@pytest.mark.parametrize(
    ("engine", "ranks"), [("vllm", (8, 2)), ("vllm@0.29.0", (16, 1)), ("sglang", (16, 1))]
)
def test_sixteen_of_eight_a_machine_are_two_machines(engine: str, ranks: tuple[int, int]) -> None:
    """A machine holds eight H100; each holds half of the layers from vLLM 0.30 on."""
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


@pytest.mark.parametrize(("requests", "each"), [(5, (2, 3)), (15, (7, 8)), (33, (16, 17))])
@pytest.mark.parametrize("hardware", ["gb10", "h200", "rtx3090"])
def test_unequal_replicas_add_up(hardware: str, requests: int, each: tuple[int, ...]) -> None:
    """What one of two replicas has more than the other costs the other nothing."""

    def rate(k: int, gpus: int, requests: int) -> float:
        asked = {"hardware": hardware, "model": "qwen3-8b", "quant": "fp8", "engine": "vllm"}
        facts = facts_for_request(Request(**asked, gpus=gpus, concurrency=requests))
        plan = propose.with_method(facts, propose.base_plan(facts, (1, gpus)), "eagle3", 2)
        of = judge.estimate_plans(facts, [plan])[0].output_tok_s
        return (of.value if k else of.baseline) or 0.0

    for k in (0, 2):
        assert rate(k, 2, requests) == pytest.approx(sum(rate(k, 1, n) for n in each), rel=0.01)


def test_replicas_of_two_machines_are_those_of_one_on_each() -> None:
    made = recommend(hardware="h100", gpus=16, model="qwen3.6-27b", concurrency=64)
    ranks = made.plan.tp * made.plan.dp
    assert ranks == 16 and made.plan.tp <= 8 and "--nnodes" not in made.launch.text
    assert f"--data-parallel-size {8 // made.plan.tp} " in made.launch.text + " "
    assert "start the launch on each" in reasons(made)
    one = recommend(hardware="h100", gpus=8, model="deepseek-v3.1", quant="awq-int4")
    assert "--nnodes" not in one.launch.text and "machines" not in reasons(one)
