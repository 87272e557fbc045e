"""How far two spellings are apart, and the nearest known spelling of a word."""

from __future__ import annotations

import re
from collections.abc import Iterable

# How alike a known spelling must be (difflib's ratio, 0 to 1), by what the word names
CUTOFFS = {
    "name": 0.5,  # several are offered, so that one too many does no harm
    "only name": 0.41,  # the first alone, where none of them is that near
    "architecture": 0.4,  # short words: one letter is a quarter of them
}


def nearest(word: str, known: Iterable[str], kind: str, count: int = 1) -> list[str]:
    """The known spellings most like a word, best first; none that is less alike than its `kind`
    asks for (`CUTOFFS`).
    """
    from difflib import get_close_matches  # start-up: only for a word that is unknown

    return get_close_matches(word, list(known), count, CUTOFFS[kind])


def letters_apart(one: str, other: str, most: int) -> int:
    """How many letters must be put in, taken out, changed or swapped with the next to make one word
    the other; `most + 1` for more than `most`.
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def is_only_near(word: str, near: str | None, known: Iterable[str]) -> bool:
    """Whether a word is a slip of one known word and of no other: within two letters of it, one
    in a word of up to five; dashes, underscores and capitals do not count.
    """
    given, meant = _plain(word), _plain(near or "")
    if sorted(re.findall(r"\d", given)) != sorted(re.findall(r"\d", meant)):
        return False  # another number is another thing
    most = 1 if min(len(given), len(meant)) < 6 else 2
    apart = letters_apart(given, meant, most)
    if not given or not meant or apart > most:
        return False
    others = {_plain(one) for one in known} - {meant}
    return all(letters_apart(given, one, apart) > apart for one in others)


def _plain(word: str) -> str:
    return re.sub(r"[-_. ]", "", word).lower()
