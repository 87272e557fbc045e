"""What stands around a command and is refused before anything starts, each kept for SD136: images
that no registry has, or that do not start what stands behind them; directives that systemd refuses,
or takes otherwise than a shell would.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.engines.traits import traits
from advisor.readers.images import engine_of_image, is_official, likely_tag, split_image
from advisor.readers.programs import ENGINE_TEXT, SHELLS, base_name
from advisor.readers.slips import SIZE
from advisor.readers.syntax.placeholders import to_fill
from advisor.readers.syntax.words import split_words

if TYPE_CHECKING:
    from advisor.readers.engine_command import EngineCommand, Surroundings
    from advisor.readers.reading import Reading
    from advisor.readers.syntax.mapped import Mapped

# ---------------------------------------------------------------- images

# an image of a mirror may have tags of its own
_OWN = lazy_re(r"(?:docker\.io/)?(vllm/vllm-openai|lmsysorg/sglang)|(ghcr\.io/ggml-org/llama\.cpp)")
_COMMA = lazy_re(r"[ \t]*,[ \t]*(?=\S)")  # of a list without quotes
# how the `full` image is told what to run: .devops/tools.sh
_PROGRAMS = (
    *("--server", "-s", "--run", "-r", "--run-legacy", "-l", "--convert", "-c", "--bench", "-b"),
    *("--perplexity", "-p", "--quantize", "-q", "--all-in-one", "-a"),
)
NAMES = ("vllm/vllm-openai", "lmsysorg/sglang", "ghcr.io/ggml-org/llama.cpp")
# names that people take for them, of no registry
TAKEN_FOR = {
    "vllm-project/vllm-openai": NAMES[0],
    "vllmproject/vllm-openai": NAMES[0],
    "vllm-openai": NAMES[0],
    "lmsys/sglang": NAMES[1],
    "sgl-project/sglang": NAMES[1],
    "sglang/sglang": NAMES[1],
    "ggml-org/llama.cpp": NAMES[2],
    "ghcr.io/ggml/llama.cpp": NAMES[2],
}


def tag_slip(around: Surroundings, reading: Reading) -> None:
    """Say where an image is nearly an engine's own, or has a tag that none of its releases has."""
    text = around.image_text()
    if around.image is None or not text or "${" in text or "@" in text:
        return
    name, tag = split_image(text)
    bare = name.removeprefix("docker.io/")
    meant = TAKEN_FOR.get(bare) or _near_name(bare)
    if meant is not None:
        if bare == "vllm-openai" and around.kind == "compose":
            return  # built here, it may be
        at = around.image.part(len(name) - len(bare), len(name))
        place = at.span()
        end = place[1] if place else None
        reading.slip(f"no registry has an image {bare}: {meant} is meant", at.first(), end, meant)
        return
    if tag is None or not _OWN.fullmatch(name) or (right := likely_tag(bare, tag)) is None:
        return
    at_tag = (
        around.tag.first() if around.tag is not None else around.image.pos[len(text) - len(tag)]
    )
    end = at_tag + len(tag) if reading.source.text.startswith(tag, at_tag) else None
    same = re.sub(r"\W", "", right).lstrip("v0") == re.sub(r"\W", "", tag).lstrip("v0")
    spelt = same or name.endswith("llama.cpp") or tag in right
    said = f"{right} is meant" if spelt else f"no such release is known, the nearest is {right}"
    reading.slip(f"{name} has no tag {tag}: {said}", at_tag, end, right)


