"""Values for what nobody states: each has a source, and an unknown architecture is refused."""

import pytest

from advisor.domain.nouns import UnknownFact
from advisor.knowledge import store
from advisor.knowledge.build import _imputation
from advisor.knowledge.fact_files import FactFileError
from advisor.knowledge.imputed import architecture, table
from advisor.perf.arrays import ARCHS, CLASSES, LINKS, QUANT_FAMILIES


def test_every_word_of_the_vocabularies_has_its_values() -> None:
    assert set(table("architectures", "fp32_per_bandwidth")) == set(ARCHS)
    assert set(CLASSES) <= set(table("classes"))
    assert set(table("links")) == set(LINKS) - {"unknown"}
    assert set(table("quant_families", "bytes_ffn")) == set(QUANT_FAMILIES)


def test_a_number_without_a_source_is_refused() -> None:
    with pytest.raises(FactFileError, match="source"):
        _imputation({"values": {"x": {"value": 1.0, "unit": "B", "status": "assumed"}}})


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("sm_90a", "sm_90"), ("sm_87", "sm_86"), ("gfx1151", "gfx11"), ("xe2", "intel"),
        ("apple9", "apple9"), ("apple", "apple"),
    ],
)  # fmt: skip
def test_spellings(name: str, word: str) -> None:
    assert architecture(name) == word


@pytest.mark.parametrize("name", ["sm_130", "sm_12", "gaudi3", "gfx2000"])
def test_an_unknown_architecture_is_no_neighbour(name: str) -> None:
    with pytest.raises(UnknownFact):
        architecture(name)


def test_all_listed_hardware_has_an_architecture() -> None:
    for ident in store.index()["hardware"]:
        hardware = store.hardware(ident)
        assert architecture(hardware.gpu_family or hardware.arch)
