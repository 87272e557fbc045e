"""Keys and values of a compose service and of Kubernetes objects, by the types that their own
schemas give them (knowledge/rules/form_types.json): a key that the tool does not know or that
stands in the wrong place, and a value of another kind than the key takes. Each is kept for SD136;
a misspelt key is read as it was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from advisor.domain.paths import read_data
from advisor.domain.patterns import alternatives, lazy_re
from advisor.readers.syntax.placeholders import to_fill
from advisor.readers.syntax.yamlnodes import scalar

if TYPE_CHECKING:
    from advisor.readers.reading import Reading
    from advisor.readers.syntax.yamlnodes import Node

TOOLS = {"compose": "docker compose", "kubernetes": "Kubernetes"}
NEAR = 0.75
MAX_KEYS, MAX_DEPTH = 200, 14
_INT = lazy_re(r"[-+]?\d[\d_]*|0[xo][\da-fA-F]+")
_NUMBER = lazy_re(r"[-+]?(?:\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|\.inf|\.nan)", re.I)
_TRUTH = lazy_re(r"true|false", re.I)
_OLD_TRUTH = lazy_re(r"yes|no|on|off", re.I)  # of YAML 1.1, which Kubernetes reads
# Go's time.ParseDuration, and the days and weeks that compose adds
_DURATION = lazy_re(r"0|(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d|w))+")
_SIZE = lazy_re(r"-1|\d+(?:\.\d+)? ?(?:[kmgtp]i?b?|b)?", re.I)  # docker/go-units RAMInBytes
_QUANTITY = lazy_re(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][-+]?\d+)?")
_AMOUNT = lazy_re(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)\.?")
_COUNT = lazy_re(r"-?\d+|all")
_WHOLE = lazy_re(r"\s*(\d+)(?:\.0*|\s*s(?:ec(?:onds?)?)?)?\s*")
_OBJECT = lazy_re(r"\{([^}]+)\}")

Types = dict[str, dict[str, str]]


@cache
def _data() -> dict[str, dict[str, object]]:
    data: dict[str, dict[str, object]] = json.loads(read_data("knowledge/rules/form_types.json"))
    return data


@cache
def types(form: str) -> Types:
    """Object -> key -> what the key takes: `text`, `int|text`, `[text]`, `{Probe}`, `map<text>`,
    `enum:restart`.
    """
    found: Types = _data()[form]["value"]  # type: ignore[assignment]
    return found


@cache
def words(name: str) -> tuple[str, ...]:
    """The few words that a key takes."""
    row: dict[str, list[str]] = _data()["words"][name]  # type: ignore[assignment]
    return tuple(row["value"])


@cache
def needs_of(name: str) -> tuple[str, ...]:
    """The keys without which an object of Kubernetes is refused."""
    row: dict[str, str] = _data()["required"]["value"]  # type: ignore[assignment]
    return tuple(row.get(name, "").split())


class Checker:
    """Checks the mappings of one document."""

    def __init__(self, form: str, reading: Reading, whole: bool = False) -> None:
        self.whole = whole  # nothing of the document is left out
        self.form, self.reading = form, reading
        self.types = types(form)
        self.tool = TOOLS[form]

    def check(self, node: Node, name: str, depth: int = 0) -> None:
        """A mapping and what it holds, as an object of this name."""
        known = self.types.get(name)
        if node.kind != "map" or known is None or depth > MAX_DEPTH or not self.reading.step():
            return
        self._respell(node, known, name)
        if self.whole:
            self._lacks(node, name)
        for key, value in node.pairs[:MAX_KEYS]:
            wanted = known.get(key.text) if key.kind == "scalar" else None
            if wanted is not None:
                self._value(key.text, value, wanted, depth)

    def check_parts(self, node: Node, name: str, parts: Sequence[str]) -> None:
        """Some keys of a mapping, where they hold mappings; others may be another tool's."""
        for key in parts:
            if (value := node.get(key)) is not None:
                wanted = self.types[name][key]
                items = value.items if wanted[0] == "[" else [value]
                if all(one.kind == "map" for one in items):
                    self._value(key, value, wanted, 0)

    # ---------------------------------------------------------------- keys

    def _respell(self, node: Node, known: dict[str, str], name: str) -> None:
        given = {key.text for key, _ in node.pairs}
        strange = [
            key
            for key, _ in node.pairs[:MAX_KEYS]
            if key.kind == "scalar"
            and key.text not in known
            and key.text not in ("<<", "")
            and not key.text.startswith("x-")
            and not to_fill(key.text)
        ]
        if 2 * len(strange) > len(given) and len(strange) > 2:
            return  # another kind of mapping
        for key in strange:
            near = _near(key.text, known) or self._only(strange, node, name)
            if near is not None and near.lower() not in {
                one.lower() for one in given if one != key.text
            }:
                said = f"{self.tool} knows no key '{key.text}'; '{near}' is meant"
                self._slip(said, key, near)
                key.text = near
                node.forget()
            else:
                home = self._home(key.text, name)
                said = f"{self.tool} knows no key '{key.text}' here" + (
                    f": it belongs {home}" if home else ""
                )
                self._stray(key, said, home)

    def _only(self, strange: list[Node], node: Node, name: str) -> str | None:
        """The one key that the object lacks, for the one key that it does not know."""
        given = {key.text for key, _ in node.pairs if key.kind == "scalar"}
        missing = [one for one in needs_of(name) if one not in given] if self.whole else []
        return missing[0] if len(strange) == len(missing) == 1 else None

    def _lacks(self, node: Node, name: str) -> None:
        """Keys without which the object is refused."""
        if "<<" in (given := {key.text for key, _ in node.pairs if key.kind == "scalar"}):
            return
        for one in needs_of(name):
            if one not in given and not any(to_fill(key) for key in given):
                said = f"{self.tool} refuses this without the key '{one}'"
                self.reading.slip(said, node.start, text=f"{one} too")

    def _stray(self, key: Node, said: str, home: str) -> None:
        """A key that means nothing here: its line goes, where the value stands in it."""
        text = self.reading.source.text
        start = text.rfind("\n", 0, key.start) + 1
        end = text.find("\n", key.start) + 1 or len(text)
        rest = text[end:].split("\n", 1)[0]
        deep = len(rest) - len(rest.lstrip())
        alone = not text[start : key.start].strip() and (deep <= key.start - start or not rest)
        if alone and not home and not rest.lstrip().startswith("-"):
            self.reading.slip(said, start, end)
        else:
            self.reading.slip(said, key.start, text="it where it belongs" if home else "")

    def _home(self, key: str, name: str) -> str:
        """Where a key that stands in the wrong place belongs, among the objects around it."""
        for other, keys in self.types.items():
            if key in keys and (
                f"{{{name}}}" in "".join(keys.values())
                or any(f"{{{other}}}" in one for one in self.types[name].values())
            ):
                return f"under {other}"
        return ""

    def _slip(self, said: str, node: Node, text: str, stops: bool = True) -> None:
        place = (
            scalar(node, self.reading.source).span() if node.kind == "scalar" else None
        )  # quotes stand around it
        self.reading.slip(said, place[0] if place else node.start, place and place[1], text, stops)

    # ---------------------------------------------------------------- values

    def _value(self, key: str, node: Node, wanted: str, depth: int) -> None:
        if wanted == "any" or node.is_null:
            return
        kinds = alternatives(wanted, "[{<", "]}>")
        if node.kind == "map":
            self._mapping(key, node, kinds, depth)
        elif node.kind == "seq":
            self._sequence(key, node, kinds, depth)
        else:
            self._scalar(key, node, kinds)

    def _mapping(self, key: str, node: Node, kinds: Sequence[str], depth: int) -> None:
        for kind in kinds:
            if found := _OBJECT.fullmatch(kind):
                self.check(node, found[1], depth + 1)
                return
            if kind.startswith("map<"):
                for _, value in node.pairs[:MAX_KEYS]:
                    if value.kind == "scalar" and not value.is_null:
                        self._scalar(key, value, (kind[4:-1],))
                return
        if "map" not in kinds:
            self._wrong(key, node, kinds, "a mapping")

    def _sequence(self, key: str, node: Node, kinds: Sequence[str], depth: int) -> None:
        inner = next((kind for kind in kinds if kind.startswith("[")), None)
        if inner is None:
            self._wrong(key, node, kinds, "a list")
            return
        texts = key in ("command", "args", "entrypoint")  # each item is looked at where it is read
        for item in node.items[:MAX_KEYS]:
            if not texts and not item.is_null:
                self._value(key, item, inner[1:-1], depth + 1)

    def _scalar(self, key: str, node: Node, kinds: Sequence[str]) -> None:
        text = node.text
        if to_fill(text, named=not any(":" in kind for kind in kinds)):
            return
        plain = node.style is None
        number = plain and _NUMBER.fullmatch(text) is not None
        truth = plain and (
            _TRUTH.fullmatch(text) is not None
            or (self.form == "kubernetes" and _OLD_TRUTH.fullmatch(text) is not None)
        )
        for kind in kinds:
            if kind == "text" and not number and not truth:
                return
            if (kind == "number" and number) or (kind == "bool" and truth):
                return
            if kind == "int" and plain and _INT.fullmatch(text):
                return
            if kind in _FORMATS:
                self._check_format(key, node, kind)
                return
            if kind.startswith(("enum:", "near:")):
                self._word(key, node, kind)
                return
        self._wrong(key, node, kinds, self._kind_of(node, bool(number), bool(truth)))

    @staticmethod
    def _kind_of(node: Node, number: bool, truth: bool) -> str:
        return "a number" if number else "a truth value" if truth else f"the text '{node.text}'"

    def _check_format(self, key: str, node: Node, kind: str) -> None:
        """A size, a duration, a quantity."""
        pattern, what = _FORMATS[kind]
        if kind == "size" and re.fullmatch(r"[0-9]{1,4}", node.text) and 0 < int(node.text) < 1024:
            said = f"{key} {node.text} is {node.text} bytes: a unit is missing"
            self._slip(said, node, f"{node.text}g")
            return
        if pattern.fullmatch(node.text.strip()):
            return
        meant = _likely(kind, node.text)
        said = f"{self.tool} does not read {key} '{node.text}': it takes {what}"
        if meant:
            self._slip(said, node, meant)
        else:
            self.reading.slip(said, node.start, text=what)

    def _word(self, key: str, node: Node, kind: str) -> None:
        from difflib import get_close_matches  # start-up: only for a word that is unknown

        mode, _, name = kind.partition(":")
        listed = words(name)
        word = node.text.partition(":")[0] if self.form == "compose" else node.text
        if not word or word in listed:
            return
        folded = {one.lower(): one for one in listed}
        near = get_close_matches(word.lower().replace("_", "-"), folded, 1, NEAR)
        if not near and (mode == "near" or to_fill(word, named=True)):
            return
        given = ", ".join(listed)
        said = f"{key} takes no '{word}'; " + (
            f"'{folded[near[0]]}' is meant" if near else f"it takes {given}"
        )
        if near:
            self._slip(said, node, folded[near[0]] + node.text[len(word) :])
        else:
            self.reading.slip(said, node.start, text=f"one of {given}")

    def _wrong(self, key: str, node: Node, kinds: Sequence[str], is_now: str) -> None:
        """A value of another kind, with what the file should hold where that is plain."""
        whole = "|".join(kinds)
        what = _SPOKEN.get(kinds[0], "a list" if whole.startswith("[") else "a mapping")
        if kinds[0] == "null":
            what = _SPOKEN.get(kinds[1], what)
        said = f"{key} takes {what} for {self.tool}, not {is_now}"
        if node.kind != "scalar":
            self.reading.slip(said, node.start, text=f"{key} as {what}")
            return
        text, start, end, meant = node.text, node.start, node.end, None
        if "text" in kinds and "'" not in text:
            meant = f'"{text}"'
        elif whole == "[text]" and "\n" not in text:
            meant = f'["{text}"]' if " " in text else f"[{text}]"
        elif "int" in kinds and (whole_number := _WHOLE.fullmatch(text)):
            meant = whole_number[1]
        elif whole == "bool":
            meant = _TRUTHS.get(text.lower())
        meant = None if node.style in ("|", ">") else meant
        self.reading.slip(said, start, end if meant else None, meant or f"{key} as {what}")