@lru_cache(maxsize=1024)
def _near_name(name: str) -> str | None:
    """The engine's own image of which a name is a slip: other dashes, or a letter or two."""
    from difflib import SequenceMatcher

    plain = re.sub(r"[-_.]", "", name.lower())
    for own in NAMES:
        other = re.sub(r"[-_.]", "", own)
        if name == own or name.startswith(f"{own}-") or name.count("/") != own.count("/"):
            continue
        if plain == other or (
            abs(len(plain) - len(other)) <= 2
            and SequenceMatcher(None, plain, other).ratio() >= 0.92
            and is_official(own)
            and not is_official(name)
        ):
            return own
    return None


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
        instead = f"an image that holds {starts}"
        reading.slip(f"{name} holds {holds}, no {starts}", around.image.first(), text=instead)
    elif own and starts == holds == "vllm" and [w.text for w in words[:2]] == ["vllm", "serve"]:
        said = f"{name} starts `vllm serve` itself: given again, it counts as the model"
        first, last = words[0].span(), words[1].span()
        comma = _COMMA.match(reading.source.text, last[1]) if last else None
        end = comma.end() if comma else last[1] if last else None
        reading.slip(said, words[0].first(), end if first else None)


def starts_nothing(
    around: Surroundings, engine: str, words: list[Mapped], reading: Reading
) -> None:
    """Say where an image is given an engine's options and starts no server by itself; a chart or an
    operator may add its command.
    """
    name, tag = split_image(around.image_text())
    if not words or not words[0].text.startswith("-") or not is_official(name):
        return
    start, command = "", traits(engine).image_command
    if command:
        start = f"{command} "
        said = f"{name} starts no server by itself: its command begins with {command}"
    elif engine == "llama-server" and tag and tag.startswith(("full", "light")):
        if tag.startswith("light"):
            place = around.image.part(len(name) + 1, len(name) + 6).span() if around.image else None
            said = f"{name}:{tag} holds no server: its program is llama-cli"
            at = place[0] if place else words[0].first()
            reading.slip(said, at, place[1] if place else None, "server")
            return
        if words[0].text in _PROGRAMS:
            return
        start, said = "--server ", f"{name}:{tag} holds several programs: --server names the one"
    if not start:
        return
    at = words[0].first()
    lines = (
        around.kind in ("docker-run", "docker-create", "compose")
        and reading.source.text[at - 1 : at] in " \n"
    )
    before = reading.source.text[max(0, at - 40) : at]
    plain = lines and not re.search(r"-[ \t]+$|[\[,][ \t]*$", before)
    supplied = around.chart or reading.form in ("helm-values", "helmrelease")
    reading.slip(said, at, at if plain else None, start, stops=not supplied)


def in_one_word(first: Mapped, reading: Reading) -> bool:
    """Whether the first item of a list is a program with its arguments, which no shell splits."""
    text, place = first.text, first.span()
    if " " not in text or "\n" in text or not ENGINE_TEXT.match(text):
        return False
    said = f"the container looks for a program called '{text[:60]}': each word is an item"
    before = reading.source.text[: place[0]] if place is not None else ""
    flow = before[-1:] in ("'", '"') and "[" in before.rsplit("\n", 1)[-1]
    if place is not None and flow:
        meant = ", ".join(f'"{word}"' for word in text.split())
        reading.slip(said, place[0] - 1, place[1] + 1, meant)
    else:
        reading.slip(said, first.first(), text="each word as an item of its own")
    return True


# ---------------------------------------------------------------- units of systemd

