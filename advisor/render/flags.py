"""Advice -> flags to append to a command: one option with its value per line, quoted for a POSIX
shell.

The program and what it needs to start with (`vllm serve`, `llama-server`) are left out, so that
`advisor recommend ... --format flags | xargs vllm serve` starts the server. The environment is not
part of it:
`env_lines` gives that.
"""

from __future__ import annotations

import shlex

from advisor.advice.plans import topology
from advisor.domain.nouns import Advice
from advisor.render.deploy.serving import server_of


def flags_text(advice: Advice) -> str:
    """The options of the launch to run, positionals first, one a line; ends in a line feed."""
    server = server_of(advice, topology.on_each(advice.facts, advice.plan))
    return "".join(shlex.join(unit) + "\n" for unit in server.units)


def env_lines(advice: Advice) -> tuple[str, ...]:
    """NAME=value for each variable that the launch needs, quoted for a POSIX shell."""
    return tuple(f"{name}={shlex.quote(value)}" for name, value in advice.launch.env.items())
