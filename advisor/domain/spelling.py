"""How far two spellings are apart, and the nearest known spelling of a word."""

import re
from collections.abc import Callable, Iterable

# How alike a known spelling must be (difflib's ratio, 0 to 1), by what the word names
CUTOFFS = {
    "architecture": 0.4,  # short words: one letter is a quarter of them
    "name": 0.5,  # several are offered, so that one too many does no harm
    "command": 0.5,  # few there are, and the one offered is not run
    "field": 0.6,  # of a question: difflib's usual; offered, not filled in
    "id": 0.6,  # of a measured row's hardware or model: difflib's usual; two are offered
    "value": 0.65,  # few choices; `slip` decides how sure it is
    "option": 0.7,  # hundreds there are, and many share their words
    "listed word": 0.75,  # few there are, no other is taken, and it is read as meant
    "key": 0.8,  # of a file: it is read as meant
    "quantisation": 0.8,  # short: one letter of five is wrong
    "word of a variable": 0.8,  # the other words are the same
    "setting": 0.85,  # nearer than an option: a program's own settings resemble some
    "module": 0.9,  # long, with most of it the same in all
    "variable": 0.93,  # long, with the same first words; others' variables may stand beside it
    "resource": 0.95,  # it may have any name: only one a letter away from the usual is misspelt
    "library's variable": 0.96,  # many share a family's words, and others are read elsewhere
}


def nearest(
    word: str, known: Iterable[str], kind: str, count: int = 1, fold: Callable[[str], str] = str
) -> list[str]:
    """Known spellings most like a word but for `fold`, best first, as near as `kind` asks."""
    from difflib import get_close_matches  # start-up: only for a word that is unknown

    folded = {fold(name): name for name in known}
    return [folded[m] for m in get_close_matches(fold(word), folded, count, CUTOFFS[kind])]


def nearest_word(
    word: str, known: Iterable[str], kind: str, fold: Callable[[str], str] = str
) -> str | None:
    """The first of `nearest`; None where no known spelling is as near as that."""
    return next(iter(nearest(word, known, kind, 1, fold)), None)


def letters_apart(one: str, other: str, most: int) -> int:
    """Letters to put in, take out, change or swap; `most + 1` for more than `most`."""
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
    """Whether a word is a slip of one known word and of no other: within two letters of it, one in
    a word of up to five; dashes, underscores and capitals do not count.
    """
    given, meant = plain_word(word), plain_word(near or "")
    if sorted(re.findall(r"\d", given)) != sorted(re.findall(r"\d", meant)):
        return False  # another number is another thing
    most = 1 if min(len(given), len(meant)) < 6 else 2
    apart = letters_apart(given, meant, most)
    if not given or not meant or apart > most:
        return False
    others = {plain_word(one) for one in known} - {meant}
    return all(letters_apart(given, one, apart) > apart for one in others)


def plain_word(word: str) -> str:
    """A word without its separators, in small letters."""
    return re.sub(r"[-_. ]", "", word).lower()
