"""The emitted llama-server launches are started for real, with a tiny model on the CPU: they load,
answer over HTTP, and draft.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor import engines
from advisor.advice.recommend import recommend
from advisor.cli.app import cli
from advisor.domain.nouns import Flag, Launch, Request
from advisor.readers import read_text
from tests.real.tiny_server import QUIET, ask, free_port, run_server, wait


def on_this_machine(launch: Launch, model: Path, port: int) -> list[str]:
    """The arguments of a launch, with this model and port in place of its own."""
    adapter = engines.get("llama-server")
    own = {"--port": str(port), "--host": "127.0.0.1"}
    flags = [Flag(name="--model", raw="-m", value=str(model))]
    flags += [flag for flag in launch.flags if flag.name not in (*own, *adapter.MODEL_FLAGS)]
    flags += [Flag(name=name, raw=name, value=value) for name, value in own.items()]
    return list(adapter.argv(launch.model_copy(update={"flags": tuple(flags)})))[1:]


def emit(form: str) -> Launch:
    """The launch with speculation that `recommend` writes in one of its forms, read back."""
    question = ["recommend", "--hw", "rtx5090", "--engine", "llama-server@0.5.0"]
    question += ["--acceptance-length", "3.4", "--acceptance-k", "3", "--format", form]
    answer = CliRunner().invoke(cli, question)
    assert answer.exit_code == 0, answer.output
    launches = read_text(answer.stdout, NAMES[form]).launches
    assert len(launches) == 1 and launches[0].engine == "llama-server"
    return launches[0]


NAMES = {"flags": "start.sh", "compose": "compose.yaml", "systemd": "llama.service"}


@pytest.mark.parametrize("form", list(NAMES))
def test_an_emitted_launch_starts_answers_and_drafts(
    form: str, server: Path, model: Path, tmp_path: Path
) -> None:
    launch = emit(form)
    assert launch.flag("--spec-type") is not None, "the question is one that speculation wins"
    k = int(launch.flag("--spec-draft-n-max").value)  # type: ignore[union-attr,arg-type]
    port, log = free_port(), tmp_path / "server.log"
    forced = ["--spec-synth-rates", ",".join(["0.8"] * k)]  # noise would hardly ever be accepted
    arguments = [*on_this_machine(launch, model, port), *QUIET, *forced]
    with run_server(server, arguments, log):
        wait(port, log)
        answer = ask(port, "/completion", {"prompt": "ab ab ab", "n_predict": 24, "seed": 1})
        slots = len(ask(port, "/slots"))
    assert answer["tokens_predicted"] == 24
    assert answer["timings"]["draft_n"] > 0 and answer["timings"]["draft_n_accepted"] > 0
    assert slots == int(launch.flag("--parallel").value)  # type: ignore[union-attr,arg-type]


def test_the_launch_without_speculation_starts_too(
    server: Path, model: Path, tmp_path: Path
) -> None:
    made = recommend(Request(hardware="rtx5090", engine="llama-server", engine_version="0.5.0"))
    launch = read_text(made.launch_off.text, "start.sh").launches[0]
    port, log = free_port(), tmp_path / "server.log"
    with run_server(server, [*on_this_machine(launch, model, port), "--poll", "0"], log):
        wait(port, log)
        answer = ask(port, "/completion", {"prompt": "ab", "n_predict": 4, "seed": 1})
    assert answer["tokens_predicted"] == 4 and "draft_n" not in answer["timings"]
