"""`advisor bench run` and `advisor watch` against a real llama-server on the CPU, whose acceptance
is set (`--spec-synth-rates`): what was set is what is reported. Nothing here depends on how fast
this machine is.
"""

import json
import math
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from advisor.cli.app import cli
from advisor.lab import ab_run, load
from advisor.lab.processes import EngineProcess
from advisor.readers import server as client
from advisor.readers.exchange import ServerGone
from advisor.readers.results.formats import read_results
from tests.ports import free_port
from tests.real.tiny_server import QUIET, run_server, wait

pytestmark = pytest.mark.slow  # a real server is started and waited for

RATES = (0.8, 0.6)  # of a draft's first and second token, each of all drafts
LENGTH = 1 + sum(RATES)


def arguments(model: Path, port: int, drafts: bool, *more: str) -> list[str]:
    words = ["-m", str(model), "--host", "127.0.0.1", "--port", str(port), "--parallel", "2"]
    words += ["-t", "1", "-c", "4096", *QUIET[:2], *more]
    if drafts:
        words += ["--spec-type", "draft-mtp", "--spec-draft-n-max", "2", *QUIET[2:]]
        words += ["--spec-synth-rates", ",".join(map(str, RATES))]
    return words


def plan(server: Path, model: Path, folder: Path, **more: Any) -> dict[str, Any]:
    port = free_port()
    off, on = (
        [str(server), *arguments(model, port, drafts, "--metrics")] for drafts in (False, True)
    )
    made = {
        "hardware": "b200", "model": "qwen3.6-35b-a3b", "engine": "llama-server",
        "url": f"http://127.0.0.1:{port}", "concurrency": 2, "input_tokens": 16,
        "output_tokens": 48, "requests": 12, "warmup": 1, "seeds": [1],
        "arms": [{"name": "off", "argv": off}, {"name": "on", "argv": on, "method": "mtp", "k": 2}],
    }  # fmt: skip
    (folder / "plan.yaml").write_text(yaml.safe_dump(made | more))
    return made | more


def test_an_ab_reports_the_acceptance_as_set(server: Path, model: Path, tmp_path: Path) -> None:
    made = plan(server, model, tmp_path)
    ran = CliRunner().invoke(cli, ["bench", "run", str(tmp_path)])
    assert ran.exit_code == 0, ran.output + str(ran.exception)
    assert "A/B: " in ran.output and "tokens per step; normal here is" in ran.output
    off, on = (read_results(tmp_path / f"{arm}-seed1.jsonl")[0] for arm in ("off", "on"))
    assert off.acceptance is None and off.method == "none"
    assert off.requests == on.requests == 12 and off.failed == on.failed == 0
    assert off.output_tokens == on.output_tokens == 48 and off.slots == 2
    accepted = on.acceptance
    assert accepted is not None and accepted.length is not None and on.k == 2
    # about 240 drafts: two standard deviations of the mean length are 0.1
    assert accepted.length == pytest.approx(LENGTH, abs=0.25)
    assert accepted.by_position == pytest.approx(RATES, abs=0.15)
    with pytest.raises(ServerGone):
        client.get(made["url"], "/health", 1)
    again = CliRunner().invoke(cli, ["bench", "run", str(tmp_path)])
    assert again.exit_code == 0 and "A/B: " in again.output  # nothing is measured twice
    assert (tmp_path / "on-seed1.jsonl").read_text().count('"i"') == 12


def receipt_of(folder: Path) -> dict[str, Any]:
    """The receipt that `advisor receipt` writes of a folder, into `team` in it."""
    made = CliRunner().invoke(cli, ["receipt", str(folder), "--out", str(folder / "team")])
    assert made.exit_code == 0, made.output + str(made.exception)
    (path,) = (folder / "team").glob("*.json")
    data: dict[str, Any] = json.loads(path.read_text())
    return data