# systemd.time(7): units of a time span
_SPAN = lazy_re(
    r"infinity|(?:\d+(?:\.\d+)?\s*(?:us|usec|µs|ms|msec|s|sec|seconds?|m|min|minutes?|h|hr|hours?"
    r"|d|days?|w|weeks?|M|months?|y|years?)?\s*)+"
)
_CDI = lazy_re(r"(?:nvidia|amd)\.com/gpu([:/ ]+)[\w.-]+")
_LIMIT = lazy_re(r"(?:infinity|\d+[KMGTPE]?)(?::(?:infinity|\d+[KMGTPE]?))?")
_UNIT = lazy_re(r"[\w@.\\:-]+\.(?:target|service|socket|mount|timer|path|slice|device)")
_SPANS = frozenset(
    (
        "RestartSec",
        "TimeoutStartSec",
        "TimeoutStopSec",
        "TimeoutSec",
        "WatchdogSec",
        "RuntimeMaxSec",
    )
)
_LIMITS = frozenset(("LimitMEMLOCK", "LimitNOFILE", "LimitNPROC", "LimitAS", "LimitSTACK"))
_UNITS = frozenset(("WantedBy", "RequiredBy", "After", "Before", "Wants", "Requires"))
_STARTS = frozenset(("ExecStart", "ExecStartPre", "ExecStartPost", "ExecStop", "ExecReload"))
# words of a shell, which is no program that could be started
_BUILTINS = frozenset(("source", ".", "cd", "export", "exec", "set", "ulimit", "if", "while"))
_JOINS = frozenset(("&&", "||", "|", ";;", ">", ">>", "2>&1", "&"))
_LEAD = lazy_re(r"[@\-:+!|]*\s*")
_USER = lazy_re(r"(?m)^[ \t]*User[ \t]*=[ \t]*(?!root\b|0\b)\S")


def _to_fill(text: str, *, named: bool = False) -> bool:
    """As `to_fill`, but for systemd's own variables."""
    return to_fill(text.replace("$", ""), named=named)


def check_directive(section: str, key: str, value: Mapped, reading: Reading) -> None:
    """One directive of a unit or a Quadlet."""
    text = value.text.strip()
    if key in _STARTS and section == "Service":
        _command(key, value, reading)
    elif not text or _to_fill(text):
        return
    elif key in _SPANS and not _SPAN.fullmatch(text):
        number = re.match(r"\d+", text)
        _slip(value, text, f"{key} takes a time such as 30 or 15min", number, reading)
    elif key in _LIMITS and not _LIMIT.fullmatch(text):
        said = f"{key} takes a number or infinity"
        meant = re.match(r"\d+[KMGT]", text, re.I)
        place = value.span()
        reading.slip(
            f"{said}, not '{text}'",
            value.first(),
            place[1] if place else None,
            meant.group().upper() if meant else "infinity",
            stops=False,
        )
    elif key in _UNITS and section in ("Install", "Unit"):
        for word in re.finditer(r"\S+", value.text):
            if not _UNIT.fullmatch(word.group()):
                at = value.part(*word.span())
                said = f"{key} names a unit with its ending, not '{word.group()}'"
                ending = ".target" if key in ("WantedBy", "RequiredBy") else ".service"
                place = at.span()
                end = place[1] if place else None
                reading.slip(said, at.first(), end, word.group() + ending, stops=False)
    elif section == "Container" and key in ("ShmSize", "Memory") and not SIZE.fullmatch(text):
        number = re.match(r"\d+\s*[kmgtKMGT]", text)
        amount = re.sub(r"\s", "", number.group()) if number else ""
        place = value.part(0, len(value.text.rstrip())).span()
        end = place[1] if place and amount else None
        said = f"podman does not read the size '{text}' of {key}"
        reading.slip(said, value.first(), end, amount or "a size")
    elif section == "Container" and key == "AddDevice" and (wrong := _CDI.fullmatch(text)):
        place = value.part(*wrong.span(1)).span()
        said = f"a device is named VENDOR/CLASS=NAME: '{text}' is none"
        reading.slip(said, place[0] if place else value.first(), place and place[1], "=")
    elif key == "Environment" and section in ("Service", "Container"):
        _assignments(value, reading)
    elif key == "EnvironmentFile" and "=" in text and not text.lstrip("-").startswith("/"):
        said = f"EnvironmentFile names a file, and '{text}' sets a variable: Environment is meant"
        start = reading.source.text.rfind("EnvironmentFile", 0, value.first())
        reading.slip(said, start, start + len("EnvironmentFile"), "Environment")


def _slip(
    value: Mapped, text: str, said: str, meant: re.Match[str] | None, reading: Reading
) -> None:
    place = value.part(0, len(value.text.rstrip())).span()
    end = place[1] if place and meant else None
    written = meant.group() if meant else "a time"
    reading.slip(f"{said}, not '{text}'", value.first(), end, written, stops=False)


