"""Slips in the form around a command, which the tool that reads the file refuses: keys that are
none, and items of a list that YAML takes for something else than text. They are read as they were
meant, and kept for the rule that says so (SD136).
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING

from advisor import engines
from advisor.domain.paths import read_data
from advisor.domain.patterns import lazy_re
from advisor.readers.images import INSTALL, likely_release
from advisor.readers.programs import likely_module, likely_serve
from advisor.readers.syntax.placeholders import to_fill
from advisor.readers.syntax.yamlnodes import scalar

if TYPE_CHECKING:
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
    "docker": "docker run",
}
# A resource may have any name: only one that is a letter away from the usual is a slip.
NEAR, NEAR_RESOURCE = 0.82, 0.95
MAX_KEYS = 200  # no service or container that a person wrote has more
# plain scalars that are no text: numbers, truths, null
_VALUE = lazy_re(
    r"[-+]?(?:\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|0x[\da-fA-F]+)|true|false|null|~", re.I
)
_MODULE = lazy_re(r"(?:vllm|sglang)(?:\.[\w-]+)+(?<!\.py)")
_SIZES = ("--shm-size", "--memory", "-m", "--memory-swap")
_GPUS = lazy_re(r"[\"']?(?:all|-?\d+|(?:device|count|driver|capabilities|options)=.*)[\"']?", re.S)
SIZE = lazy_re(r"-1|\d+(?:\.\d+)?\s?(?:[kmgtpKMGTP]i?[bB]?|[bB])?")
_WORDS = {
    "--restart": ("no", "always", "on-failure", "unless-stopped"),
    "--ipc": ("host", "private", "shareable", "none"),
    "--network": ("host", "bridge", "none"),
    "--runtime": ("nvidia", "runc"),
    "--pull": ("always", "missing", "never"),
}
_ONE_SIGN = lazy_re(r"(?:vllm|sglang)(?:\[[\w,]+\])?(=)\d[\w.]*")
_ONE_SIGN_LISTED = lazy_re(r"[\"'](?:vllm|sglang)(?:\[[\w,]+\])?(=)\d[\w.]*[\"']")
_MAKER = lazy_re(r"(nvidia|amd)(?:\.\w+)?[/.]gpus?")  # nvidia/gpu: no device plugin says so
_TRUTH = lazy_re(r"yes|no|on|off", re.I)  # of YAML 1.1, which Kubernetes reads


_SWITCHES = dict.fromkeys(("yes", "true", "on", "1", "enable", "enabled"), "true")
_SWITCHES |= dict.fromkeys(("no", "false", "off", "0", "disable", "disabled"), "false")


@cache
def keys(form: str, table: str = "keys") -> frozenset[str]:
    """The keys that a form has, or of `words` those that a key takes; empty for one that is not
    listed.
    """
    row = json.loads(read_data("knowledge/rules/forms.json"))[table].get(form) or {}
    return frozenset(row.get("value") or ())


def likely_key(given: str, form: str) -> str | None:
    """The key that a misspelt one was to be; None for one that is right, or resembles none."""
    from difflib import get_close_matches  # start-up: only for a key that is unknown

    known = keys(form)
    if given in known or given.startswith("x-"):
        return None
    if form == "limits" and (maker := _MAKER.fullmatch(given)):
        return f"{maker[1]}.com/gpu"
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
        others = {one.lower() for one in given if one != key.text}
        if near is None or near.lower() in others:
            continue
        note_key(key.text, near, form, key.start, reading)
        key.text = near
        node.forget()


def check_word(node: Node | None, name: str, reading: Reading, only_near: bool = False) -> None:
    """Note a word that is none of the few that a key takes; `only_near` where it may be another."""
    if node is not None and node.kind == "scalar":
        check_text(scalar(node, reading.source), name, reading, only_near)


def check_text(text: Mapped, name: str, reading: Reading, only_near: bool = False) -> None:
    """The same for a text."""
    from difflib import get_close_matches  # start-up: only for a word that is unknown

    known = keys(name, "words")
    word = text.text.partition(":")[0]
    if not word or word in known or to_fill(text.text):
        return
    folded = {one.lower(): one for one in known}
    near = get_close_matches(word.lower().replace("_", "-"), folded, 1, 0.75)
    if not near and (only_near or to_fill(word, named=True)):
        return
    place = text.span()
    listed = ", ".join(sorted(known))
    meant = folded[near[0]] if near else f"one of {listed}"
    reading.slip(
        f"{name} takes no '{word}'; " + (f"'{meant}' is meant" if near else f"it takes {listed}"),
        text.first(),
        place[1] if place and near else None,
        meant,
    )


def check_signs(node: Node, name: str, reading: Reading) -> None:
    """Note a word that differs from one of the known by signs or case alone."""
    known = keys(name, "words")
    plain = {re.sub(r"\W|_", "", one).lower(): one for one in known}
    meant = plain.get(re.sub(r"\W|_", "", node.text).lower())
    if meant is not None and node.text not in known:
        place = scalar(node, reading.source).span()
        said = f"{name} takes no '{node.text}'; '{meant}' is meant"
        reading.slip(said, place[0] if place else node.start, place and place[1], meant)


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


def module_slip(words: list[Mapped], first: int, reading: Reading) -> None:
    """Say where the words before an engine's arguments name no module: dashes in it, or no -m."""
    word = words[first - 1]
    place = word.span()
    if word.text.rsplit("/", 1)[-1] == "vllm":
        said = "vllm needs its command: serve comes before the options"
        after = words[first].span() if first < len(words) else None
        quote = reading.source.text[after[0] - 1 : after[0]] if after else ""
        lead = f"serve{quote}, {quote}" if quote in ("'", '"') and quote else "serve "
        reading.slip(said, after[0] if after else word.first(), after and after[0], lead)
        return
    before = words[first - 2].text.rsplit("/", 1)[-1] if first > 1 else ""
    misspelt = likely_serve(word.text) and before.partition("@")[0] in ("vllm", "sglang")
    if word.text in ("vllm-serve", "vllm_serve") or misspelt:
        meant = "serve" if likely_serve(word.text) else "vllm serve"
        said = f"there is no command '{word.text}': {meant} is meant"
        reading.slip(said, word.first(), place[1] if place else None, meant)
        return
    if not _MODULE.fullmatch(word.text):
        return
    if before == "-m" and (right := likely_module(word.text.replace("-", "_"))) is not None:
        said = f"Python has no module '{word.text}'; '{right}' is meant"
        reading.slip(said, word.first(), place[1] if place else None, right)
        return
    if "-" in word.text:
        meant = word.text.replace("-", "_")
        said = f"Python has no module '{word.text}'; '{meant}' is meant"
    elif first > 1 and words[first - 2].text.rsplit("/", 1)[-1].startswith("python"):
        meant = f"-m {word.text}"
        said = f"Python takes '{word.text}' for a file: a module is given with -m"
    else:
        return
    reading.slip(said, word.first(), place[1] if place else None, meant)


