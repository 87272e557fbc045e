"""JSON of `advisor results` and `advisor ab` follows the schemas that `advisor schema` prints."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from advisor.cli.app import cli

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
    assert not checker("ab").is_valid(
        {key: value for key, value in verdict.items() if key != "loads"}
    )
