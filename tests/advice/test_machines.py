"""GPUs of several machines: the ranks of a server are those of its machines, and the first screen
says what runs on each.
"""

import re

import pytest

from advisor import engines
from advisor.advice import recommend, resolve
from advisor.advice.judge import estimate_plans
from advisor.advice.plans import propose, topology
from advisor.domain.nouns import AdvisorError, Facts, Plan, Request
from advisor.knowledge import store as knowledge
from advisor.perf.sizes import pools
from advisor.render.text import advice_text
from tests.tables import spread

# GPUs a board: NVIDIA's HGX and DGX, AMD's OAM platform, NVL72's trays, what is one machine
BOARDS = {
    **dict.fromkeys(("a100-40gb", "a100-80gb", "a800", "h100-sxm", "h20", "h200", "h800"), 8),
    **dict.fromkeys(("h100-nvl", "h100-pcie", "l40s"), 8),  # servers for so many cards
    **dict.fromkeys(("b200", "b300", "mi300x", "mi325x", "mi355x"), 8),
    **dict.fromkeys(("gb200", "gb300"), 4),
    **dict.fromkeys(("gb10", "strix-halo", "gh200"), 1),
}
COUNTS = (1, 2, 4, 8, 16, 32, 64)
LINKS = (None, "nvlink", "pcie", "roce", "ethernet")
NAMES = [x for x in knowledge.hardware_ids() if knowledge.hardware(x).vendor in ("nvidia", "amd")]


def options(facts: Facts, plan: Plan) -> dict[str, int]:
    """The numbers of the launch that is printed."""
    launch = engines.get(plan.engine).to_launch(topology.on_each(facts, plan))
    words = {flag.name: flag.value or "1" for flag in launch.flags}  # a switch is 1
    return {name: int(value) for name, value in words.items() if value.isdecimal()}


def world(told: dict[str, int]) -> int:
    """Ranks of a server: vLLM's `world_size` times its data parallel size. With SGLang's DP
    attention the replicas are groups of the tensor parallel ranks (its docs, server arguments).
    """
    total = 1
    for name in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"):
        total *= told.get(f"--{name}", 1)
    groups = "--enable-dp-attention" in told
    assert not groups or told["--tp-size"] % told["--dp-size"] == 0
    for name in ("--tp-size", "--pp-size") if groups else ("--tp-size", "--pp-size", "--dp-size"):
        total *= told.get(name, 1)
    return total


def machine(name: str, gpus: int, link: str | None) -> int:
    """GPUs of one machine: a board; behind a network one, or 8 where there are more cards."""
    if knowledge.hardware(name).hardware_class == "unified":
        return 1
    if link in pools.LINKS:
        board = BOARDS.get(name, 8)
        return board if gpus > board else 1
    return min(BOARDS.get(name, gpus), gpus)


# single cards differ in little
@pytest.mark.parametrize(
    "name", [*spread(BOARDS, 3), *spread([name for name in NAMES if name not in BOARDS], 16)]
)
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_ranks_are_those_of_the_machines(name: str, engine: str) -> None:
    checked = 0
    for gpus in COUNTS if name in BOARDS else COUNTS[1::2]:  # single cards differ in little
        for link in LINKS if name in BOARDS else LINKS[::3]:
            asked = Request(hardware=name, gpus=gpus, interconnect=link, engine=engine,
                            model="qwen3-8b", quant="bf16", concurrency=64)  # fmt: skip
            try:
                facts = resolve.bare_facts(asked)
            except AdvisorError:  # this engine does not run there
                continue
            for split in propose.splits(facts):
                plan = propose.base_plan(facts, split)
                told = options(facts, plan)
                ranks, nodes = world(told), told.get("--nnodes", 1)
                assert ranks == nodes * machine(name, gpus, link)
                assert plan.tp * plan.pp * plan.dp == gpus
                assert gpus % ranks == 0  # servers that are alike
                checked += 1
    assert checked or engine == "sglang" or name in ("unknown",)


@pytest.mark.parametrize("name", BOARDS)
def test_the_board_is_the_published_one(name: str) -> None:
    facts = resolve.bare_facts(
        Request(hardware=name, gpus=64, interconnect="roce", model="qwen3-8b")
    )
    assert topology.board_gpus(facts) == BOARDS[name]