_FORMATS = {
    "size": (_SIZE, "a number with a unit, such as 16gb"),
    "duration": (_DURATION, "a time with its unit, such as 30s or 10m"),
    "quantity": (_QUANTITY, "a quantity, such as 16Gi, 500m or 2"),
    "count": (_COUNT, "a number, or all"),
}
_TRUTHS = {"yes": "true", "on": "true", "1": "true", "true": "true"}
_TRUTHS |= {"no": "false", "0": "false", "false": "false"}
_SPOKEN = {
    "text": "text",
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "[text]": "a list of texts",
}


def _near(given: str, known: dict[str, str]) -> str | None:
    """The key that a misspelt one was to be."""
    from difflib import get_close_matches  # start-up: only for a key that is unknown

    folded = {re.sub("[-_]", "", one).lower(): one for one in known}
    near = get_close_matches(re.sub("[-_]", "", given).lower(), folded, 1, NEAR)
    if near:
        return folded[near[0]]
    longer = [one for one in known if one.lower().startswith(given.lower())]
    return longer[0] if len(longer) == 1 and len(given) > 4 else None


def _likely(kind: str, text: str) -> str | None:
    """A size, a time or a quantity as it was most likely meant; None where it could be anything."""
    found = _AMOUNT.fullmatch(text.strip().replace(",", ""))
    if found is None:
        words = {"one": "1", "two": "2", "four": "4", "eight": "8"}
        return words.get(text.strip().lower()) if kind == "count" else None
    number, unit = found[1], found[2].lower()
    if kind == "duration":
        one = next((u for u in ("ms", "s", "m", "h", "d") if unit[: len(u)] == u), None)
        return number + ("s" if not unit else one or "") if not unit or one else None
    if kind == "count" or not unit or unit[0] not in "kmgtp":
        return None
    binary = unit[1:2] == "i" or "ib" in unit
    if kind == "quantity":
        letter = "k" if unit[0] == "k" and not binary else unit[0].upper()
        return number + letter + ("i" if binary else "")
    return f"{number}{unit[0]}b"
