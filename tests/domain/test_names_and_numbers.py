"""Releases in their order, how near a spelling must be, and what every noun can do."""

from contextlib import nullcontext
from math import inf, nan, nextafter
from statistics import NormalDist
from typing import Any

import pytest
from pydantic import ValidationError

from advisor.domain import normal
from advisor.domain.files import UnusableFile, check_plain
from advisor.domain.nouns import (
    LLM,
    Facts,
    Flag,
    FlagLookups,
    Hardware,
    Launch,
    Port,
    Request,
    Span,
    UnknownFact,
)
from advisor.domain.paths import user_dirs
from advisor.domain.spelling import is_only_near, letters_apart, nearest
from advisor.domain.versions import before


@pytest.mark.parametrize(
    ("text", "bound", "older"),
    [
        ("0.25.0", "0.25.1", True), ("0.9.2", "0.10.0", True), ("0.25.1", "0.25.1", False),
        ("v0.25.1", "0.25.1", False), ("0.25.1rc2", "0.25.1", False), ("0.26.0", "0.25.1", False),
        (None, "0.25.1", False), ("main", "0.25.1", False),
    ],
)  # fmt: skip
def test_a_release_is_older_than_another(text: str | None, bound: str, older: bool) -> None:
    assert before(text, bound) is older


NEAR = """40 architecture, 50 name, 50 command, 60 field, 60 id, 65 value, 70 option,
75 listed word, 80 key, 80 quantisation, 80 word of a variable, 85 setting, 90 module, 93 variable,
95 resource, 96 library's variable"""


@pytest.mark.parametrize("row", " ".join(NEAR.split()).split(", "))
def test_a_spelling_is_as_near_as_its_kind_asks(row: str) -> None:
    """difflib's ratio of two words of 100 letters is that of the letters in common."""
    least, kind = row.split(" ", 1)
    for same in (int(least), int(least) - 1):
        near = nearest("a" * same + "b" * (100 - same), ["a" * same + "c" * (100 - same)], kind)
        assert len(near) == (same == int(least))


@pytest.mark.parametrize(
    ("one", "other", "most", "apart"),
    [
        ("kitten", "sitting", 5, 3),  # two changed, one put in
        ("ab", "ba", 2, 1),  # swapped with the next
        ("abc", "abc", 1, 0),
        ("", "abc", 3, 3),
        ("abcdef", "uvwxyz", 2, 3),  # more than asked for
        ("a", "abcd", 2, 3),
    ],
)
def test_letters_that_must_change(one: str, other: str, most: int, apart: int) -> None:
    assert letters_apart(one, other, most) == letters_apart(other, one, most) == apart


@pytest.mark.parametrize(
    ("word", "near", "known", "sole"),
    [
        ("eagl", "eagle", "eagle mtp", True),
        ("egl", "eagle", "eagle mtp", False),  # two letters of a short word
        ("num_tokns", "num-tokens", "num-tokens", True),
        ("num_tokes", "num-tokens", "num-tokens num-takes", False),  # as near to another
        ("num_tokes", "num-tokens", "num-tokens num-poke", True),  # the other one is further
        ("numtkns", "num-tokens", "num-tokens", True),  # two of a long one
        ("nmtkns", "num-tokens", "num-tokens", False),
        ("q4_k", "q5_k", "q5_k", False),  # another number is another thing
        ("NUM TOKENS", "num-tokens", "num-tokens", True),
        ("", "a", "a", False),
        ("a", None, "b", False),
    ],
)
def test_a_slip_of_one_known_word(word: str, near: str | None, known: str, sole: bool) -> None:
    assert is_only_near(word, near, known.split()) == sole


SHARES = [1e-6, 1e-3, 0.01, 0.1, 0.25, 0.4999, 0.5, 0.75, 0.9, 0.99, 0.999, 1 - 1e-6]


