"""Advice -> the options of its launch, for a command of one's own."""

from __future__ import annotations

from advisor.advice.plans import topology
from advisor.domain.nouns import Advice
from advisor.domain.shell import shell_word, shell_words
from advisor.render.deploy.serving import server_of


def flags_text(advice: Advice) -> str:
    """The options of the launch to run, positionals first, one a line; ends in a line feed."""
    server = server_of(advice, topology.on_each(advice.facts, advice.plan))
    return "".join(shell_words(unit) + "\n" for unit in server.units)


def env_lines(advice: Advice) -> tuple[str, ...]:
    """NAME=value for each variable that the launch needs, quoted for a POSIX shell."""
    return tuple(f"{name}={shell_word(value)}" for name, value in advice.launch.env.items())
