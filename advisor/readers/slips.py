"""Slips in the form around a command, which the tool that reads the file refuses: keys that are
none, and items of a list that YAML takes for something else than text. They are read as they were
meant, and kept for the rule that says so (SD136).
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

from advisor.domain.paths import read_data
from advisor.domain.patterns import lazy_re
from advisor.readers.images import engine_of_image, is_official

if TYPE_CHECKING:
    from advisor.readers.engine_command import EngineCommand, Surroundings
    from advisor.readers.reading import Reading
    from advisor.readers.syntax.mapped import Mapped
    from advisor.readers.syntax.yamlnodes import Node

TOOLS = {
    "compose": "docker compose",
    "kubernetes": "Kubernetes",
    "systemd": "systemd",
    "quadlet": "Quadlet",
    "production-stack": "the chart",
    "llama-swap": "llama-swap",
    "resources": "Kubernetes",
    "limits": "the device plugin",
}
# A resource may have any name: only one that is a letter away from the usual is a slip.
NEAR, NEAR_RESOURCE = 0.82, 0.95
MAX_KEYS = 200  # no service or container that a person wrote has more
# plain scalars that are no text: numbers, truths, null
_VALUE = lazy_re(
    r"[-+]?(?:\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|0x[\da-fA-F]+)|true|false|null|~", re.I
)
_COMMA = lazy_re(r"[ \t]*,[ \t]*(?=\S)")  # of a list without quotes
_TRUTH = lazy_re(r"yes|no|on|off", re.I)  # of YAML 1.1, which Kubernetes reads


@cache
def keys(form: str) -> frozenset[str]:
    """The keys that a form has; empty for one that is not listed."""
    row = json.loads(read_data("knowledge/rules/forms.json"))["keys"].get(form) or {}
    return frozenset(row.get("value") or ())


def likely_key(given: str, form: str) -> str | None:
    """The key that a misspelt one was to be; None for one that is right, or resembles none."""
    from difflib import get_close_matches  # start-up: only for a key that is unknown

    known = keys(form)
    if given in known or given.startswith("x-"):
        return None
    folded = {one.lower(): one for one in known}
    cutoff = NEAR_RESOURCE if form == "limits" else NEAR
    plain = given.lower() if "-" in "".join(known) else given.lower().replace("-", "_")
    near = get_close_matches(plain, folded, 1, cutoff)
    return folded[near[0]] if near else None


def respell(node: Node, form: str, reading: Reading) -> None:
    """Read the misspelt keys of a mapping as they were meant."""
    given = {key.text for key, _ in node.pairs}
    for key, _ in node.pairs[:MAX_KEYS]:
        near = likely_key(key.text, form) if key.kind == "scalar" else None
        if near is None or near in given or near.lower() in (one.lower() for one in given):
            continue
        note_key(key.text, near, form, key.start, reading)
        key.text = near
        node.forget()


def respell_within(node: Node, paths: dict[str, str], reading: Reading) -> None:
    """The same for mappings below it: dotted path -> the form of what stands there."""
    for path, form in paths.items():
        found = node.path(path)
        for one in found.items if found is not None and found.kind == "seq" else [found]:
            if one is not None and one.kind == "map":
                respell(one, form, reading)


def note_key(
    given: str, near: str, form: str, at: int, reading: Reading, kind: str = "key"
) -> None:
    """Note the slip of a key at an offset."""
    written = reading.source.text.startswith(given, at)
    said = f"{TOOLS[form.partition(' ')[0]]} knows no {kind} '{given}'; '{near}' is meant"
    reading.slip(said, at, at + len(given) if written else None, near)


def text_items(items: list[Node], form: str, reading: Reading) -> list[Node]:
    """The items of a list of arguments, with those taken apart that are no text."""
    out: list[Node] = []
    for item in items:
        inner = _parts(item, reading)
        out += [one for one in inner if one.kind == "scalar"]
        if form not in ("compose", "kubernetes") or (item.kind == "scalar" and item.style):
            continue
        plain = item.text if item.kind == "scalar" else ""
        wrong = (
            _VALUE.fullmatch(plain) or (form == "kubernetes" and _TRUTH.fullmatch(plain))
            if item.kind == "scalar"
            else out
        )
        if wrong:
            _note_item(item, inner, form, reading)
    return out


def _parts(item: Node, reading: Reading) -> list[Node]:
    """What an item holds; JSON that lost its quotes is one text, as it stands."""
    if item.kind == "map" and reading.source.text[item.start : item.start + 1] == "{":
        whole = type(item)("scalar", item.start)
        end = max((part.end for pair in item.pairs for part in pair), default=item.start)
        whole.end = reading.source.text.find("}", end) + 1 or end
        whole.text = reading.source.text[item.start : whole.end]
        return [whole]
    return [part for pair in item.pairs for part in pair] or item.items or [item]


def _note_item(item: Node, inner: list[Node], form: str, reading: Reading) -> None:
    source = reading.source
    kind = {"map": "a mapping", "seq": "a list"}.get(item.kind, "no text")
    start = item.start
    end = max(one.end for one in inner) if item.kind != "scalar" else item.end
    begin = source.text.rfind("\n", 0, start) + 1
    indent = re.match(r"[ \t]*", source.text[begin:start])
    written = [source.text[one.start : one.end] for one in inner]
    joint = f"\n{indent.group() if indent else ''}- "
    text = (" " if written[0].startswith("-") else joint).join(written)  # options are shaped later
    if len(inner) == 1 and inner[0].kind == "scalar" and item.kind != "seq":
        quote = "'" if '"' in written[0] else '"'
        text = f"{quote}{written[0]}{quote}"
    said = f"an argument must be text for {TOOLS[form]}: '{' '.join(written)[:60]}' is {kind}"
    reading.slip(said, start, end, text)


def image_slips(
    around: Surroundings,
    words: list[Mapped],
    own: bool,
    found: list[EngineCommand],
    reading: Reading,
) -> None:
    """Say where an image holds another engine than the one that its words start, and where it
    starts that engine by itself: `own` is whether its entrypoint stands.
    """
    name = around.image_text()
    holds = engine_of_image(name) if name and is_official(name) else None
    if around.image is None or holds is None or len(found) != 1:
        return
    starts = found[0].engine
    if holds not in (starts, "sglang") and not any("install" in word.text for word in words):
        reading.slip(f"{name} holds {holds}, no {starts}", around.image.first())
    elif own and starts == holds == "vllm" and [w.text for w in words[:2]] == ["vllm", "serve"]:
        said = f"{name} starts `vllm serve` itself: given again, it counts as the model"
        first, last = words[0].span(), words[1].span()
        comma = _COMMA.match(reading.source.text, last[1]) if last else None
        end = comma.end() if comma else last[1] if last else None
        reading.slip(said, words[0].first(), end if first else None)
