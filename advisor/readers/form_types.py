"""Keys and values of the forms around a command, by the tables of knowledge/rules: what a tool
refuses is noted for SD136, and a misspelt key is read as it was meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from advisor.domain.paths import read_data
from advisor.domain.patterns import alternatives, lazy_re
from advisor.domain.spelling import nearest_word
from advisor.readers.syntax.placeholders import to_fill

if TYPE_CHECKING:
    from advisor.readers.reading import Reading
    from advisor.readers.syntax.yamlnodes import Node

TOOLS = {
    "compose": "docker compose", "compose file": "docker compose", "kubernetes": "Kubernetes",
    "kubernetes document": "Kubernetes", "systemd": "systemd", "quadlet": "Quadlet",
    "production-stack": "the chart", "production-stack model": "the chart",
    "limits": "the device plugin", "docker run": "docker run",
}  # fmt: skip
MAX_KEYS, MAX_DEPTH = 200, 14  # no service or container that a person wrote has more
_INT = lazy_re(r"[-+]?\d[\d_]*|0[xo][\da-fA-F]+")
_NUMBER = lazy_re(r"[-+]?(?:\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|\.inf|\.nan)", re.I)
_TRUTH = lazy_re(r"true|false", re.I)
_OLD_TRUTH = lazy_re(r"true|false|yes|no|on|off", re.I)  # of YAML 1.1, which Kubernetes reads
_NO_TEXT = lazy_re(r"null|~", re.I)
_OBJECT = lazy_re(r"\{([^}]+)\}")
_SECONDS = lazy_re(r"(\d+)(?:\.0*| ?s(?:ec(?:onds?)?)?)")  # where a whole number must stand
_AMOUNT = lazy_re(r"(\d+(?:\.\d+)?) *([A-Za-z]*)")
_FORMATS = {
    # docker/go-units RAMInBytes
    "size": (lazy_re(r"-1|\d+(?:\.\d+)? ?(?:[kmgtp]i?b?|b)?", re.I), "a size, such as 16gb"),
    # Go's time.ParseDuration, and the days and weeks that compose adds
    "duration": (
        lazy_re(r"0|(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h|d|w))+"),
        "a time with its unit, such as 30s or 10m",
    ),
    "quantity": (
        lazy_re(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][-+]?\d+)?"),
        "a quantity, such as 16Gi, 500m or 2",
    ),
    "count": (lazy_re(r"-?\d+|all"), "a number, or all"),
    "port": (lazy_re(r"(?=.*[a-z])[a-z\d-]+"), "a number without quotes, or a port's name"),
}
_SPOKEN = {
    "text": "text",
    "int": "a whole number",
    "number": "a number",
    "bool": "true or false",
    "[text]": "a list of texts",
}


@cache
def read_table(name: str) -> dict[str, dict[str, Any]]:
    """The tables of a file of knowledge/rules."""
    data: dict[str, dict[str, Any]] = json.loads(read_data(f"knowledge/rules/{name}.json"))
    return data


@cache
def keys(form: str) -> frozenset[str]:
    """The keys that a form has; empty for a form that is not listed."""
    return frozenset(read_table("forms")["keys"].get(form, {}).get("value", ()))


def nearest_key(written: str, known: Collection[str], kind: str = "key") -> str | None:
    """The key that a misspelt one was to be: the nearest but for case and dashes."""
    return nearest_word(written, known, kind, lambda key: re.sub("[-_]", "", key).lower())


def misspelt_key(written: str, form: str) -> str | None:
    """The key that was meant; None for a right one, or one that resembles none."""
    if written in keys(form) or written.startswith("x-"):
        return None
    return nearest_key(written, keys(form), "resource" if form == "limits" else "key")


def respell(node: Node, form: str, reading: Reading) -> None:
    """Read the misspelt keys of a mapping as they were meant."""
    present = {key.text for key, _ in node.pairs}
    for key, _ in node.pairs[:MAX_KEYS]:
        meant = misspelt_key(key.text, form) if key.kind == "scalar" else None
        if meant is not None and meant not in present:
            note_key(key.text, meant, form, key.start, reading)
            key.text = meant
            node.forget()


def note_key(written: str, meant: str, form: str, at: int, reading: Reading) -> None:
    """Note a misspelt key at an offset."""
    end = at + len(written) if reading.source.text.startswith(written, at) else None
    reading.slip(f"{TOOLS[form]} knows no key '{written}'; '{meant}' is meant", at, end, meant)


def text_items(items: list[Node], form: str, reading: Reading) -> list[Node]:
    """The items of a list of arguments, with those taken apart that are no text."""
    texts: list[Node] = []
    for item in items:
        parts = [part for part in _parts(item, reading) if part.kind == "scalar"]
        texts += parts
        truth = _OLD_TRUTH if form == "kubernetes" else _TRUTH
        plain = item.kind == "scalar" and not item.style
        odd = plain and any(one.fullmatch(item.text) for one in (_NUMBER, _INT, truth, _NO_TEXT))
        if form in ("compose", "kubernetes") and parts and (odd or item.kind != "scalar"):
            _note_item(item, parts, TOOLS[form], reading)
    return texts


def _parts(item: Node, reading: Reading) -> list[Node]:
    """What an item holds; JSON that lost its quotes is one text, as it stands."""
    if item.kind == "map" and reading.source.text[item.start : item.start + 1] == "{":
        whole = type(item)("scalar", item.start, item.raw)
        end = max((part.end for pair in item.pairs for part in pair), default=item.start)
        whole.end = reading.source.text.find("}", end) + 1 or end
        whole.text = reading.source.text[item.start : whole.end]
        return [whole]
    return [part for pair in item.pairs for part in pair] or item.items or [item]


def _note_item(item: Node, parts: list[Node], tool: str, reading: Reading) -> None:
    text = reading.source.text
    written = [text[part.start : part.end] for part in parts]
    kind = {"map": "a mapping", "seq": "a list"}.get(item.kind, "no text")
    said = f"an argument must be text for {tool}: '{' '.join(written)[:60]}' is {kind}"
    if len(parts) == 1 and item.kind != "seq":
        quote = "'" if '"' in written[0] else '"'
        reading.slip(said, item.start, parts[0].end, f"{quote}{written[0]}{quote}")
    elif item.kind == "map" and written[0].startswith("-"):
        reading.slip(said, item.start, parts[-1].end, " ".join(written))
    else:
        reading.slip(said, item.start, text="each of them as a text")


class Checker:
    """Checks the mappings of one document."""

    def __init__(self, form: str, reading: Reading) -> None:
        self.form, self.reading, self.tool = form, reading, TOOLS[form]
        # object -> key -> what it takes: `int|text`, `[text]`, `{Probe}`, `map<text>`, `enum:x`
        self.types: dict[str, dict[str, str]] = read_table("form_types")[form]["value"]

    def check(self, node: Node, name: str, depth: int = 0) -> None:
        """A mapping and what it holds, as an object of this name."""
        known = self.types.get(name)
        if node.kind != "map" or known is None or depth > MAX_DEPTH or not self.reading.step():
            return
        self._check_keys(node, known)
        both = read_table("form_types")["excludes"]["value"].get(name, ())
        if both and all(one.text or one.items or one.pairs for one in map(node.get, both)):
            said = f"{' and '.join(both)} exclude each other for {self.tool}"
            text, last = self.reading.source.text, node.get(both[0])
            start = text.rfind("\n", 0, last.start) + 1
            own = last.kind == "scalar" and text[start : last.start].strip() == f"{both[0]}:"
            end = text.find("\n", last.end) + 1 if own else None
            self.reading.slip(
                said, start if own else last.start, end, "" if own else "one of the two"
            )
        for key, value in node.pairs[:MAX_KEYS]:
            wanted = known.get(key.text) if key.kind == "scalar" else None
            if wanted is not None:
                self._value(key.text, value, wanted, depth)

    def check_parts(self, node: Node, name: str, parts: Sequence[str]) -> None:
        """Some keys of a mapping, where they hold mappings; others may be another tool's."""
        for key in parts:
            value, wanted = node.get(key), self.types[name][key]
            items = value.items if wanted[0] == "[" else [value]
            if items and all(item.kind == "map" for item in items):
                self._value(key, value, wanted, 0)

    def _check_keys(self, node: Node, known: dict[str, str]) -> None:
        present = {key.text for key, _ in node.pairs}
        unknown = [
            key
            for key, _ in node.pairs[:MAX_KEYS]
            if key.kind == "scalar"
            and key.text not in known
            and key.text not in ("<<", "")
            and not key.text.startswith("x-")
            and not to_fill(key.text)
        ]
        if 2 * len(unknown) > len(present) and len(unknown) > 2:
            return  # another kind of mapping
        for key in unknown:
            meant = nearest_key(key.text, known)
            if meant is None or meant in present:
                self.reading.slip(f"{self.tool} knows no key '{key.text}' here", key.start)
            else:
                note_key(key.text, meant, self.form, key.start, self.reading)
                key.text = meant
                node.forget()

    def _value(self, key: str, node: Node, wanted: str, depth: int) -> None:
        if wanted == "any" or node.is_null:
            return
        kinds = alternatives(wanted, "[{<", "]}>")
        if node.kind == "map":
            self._mapping(key, node, kinds, depth)
        elif node.kind == "seq":
            inner = next((kind for kind in kinds if kind.startswith("[")), None)
            if inner is None:
                self._wrong(key, node, kinds, "a list")
            elif key not in ("command", "args", "entrypoint"):  # looked at where they are read
                for item in node.items[:MAX_KEYS]:
                    self._value(key, item, inner[1:-1], depth + 1)
        else:
            self._scalar(key, node, kinds)

    def _mapping(self, key: str, node: Node, kinds: Sequence[str], depth: int) -> None:
        for kind in kinds:
            if inner := _OBJECT.fullmatch(kind):
                self.check(node, inner[1], depth + 1)
                return
            if kind.startswith("map<"):
                for _, value in node.pairs[:MAX_KEYS]:
                    self._value(key, value, kind[4:-1], depth + 1)
                return
        if "map" not in kinds:
            self._wrong(key, node, kinds, "a mapping")

    def _scalar(self, key: str, node: Node, kinds: Sequence[str]) -> None:
        text, plain = node.text, node.style is None
        if to_fill(text, named=not any(":" in kind for kind in kinds)):
            return
        number = plain and _NUMBER.fullmatch(text) is not None
        truths = _OLD_TRUTH if self.form == "kubernetes" else _TRUTH
        truth = plain and truths.fullmatch(text) is not None
        for kind in kinds:
            mode, _, table = kind.partition(":")
            if table and mode[0] != "[":
                self._word(key, node, table, only_near=mode == "near")
                return
            if kind in _FORMATS:
                pattern, what = _FORMATS[kind]
                if not pattern.fullmatch(text.strip()):
                    meant = _with_unit(kind, text)
                    said = f"{self.tool} does not read {key} '{text}': it takes {what}"
                    self._slip(said, node, meant) if meant else self.reading.slip(
                        said, node.start, text=what
                    )
                return
            if (
                (kind == "text" and not number and not truth)
                or (kind == "number" and number)
                or (kind == "bool" and truth)
                or (kind == "int" and plain and _INT.fullmatch(text))
            ):
                return
        is_now = "a number" if number else "a truth value" if truth else f"the text '{text}'"
        self._wrong(key, node, kinds, is_now)

    def _word(self, key: str, node: Node, table: str, only_near: bool) -> None:
        """A word that is none of the few that a key takes; `only_near` where it may be another."""
        row = read_table("form_types")["words"][table]
        listed: list[str] = row["value"]
        word = node.text.partition(":")[0] if self.form == "compose" else node.text
        if not word or word in listed:
            return
        near = nearest_word(word.replace("_", "-"), listed, "listed word", str.lower)
        meant = row.get("meant", {}).get(word.lower(), near)
        if meant is not None:
            said = f"{key} takes no '{word}'; '{meant}' is meant"
            self._slip(said, node, meant + node.text[len(word) :])
        elif not only_near and not to_fill(word, named=True):
            self.reading.slip(f"{key} takes no '{word}'; it takes {', '.join(listed)}", node.start)

    def _wrong(self, key: str, node: Node, kinds: Sequence[str], is_now: str) -> None:
        """A value of another kind; a number where text must stand gets quotes."""
        wanted = kinds[1] if kinds[0] == "null" else kinds[0]
        what = _SPOKEN.get(wanted, "a list" if wanted.startswith("[") else "a mapping")
        said, meant = f"{key} takes {what} for {self.tool}, not {is_now}", None
        if node.kind == "scalar" and "text" in kinds:
            meant = f'"{node.text}"'
        elif node.kind == "scalar" and any(one.startswith(("[text", "[near:")) for one in kinds):
            meant = f"[{node.text}]"
        elif "int" in kinds and (number := _SECONDS.fullmatch(node.text)):
            meant = number[1]
        if meant is not None and node.style is None:
            self.reading.slip(said, node.start, node.end, meant)
        else:
            self.reading.slip(said, node.start, text=f"{key} as {what}")

    def _slip(self, said: str, node: Node, meant: str) -> None:
        start, end = node.text_map.span() or (node.start, None)
        self.reading.slip(said, start, end, meant)


def _with_unit(kind: str, text: str) -> str | None:
    """A time, a size or a quantity with the unit that the tool reads; None where none is plain."""
    amount = _AMOUNT.fullmatch(text.strip())
    number, unit = (amount[1], amount[2].lower()) if amount else ("", "")
    if kind == "duration" and number and (not unit or unit[0] in "smhd"):
        return number + (unit[:1] or "s")
    if unit[:1] not in tuple("kmgtp") or kind not in ("size", "quantity"):
        return None
    if kind == "size":
        return f"{number}{unit[0]}b"
    return f"{number}{'k' if unit == 'kb' else unit[0].upper()}{'i' if unit[1:2] == 'i' else ''}"
