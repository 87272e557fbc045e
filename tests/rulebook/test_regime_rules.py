"""The memory, speed and evidence rules against the documented decisions, and the numbers that they
compare with.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.advice.plans import propose
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Finding, Plan, Request
from advisor.domain.paths import knowledge_dir
from advisor.knowledge import store as knowledge
from advisor.knowledge.imputed import architecture
from advisor.knowledge.rule_data import number
from advisor.lab.measurements.schema import measurements_dir, read_csv, source_files
from advisor.perf import arrays, constants, imputation, memory, prompt_cost, reads
from advisor.perf.encoding import encode_rows
from advisor.rules import check
from tests.rulecases import case_of
from tests.tables import load_yaml

DECISIONS = Path(__file__).parents[1] / "advice" / "test_documented_decisions.yaml"
DOCUMENTED = load_yaml(DECISIONS)["cases"]
STATUSES = ("read", "measured", "derived", "recall", "assumed")
FILES = ("memory", "regime")
MACHINE = ("hardware_class", "vendor", "arch")
GOALS = ("throughput", "tpot", "ttft", "balanced")


def rows_of(name: str) -> list[tuple[str, dict[str, Any]]]:
    found = json.loads((knowledge_dir() / "rules" / f"{name}.json").read_text(encoding="utf-8"))
    return [
        (key, row)
        for key, value in found.items()
        for row in (value if isinstance(value, list) else [value])
    ]


@pytest.mark.parametrize("name", FILES)
def test_every_number_has_a_source(name: str) -> None:
    for key, row in rows_of(name):
        assert row["sources"] and all(row["sources"]), key
        assert row.get("status", "read") in STATUSES, key
        if row.get("status") == "assumed":
            assert row["note"], f"{key}: an assumed number says why"


def test_a_documented_gain_says_of_which_model_and_machine_it_is() -> None:
    """Models of one architecture and size on measured machines, and its text names both."""
    gains = [row for key, row in rows_of("regime") if key == "documented_gains"]
    assert len(gains) == 12
    for row in gains:
        low, high = row["total_params_b"]
        assert row["hardware"] and row["model_arch"] and high / low < 1.4, row["text"]
        names = " ".join(knowledge.hardware(name).name for name in row["hardware"])
        words = [word.strip("()") for word in names.split()]
        assert any(word in row["text"].split(",")[0] for word in words), row["text"]
        sizes = [float(size) for size in re.findall(r"(\d+)B", row["text"])]
        assert any(low <= size <= high for size in sizes), row["text"]


@pytest.mark.parametrize(
    "asked",
    [
        {"hardware": "strix-halo", "model": "glm-4.5-air", "concurrency": 1},
        {"hardware": "strix-halo", "model": "qwen3-next-80b-a3b", "concurrency": 1},
        {"hardware": "gb10", "gpus": 4, "model": "deepseek-v4-pro", "concurrency": 16},
        {"hardware": "apple-m4-max", "concurrency": 16},
        {"hardware": "strix-halo", "concurrency": 16},
        {"hardware": "rtx-pro-6000", "model": "qwen3.6-27b", "quant": "nvfp4", "concurrency": 16},
        {"hardware": "rtx3090", "gpus": 4, "model": "gemma-4-26b-a4b", "concurrency": 4},
    ],
    ids=lambda asked: "-".join(map(str, asked.values())),
)
def test_another_models_or_machines_gain_is_no_support(asked: dict[str, Any]) -> None:
    assert not find("SD401", {"engine": "vllm", **asked})


def find(code: str, asked: dict[str, Any], method: str = "mtp") -> list[Finding]:
    facts = facts_for_request(Request(**{"ctx_tokens": 2048, **asked}))
    case = case_of(facts=facts, plan=Plan(engine=facts.engine or "vllm", method=method, k=2))
    return [f for f in check(case)[0] if f.code == code]


def test_losses_in_llama_server_are_told_of_the_machine_that_was_measured() -> None:
    """An M3 Ultra hears of an RTX 3090; a sparse model's loss forbids no dense one."""
    asked = {"engine": "llama-server", "concurrency": 8}
    assert not find("SD408", {**asked, "hardware": "apple-m3-ultra", "concurrency": 2})
    (ultra,) = find("SD408", {**asked, "hardware": "apple-m3-ultra"})
    assert "on an RTX 3090 with the 35B-A3B" in ultra.message and "Strix" not in ultra.message
    (dense,) = find("SD408", {**asked, "hardware": "gb10", "model": "qwen3.6-27b"})
    assert dense.effect == "caution" and "a GB10" in dense.message
    (halo,) = find("SD408", {**asked, "hardware": "strix-halo"})
    assert halo.effect == "loss" and "a Strix Halo" in halo.message


@pytest.mark.parametrize(
    ("model", "effect"), [("qwen3.6-35b-a3b", "loss"), ("glm-4.5-air", "caution")]
)
def test_long_prompts_are_a_loss_for_the_measured_model_only(model: str, effect: str) -> None:
    load = {"concurrency": 4, "ctx_tokens": 8192, "output_tokens": 256}
    asked = {"hardware": "gb10", "gpus": 2, "engine": "vllm", "model": model, **load}
    (found,) = find("SD402", asked)
    assert found.effect == effect and "Qwen3.6-35B-A3B FP8" in found.message
    assert ("measured elsewhere" in found.message) == (effect == "caution")
    (first,) = find("SD402", {**asked, "goal": "ttft"})
    assert first.effect == ("support" if effect == "loss" else None)


