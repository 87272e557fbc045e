"""The JSON form follows its own schema, strictly."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import advice_cases as cases
import jsonschema
import pytest
from click.testing import CliRunner

from advisor.cli.app import cli
from advisor.domain.nouns import AdvisorError, Candidate, Interval, MetricEstimate, Request
from advisor.render.json_out import advice_json, advice_json_text
from advisor.render.objects import named_schema
from tests.tables import words

SCHEMA = named_schema("recommend")
CHECKER = jsonschema.Draft202012Validator(SCHEMA)
ASKED = (
    "request decision plan estimate candidate findings runners_up evidence would_change "
    "launch launch_off"
)
ASKED_PLAN = (
    "engine engine_version method k k_schedule prefix_caching kv_cache_dtype "
    "max_num_seqs max_num_batched_tokens"
)


@pytest.mark.parametrize("name", cases.ALL)
def test_answers_follow_the_schema(name: str) -> None:
    advice = cases.ALL[name]()
    told = json.loads(advice_json_text(advice))
    CHECKER.validate(told)
    assert told["decision"] == advice.decision
    assert told["plan"]["method"] == ("mtp" if name == "on" else "none")
    assert told["launch"]["argv"] == list(advice.launch.argv)
    assert told["evidence"]["newest"] == (advice.evidence_newest or None)


def test_the_keys_asked_for_are_there() -> None:
    told = advice_json(cases.on())
    assert {*ASKED.split()} <= set(told)
    assert {*ASKED_PLAN.split(), "memory_fraction", "tp"} <= set(told["plan"])
    estimate = told["estimate"]
    assert set(estimate) >= {
        *words("output_tok_s tpot_ms ttft_ms accepted_length p_gain memory basis")
    }
    assert set(estimate["tpot_ms"]) == {
        *words("speedup predictable baseline value baseline_range value_range")
    }
    assert set(estimate["tpot_ms"]["speedup"]) == {"p10", "p50", "p90"}
    assert {"weights_gib", "spec_gib", "kv_tokens", "kv_tokens_lost"} <= set(estimate["memory"])
    assert {"code", "severity", "message", "sources"} <= set(told["findings"][0])
    assert set(told["launch"]) == {"argv", "env", "text", "files"}


@pytest.mark.parametrize(
    "path",
    [[], ["estimate", "memory"], *map(words, words("plan estimate request launch evidence"))],
)
def test_an_unknown_or_a_missing_key_is_refused(path: list[str]) -> None:
    told = advice_json(cases.on())
    place = told
    for key in path:
        place = place[key]
    place["surprise"] = 1
    assert not CHECKER.is_valid(told)
    del place["surprise"]
    assert CHECKER.is_valid(told)
    place.pop(next(iter(place)))
    assert not CHECKER.is_valid(told)


def test_numbers_that_are_not_finite_become_null() -> None:
    nan = float("nan")
    metric = MetricEstimate(
        speedup=Interval(p10=nan, p50=1.1, p90=float("inf")), baseline=nan, value=None
    )
    estimate = cases.estimate().model_copy(update={"ttft_ms": metric, "p_gain": nan})
    advice = cases.on(estimate=estimate, runners_up=(Candidate(plan=cases.plan(1), regret=nan),))
    told = json.loads(advice_json_text(advice), parse_constant=pytest.fail)
    CHECKER.validate(told)
    assert told["estimate"]["ttft_ms"]["speedup"] == {"p10": None, "p50": 1.1, "p90": None}


def test_a_schedule_is_rows_of_three() -> None:
    advice = cases.on(plan=cases.plan(3, k_schedule=((1, 4, 3), (5, 32, 1))))
    told = json.loads(advice_json_text(advice))
    CHECKER.validate(told)
    assert told["plan"]["k_schedule"] == [[1, 4, 3], [5, 32, 1]]


def test_the_schema_keeps_up_with_the_nouns() -> None:
    assert set(SCHEMA["$defs"]["request"]["properties"]) == set(Request.model_fields)


def test_an_unknown_schema_is_named() -> None:
    with pytest.raises(AdvisorError, match="recommend"):
        named_schema("nothing")


FILES = Path(__file__).parents[1] / "readers" / "results" / "files"
NAMES = sorted(path.name for path in FILES.iterdir())
PAIRS = [
    ("vllm-serve-off.json", "vllm-serve-on.json"),
    ("vllm-serve-off.json", "sglang-on.jsonl"),  # not comparable
    ("guidellm-off.json", "guidellm-on.json"),
    ("benchy-off.json", "benchy-on.json"),  # two loads
]


def output_of(*words: str) -> Any:
    return json.loads(CliRunner().invoke(cli, list(words)).stdout)


@cache
def checker(name: str) -> jsonschema.Draft202012Validator:
    schema = output_of("schema", name)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", NAMES)
def test_runs_follow_the_schema(name: str) -> None:
    told = output_of("results", str(FILES / name), "--format", "json")
    checker("results").validate(told)
    assert told["runs"] and all(run["file"] == name for run in told["runs"])


@pytest.mark.parametrize(("off", "on"), PAIRS)
def test_verdicts_follow_the_schema(off: str, on: str) -> None:
    words = ("--hw", "gb10", "--model", "qwen3.6-35b-a3b", "--k", "2", "--format", "json")
    checker("ab").validate(output_of("ab", str(FILES / off), str(FILES / on), *words))


def test_the_schemas_are_strict() -> None:
    runs = output_of("results", str(FILES / NAMES[0]), "--format", "json")
    runs["runs"][0]["surprise"] = 1
    assert not checker("results").is_valid(runs)
    verdict = output_of("ab", *(str(FILES / name) for name in PAIRS[0]), "--format", "json")
    assert not checker("ab").is_valid(verdict | {"verdict": "perhaps"})
    assert not checker("ab").is_valid({k: value for k, value in verdict.items() if k != "loads"})
