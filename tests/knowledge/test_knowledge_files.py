"""Own fact files: merged when they are good, refused with file, field and reason when they are not;
the commands.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from advisor.advice.recommend import recommend
from advisor.advice.resolve import facts_for_request
from advisor.cli import knowledge as commands
from advisor.domain.nouns import Drafter, Request
from advisor.domain.paths import knowledge_dir
from advisor.knowledge import store as knowledge
from advisor.knowledge.build import check_file
from advisor.knowledge.fact_files import FactFileError, check_entry
from advisor.knowledge.listing import _drafter, entry_text
from tests.tables import load_yaml

BY_HAND = load_yaml(Path(__file__).with_name("by_hand.yaml"))
CARD = """
id: my-card
name: My card
aliases: [mine]
vendor: nvidia
arch: sm_120
hardware_class: consumer
memory_gb: {value: 48, source: own measurement, status: measured}
memory_bandwidth_gb_s: {value: 1000, source: own measurement, status: measured}
"""
MODEL = """
id: my-model-12b-a2b
arch: moe
total_params_b: 12
active_params_b: 2
source: model card
checkpoints:
  - {quant: fp8, repository: me/my-model-fp8, source: model card}
"""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.setenv("ADVISOR_KNOWLEDGE", str(tmp_path))
    (tmp_path / "hardware").mkdir()
    (tmp_path / "llms").mkdir()
    _forget()
    yield tmp_path
    _forget()


def _forget() -> None:
    for cached in (knowledge.index, knowledge._hardware, knowledge._llm, knowledge._quant):
        cached.cache_clear()


def run(command: str, *args: str) -> Result:
    return CliRunner().invoke(getattr(commands, command), list(args))


def test_a_model_without_a_size_is_answered_and_the_gap_is_said(home: Path) -> None:
    (home / "llms" / "model.yaml").write_text(
        MODEL.replace("total_params_b: 12\nactive_params_b: 2\n", "")
    )
    made = recommend(hardware="gb10", model="my-model-12b-a2b")
    assert "the size of my-model-12b-a2b is not known here" in " ".join(
        reason.text for reason in made.reasons
    )


def test_own_files_are_merged(home: Path) -> None:
    (home / "hardware" / "card.yaml").write_text(CARD)
    (home / "llms" / "model.yaml").write_text(MODEL)
    assert knowledge.hardware("mine").memory_gb.value == 48  # type: ignore[union-attr]
    assert knowledge.hardware("gb10").id == "gb10"
    facts = facts_for_request(Request(hardware="my-card", model="my-model-12b-a2b"))
    assert facts.checkpoint is not None and facts.checkpoint.repository == "me/my-model-fp8"
    assert facts.shape is not None and "approximated" in facts.shape.note
    found = knowledge.llm_from_text("me/my-model-12B-A2B-AWQ")
    assert found is not None and found.id == "my-model-12b-a2b"


def test_an_own_file_replaces_a_shipped_entry(home: Path) -> None:
    (home / "hardware" / "gb10.yaml").write_text(CARD.replace("my-card", "gb10"))
    assert knowledge.hardware("gb10").name == "My card"


def test_a_bad_own_file_is_not_dropped_in_silence(home: Path) -> None:
    (home / "hardware" / "bad.yaml").write_text(CARD + "colour: red\n")
    with pytest.raises(FactFileError, match=r"bad\.yaml: colour: no such field"):
        knowledge.hardware("gb10")


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("", "", "expected a mapping"),
        ("[1, 2]", "", "expected a mapping"),
        ("name: x", "id", "is missing"),
        ("id: x\nmemory_gb: 24", "memory_gb", "Quantity"),
        ("id: x\nmemory_gb: {value: 24}", "memory_gb.source", "is missing"),
        ("id: x\nmemory_gb: {value: 24, source: ''}", "memory_gb", "needs a source"),
        ("id: x\nmemory_gb: {value: -1, source: me}", "memory_gb", "out of range"),
        ("id: x\nmemory_gb: {value: 0, source: me}", "memory_gb", "above 0"),
        ("id: x\nmemory_gb: {value: .inf, source: me}", "memory_gb", "out of range"),
        ("id: x\nmemory_gb: {value: .nan, source: me}", "memory_gb", "out of range"),
        ("id: x\nmemory_gb: {value: 24, source: me, status: guessed}", "memory_gb.status",
         "Input should be"),
        ("id: x\nvendor: ibm", "vendor", "Input should be"),
        ("id: '!!'", "id", "letter or digit"),
        ("id: [", "line 2", "not YAML"),
        ("id: x\n" + "#" * 70_000, "", "has 70 kB"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_hardware(tmp_path: Path, text: str, field: str, reason: str) -> None:
    path = tmp_path / "card.yaml"
    path.write_text(text)
    problems = check_file("hardware", path)
    assert any(found == field and reason in why for _, found, why in problems), problems
    result = run("hardware", "validate", str(path))
    assert result.exit_code == 2 and reason in result.output and "Traceback" not in result.output


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("id: x", "source"),
        ("id: x\nsource: me\nactive_params_b: 3\ntotal_params_b: 2", "active_params_b"),
        ("id: x\nsource: me\nheads: 40\nkv_heads: 80", "kv_heads"),
        ("id: x\nsource: me\nexperts: 8\nexperts_per_token: 9", "experts_per_token"),
        ("id: x\nsource: me\nlayers: 0", "layers"),
        ("id: x\nsource: me\ncheckpoints: [{quant: fp8, repository: a/b}]", "checkpoints.0.source"),
    ],
)
def test_what_is_wrong_with_a_model_file(tmp_path: Path, text: str, field: str) -> None:
    path = tmp_path / "model.yaml"
    path.write_text(text)
    assert field in [found for _, found, _ in check_file("llms", path)]
    assert run("models", "validate", str(path)).exit_code == 2


def test_good_files_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(CARD)
    (tmp_path / "b.yaml").write_text(MODEL)
    assert run("hardware", "validate", str(tmp_path / "a.yaml")).output.strip().endswith("ok")
    assert run("models", "validate", str(tmp_path / "b.yaml")).exit_code == 0
    missing = run("hardware", "validate", str(tmp_path / "none.yaml"))
    assert missing.exit_code == 2 and "no such file" in missing.output
    assert run("hardware", "validate", str(tmp_path)).exit_code == 2


@pytest.mark.parametrize(
    ("old", "new", "field", "reason"),
    [
        ("aliases: [mine]", "aliases: [gb10]", "aliases", "the name 'gb10' belongs to both"),
        ("arch: sm_120", "arch: banana", "arch", "unknown architecture 'banana'"),
        ("arch: sm_120", "arch: sm120", "arch", "unknown architecture 'sm120'"),
        ("id: my-card", 'id: "My Card!!"', "id", "small letters"),
    ],
)
def test_a_file_that_would_break_the_commands_is_not_ok(
    home: Path, tmp_path: Path, old: str, new: str, field: str, reason: str
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(CARD.replace(old, new))
    assert any(found == field and reason in why for _, found, why in check_file("hardware", path))
    assert run("hardware", "validate", str(path)).exit_code == 2
    (home / "hardware" / "own.yaml").write_text(path.read_text())
    with pytest.raises(FactFileError, match=r"own\.yaml: "):
        knowledge.hardware("gb10")


def test_two_own_files_that_claim_one_name_are_named(home: Path) -> None:
    (home / "hardware" / "a.yaml").write_text(CARD)
    (home / "hardware" / "b.yaml").write_text(CARD.replace("my-card", "other-card"))
    assert check_file("hardware", home / "hardware" / "a.yaml")
    with pytest.raises(
        FactFileError,
        match=r"b\.yaml: aliases: the name 'mine' belongs to both my-card and other-card",
    ):
        knowledge.hardware("gb10")


def test_a_proxy_must_be_a_model_that_is_known(home: Path) -> None:
    path = home / "llms" / "model.yaml"
    for proxy, good in (
        ("nosuch", False),
        ("my-model-12b-a2b", False),
        ("qwen3.6-27b", True),
        ("other", True),
    ):
        path.write_text(f"{MODEL}proxy: {proxy}\n")
        (home / "llms" / "other.yaml").write_text(
            MODEL.replace("my-model-12b-a2b", "other").replace("me/my", "me/other")
        )
        _forget()
        assert ("proxy" in [field for _, field, _ in check_file("llms", path)]) is not good
        if good:
            assert knowledge.llm("my-model-12b-a2b").proxy == proxy
        else:
            with pytest.raises(FactFileError, match=r"model\.yaml: proxy: "):
                knowledge.llm("other")


def test_shipped_fact_files_are_ok() -> None:
    """Some of them: the index is made of all, and a clash of names ends its making."""
    for table in ("hardware", "llms"):
        for path in sorted((knowledge_dir() / table).glob("*.yaml"))[::30]:
            assert check_file(table, path) == [], path.name


@pytest.mark.parametrize(
    ("command", "known", "text"), [("hardware", "my-card", CARD), ("models", "my-model", MODEL)]
)
def test_an_entry_is_listed_and_shown(home: Path, command: str, known: str, text: str) -> None:
    (home / command.replace("models", "llms") / "own.yaml").write_text(text)
    head, *rows = run(command, "list").output.splitlines()
    own = [row for row in rows if row.startswith(known)]
    shown = run(command, "show", own[0].split()[0]).output
    assert "\n".join([head, *own, shown]) == BY_HAND["listed"][command]
    assert max(map(len, rows)) <= 80


@pytest.mark.parametrize("command", ["hardware", "models"])
def test_every_shipped_entry_is_listed_and_can_be_shown(command: str) -> None:
    idents, get = ((knowledge.hardware_ids(), knowledge.hardware) if command == "hardware" else
                   (knowledge.llm_ids(), knowledge.llm))  # fmt: skip
    rows = run(command, "list").output.splitlines()
    assert {*idents} <= {row.split()[0] for row in rows} and max(map(len, rows)) <= 80
    assert [ident for ident in idents if ident not in entry_text(get(ident))] == []


def test_a_drafter_is_shown_with_what_loads_it() -> None:
    told, shown = BY_HAND["drafter"].values()
    assert _drafter(Drafter.from_plain(told)) + "\n" == shown


@pytest.mark.parametrize(("change", "field", "reason"), BY_HAND["odd"])
def test_what_is_odd_of_a_file(change: dict[str, Any], field: str, reason: str) -> None:
    assert check_entry("hardware", yaml.safe_load(CARD) | change, "f")[1] == [("f", field, reason)]


def test_the_examples_of_the_readme_are_good_files(tmp_path: Path) -> None:
    blocks = (knowledge_dir() / "README.md").read_text().split("```yaml\n")[1:]
    for table, block in zip(("hardware", "llms"), blocks, strict=True):
        path = tmp_path / f"{table}.yaml"
        path.write_text(block.split("```")[0])
        assert check_file(table, path) == []
