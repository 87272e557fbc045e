"""Advice -> a config.yaml for llama-swap, which starts servers on demand behind one port.

llama-swap replaces `${NAME}` everywhere and drops lines that begin with `#`, with no way around:
words that hold these are refused.
"""

from __future__ import annotations

import shlex

from advisor.domain.nouns import Advice, AdvisorError
from advisor.engines.writer import write_file
from advisor.render.deploy import serving
from advisor.render.deploy.quoting import Block, comment, document
from advisor.render.deploy.serving import Server

_PORT = "${PORT}"  # llama-swap gives each model one


def llama_swap(advice: Advice) -> str:
    """One entry of `models`. Raises AdvisorError for words that llama-swap would change."""
    server = serving.server(advice)
    for text in (*server.words, *server.env.values()):
        if "${" in text or "\n" in text or "\r" in text:
            raise AdvisorError(
                f"a llama-swap configuration cannot hold {text!r}: ${{...}} and line breaks are "
                "read by llama-swap itself"
            )
    entry: dict[str, object] = {
        "name": f"{advice.request.model} on {server.plan.engine}"[:128],
        "cmd": Block(tuple(_lines(server))),
        "proxy": f"http://127.0.0.1:{_PORT}",
        "checkEndpoint": server.traits.health,
    }
    if server.env:
        entry["env"] = [f"{name}={value}" for name, value in server.env.items()]
    title = serving.title(advice, "recommend --format llama-swap")
    title.append(
        "llama-swap -config FILE -listen 127.0.0.1:8080 keeps it on this machine; "
        "`apiKeys` requires a key of who asks"
    )
    title += [f"first, where llama-swap starts: {write_file(*one)}" for one in server.files]
    model = "".join(ch for ch in advice.request.model if ch.isprintable())
    return document(
        {"healthCheckTimeout": max(15, server.startup_s), "models": {model: entry}}, title
    )


def _lines(server: Server) -> list[str]:
    """The command, an option a line; llama-swap skips the comments and joins the rest."""
    port = str(server.port)
    lines = [shlex.join(server.program)]
    for unit, note in zip(server.units, server.notes, strict=True):
        if note:
            lines += comment(note).split("\n")
        if unit == ("--port", port):
            lines.append(f"--port {_PORT}")
        else:
            lines.append(shlex.join(unit))
    if ("--port", port) not in server.units:
        lines.append(f"--port {_PORT}")
    return lines
