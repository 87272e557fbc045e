"""Advice -> the files of one folder: the launch, both runs of an A/B comparison with the script
that measures them, how to roll back, and why.

What it does not know: the disk; the caller writes the files.
"""

from __future__ import annotations

from advisor.domain.nouns import Advice, AdvisorError
from advisor.engines.traits import ALL_ADDRESSES, LOOPBACK
from advisor.render.bench_script import bench_plan, bench_script
from advisor.render.deploy import serving
from advisor.render.deploy.quoting import comment
from advisor.render.deploy.serving import Server
from advisor.render.forms import FORMS
from advisor.render.text import advice_text

_USUAL = ("compose", "systemd")  # the first that can be written is the launch
# form -> (start, stop)
_COMMANDS = {
    "docker-run": ("sh docker-run.sh", "docker rm --force {name}"),
    "compose": ("docker compose up --detach", "docker compose down"),
    "systemd": (
        "sudo cp llm-server.service /etc/systemd/system/ && sudo systemctl daemon-reload && "
        "sudo systemctl start llm-server",
        "sudo systemctl stop llm-server",
    ),
    "quadlet": (
        "cp llm-server.container ~/.config/containers/systemd/ && "
        "systemctl --user daemon-reload && systemctl --user start llm-server",
        "systemctl --user stop llm-server",
    ),
    "k8s": ("kubectl apply --filename deployment.yaml", "kubectl delete deployment,service {name}"),
    "helm": (
        "helm upgrade --install llm vllm/vllm-stack --values values.yaml",
        "helm rollback llm",
    ),
    "ray": ("serve deploy serve.yaml", "serve shutdown"),
    "llama-swap": ("llama-swap -config config.yaml -listen 127.0.0.1:8080", "stop llama-swap"),
    "env": ("start the server with the lines of server.env", "stop the server"),
}


def folder(advice: Advice, form: str | None = None) -> dict[str, str]:
    """File name -> text; `form` is one that starts a server, by default compose, else systemd where
    no container can be written, else the bare command. Raises AdvisorError where it cannot hold
    this answer.
    """
    form, files = _launch(advice, form)
    files["start.sh"] = _script(serving.server(advice))
    if advice.candidate is not None and advice.plan_off is not None:
        files |= _comparison(advice)
    files["ROLLBACK.md"] = _rollback(advice, form)
    files["README.md"] = _readme(advice, form, files)
    return files


def _launch(advice: Advice, form: str | None) -> tuple[str, dict[str, str]]:
    if form is not None:
        return form, {FORMS[form].file: FORMS[form].write(advice)}
    for name in _USUAL:
        try:
            return name, {FORMS[name].file: FORMS[name].write(advice)}
        except AdvisorError:
            continue
    return "", {}


def _script(server: Server) -> str:
    """The bare command, without a container, as a script of its own."""
    reach = f"listens on {LOOPBACK} alone; --host {ALL_ADDRESSES} would serve the network"
    key = serving.key_note(server.plan.engine, "anyone who then reaches the port")
    body = serving.script_lines(server)
    return "\n".join(["#!/bin/sh", comment(f"{reach}. {key}"), "set -eu", *body]) + "\n"


def _comparison(advice: Advice) -> dict[str, str]:
    """Scripts of both runs and of the measurement; a compose file where one can be written."""
    off, on = serving.both(advice)
    files = {
        "run-off.sh": _script(off),
        "run-on.sh": _script(on),
        "ab.sh": bench_script(advice, bench_plan(advice)),
    }
    try:
        files["compose.ab.yml"] = FORMS["compose"].write_both(advice)
    except AdvisorError:
        pass  # no container here: the scripts are enough
    return files


def _rollback(advice: Advice, form: str) -> str:
    lines = ["# How to roll back", ""]
    if form:
        name = serving.server(advice).name
        start, stop = (text.format(name=name) for text in _COMMANDS[form])
        lines += [f"Started with: `{start}`", "", f"1. Stop it: `{stop}`"]
    else:
        lines += ["1. Stop `start.sh` (Ctrl-C)."]
    lines += ["2. Start the server that ran before.", ""]
    lines += ["Weights and compiled kernels stay in the cache: a roll-back downloads nothing."]
    if advice.decision == "on" and advice.plan_off is not None:
        off = serving.script_lines(serving.server(advice, advice.plan_off))
        lines += [
            "",
            "To give up speculation alone and keep the other settings, start this instead",
            "(`run-off.sh`):",
            "",
            *(f"    {line}" for line in off),
        ]
    return "\n".join(lines).rstrip() + "\n"


def _readme(advice: Advice, form: str, files: dict[str, str]) -> str:
    server = serving.server(advice)
    about = {
        "start.sh": "the bare command, without a container",
        "run-off.sh": "without speculation, for the comparison",
        "run-on.sh": "with speculation, on the next port",
        "ab.sh": "starts one run after the other and measures both; `advisor ab` reads the results",
        "compose.ab.yml": "both runs in containers, behind the profiles `off` and `on`",
        "ROLLBACK.md": "how to go back",
    }
    if form:
        start = _COMMANDS[form][0].format(name=server.name)
        about = {FORMS[form].file: f"the launch: `{start}`", **about}
    lines = ["# " + serving.title(advice, "recommend")[0], ""]
    lines += ["| file | what it is |", "| --- | --- |"]
    lines += [f"| `{name}` | {text} |" for name, text in about.items() if name in files]
    lines += ["", serving.key_note(server.plan.engine, "anyone who reaches the port") + ".", ""]
    lines += ["## Why", "", "```text", advice_text(advice, 80, explain=True).rstrip("\n"), "```"]
    return "\n".join(lines) + "\n"
