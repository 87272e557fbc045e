"""Releases in their order, and how near a spelling must be."""

from statistics import NormalDist

import pytest

from advisor.domain import normal
from advisor.domain.paths import user_dirs
from advisor.domain.spelling import letters_apart, nearest
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