def test_ranks_of_one_board_wait_over_its_own_link() -> None:
    """A network joins the boards: their servers are as quick as that of one board."""
    asked = {"hardware": "h100-sxm", "model": "llama-3.3-70b", "quant": "fp8", "engine": "vllm"}
    times = []
    for gpus, link in ((8, None), (16, "roce"), (16, "ethernet")):
        load = {"gpus": gpus, "interconnect": link, "concurrency": 2 * gpus}
        facts = resolve.bare_facts(Request.model_validate(asked | load))
        plan = propose.base_plan(facts, (8, gpus // 8)).model_copy(update={"max_num_seqs": 64})
        times.append(estimate_plans(facts, [plan])[0].tpot_ms.baseline)
    assert times[0] == times[1] == times[2]


@pytest.mark.parametrize("each", [1, 2, 4, 16])
def test_the_gpus_of_a_machine_can_be_said(each: int) -> None:
    facts = resolve.bare_facts(
        Request(hardware="h100-sxm", gpus=16, gpus_per_machine=each, model="qwen3-8b")
    )
    assert topology.boards(facts) == 16 // each and topology.assumption(facts) is None


@pytest.mark.parametrize(("name", "link"), [("h100-sxm", "roce"), ("rtx3090", "ethernet")])
def test_an_unstated_link_between_machines_is_the_usual_network(name: str, link: str) -> None:
    """Tensor parallelism over it waits twice in every layer: two servers are faster."""
    asked = Request(
        hardware=name, gpus=2, gpus_per_machine=1, model="qwen3.6-27b", engine="vllm", concurrency=8
    )
    made = recommend.recommend(asked, what_if=False)
    assert made.facts.interconnect == link in {value for _, value, _ in made.facts.defaults}
    assert (made.plan.tp, made.plan.dp) == (1, 2)


def test_what_is_assumed_is_printed() -> None:
    asked = Request(hardware="rtx-pro-6000", gpus=16, interconnect="roce", model="glm-5.2")
    text = advice_text(recommend.recommend(asked, what_if=False), explain=True)
    assert re.search(r"assumed:\s+--gpus-per-machine", text)
    sure = recommend.recommend(asked.model_copy(update={"gpus_per_machine": 8}), what_if=False)
    assert "assumed: --gpus-per-machine" not in " ".join(advice_text(sure, explain=True).split())


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_first_screen_says_what_each_machine_runs(engine: str) -> None:
    asked = Request(hardware="gb10", gpus=2, tp=2, engine=engine)
    text = " ".join(advice_text(recommend.recommend(asked, what_if=False)).split())
    assert "on the first of 2 machines" in text and "--node-rank 1" in text
    assert ("--headless" in text) == (engine == "vllm")  # SGLang's other ranks serve nobody anyway
    assert "FIRST_MACHINE_IP is" in text and "NCCL_SOCKET_IFNAME" in text


@pytest.mark.parametrize(("link", "slower"), [("ethernet", True), ("roce", False)])
def test_one_machine_that_is_faster_is_named(link: str, slower: bool) -> None:
    asked = Request(hardware="gb10", gpus=2, tp=2, interconnect=link)
    both, one = (
        recommend.recommend(request, what_if=False)
        for request in (asked, asked.model_copy(update={"gpus": 1, "tp": None}))
    )
    alone = one.estimate.output_tok_s.baseline
    joint = both.estimate.output_tok_s.baseline
    text = " ".join(advice_text(both).split())
    assert ("gives a lone request" in text) == (alone > joint) == slower
    if not slower:
        return
    waits = [each.estimate.tpot_ms.baseline for each in (one, both)]
    fast, slow = (f"{1e3 / wait:.0f}" for wait in waits)  # the table's own, without drafts
    assert f"{fast} tokens/s without drafts" in text and f"over 2 machines {slow}" in text


@pytest.mark.parametrize(
    ("gpus", "model", "last"),
    [
        (12, "qwen3.6-27b", "the last has 4 of the GPUs: data-parallel size 4"),
        (20, "qwen3.6-27b", "the last has 4 of the GPUs: data-parallel size 4"),
        (12, "deepseek-v3.1", "the last has 4 of the GPUs: data-parallel size 1"),
        (16, "qwen3.6-27b", None),
    ],
)
def test_a_last_machine_with_fewer_gpus_is_told(gpus: int, model: str, last: str | None) -> None:
    asked = Request(hardware="h200", gpus=gpus, model=model, concurrency=256)
    text = " ".join(advice_text(recommend.recommend(asked, what_if=False)).split())
    assert last in text if last else "the last has" not in text