@pytest.mark.parametrize("hardware", ["gb10", "h200"])
@pytest.mark.parametrize("ctx", [256, 2048])
def test_a_step_beyond_the_graphs_stays_beyond_them(hardware: str, ctx: int) -> None:
    """More clients never lift the finding; those that no KV pool holds do not count."""
    said, counted = [], []
    for load in (64, 128, 256, 257, 384, 512, 513, 1024, 4096):
        lengths = {"ctx_tokens": ctx, "output_tokens": 512}
        asked = {"hardware": hardware, "engine": "vllm", "concurrency": load, **lengths}
        found = find("SD425", asked)
        facts = facts_for_request(Request(**asked))
        held = memory.max_requests(facts, Plan(engine="vllm", method="mtp", k=2), ctx + 512)
        # nothing, a shorter draft that stays within them, none that does
        said.append(0 if not found else 1 if found[0].effect == "k_max" else 2)
        if found:
            counted.append(int(found[0].message.split()[0]))
            assert held is not None and counted[-1] <= min(load, held)
    assert said == sorted(said) and said[-1] > 0 and counted == sorted(counted)


@pytest.mark.parametrize("name", FILES)
def test_filters_name_known_things(name: str) -> None:
    machines = [knowledge.hardware(name) for name in knowledge.hardware_ids()]
    known = {
        "hardware": set(knowledge.hardware_ids()),
        "engine": {"vllm", "sglang", "llama-server", "ik_llama.cpp"},
        **{key: {getattr(one, key) for one in machines} for key in MACHINE},
        "quant_family": {knowledge.quant(q).family for q in knowledge.quant_ids()},
        "model_arch": {knowledge.llm(m).arch for m in knowledge.llm_ids()},
    }
    for key, row in rows_of(name):
        for filtered, names in known.items():
            assert set(row.get(filtered, ())) <= names, f"{name}.{key}: {filtered}"


def test_documented_arms_are_the_stored_rows() -> None:
    stored = {r["run_id"]: r for x in source_files(measurements_dir()) for _, r in read_csv(x)}
    measured = [c for c in DOCUMENTED if c["evidence"] == "measured"]
    runs = [(c, run) for c in measured for run in c.get("run_ids", ())]
    assert runs
    for case, run in runs:
        ratio = float(stored[run]["speedup"])
        assert any(abs(ratio - told) < 0.002 for told in case["measured"].values()), case["id"]


def judge(case: dict[str, Any], goal: str) -> tuple[Finding, ...]:
    """What the rules say of the arm that was measured."""
    facts = facts_for_request(Request(**{**case["request"], "goal": goal}))
    base = propose.base_plan(facts, propose.splits(facts)[0])
    plan = base.model_copy(update={"method": case["arm"]["method"], "k": case["arm"]["k"] or 0})
    return check(case_of(facts=facts, plan=plan))[0]


PAIRS = [
    pytest.param(case, goal, wanted, id=f"{case['id']}-{goal}")
    for case in DOCUMENTED
    for goal in GOALS
    for wanted in [
        case.get("arm_decision") or case["decision"].get(goal, case["decision"].get("any"))
    ]
    if case["request"].get("goal", goal) == goal
]


@pytest.mark.parametrize(("case", "goal", "wanted"), PAIRS)
def test_rules_side_with_documented_decisions(case: dict[str, Any], goal: str, wanted: str) -> None:
    """Off: a documented loss or caution, or a limit below the arm's k. On: nothing forbidden."""
    found, tried = judge(case, goal), case["arm"]["k"] or 0
    shorter = [f for f in found if f.effect == "k_max" and (f.k_max or 0) < tried]
    against = [f for f in found if f.effect in ("veto", "loss", "caution")] + shorter
    told = [(f.code, f.message) for f in against]
    if wanted == "off":
        assert against, [f.code for f in found]
    else:
        assert not [f for f in against if f.effect in ("veto", "loss")], told
        assert not against or tried > (case["k_best"] or tried), told


def test_support_prefers_the_documented_k() -> None:
    measured = [c for c in DOCUMENTED if c["k_best"] and c["evidence"] == "measured"]
    said = [
        (case["id"], finding.code, finding.k_best, case["k_best"])
        for case in measured
        for finding in judge(case, case["request"].get("goal", "balanced"))
        if finding.effect == "support" and finding.k_best
    ]
    assert said and [row for row in said if row[2] != row[3]] == []


def test_thresholds_keep_their_order() -> None:
    low, high = (f"{name}_memory_fraction_max" for name in ("unified", "discrete"))
    assert number("memory", low) < number("memory", high)


def test_rules_and_core_price_the_same_kernels() -> None:
    """Times, chips and limits that rules print stand in the core as well: neither moves alone."""
    c = constants.Constants()
    row = {"model": "qwen3.6-35b-a3b", "hardware": "rtx-pro-6000", "engine": "vllm", "k": "2"}
    row |= {"spec_method": "mtp", "kv_cache_dtype": "bf16", "speedup_metric": "tpot"}
    point = imputation.impute(encode_rows.from_rows([row])[0])
    table = [told for key, told in rows_of("regime") if key == "serial_verify"]
    for told, path in zip(table, ("vllm-cuda", "sglang-cuda", "vllm-other"), strict=True):
        code = arrays.PATHS.index(path)
        assert told["ns_per_token_and_layer"] == pytest.approx(1e9 * c.verify_serial_s[code])
        warned = {architecture(arch) for arch in told["arch"]}
        for i, arch in enumerate(arrays.ARCHS):
            here = point.replace(arch=i, path=code)
            assert (reads.serial_attention_seconds(here, c, np.array([1e3]))[0] > 0) == (
                arch in warned
            ), (path, arch)
    assert number("regime", "graph_tokens") == prompt_cost.GRAPH_TOKENS
