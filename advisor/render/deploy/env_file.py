"""Advice -> a file of NAME=value lines.

llama-server takes all its options from the environment. vLLM and SGLang take none, so their file
names the image, the program's arguments and the variables, for a compose file or script that reads
`$SERVER_IMAGE` and `$SERVER_ARGS`.
"""

from __future__ import annotations

import re
import shlex

from advisor import engines
from advisor.advice.plans import topology
from advisor.domain.nouns import Advice, AdvisorError, Flag
from advisor.domain.printable import is_plain
from advisor.domain.shell import shell_word, shell_words
from advisor.engines.traits import traits
from advisor.render.deploy import serving
from advisor.render.deploy.quoting import comment
from advisor.render.deploy.serving import Server, server_of

FORM = "an environment file"
_PLAIN = re.compile(r"[\w./:=,+@%-]*")


def env_file(advice: Advice) -> str:
    """The lines, quoted for shell, compose and systemd. Raises AdvisorError where these differ."""
    gguf = traits(advice.plan.engine).gguf
    server = serving.server(advice, container="" if gguf else FORM)
    title = serving.title(advice, "recommend --format env")
    if gguf:
        title.append("this machine only; in a container add LLAMA_ARG_HOST=0.0.0.0")
    title.append(serving.key_note(server.plan.engine, "anyone who reaches the port"))
    pairs = {"SERVER_IMAGE": server.image, "SERVER_ARGS": shlex.join(server.words)}
    if gguf:  # each option as the variable that llama-server reads
        pairs = dict(_variable(server, flag) for flag in server.launch.flags)
    for name, text in server.files:
        pairs[_file_variable(name)] = text.strip()
        title.append(f"{_file_variable(name)} is the text of {serving.inside(name)}")
    if (own := server.mount) is not None:
        title.append(f"mount {own.source} at {own.target}, read-only")
    pairs |= server.env
    title.append(f"secrets ({', '.join(server.secrets)}) belong into a file of their own")
    if not gguf:
        title.append(f"start: {shlex.join(server.program)} with the words of SERVER_ARGS")
    lines = [comment(line) for line in title]
    lines += [f"{name}={_value(value)}" for name, value in pairs.items()]
    return "\n".join(lines) + "\n"


def _variable(server: Server, flag: Flag) -> tuple[str, str]:
    catalogue = engines.get(server.plan.engine).catalogue
    option = catalogue.option(flag.name, server.plan.engine_version)
    if option is None or option.env is None:
        raise AdvisorError(
            f"{FORM} cannot be written: {server.plan.engine} "
            f"{server.plan.engine_version or ''} has no variable for {flag.name}"
        )
    if option.takes_value is False:
        return option.env, "0" if flag.value == "false" else "1"
    return option.env, flag.value or ""


def _file_variable(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()


def _value(text: str) -> str:
    """The value, bare or in double quotes, which shells, compose and systemd read alike."""
    if _PLAIN.fullmatch(text):
        return text
    strange = next((ch for ch in text if not ch.isprintable() or not is_plain(ch)), None)
    if strange is not None:
        raise AdvisorError(
            f"{FORM} cannot hold the character {strange!a}: its readers disagree about it"
        )
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def flags_text(advice: Advice) -> str:
    """The options of the launch to run, positionals first, one a line; ends in a line feed."""
    server = server_of(advice, topology.on_each(advice.facts, advice.plan))
    return "".join(shell_words(unit) + "\n" for unit in server.units)


def env_lines(advice: Advice) -> tuple[str, ...]:
    """NAME=value for each variable that the launch needs, quoted for a POSIX shell."""
    return tuple(f"{name}={shell_word(value)}" for name, value in advice.launch.env.items())
