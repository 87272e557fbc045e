"""What sweep, compare, why-not and plan print as JSON is what `advisor schema` describes, and a
sweep's figures are those of `recommend` and `predict`.
"""

import json
from typing import Any

import jsonschema
import pytest
from cli_run import run

from advisor import predict
from advisor.render.schema import named_schema

GB10 = ["--hw", "gb10", "--concurrency", "8"]
CALLS = {
    "compare": [
        ["gb10", "h100", "--users-within", "tpot=50ms,ttft=2s", "--price", "2.10/h"],
        ["vllm@0.25.1", "vllm@0.32.0", "sglang", *GB10, "--watts", "200"],
        ["fp8", "bf16", "--hw", "h100"],
        ["qwen3.6-35b-a3b", "llama-3.3-70b", "--hw", "h200"],
    ],
    "why-not": [["k=4", *GB10], ["k=2", "--hw", "apple-m4-max"]],
    "sweep": [
        [*GB10, "--vary", "concurrency=1,4,16", "--vary", "k=0..3"],
        ["--hw", "h100", "--vary", "ctx=512,8192", "--users-within", "tpot=50ms"],
        ["--hw", "apple-m4-max", "--engine", "llama-server", "--vary", "concurrency=1,2"],
        ["--hw", "h200", "--model", "qwen2.5-72b", "--vary", "concurrency=1,2"],
        ["--hw", "v100", "--model", "qwen3.5-9b", "--vary", "output_tokens=16,512"],
    ],
    "policy": [["--hw", "gb10", "--concurrency", "1..64"]],
}


@pytest.mark.parametrize(("name", "words"), [(n, w) for n, calls in CALLS.items() for w in calls])
def test_output_is_as_its_schema(name: str, words: list[str]) -> None:
    command = "recommend" if name == "policy" else name
    ran = run(command, *words, "--format", "json")
    assert ran.code == 0, ran.err
    schema = named_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(ran.out), schema)


# the loads of one request, and of several where no documented finding moves the answer
DRAFTS = 6  # the most that any of these settings asks for
SETTINGS: list[tuple[dict[str, Any], tuple[int, ...]]] = [
    ({"hw": "gb10", "model": "qwen3.6-35b-a3b", "engine": "vllm", "quant": "fp8"}, (1, 4, 16)),
    ({"hw": "h100", "model": "qwen3.6-27b", "engine": "sglang", "quant": "fp8"}, (1, 4, 16)),
    ({"hw": "rtx5090", "model": "qwen3.6-27b", "engine": "llama-server", "quant": "q4_k_m"}, (1,)),
]


@pytest.mark.parametrize(("setting", "loads"), SETTINGS, ids=["gb10", "h100", "rtx5090"])
def test_a_sweep_gives_the_numbers_of_recommend_and_predict(
    setting: dict[str, Any], loads: tuple[int, ...]
) -> None:
    """To the digit those of `recommend`, and those of a table's row that says what the launch
    sets within 1 %.
    """
    # a row is about one metric, so the goal is that one
    words = ["--goal=throughput", *(f"--{name}={value}" for name, value in setting.items())]
    vary = ["--vary", f"concurrency={','.join(map(str, loads))}", "--vary", f"k=1..{DRAFTS}"]
    made = json.loads(run("sweep", *words, *vary, "--format", "json").out)
    compared = same = 0
    for load in made["loads"]:
        at = str(load["setting"]["concurrency"])
        one = json.loads(run("recommend", *words, "--concurrency", at, "--format", "json").out)
        assert load["decision"] == one["decision"] and load["best_k"] == one["candidate"]["k"]
        for point in (point for point in load["points"] if point["method"] == "mtp"):
            if point["k"] == one["candidate"]["k"]:
                assert point["output_tok_s"] == one["estimate"]["output_tok_s"]
                assert point["tpot_ms"] == one["estimate"]["tpot_ms"]
                same += 1
            (row,) = predict([row_of(setting, made["request"], point, at)])
            gain = point["output_tok_s"]["speedup"]
            for name in ("p10", "p50", "p90"):
                assert row[f"speedup_{name}"] == pytest.approx(gain[name], rel=0.01)
            assert row["basis"] == point["basis"] and row["decision"] == point["decision"]
            compared += 1
    assert same == len(loads) and compared == DRAFTS * len(loads)


def row_of(
    setting: dict[str, Any], request: dict[str, Any], point: dict[str, Any], load: str
) -> dict[str, str]:
    """The row of a table that says what a point of a sweep runs."""
    plan = point["plan"]
    caching, limits = plan["prefix_caching"], ("max_num_seqs", "max_num_batched_tokens")
    return {
        "hardware": setting["hw"], "model": setting["model"], "engine": setting["engine"],
        "quant": setting["quant"], "engine_version": request["engine_version"],
        "spec_method": "mtp", "k": str(point["k"]), "concurrency": load, "input_tokens": "2048",
        "output_tokens": "512", "workload": "mixed", "speedup_metric": "output_tok_s",
        "gpu_count": "1", "tp": "1", "interconnect": "none",
        "prefix_caching": "" if caching is None else str(int(caching)),
        **{name: str(plan[name] or "") for name in limits},
        "thinking": "1", "temperature": "1",  # what a question that names neither is asked with
    }  # fmt: skip
