"""The SARIF that is written is SARIF 2.1.0 by the schema of its standard."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from advisor.domain.printable import json_text
from advisor.lint.validate import validate
from advisor.render.findings.hosts import report_sarif

TESTS = Path(__file__).parents[1]
SCHEMA = jsonschema.Draft4Validator(json.loads((TESTS / "schemas/sarif-2.1.0.json").read_text()))
FILES = sorted([*(TESTS / "corpus").glob("case-*"), *(TESTS / "corpus2").glob("case-*")])
HOSTILE = {
    "controls": ("a.yaml", 'model: "m\\e]0;x\\a"\nmax-num-sqes: "\\u202e"\nmax-num-seqs: 4\n'),
    "long": ("a.sh", f"vllm serve m --max-num-sqes {'9' * 50_000}\n"),
    "a name with blanks": ("a b%20\u00e9#?.sh", "vllm serve m --max-num-sqes 4\n"),
    "no name": ("-", "vllm serve m --max-num-sqes 4\n"),
    "no server": ("a.sh", "echo\n"),
    "windows": ("a.cmd", "llama-server.exe -m a.gguf ^\r\n  --draft-max 8\r\n"),
    "wide": ("a.sh", "# \U0001f642\nvllm serve '\U0001f642' --max-num-sqes 4\n"),
}


def problems(told: dict[str, Any]) -> list[str]:
    found = SCHEMA.iter_errors(json.loads(json_text(told)))
    return [f"{'/'.join(map(str, one.absolute_path))}: {one.message[:200]}" for one in found]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_of_a_configuration(path: Path) -> None:
    assert problems(report_sarif(validate(str(path)))) == []


@pytest.mark.parametrize("kind", HOSTILE)
def test_of_a_hostile_text(kind: str) -> None:
    name, text = HOSTILE[kind]
    assert problems(report_sarif(validate(text=text, name=name))) == []


def test_of_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.sh").write_text("vllm serve m --max-num-sqes 4\n")
    told = report_sarif(validate([str(tmp_path / "a.yaml"), str(tmp_path / "b.sh")]))
    assert problems(told) == []
    assert told["runs"][0]["invocations"][0]["executionSuccessful"] is False


@pytest.mark.parametrize(
    "path", [("version",), ("runs", 0, "tool"), ("runs", 0, "results", 0, "message")]
)
def test_the_schema_refuses_what_lacks_a_part(path: tuple[str | int, ...]) -> None:
    told = copy.deepcopy(report_sarif(validate(text="vllm serve m --max-num-sqes 4\n")))
    inner: Any = told
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    assert problems(told)


def test_a_result_stands_on_its_own_line_and_column() -> None:
    """Counted by hand: the fourth line, behind two blanks."""
    text = "#!/bin/bash\n\nvllm serve m \\\n  --max-num-sqes 4\n"
    (result,) = (
        one
        for one in report_sarif(validate(text=text, name="a.sh"))["runs"][0]["results"]
        if one["ruleId"] == "SD101"
    )
    place = result["locations"][0]["physicalLocation"]
    assert place["region"] == {"startLine": 4, "startColumn": 3}
    (replacement,) = result["fixes"][0]["artifactChanges"][0]["replacements"]
    end = {"endLine": 4, "endColumn": 3 + len("--max-num-sqes")}
    assert replacement["deletedRegion"] == place["region"] | end
    assert replacement["insertedContent"] == {"text": "--max-num-seqs"}
