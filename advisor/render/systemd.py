"""Advice -> a systemd unit that runs the launch on the machine itself (no container, so Apple has
none either way).

The program is found through PATH by env(1); words are quoted and `%` and `$` doubled, as systemd's
own rules ask.
"""

from __future__ import annotations

from string import ascii_letters, digits

from advisor.domain.nouns import Advice, AdvisorError
from advisor.render.flags import program
from advisor.render.layout import option_units
from advisor.render.notes import unit_note
from advisor.render.serving import title
from advisor.render.yaml_text import comment_text

_PLAIN = frozenset(ascii_letters + digits + "_./:=,+@-")


def systemd_unit(advice: Advice) -> str:
    """The unit file for `advice.launch`. Raises AdvisorError on Apple, which has no systemd."""
    if advice.facts.hardware is not None and advice.facts.hardware.vendor == "apple":
        raise AdvisorError(
            "a systemd unit cannot be written for Apple hardware: macOS has no systemd; use "
            "--format flags"
        )
    start = len(program(advice.launch.argv))
    units = option_units(advice.launch.argv[start:])
    notes = [f"# {unit[0]}: {note}" for unit in units if (note := unit_note(advice, unit))]
    lines = [
        *(f"# {comment_text(line)}" for line in title(advice, "recommend --format systemd")),
        "[Unit]",
        f"Description={escape(f'{advice.plan.engine} server')}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        *(comment_text(note) for note in notes),
        *(
            f"Environment={word(f'{name}={value}', dollars=False)}"
            for name, value in advice.launch.env.items()
        ),
        "# systemd looks in its own PATH: for a virtual environment add "
        "Environment=PATH=/where/it/is/bin:/usr/bin:/bin",
        f"ExecStart=/usr/bin/env {_command(advice)}",
        "Restart=on-failure",
        "RestartSec=10",
        "LimitMEMLOCK=infinity",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _command(advice: Advice) -> str:
    """The words of ExecStart, an option a line."""
    start = len(program(advice.launch.argv))
    argv = advice.launch.argv
    units = [argv[:start], *option_units(argv[start:])]
    return " \\\n    ".join(" ".join(word(text) for text in unit) for unit in units if unit)


def word(text: str, *, dollars: bool = True) -> str:
    """One argument in systemd's quoting; `dollars` where variables would be expanded (ExecStart)."""
    if text and set(text) <= _PLAIN:
        return text
    quoted = escape(text).replace("\\", "\\\\").replace('"', '\\"')
    quoted = "".join(
        ch
        if ch.isprintable()
        else "".join(f"\\x{byte:02x}" for byte in ch.encode("utf-8", "replace"))
        for ch in quoted
    )
    return f'"{quoted.replace("$", "$$") if dollars else quoted}"'


def escape(text: str) -> str:
    """Specifiers are off."""
    return text.replace("%", "%%")
