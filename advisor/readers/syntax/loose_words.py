"""Words and bracketed lists of a text whose language is not known: quotes fall away, a backslash
in a
path stays.
"""

from __future__ import annotations

import re

from advisor.domain.patterns import lazy_re
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import HOLE, Mapped, hole, join

MAX_LIST, MAX_LISTS = 20_000, 2_000
TEXT = r"\"(?:[^\"\\`]|[\\`].|\"\"){0,1500}\"|'(?:[^'\\\n]|\\.){0,1500}'"
_WORD = lazy_re(rf"(?:{TEXT}|[^\s\"',;|]|[,;|](?=[^\s\"',;|])|(?<=\S)['\"])+|[;|]", re.S)
ITEM = lazy_re(rf"{TEXT}|[^\s\"',;\[\]()]+", re.S)
_BRACKET = lazy_re(rf"{TEXT}|@\(|[\[\]()]", re.S)
_GIVEN = lazy_re(
    r"([A-Za-z_][\w.-]*)[\"'\ue001]?[ \t]*(\+?[=:])[ \t]*(?:with [\w.]+;[ \t]*|\w+\([ "
    r"\t]*)?$|(?:^|[\s=(,{:])$"
)
_ENTRY = lazy_re(
    rf"(?P<text>{TEXT})|(?P<round>\((?:{TEXT}|[^()\"'])*\)(?:\.\w+)*)|[^\s\"',;\[\]()]+", re.S
)
_NAME = lazy_re(r"[^\w.]+")
_VALUE = lazy_re(r"(?!(?:true|false|null)$)[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_QUOTED = lazy_re(TEXT, re.S)
_ESCAPE = lazy_re(r"[\\`]([\"'`$\\])|\"\"")


class BracketList:
    """A bracketed list: the name that it is given to, its words, and where it stands."""

    def __init__(self, name: str, words: list[Mapped], span: tuple[int, int]) -> None:
        self.name, self.words, self.span, self.taken = name, words, span, False
        self.at = words[0].first() if words else -1


def bracket_lists(text: Mapped, reading: Reading) -> list[BracketList]:
    """The lists of a text that stand in no other, in their order."""
    found: list[BracketList] = []
    done = 0
    for start, end in sorted(_spans(text.text)):
        if start < done or end - start > MAX_LIST or len(found) >= MAX_LISTS:
            continue
        given = _GIVEN.search(text.text[max(0, start - 80) : start])
        if given is None or not reading.spend(1 + (end - start) // 200):
            continue
        done = end
        inside = text.part(start, end)
        words = [word for word in _items(inside) if word.text not in ("@", "")]
        name = (given.group(1) or "").rpartition(".")[2]
        before = next((one for one in found if one.name == name), None) if name else None
        if given.group(2) == "+=" and before is not None:
            before.words += words  # what a condition adds is read
        else:
            found.append(BracketList(name, words, (start, end)))
    return found


def _items(inside: Mapped) -> list[Mapped]:
    """The items of a list. An expression in round brackets is a value that only its language knows,
    as is a bare name among texts in quotes: `[ "--port" (toString port) inst.model ]`,
    `@("--model", (Resolve-Path $model).Path)`.
    """
    square = inside.text[:1] == "["
    body = inside if square else inside.part(2, len(inside) - 1)
    found = list(_ENTRY.finditer(body.text))
    if square and not any(one["text"] for one in found):
        return [plain_word(body.part(*one.span())) for one in ITEM.finditer(body.text)]
    words: list[Mapped] = []
    for one in found:
        word = body.part(*one.span())
        if one["round"] or (square and not word.has_hole and _VALUE.fullmatch(one.group())):
            word = hole(_NAME.sub("_", HOLE.sub("_", one.group())).strip("_"), word.first())
        words.append(plain_word(word))
    return words


def _spans(text: str) -> list[tuple[int, int]]:
    """Where `[...]` and `@(...)` begin and end, quotes seen."""
    spans: list[tuple[int, int]] = []
    stack: list[tuple[str, int]] = []
    for found in _BRACKET.finditer(text):
        mark = found.group()
        if mark in ("[", "(", "@("):
            stack.append((mark, found.start()))
        elif mark in ("]", ")") and stack:
            opener, start = stack.pop()
            if opener != "(":
                spans.append((start, found.end()))
    return spans


def plain_words(line: Mapped) -> list[Mapped]:
    """Return the words of a line without shell syntax."""
    return [plain_word(line.part(*one.span())) for one in _WORD.finditer(line.text)]


def plain_word(word: Mapped) -> Mapped:
    """A word without its quotes and the escapes in them; a backslash in a path stays."""
    parts: list[Mapped] = []
    done = 0
    for found in _QUOTED.finditer(word.text):
        inner = word.part(found.start() + 1, found.end() - 1)
        parts += [word.part(done, found.start()), _unescape(inner)]
        done = found.end()
    return join((*parts, word.part(done, len(word)))) if done else word


def _unescape(text: Mapped) -> Mapped:
    parts: list[Mapped] = []
    done = 0
    for found in _ESCAPE.finditer(text.text):
        parts += [text.part(done, found.start()), text.part(found.end() - 1, found.end())]
        done = found.end()
    return join((*parts, text.part(done, len(text)))) if done else text


_GLUED = lazy_re(r"(?:serve|-\S+) \S")
_NOISE = frozenset(
    (
        "-argumentlist",
        "-args",
        "-filepath",
        "-nonewwindow",
        "-wait",
        "-passthru",
        "start-process",
        "&",
        "-usenewenvironment",
        "-loaduserprofile",
    )
)
# parameters of Start-Process that take a value, which is no argument of the program
_VALUED = frozenset(
    [
        "-windowstyle",
        "-workingdirectory",
        "-redirectstandardoutput",
        "-redirectstandarderror",
        "-redirectstandardinput",
        "-verb",
        "-credential",
        "-environment",
    ]
)


def start_process_words(line: Mapped) -> list[Mapped]:
    """The words of `Start-Process vllm -ArgumentList 'serve','m'` and of `& vllm @('serve')`."""
    words = [plain_word(line.part(*one.span())) for one in ITEM.finditer(line.text)]
    words = [word for word in words if word.text not in ("@", "$", "=")]
    words = [
        part
        for word in words
        for part in (plain_words(word) if _GLUED.match(word.text) else [word])
    ]
    kept: list[Mapped] = []
    skip = False
    for word in words:
        low = word.text.lower()
        if not skip and low not in _NOISE and low not in _VALUED:
            kept.append(word)
        skip = low in _VALUED
    return kept