def check_requirement(words: list[Mapped], reading: Reading) -> None:
    """An engine's release behind one sign of equality, which pip does not read; conda does."""
    if not any(word.text in ("install", "add") for word in words[1:4]):
        return
    for word in words[2:]:
        found = _ONE_SIGN.fullmatch(word.text)
        if found is None:
            continue
        place = word.part(*found.span(1)).span()
        said = f"pip reads no {word.text}: a release is given with =="
        reading.slip(said, word.first(), None, "==") if place is None else (
            reading.slip(said, place[0], place[1], "==")
        )


def check_releases(reading: Reading) -> None:
    """Releases that the file installs and that no registry has."""
    text = reading.source.text
    for found in _ONE_SIGN_LISTED.finditer(text) if "pip_install" in text else ():
        said = f"pip reads no {found[0][1:-1]}: a release is given with =="
        reading.slip(said, *found.span(1), "==")
    for found in INSTALL.finditer(text[:100_000]):
        asked = found["version"].rstrip(".")
        if (near := likely_release(found["engine"].lower(), asked)) is None:
            continue
        start = found.start("version")
        line = text[text.rfind("\n", 0, start) + 1 : start]
        said = f"no release {asked} of {found['engine']} is known: the nearest is {near}"
        reading.slip(said, start, start + len(asked), near, "#" not in line)


