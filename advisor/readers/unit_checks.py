"""Values of systemd directives that the service manager refuses, or takes otherwise than a shell
would: each is kept for SD136.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.readers.programs import SHELLS, base_name
from advisor.readers.syntax.words import split_words

if TYPE_CHECKING:
    from advisor.readers.reading import Reading
    from advisor.readers.syntax.mapped import Mapped

# systemd.time(7): units of a time span
_SPAN = lazy_re(
    r"infinity|(?:\d+(?:\.\d+)?\s*(?:us|usec|µs|ms|msec|s|sec|seconds?|m|min|minutes?|h|hr|hours?"
    r"|d|days?|w|weeks?|M|months?|y|years?)?\s*)+"
)
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
_OPEN = lazy_re("[%{\ue000]")


def check_directive(section: str, key: str, value: Mapped, reading: Reading) -> None:
    """One directive of a unit or a Quadlet."""
    text = value.text.strip()
    if key in _STARTS and section == "Service":
        _command(key, value, reading)
    elif not text or _OPEN.search(text):
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
        said = "blanks stand around the = of a variable: systemd does not set it"
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
    if not words or _OPEN.search(words[0].text) or base_name(words[0]) in (*SHELLS, "env"):
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
