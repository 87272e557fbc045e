"""Measured pairs near a question: which ones cover it, and that files which cannot be read leave
the rest standing.
"""

from pathlib import Path
from typing import Any

import pytest

from advisor.advice.launch_facts import launch_facts
from advisor.domain.nouns import Facts, Flag, Launch, Plan, UnknownFact
from advisor.knowledge import evidence
from advisor.knowledge import store as knowledge
from advisor.knowledge.evidence import nearest_pairs
from advisor.lab.measurements.index_text import to_text
from tests.tables import load_yaml

BY_HAND = load_yaml(Path(__file__).with_name("by_hand.yaml"))["distances"]
PAIR: dict[str, Any] = {"run_id": "r1", "source": "s1", "hardware": "gb10", "gpu_count": 1,
                        "model": "qwen3.6-35b-a3b", "quant": "fp8", "engine": "vllm",
                        "method": "mtp", "k": 2, "concurrency": 16.0, "input_tokens": 2048,
                        "metric": "output_tok_s", "speedup": 1.24, "date": "2026-04-18",
                        "clean": True}  # fmt: skip


def ask(**changes: Any) -> Facts:
    fields: dict[str, Any] = {"engine": "vllm", "gpus": 1, "concurrency": 16, "ctx_tokens": 2048}
    fields |= {"hardware": knowledge.hardware("gb10"), "quant": knowledge.quant("fp8")}
    fields["model"] = knowledge.llm("qwen3.6-35b-a3b")
    return Facts(**{**fields, **changes})


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Any:
    def install(*pairs: dict[str, Any]) -> None:
        text = to_text([{**PAIR, **pair} for pair in pairs], "by a test")
        monkeypatch.setattr(evidence, "index", lambda: evidence.from_text(text))

    return install


@pytest.mark.parametrize(
    ("change", "covers"),
    [({}, True), ({"concurrency": 8.0}, True), ({"concurrency": 32.0}, True),
     ({"concurrency": 7.9}, False), ({"concurrency": 33.0}, False), ({"concurrency": None}, False),
     ({"input_tokens": 1024}, True), ({"input_tokens": 1000}, False),
     ({"input_tokens": None, "depth_tokens": 4096}, True), ({"input_tokens": None}, False),
     ({"clean": False}, False), ({"quant": "nvfp4"}, False), ({"quant": ""}, False),
     ({"engine": "sglang"}, False), ({"gpu_count": 2}, False), ({"gpu_count": None}, False),
     ({"hardware": "jetson-thor"}, False), ({"model": "qwen3.5-35b-a3b"}, False),
     ({"engine_version": "0.19.1"}, True),
     # answers of another length than was asked
     *(({"output_tokens": measured, "asked": asked}, covers)
       for measured, asked, covers in ((512, 128, True), (512, 127, False), (128, 513, False),
                                       (None, 16, True)))],
)  # fmt: skip
def test_what_covers(only: Any, change: dict[str, Any], covers: bool) -> None:
    asked = ask(output_tokens=change["asked"]) if "asked" in change else ask()
    only({name: value for name, value in change.items() if name != "asked"})
    found = nearest_pairs(asked)
    assert [e.covers for e in found] == [covers]
    assert evidence.covering_pairs(asked, "mtp") == (found if covers else ())


@pytest.mark.parametrize(("change", "far"), BY_HAND)
def test_how_far_a_pair_lies(change: dict[str, Any], far: float) -> None:
    pair = PAIR | change
    group = evidence._group_distance(pair, ask(), {})
    assert group + evidence._load_distance(pair, ask()) == pytest.approx(far)


def test_all_metrics_of_covering_runs_and_one_of_the_others(only: Any) -> None:
    far = {"hardware": "jetson-thor", "run_id": "r2"}
    only({}, {"metric": "tpot"}, {"metric": "ttft"}, far, {**far, "metric": "tpot"})
    found = nearest_pairs(ask())
    assert [(e.run_id, e.covers) for e in found] == [("r1", True)] * 3 + [("r2", False)]