@pytest.fixture
def on_the_servers_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's clock is the processor time of the server that runs: what else this machine does
    counts for nothing. Requests, answers and the server's work are real.
    """
    running: list[int] = []

    class Watched(EngineProcess):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            running.append(self.pid)

    def now() -> float:
        return time.clock_gettime((~running[-1] << 3) | 2)  # CPUCLOCK_SCHED of another process

    monkeypatch.setattr(ab_run, "EngineProcess", Watched)

    clock = SimpleNamespace(monotonic=now, sleep=time.sleep)
    monkeypatch.setattr(client, "time", clock)
    monkeypatch.setattr(load, "time", clock)


@pytest.mark.usefixtures("on_the_servers_processor")
def test_a_receipt_behind_a_key_comes_back(server: Path, model: Path, tmp_path: Path) -> None:
    """Plan, run with a key, quality check, receipt, and the answer from it within 3 %, or within
    the half-width of what was measured; its drafts are verified as ever, so that no answer changes.
    """
    about = {"hardware": "b300", "workload": "chat", "seeds": [*range(1, 9)], "requests": 24}
    made = plan(server, model, tmp_path, **about)
    for arm in made["arms"]:
        arm["argv"] = [w for w in arm["argv"] if w not in ("--spec-synth-rates", "0.8,0.6")]
        arm["argv"] += ["--api-key", "k3y-of-the-owner"]
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(made))
    ran = CliRunner().invoke(cli, ["bench", "run", str(tmp_path), "--check-quality"])
    assert ran.exit_code == 0, ran.output + str(ran.exception)
    assert "same answers within the engine's own noise" in " ".join(ran.output.split())
    data = receipt_of(tmp_path)
    assert (data["quality"]["alarm"], data["quality"]["tasks"]) == (False, 28)
    for path in (tmp_path / "team").iterdir():
        assert "k3y" not in path.read_text() and "127.0.0.1" not in path.read_text()
    (gain,) = (g["gain"] for g in data["loads"][0]["gains"] if g["metric"] == "output_tok_s")
    words = ["sweep", "--receipts", str(tmp_path / "team"), "--model", "qwen3.6-35b-a3b"]
    words += ["--engine", "llama-server", "--concurrency", "2", "--output-tokens", "48"]
    words += ["--output-spread", "0"]
    words += ["--ctx", str(round(data["runs"][0]["input_tokens"])), "--workload", "chat"]
    swept = CliRunner().invoke(cli, [*words, "--vary", "k=2..2", "--format", "json"])
    assert swept.exit_code == 0, swept.output + str(swept.exception)
    (row,) = json.loads(swept.output)["loads"][0]["points"]
    answer = row["output_tok_s"]["speedup"]["p50"]
    gains = data["runs"][0]["gains"]
    assert abs(math.log(answer / gain)) < max(0.03, 1.645 * gains["output_tok_s"]["sd"]), gains
    asked = CliRunner().invoke(cli, ["recommend", *words[1:], "--format", "json"])
    assert asked.exit_code == 0, asked.output + str(asked.exception)
    assert json.loads(asked.output)["decision"] == "off"  # no draft was right, and it said so


def test_a_server_whose_drafts_alter_answers(server: Path, model: Path, tmp_path: Path) -> None:
    """With `--spec-synth-rates` drafts are accepted whether they are right or not."""
    plan(server, model, tmp_path)
    ran = CliRunner().invoke(cli, ["bench", "run", str(tmp_path), "--check-quality"])
    assert ran.exit_code == 1, ran.output + str(ran.exception)
    assert "QUALITY ALARM" in ran.output


def test_without_metrics_the_answers_tell(server: Path, model: Path, tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "server.log"
    words = ["bench", "run", str(tmp_path / "ab"), "--url", f"http://127.0.0.1:{port}"]
    words += ["--arm", "on", "--k", "2", "--concurrency", "2", "--ctx", "16", "--warmup", "0"]
    words += ["--output-tokens", "48", "--requests", "10", "--seeds", "1"]
    with run_server(server, arguments(model, port, True), log):
        wait(port, log)
        ran = CliRunner().invoke(cli, words)
        watched = CliRunner().invoke(cli, ["watch", "--url", words[4], "--seconds", "0.2"])
    assert ran.exit_code == 0, ran.output + str(ran.exception)
    accepted = read_results(tmp_path / "ab" / "on-seed1.jsonl")[0].acceptance
    assert accepted is not None and accepted.length == pytest.approx(LENGTH, abs=0.3)
    assert "start the server with --metrics" in str(watched.exception)