@pytest.mark.parametrize("share", SHARES)
def test_quantile_and_its_inverse(share: float) -> None:
    z = normal.quantile(share)
    assert z == pytest.approx(NormalDist().inv_cdf(share), abs=1e-12)
    assert normal.cdf(z) == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize(
    ("given", "folders"),
    [
        ({"ADVISOR_KNOWLEDGE": "/a::/b", "XDG_CONFIG_HOME": "/x"}, ("/a", "/b")),
        ({"ADVISOR_KNOWLEDGE": "", "XDG_CONFIG_HOME": "/x"}, ("/x/advisor",)),
        ({"XDG_CONFIG_HOME": "", "HOME": "/home/me"}, ("/home/me/.config/advisor",)),
    ],
)
def test_facts_of_the_user_lie_where_the_environment_says(
    given: dict[str, str], folders: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ADVISOR_KNOWLEDGE", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert user_dirs() == folders


def flag(name: str, value: str | None = None, **more: Any) -> Flag:
    return Flag(name=name, raw=name, value=value, **more)


LAUNCH = Launch(engine="vllm", flags=(
    flag("--a", "1"), flag("--b"), flag("--c", "$X", unresolved=True), flag("--d", "False"),
    flag("--e", "no"), flag("--f", "Off"), flag("--g", "0"),
    flag("--spec-draft-n-max", "3"), flag("--spec-type", "draft-mtp"), flag("--a", "2"),
))  # fmt: skip


def lookups(**changes: Any) -> FlagLookups:
    made = FlagLookups()
    made.launch = LAUNCH.replace(**changes)
    return made


@pytest.mark.parametrize(
    ("names", "value", "on", "open_value"),
    [
        ("--a", "2", True, False),  # the last one counts, as engines' parsers have it
        ("--x --b --a", None, True, False),  # of the first name that is there
        ("--c", None, True, True),
        ("--d", "False", False, False),
        ("--e", "no", False, False),
        ("--f", "Off", False, False),
        ("--g", "0", False, False),
        ("--x", None, False, False),
    ],
)
def test_what_is_asked_of_flags(names: str, value: str | None, on: bool, open_value: bool) -> None:
    asked, given = names.split(), lookups()
    assert (given.value(*asked), given.has_switch(*asked)) == (value, on)
    assert (given.open_value(*asked), given.unread()) == (open_value, True)
    bare = LAUNCH.flags[-3:]
    assert lookups(flags=bare, open_end=True).unread() and not lookups(flags=bare).unread()
    places = (lookups(flags=bare[:n]) for n in (2, 0))
    assert [(x.k_flag(), x.spec_flag()) for x in places] == [(bare[0], bare[1]), (None, None)]


@pytest.mark.parametrize("name", ["--spec-tokens", "--speculative-num-steps", "--spec-draft-n-max",
    "--speculative-dspark-block-size"])  # fmt: skip
def test_each_engine_has_an_option_for_k(name: str) -> None:
    assert lookups(flags=(flag("--spec-type", "x"), flag(name, "2"))).k_flag().value == "2"


def test_a_noun_is_a_value_that_stays_as_it_is() -> None:
    port, plain = Port(number=80, probe="Service"), {"number": 80, "probe": "Service"}
    assert port == Port(**plain) and hash(port) == hash(Port(**plain))
    assert hash(Hardware(id="a")) == hash(Hardware(id="a", link="x")) != hash(LLM(id="a"))
    assert port != port.replace(line=3) and port.replace(line=3).line == 3
    assert repr(port) == "Port(number=80, probe='Service', line=0, span=None)"
    assert dict(port) == port.model_dump() == plain | {"line": 0, "span": None}
    assert port.model_dump(exclude_defaults=True) == plain
    assert "probe" not in port.model_dump(exclude=("probe",))
    made = flag("a", places=(1, 2), span=Span(1, 2))
    told = {"name": "a", "raw": "a", "places": [1, 2], "span": {"start": 1, "end": 2}}
    assert Flag.from_plain(told) == Flag.model_validate(told) == made
    assert made.model_dump(mode="json", exclude_defaults=True) == told
    for change in (lambda: setattr(port, "line", 1), lambda: delattr(port, "line")):
        with pytest.raises(AttributeError, match="Port is frozen"):
            change()
    for given, said in (({}, "needs number"), ({"number": 1, "x": 1}, "has no field x")):
        with pytest.raises(TypeError, match=f"Port {said}"):
            Port(**given)
    with pytest.raises(ValidationError, match="should be a table with the fields of Span"):
        Flag.model_validate(told | {"span": 3})


@pytest.mark.parametrize(
    ("data", "place"),
    [("\x07", "the text"), ({"a": {"b": ["", "\x07"]}}, r"a\.b\[1\]"), ({"\x07": 1}, r"\\x07"),
     ({"a": "b\n\tc", "d": ["e"], "f": 1}, None)],
)  # fmt: skip
def test_where_a_character_is_that_cannot_be_shown(data: Any, place: str | None) -> None:
    if place is None:
        return check_plain(data, "f.yaml")
    with pytest.raises(UnusableFile, match=f"{place}: holds a character that cannot be shown"):
        check_plain(data, "f.yaml")


LIMITS = """gpus 1 1024, tp 1 1024, pp 1 128, ep 1 1024, gpus_per_machine 1 1024,
max_num_seqs 1 1e5, concurrency 1 1e5, ctx_tokens 1 1e7, max_model_len 1 1e7, output_tokens 1 1e6,
temperature 0. 5., prefix_share 0. 1., output_spread 0. .95, acceptance_k 1 31,
acceptance_length 1. 32., max_ttft_ms .001 1e9., max_tpot_ms .001 1e9., memory_fraction .05 1."""


@pytest.mark.parametrize("row", LIMITS.replace("\n", " ").split(", "))
def test_a_question_keeps_to_the_limits_of_its_numbers(row: str) -> None:
    """From the least to the most of each, whole or (with a point) any, and none beyond."""
    name, *words = row.split()
    ends = [float(word.rstrip(".")) for word in words]
    beside = {"acceptance_length": 1} if name == "acceptance_k" else {}

    def ask(value: float) -> Request:
        return Request.model_validate({"hardware": "gb10", **beside, name: value})

    assert [getattr(ask(value), name) for value in ends] == ends
    beyond = [(ends[0] - 1, "greater_than_equal"), (ends[1] + 1, "less_than_equal")]
    if "." in row:
        beyond = [(nextafter(ends[0], -inf), beyond[0][1]), (nextafter(ends[1], inf), beyond[1][1])]
        beyond += [(nan, "finite_number"), (inf, "finite_number")]
    for value, error in beyond:
        with pytest.raises(ValidationError) as caught:
            ask(value)
        assert [(one["type"], one["loc"]) for one in caught.value.errors()] == [(error, (name,))]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"acceptance": []}, "at least 1 item"),
        ({"acceptance": [0, 0.5, 1] + [1] * 13}, None),
        ({"acceptance": [0.5] * 17}, "at most 16 items"),
        ({"acceptance": [1.01]}, "less than or equal to 1"),
        ({"acceptance": [-0.01]}, "greater than or equal to 0"),
        ({"acceptance": [nan]}, "finite number"),
        ({"acceptance": [0.5], "acceptance_length": 2}, "acceptance and acceptance_length say the "
         "same thing twice: give one of them"),
        ({"acceptance_length": 4, "acceptance_k": 3}, None),
        ({"acceptance_length": 4.5, "acceptance_k": 3}, "an acceptance length of 4.5 is "
         "impossible at k = 3: at most 4 tokens a step"),
        ({"acceptance_k": 3}, "acceptance_k says at which k acceptance_length was measured: give "
         "that too, or leave it out"),
    ],
)  # fmt: skip
def test_measures_of_acceptance_go_together(asked: dict[str, Any], problem: str | None) -> None:
    with pytest.raises(ValidationError, match=problem) if problem else nullcontext():
        Request.model_validate({"hardware": "gb10", **asked})


def test_what_is_not_asked_has_the_documented_defaults() -> None:
    """As `advisor recommend --help` names them; a launch's lengths are assumed to be those."""
    given = {key: value for key, value in Request(hardware="gb10") if value is not None}
    assert given == {
        "hardware": "gb10", "gpus": 1, "model": "qwen3.6-35b-a3b", "concurrency": 1,
        "ctx_tokens": 2048, "output_tokens": 512, "workload": "mixed", "prefix_share": 0.0,
        "goal": "balanced",
    }  # fmt: skip
    assert Facts().length == 2048 + 512


def test_what_is_not_known_names_what_may_be_meant() -> None:
    told = str(UnknownFact("model", "x", ("a", "b"), "or give a file"))
    assert told == "unknown model 'x'; did you mean a or b? or give a file"