def test_limit_counts_all_but_never_drops_a_covering_pair(only: Any) -> None:
    only(
        *({"run_id": f"c{i}"} for i in range(9)),
        *({"run_id": f"f{i}", "quant": "nvfp4", "source": f"s{i}"} for i in range(9)),
    )
    found = nearest_pairs(ask(), limit=6)
    assert len(found) == 9 and all(e.covers for e in found)
    assert len(nearest_pairs(ask(quant=knowledge.quant("nvfp4")), limit=10)) == 10


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "{}", "nonsense",
     '{"fields": ["run_id"], "metrics": ["tpot"], "shared": ["method"], "groups": [["mtp"]]}',
     '{"fields": 1, "metrics": [], "shared": [], "groups": [1]}'],
)  # fmt: skip
def test_a_damaged_index_is_no_evidence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str | None
) -> None:
    if text is not None:
        (tmp_path / evidence.INDEX_NAME).write_text(text)
    monkeypatch.setattr(evidence, "read_data", lambda x: (tmp_path / Path(x).name).read_bytes())
    evidence.index.cache_clear()
    try:
        assert evidence.pairs() == () == evidence.pairs("mtp")
    finally:
        evidence.index.cache_clear()


@pytest.mark.parametrize("line", ["", "nonsense", "{}", "[1]", "[[1, 2, 3]]"])
def test_a_damaged_line_costs_its_own_pairs(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    text = to_text([PAIR, {**PAIR, "quant": "nvfp4", "run_id": "r2"}], "by a test").split("\n")
    broken = evidence.from_text("\n".join([text[0], line, *text[2:]]))
    monkeypatch.setattr(evidence, "index", lambda: broken)
    assert [e.run_id for e in nearest_pairs(ask())] == ["r2"]


def test_reading_only_near_groups_answers_as_reading_all() -> None:
    for name in ("gb10", "rtx3090", "apple-m4-max", "h200"):
        for model in ("qwen3.6-35b-a3b", "gemma-4-31b", "qwen3-8b"):
            for streams in (1, 32):
                known = {"hardware": knowledge.hardware(name), "model": knowledge.llm(model)}
                facts = ask(**known, concurrency=streams)
                for method in ("mtp", "eagle3"):
                    every = evidence.nearest_pairs(facts, method, 10_000)  # never stops early
                    most = max(8, sum(e.covers for e in every))
                    assert evidence.nearest_pairs(facts, method, 8) == every[:most]


def test_the_shipped_pairs_name_known_things() -> None:
    every = evidence.pairs()
    assert max(pair["date"] for pair in every) > "2026-05"
    assert evidence.pairs("mtp") == tuple(pair for pair in every if pair["method"] == "mtp")
    for pair in every:
        assert knowledge.hardware(pair["hardware"]).id == pair["hardware"]
        assert knowledge.llm(pair["model"]).id == pair["model"]
        if pair.get("quant"):
            assert knowledge.quant(pair["quant"]).id == pair["quant"]


def launch(model: str | None, **plan: Any) -> Facts:
    read = Launch(
        engine="vllm", model=model, flags=(Flag(name="--model", raw="--model", value=model),)
    )
    return launch_facts(read, Plan(engine="vllm", model=model, **plan))


def test_a_launch_tells_model_quant_and_gpus() -> None:
    facts = launch("Qwen/Qwen3.6-35B-A3B-FP8", tp=2)
    assert (facts.model.id, facts.quant.id, facts.gpus) == ("qwen3.6-35b-a3b", "fp8", 2)
    assert facts.checkpoint is not None and facts.checkpoint.keeps_mtp
    assert (facts.hardware, facts.concurrency, facts.ctx_tokens) == (None, None, None)
    assert facts.evidence == ()


def test_hardware_given_by_the_caller_brings_evidence() -> None:
    read = Launch(engine="vllm", model="Qwen/Qwen3.6-35B-A3B-FP8")
    plan = Plan(engine="vllm", model=read.model, method="mtp", k=2)
    facts = launch_facts(read, plan, hw="spark", concurrency=16, ctx_tokens=2048, workload="chat")
    assert facts.hardware is not None and facts.hardware.id == "gb10"
    assert any(e.covers for e in facts.evidence)
    with pytest.raises(UnknownFact):
        launch_facts(read, plan, hw="sparkplug9")
