"""A generated file that is not what was generated is told when it is read."""

import json
from pathlib import Path

import pytest

from advisor.domain.nouns import AdvisorError
from advisor.domain.paths import knowledge_dir, models_dir, seal, unseal
from advisor.lab.training import train
from advisor.prediction import artefact, predict

TEXT = '{\n"generated": "by us",\n"a": 1,\n"b": [2]\n}\n'


def test_what_was_sealed_is_read() -> None:
    made = seal(TEXT)
    assert unseal(made.encode(), "x", "") == {"a": 1, "b": [2]}
    assert json.loads(made)["crc32"] and made.splitlines()[1] == '"generated": "by us",'


@pytest.mark.parametrize(
    "change", [("1", "3"), ("[2]", "[2,2]"), ("}\n", ""), ("b", "c"), ('"crc32"', '"crc"')]
)
def test_any_change_is_told(change: tuple[str, str]) -> None:
    made = seal(TEXT)
    at = made.rindex(change[0])
    with pytest.raises(AdvisorError, match=r"x is damaged.*: do this"):
        unseal((made[:at] + change[1] + made[at + len(change[0]) :]).encode(), "x", "do this")


def test_a_changed_coefficient_or_layout_of_the_model_is_refused(tmp_path: Path) -> None:
    text = (models_dir() / artefact.ARTEFACT).read_text()
    path = tmp_path / "speedup.json"
    path.write_text(text)
    predict.load(path)
    for number, other in enumerate((text[:-1000], text.replace("0.1", "0.9"), "")):
        broken = tmp_path / f"{number}.json"
        broken.write_text(other)
        with pytest.raises(AdvisorError, match=rf"{number}\.json is damaged.*advisor train"):
            predict.load(broken)
    state = json.loads(text) | {"schema": 999}
    state.pop("crc32")
    path = tmp_path / "other.json"
    path.write_text(train.text(state))
    with pytest.raises(AdvisorError, match="has layout 999, this release reads layout"):
        predict.load(path)


def test_the_shipped_files_are_sealed() -> None:
    for path in (models_dir() / "speedup.json", knowledge_dir() / "index.json"):
        whole = json.loads(path.read_text())
        del whole["generated"], whole["crc32"]
        assert unseal(path.read_bytes(), path.name, "") == whole
