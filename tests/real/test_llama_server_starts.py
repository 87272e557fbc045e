"""The emitted llama-server launches are started for real, with a tiny model on the CPU: they load,
answer over HTTP, and draft.

The server is the one that `.ci/llama-server` builds. Where it is missing the tests are skipped,
unless ADVISOR_EXPECT_LLAMA_SERVER is set, as in CI: then they fail.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor import engines
from advisor.advice.recommend import recommend
from advisor.cli.app import cli
from advisor.domain.nouns import Flag, Launch, Request
from advisor.readers import read_text

VERSION = "0.3.36"  # of the llama-cpp-python archive that .ci/llama-server builds from
QUIET = ("--poll", "0", "--poll-draft", "0")  # no busy waiting on a machine with few cores
START_S = 60.0


def binary() -> Path:
    root = os.environ.get("ADVISOR_CACHE")
    cache = Path(root) if root else Path.home() / ".cache" / "advisor"
    return cache / "llama-server" / VERSION / "bin" / "llama-server"


@pytest.fixture(scope="module")
def server() -> Path:
    found = binary()
    if not found.is_file():
        message = f"no llama-server at {found}: .ci/llama-server builds it"
        if os.environ.get("ADVISOR_EXPECT_LLAMA_SERVER"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf", reason="the gguf package writes the model; .ci/llama-server has it")
    from tests.real import tiny_gguf

    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny-mtp.gguf")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def on_this_machine(launch: Launch, model: Path, port: int) -> list[str]:
    """The arguments of a launch, with this model and port in place of its own."""
    adapter = engines.get("llama-server")
    own = {"--port": str(port), "--host": "127.0.0.1"}
    flags = [Flag(name="--model", raw="-m", value=str(model))]
    flags += [flag for flag in launch.flags if flag.name not in (*own, *adapter.MODEL_FLAGS)]
    flags += [Flag(name=name, raw=name, value=value) for name, value in own.items()]
    return list(adapter.argv(launch.model_copy(update={"flags": tuple(flags)})))[1:]


@contextmanager
def run_server(server: Path, arguments: list[str], log: Path) -> Iterator[None]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LLAMA_")}
    with log.open("wb") as out:
        process = subprocess.Popen([server, *arguments], stdout=out, stderr=out, env=clean)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)


def ask(port: int, path: str, body: dict[str, Any] | None = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def wait(port: int, log: Path) -> None:
    """Until the server says that the model is loaded. Fails with its log."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            if ask(port, "/health")["status"] == "ok":
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")


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
