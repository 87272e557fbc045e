"""Advice -> flags to append to a command: one option with its value per line, quoted for a POSIX
shell.

The program and what it needs to start with (`vllm serve`, `llama-server`) are left out, so that
`advisor recommend ... --format flags | xargs vllm serve` starts the server. The environment is not
part of it:
`env_lines` gives that.
"""

from __future__ import annotations

import shlex

from advisor.domain.nouns import Advice
from advisor.render.layout import option_units


def flags_text(advice: Advice) -> str:
    """The options of the launch to run, positionals first, one a line; ends in a line feed."""
    units = option_units(arguments(advice.launch.argv))
    return "".join(" ".join(shlex.quote(word) for word in unit) + "\n" for unit in units)


def env_lines(advice: Advice) -> tuple[str, ...]:
    """NAME=value for each variable that the launch needs, quoted for a POSIX shell."""
    return tuple(f"{name}={shlex.quote(value)}" for name, value in advice.launch.env.items())


def program(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The words that start the program: `vllm serve`, `python3 -m sglang.launch_server`,
    `llama-server`.
    """
    if argv[:2] == ("vllm", "serve"):
        return argv[:2]
    if len(argv) > 2 and argv[0].startswith("python") and argv[1] == "-m":
        return argv[:3]
    return argv[:1]


def arguments(argv: tuple[str, ...]) -> tuple[str, ...]:
    """What follows the program."""
    return argv[len(program(argv)) :]