def _assignments(value: Mapped, reading: Reading) -> None:
    """Words that set no variable: blanks around =, `export`, a quote that is left open."""
    text = value.text
    if text.count('"') % 2:
        at = value.first()
        said = "a quote is left open: systemd passes over the whole line"
        place = value.part(0, len(text.rstrip())).span()
        end = place[1] if place else None
        reading.slip(said, end if end else at, end, '"', stops=False)
        return
    if found := re.search(r'(?<=[\w"])[ \t]*=[ \t]+(?=\S)|[ \t]+=[ \t]*(?=\S)', text):
        if '"' in text[: found.start()]:
            return
        place = value.part(*found.span()).span()
        said = "spaces stand around the = of a variable: systemd does not set it"
        reading.slip(said, value.first(), None, "=", stops=False) if place is None else (
            reading.slip(said, place[0], place[1], "=", stops=False)
        )
    elif found := re.match(r"export[ \t]+(?=\w+=)", text):
        place = value.part(*found.span()).span()
        said = "Environment takes NAME=value: systemd knows no export"
        reading.slip(said, value.first(), place[1] if place else None, "", stops=False)


def _command(key: str, value: Mapped, reading: Reading) -> None:
    """systemd starts a program itself: no shell looks for it, and none joins commands."""
    lead = _LEAD.match(value.text)
    words = split_words(value.part(lead.end() if lead else 0, len(value)), dollars=False)
    if (
        not words
        or _to_fill(value.text.split()[0], named=True)
        or base_name(words[0]) in (*SHELLS, "env")
    ):
        return
    at, first = words[0], words[0].text
    place = at.span()
    joined = next((one.text for one in words if one.text in _JOINS), None)
    ends = next((one.text[-1] for one in words[:-1] if one.text[-1:] == ";"), None)
    if first in _BUILTINS or joined in ("&&", "||", "|") or ends:
        shown = first if first in _BUILTINS else joined or ends
        said = f"{key} runs one program and no shell: '{shown}' is of a shell"
        reading.slip(said, at.first(), text="/bin/bash -c '...' around it")
    elif first.startswith(("~", "$HOME")):
        home = "~" if first.startswith("~") else "$HOME"
        said = f"{key} names a program by its full path: systemd does not read {home} there"
        end = place[0] + len(home) if place else None
        if _USER.search(reading.source.text):  # %h is the home of who runs the manager: /root
            reading.slip(said, at.first(), text=f"the home of User= in full instead of {home}")
        else:
            reading.slip(said, at.first(), end, "%h")
    elif "/" in first and not first.startswith(("/", "$")):
        said = f"{key} names a program by its full path, not '{first}'"
        reading.slip(said, at.first(), text=f"the folder before {first}")
    elif joined:
        said = f"{key} runs one program and no shell: '{joined}' is passed on as an argument"
        reading.slip(said, at.first(), text="/bin/bash -c '...' around it, or StandardOutput=")


def programs(words: list[Mapped]) -> list[list[Mapped]]:
    """The programs of a line that was written for a shell: the one that is meant is read."""
    if not words or words[0].text not in _BUILTINS:
        return [words]
    parts: list[list[Mapped]] = [[]]
    for word in words:
        if word.text in ("&&", ";", "||"):
            parts.append([])
        else:
            parts[-1].append(word)
    return [part for part in parts if part]


def check_type(kind: str, reading: Reading, at: int, end: int | None) -> None:
    """An engine that never says that it is ready, or never leaves the foreground."""
    if kind in ("notify", "notify-reload", "forking", "dbus"):
        does = "tells systemd that it is ready" if "notify" in kind else "goes to the background"
        said = f"Type={kind}, but no engine {does}: the start times out"
        reading.slip(said, at, end, "simple")
