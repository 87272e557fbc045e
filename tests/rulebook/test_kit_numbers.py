"""Numbers as people write them, as the engines' parsers read them, and the limits they have."""

from typing import Any

import pytest

from advisor.rules.kit import numbers
from advisor.rules.kit.case import integer

WRITTEN = {  # kind: text, the number that is meant (None: anyone's guess)
    "int": {
        " 64 ": "64", "64.": "64", "'64'": "64", "=64": "64", "“64”": "64", "(64)": "64",
        "1_024": "1_024",  # Python takes it as it is
        "four": "4", "sixteen": "16", "seventeen": None, "1,024": "1024", "1 048 576": "1048576",
        "10,24": None, "4.0": "4", "4.5": None, "1.5k": "1536", "32k": "32768", "1M": "1048576",
        "128 k": "131072", "32kib": "32768", "8192tokens": "8192", "32k tokens": "32768",
        "20000k": "20000",  # 20 million tokens nobody serves: the letter is the slip
        "64gb": "64", "64 requests": "64", "many": None, "": None,
    },
    "float": {
        ".9": ".9", "1e-3": "1e-3", "90%": "0.9", "12.5%": "0.125", "0,9": "0.9", "10,95": None,
        "0.9x": "0.9", "nine": "9", "half": None,
    },
    "human_readable_int": {"32k": "32k", "32k tokens": "32768"},
    "human_readable_int_or_auto": {"auto": "auto"},
    "str": {"anything": "anything"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind in WRITTEN for text in WRITTEN[kind]]
)
def test_what_a_number_was_meant_to_be(kind: str, text: str) -> None:
    assert numbers.likely_number(kind, text) == WRITTEN[kind][text]


TAKEN = {
    "int": (("1", "+1", "-12", "1_000", " 7 "), ("1.0", "1k", "", "x", "1 2", "--1")),
    "float": (("1", "1.", ".5", "-0.5", "1e9", "2.5E-3"), ("1,5", ".", "e9", "50%", "")),
    "human_readable_int": (("1", "-1", "2k", "2.5M", "1G", "3t"), ("2.5", "k", "2kb", "auto")),
    "human_readable_int_or_auto": (("auto", "-1", "8", "1.5K"), ("Auto", "-2", "", "1.5")),
    "str": (("", "x"), ()),
}


@pytest.mark.parametrize("kind", TAKEN)
def test_what_a_kind_of_option_reads_as_a_number(kind: str) -> None:
    good, bad = TAKEN[kind]
    assert [text for text in good if not numbers.takes(kind, text)] == []
    assert [text for text in bad if numbers.takes(kind, text)] == []


TYPES: list[tuple[str, Any, str | None]] = [
    ("int", 3, None), ("int", "3", None), ("int", 3.0, None), ("int", 3.5, "a whole number"),
    ("int", "3.5", "a whole number"), ("int", [3], "a whole number"),
    ("int", None, "a whole number"), ("float", "1e3", None), ("float", "x", "a number"),
    ("bool", 1, None), ("bool", "Yes", None), ("bool", "maybe", "true or false"),
    ("str", 3, "text"), ("dict", "x", "an object"), ("dict[str, Any]", [], "an object"),
    ("list[int]", [1, "2"], None), ("list[int]", [1, "x"], "a list"), ("list[int]", 1, "a list"),
    ("int | str", [], "a whole number or text"), ("int | None", None, None),
    ("int | str", None, None), ("Optional[int]", None, None),
    ("Optional[int]", "x", "a whole number"), ("SomeClass", "x", None),
    ("int | SomeClass", "x", None), ("Literal['a', 'b']", "c", None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "said"), TYPES)
def test_what_a_field_of_a_configuration_takes(kind: str, value: Any, said: str | None) -> None:
    assert numbers.wrong_type(kind, value) == said


LIMITS: list[tuple[tuple[str, ...] | None, Any, str | None]] = [
    (("Ge(ge=1)",), 1, None), (("Ge(ge=1)",), 0, "at least 1"), (("Gt(gt=0)",), 0, "more than 0"),
    (("Gt(gt=0)",), 0.001, None), (("Le(le=1)",), "1.5", "at most 1"),
    (("Lt(lt=1)",), 1, "less than 1"), (("Lt(lt=1)",), "0.99", None),
    (("Ge(ge=-1)", "Le(le=0.5)"), 0.75, "at most 0.5"),
    (("Ge(ge=-1)", "Le(le=0.5)"), -2, "at least -1"),
    (("MultipleOf(8)", "Gt(gt=0)"), -8, "more than 0"), (("Ge(ge=1)",), "many", None),
    (("Ge(ge=1)",), False, None), (("Ge(ge=1)",), [0], None), (None, 0, None),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "value", "said"), LIMITS)
def test_what_breaks_limits(limits: tuple[str, ...] | None, value: Any, said: str | None) -> None:
    assert numbers.outside(limits, value) == said


def test_limits_are_those_of_the_class_behind_an_option() -> None:
    assert numbers.limits("vllm", "--max-num-seqs", None)
    assert numbers.limits("vllm", "--no-such-option", None) == ()
    assert numbers.limits("llama-server", "--no-such-option", None) == ()
    port = numbers.limits("sglang", "--port", None)
    assert numbers.outside(port, 70_000) and not numbers.outside(port, 30_000)


SIZES = {None: None, "8192": 8192, "128k": 128_000, "128K": 131_072, "1m": 10**6, "1M": 2**20,
         "2g": 2 * 10**9, "1G": 2**30, " 64 ": 64, "-1": -1, "1.5k": 1500, "0.5M": 2**19,
         "": None, "k": None, "64kb": None, "1e3": None, "x": None, "12 k": None}  # fmt: skip


@pytest.mark.parametrize("text", SIZES)
def test_a_size_as_engines_write_it(text: str | None) -> None:
    assert integer(text) == SIZES[text]
