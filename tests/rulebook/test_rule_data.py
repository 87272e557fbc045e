"""The data of the rules keep their schema, and a rule names only what stands there."""

import json
import re
import shutil
from pathlib import Path

import pytest

from advisor.domain.paths import knowledge_dir
from advisor.rules.build import problems

RULES = Path(__file__).resolve().parents[2] / "advisor" / "rules"
DATA = knowledge_dir() / "rules"


def test_the_data_keep_their_schema() -> None:
    assert problems(DATA) == []


@pytest.mark.parametrize(
    ("table", "name", "change", "told"),
    [
        ("memory", "kv_tight_share", {"value": "0.8"}, "is not of type 'number'"),
        ("memory", "kv_tight_share", {"sources": []}, "should be non-empty"),
        ("memory", "kv_tight_share", {"status": "guessed"}, "is not one of"),
        ("defects", "vllm-mtp-pipeline-parallel", {"until": "soon"}, "does not match"),
        ("defects", "vllm-mtp-pipeline-parallel", {"untill": "0.26.0"}, "Additional properties"),
        ("regime", "k_limits", [{"engine": ["vllm"]}], "'sources' is a required property"),
    ],
)
def test_a_fault_is_named(tmp_path: Path, table: str, name: str, change: object, told: str) -> None:
    folder = Path(shutil.copytree(DATA, tmp_path / "rules"))
    data = json.loads((folder / f"{table}.json").read_text())
    data[name] = data[name] | change if isinstance(change, dict) else change
    (folder / f"{table}.json").write_text(json.dumps(data))
    found = problems(folder)
    assert len(found) == 1 and told in found[0] and name in found[0], found


def test_rules_name_only_data_that_exist() -> None:
    tables = {path.stem: json.loads(path.read_text()) for path in DATA.glob("*.json")}
    asked = {
        (table, name, path.name)
        for path in RULES.rglob("*.py")
        for pattern in (
            r"table\(\"(\w+)\"\)\[\"([\w-]+)\"\]",
            r"\b(?:number|rows|row|limit)\(\"(\w+)\", \"([\w-]+)\"",
        )
        for table, name in re.findall(pattern, path.read_text())
        if table in tables
    }
    assert len(asked) > 40, "the patterns no longer find how rules read their data"
    assert [a for a in asked if a[1] not in tables[a[0]]] == []