def docker_option_slip(word: Mapped, reading: Reading) -> None:
    """Say where `docker run` has no such option, and another is meant."""
    name = word.text.partition("=")[0]
    if not name.startswith("--") or not (near := likely_key(name[2:], "docker run")):
        return
    place = word.part(0, len(name)).span()
    said = f"docker run knows no option '{name}'; '--{near}' is meant"
    reading.slip(said, word.first(), place[1] if place else None, f"--{near}")


def docker_value_slip(name: str, value: Mapped, reading: Reading) -> None:
    """Say where an option of `docker run` takes no such value."""
    from difflib import get_close_matches  # start-up: only for a word that is unknown

    text, place = value.text, value.span()
    if not text or to_fill(text, named=name in (*_SIZES, "--gpus")):
        return
    meant = said = None
    if name in _SIZES and not SIZE.fullmatch(text):
        found = re.match(r"(\d+)\s*([kmgKMG])", text)
        meant = f"{found[1]}{found[2].lower()}" if found else None
        said = f"docker run does not read the size '{text}' of {name}"
    elif name == "--shm-size" and re.fullmatch(r"[0-9]{1,4}", text) and 0 < int(text) < 1024:
        meant, said = f"{text}g", f"{name} {text} is {text} bytes: a unit is missing"
    elif name in _WORDS:
        word = text.partition(":")[0]
        near = get_close_matches(word.lower().replace("_", "-"), _WORDS[name], 1, 0.7)
        if word not in _WORDS[name] and near:
            meant, said = near[0] + text[len(word) :], f"{name} takes no '{word}' for docker run"
    elif name == "--gpus" and not _GPUS.fullmatch(text):
        listed = re.fullmatch(r"devices?[:=]?([\d,]+)", text)
        meant = f"device={listed[1]}" if listed else "all"
        said = f"--gpus takes all, a number or a list of devices, not '{text}'"
    elif name == "--gpus" and re.fullmatch(r"device=[\w-]+(?:,[\w-]+)+", text):
        before = reading.source.text[place[0] - 1 : place[0]] if place else ""
        if before not in ("'", '"', "\\"):
            meant = f"'\"{text}\"'"
            said = "docker run ends the list of devices at a comma: it needs quotes of its own"
    if said is not None:
        reading.slip(said, value.first(), place[1] if place and meant else None, meant or "a size")


# variables whose value no server or runtime takes with quotes around it
_NUMBERS = ("VLLM_", "LLAMA_ARG_")
_EXACT = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


def check_quotes(item: Mapped, reading: Reading) -> None:
    """`- NAME="value"` in compose's list of variables: nothing takes the quotes away. The mended
    text opens the quote before the name, so that no value is repeated.
    """
    place = item.span()
    if blanks := re.match(r"\w+(\s+=\s*|=\s+)(?=\S)", item.text):
        at = item.part(*blanks.span(1)).span()
        said = "spaces around the = are a part of the variable's name and value"
        reading.slip(said, item.first() if at is None else at[0], at and at[1], "=", stops=False)
        return
    found = re.fullmatch(r"([A-Za-z_]\w*)=([\"'])([^\"'\\]*)\2", item.text)
    if found is None or place is None or reading.source.text[place[0] - 1 : place[0]] in ("'", '"'):
        return
    name, quote = found[1], found[2]
    said = f"compose passes the quotes around the value of {name} on as a part of it"
    if name.startswith(_NUMBERS) and found[3].isdigit():  # int() of Python, std::stoi
        start = place[0] + found.start(2)
        reading.slip(said, start, place[1], found[3])
        return
    end = place[0] + found.start(3)
    reading.slip(said, place[0], end, f"{quote}{name}=", stops=name in _EXACT)


def text_for_switch(key: Node, value: Node, engine: str, reading: Reading) -> None:
    """A switch with a text or a number: the words `--switch text` reach the parser."""
    if value.kind != "scalar" or value.text.startswith("--") or to_fill(value.text):
        return
    if value.truth is not None and value.style not in ("'", '"'):
        return
    name = f"--{key.text.lstrip('-').replace('_', '-')}"
    option = engines.get(engine).catalogue.find(name, None)
    if option is None or option.takes_value is not False or value.is_null:
        return
    meant = _SWITCHES.get(value.text.lower())
    said = f"{key.text} is a switch: '{value.text}' becomes an argument of its own"
    reading.slip(said, value.start, value.end if meant else None, meant or "true or false")
