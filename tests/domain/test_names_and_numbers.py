"""Releases in their order, how near a spelling must be, and what every noun can do."""

from statistics import NormalDist
from typing import Any

import pytest
from pydantic import ValidationError

from advisor.domain import normal
from advisor.domain.files import UnusableFile, check_plain
from advisor.domain.nouns import Flag, FlagLookups, Launch, Port, Span, UnknownFact
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


@pytest.mark.parametrize(
    ("word", "kind", "found"),
    [  # difflib's ratio to "abcd": twice the letters in common over all letters
        ("abcx", "option", True),  # 6 / 8
        ("abxy", "option", False),  # 4 / 8
        ("abxy", "name", True),
        ("axyz", "name", False),  # 2 / 8
        ("abcx", "key", False),
        ("abcde", "key", True),  # 8 / 9
    ],
)
def test_a_spelling_is_as_near_as_its_kind_asks(word: str, kind: str, found: bool) -> None:
    assert nearest(word, ["abcd"], kind) == (["abcd"] if found else [])


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


def test_a_noun_is_a_value_that_stays_as_it_is() -> None:
    port, plain = Port(number=80, probe="Service"), {"number": 80, "probe": "Service"}
    assert port == Port(**plain) and hash(port) == hash(Port(**plain))
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


def test_what_is_not_known_names_what_may_be_meant() -> None:
    told = str(UnknownFact("model", "x", ("a", "b"), "or give a file"))
    assert told == "unknown model 'x'; did you mean a or b? or give a file"
