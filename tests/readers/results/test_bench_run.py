"""`bench plan`, `bench run` and what goes wrong, against a server on this machine whose pace is
known.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from ports import free_port
from readers.results.paced_server import Pace, start

from advisor.cli.app import cli
from advisor.domain.facts import AdvisorError
from advisor.lab import bench_plan as plans
from advisor.lab import load
from advisor.readers import exchange
from advisor.readers import server as client
from advisor.readers.exchange import HasFile, ServerGone, cut
from advisor.readers.results import arms
from advisor.readers.results.formats import read_all, read_results

OFF = {"step_ms": 20.0, "ttft_ms": 40.0}
QUICK = {"step_ms": 2.0, "ttft_ms": 4.0}  # where no time is measured
# 31 ms a step of 1 + 0.75 + 0.53 tokens: 1.47 times the speed of 20 ms a token
ON = {"step_ms": 31.0, "ttft_ms": 40.0, "k": 2, "rates": (0.75, 0.53)}
GAIN = 20 / (31 / 2.28)


@contextmanager
def serve(**pace: object) -> Iterator[str]:
    server, url = start(Pace(**pace))  # type: ignore[arg-type]
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()


def take_the_servers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client reads the clock of the server: each thread's time is what the last line that it
    received says. Sockets, threads and files are real; how busy this machine is does not matter.
    """
    here, first = threading.local(), {"now": 0.0}  # a new thread begins where the first one is

    def now() -> float:
        return float(getattr(here, "now", first["now"]))

    class Reader(client._Reader):
        def take(self, line: bytes) -> None:
            if line.startswith(b": at "):
                here.now = self.start + float(line[5:])
                if threading.current_thread() is threading.main_thread():
                    first["now"] = here.now
            super().take(line)

    clock = SimpleNamespace(monotonic=now)
    monkeypatch.setattr(client, "time", clock)
    monkeypatch.setattr(client, "_Reader", Reader)
    monkeypatch.setattr(load, "time", clock)


ONE_LENGTH = ("--workload", "random")  # answers end together, as the rounds of the server do


def bench(folder: Path, url: str, arm: str, *more: str) -> tuple[int, str]:
    words = ["bench", "run", str(folder), "--url", url, "--arm", arm]
    words += ["--concurrency", "4", "--ctx", "64"]
    words += ["--output-tokens", "80", "--requests", "12", "--seeds", "1", "--warmup", "1", *more]
    made = CliRunner().invoke(cli, words)
    error = f"{type(made.exception).__name__}: {made.exception}" if made.exception else ""
    return made.exit_code, made.output + error


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
def test_a_set_gain_is_reported_within_three_percent(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_the_servers_clock(monkeypatch)
    with serve(**OFF, engine=engine, rounds_of=4) as url:
        assert bench(tmp_path, url, "off", *ONE_LENGTH)[0] == 0
    with serve(**ON, engine=engine, rounds_of=4) as url:
        status, said = bench(tmp_path, url, "on", "--k", "2", *ONE_LENGTH)
    assert status == 0, said
    assert "A/B: FASTER" in said
    off, on = (read_results(tmp_path / f"{arm}-seed1.jsonl") for arm in ("off", "on"))
    made = {gain.metric: gain.ratio for gain in arms.gains(off, on)}
    assert made["tpot"] == pytest.approx(GAIN, rel=0.03)
    whole = (40 + 79 * 20) / (40 + 79 * 31 / 2.28)
    assert made["output_tok_s"] == pytest.approx(whole, rel=0.03)
    assert made["ttft"] == pytest.approx(1.0, rel=0.001)
    assert off[0].value("tpot") == pytest.approx(20.0, rel=0.001)
    assert off[0].output_tok_s == pytest.approx(4 * 80 / (0.040 + 79 * 0.020), rel=0.001)
    assert on[0].acceptance is not None and on[0].acceptance.length == pytest.approx(2.28, rel=0.03)
    assert on[0].engine == engine and on[0].k == 2 and off[0].method == "none"


def wait_for_lines(path: Path, lines: int) -> None:
    """Until a file has that many whole lines."""
    end = time.monotonic() + 120
    while not path.exists() or path.read_text().count("\n") < lines:
        assert time.monotonic() < end, f"{path.name} does not grow to {lines} lines"
        time.sleep(0.02)


@pytest.fixture
def quick_to_lose_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute of silence is over at once where the server says that it stalls, only there."""
    here = threading.local()

    class Limit(exchange.Limit):
        def __init__(self, seconds: float) -> None:
            super().__init__(seconds)
            here.limit = self

    class Reader(client._Reader):
        def take(self, line: bytes) -> None:
            if line.startswith(b": stalls"):
                assert 0 < here.limit.remaining_s() <= here.limit.seconds == 60
                here.limit.end = 0.0
            super().take(line)

    monkeypatch.setattr(client, "_Reader", Reader)
    monkeypatch.setattr(client, "Limit", Limit)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("die", "no server answers|broke off"),
        ("stall", "sent nothing for 60 s"),
        ("rubbish", "no event stream"),
    ],
)
def test_a_server_that_fails_gives_a_sentence_and_keeps_what_was_measured(
    fault: str, why: str, tmp_path: Path, quick_to_lose_patience: None
) -> None:
    import re

    with serve(**QUICK, fault=fault, after=6) as url:
        status, said = bench(tmp_path, url, "off", "--stall", "60")
    assert status != 0
    assert re.search(why, said), said
    assert "requests are kept in off-seed1.jsonl" in said
    run = read_results(tmp_path / "off-seed1.jsonl")[0]
    assert run.requests and 1 <= run.requests <= 6


@pytest.mark.slow  # starts four servers
def test_a_plan_runs_arms_and_ends_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both servers are started from the plan, on one port, and stopped."""
    take_the_servers_clock(monkeypatch)
    port = free_port()
    command = [sys.executable, "-m", "tests.readers.results.paced_server", "--port", str(port)]
    command += ["--rounds-of", "3"]
    plan = plan_for(f"http://127.0.0.1:{port}", [*command, "--step-ms", "20"])
    on = [*command, "--step-ms", "31", "--k", "2", "--rates", "0.75,0.53"]
    plan["arms"].append({"name": "on", "argv": on, "method": "mtp", "k": 2})
    plan |= {"concurrency": 3, "input_tokens": 64, "output_tokens": 40, "seeds": [1, 2]}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    made = CliRunner().invoke(cli, ["bench", "run", str(tmp_path)])
    assert made.exit_code == 0, made.output
    assert "A/B: FASTER" in made.output and "qwen3.6-35b-a3b on gb10" in made.output
    with pytest.raises(ServerGone):
        client.get(plan["url"], "/health", 1)
    files = sorted(path.name for path in tmp_path.glob("*.jsonl"))
    assert files == ["off-seed1.jsonl", "off-seed2.jsonl", "on-seed1.jsonl", "on-seed2.jsonl"]
    assert all(run.requests == 6 for run in read_all([tmp_path / name for name in files]))


@pytest.mark.parametrize("text_came", [False, True])
def test_a_cut_stream_ends_at_once(text_came: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may wait for its readers before it stops: Ctrl-C cuts what they read, be it before
    the request is sent or in the middle of the answer.
    """
    body = {"max_tokens": 50, "messages": [{"role": "user", "content": "a b"}]}
    held: list[HasFile] = []
    said: list[Exception] = []
    due = threading.Event()
    take = client._Reader.take

    def hold(connection: HasFile) -> None:
        held.append(connection)
        if not text_came:
            cut(connection)
            due.set()

    def take_and_tell(self: client._Reader, line: bytes) -> None:
        take(self, line)
        if self.chunks:
            due.set()

    def ask(url: str) -> None:
        try:
            client.stream(url, body, 600, hold)
        except AdvisorError as error:
            said.append(error)

    monkeypatch.setattr(client._Reader, "take", take_and_tell)
    with serve(**QUICK, fault="stall") as url:
        thread = threading.Thread(target=ask, args=(url,), daemon=True)
        thread.start()
        assert due.wait(60)
        cut(held[0])
        thread.join(60)  # of the 600 that the silence of the server may last
        assert not thread.is_alive() and len(said) == 1
        cut(held[0])  # closed by now: nothing to do


def test_a_server_that_nobody_gave_a_k_is_read_off_its_counters(tmp_path: Path) -> None:
    with serve(**QUICK) as url:
        assert bench(tmp_path, url, "off", "--model", "qwen3.6-35b-a3b")[0] == 0
    with serve(**QUICK, k=2, rates=(0.75, 0.53)) as url:
        status, said = bench(tmp_path, url, "on", "--hw", "h200", "--model", "qwen3.6-35b-a3b")
    assert status == 0, said
    made = read_results(tmp_path / "on-seed1.jsonl")[0]
    assert (made.k, made.engine) == (2, "vllm")
    assert read_results(tmp_path / "off-seed1.jsonl")[0].k == 0 and "vllm, mtp k=2" in said
    command = said.split("next: ")[-1].strip()
    assert command.startswith(f"advisor calibrate {tmp_path}/off-seed1.jsonl {tmp_path}/on-seed1")
    assert command.endswith("--hw h200 --model qwen3.6-35b-a3b --name own")


def test_drafts_are_not_measured_by_chunks(tmp_path: Path) -> None:
    """Without token counts a chunk of several tokens would count as one."""
    with serve(**QUICK, usage=False) as url:
        assert bench(tmp_path, url, "off")[0] == 0
    with serve(**QUICK, k=2, rates=(0.9, 0.8), usage=False) as url:
        status, said = bench(tmp_path, url, "on", "--k", "2")
    assert status != 0 and "states no token counts" in said
    assert read_results(tmp_path / "off-seed1.jsonl")[0].output_tokens == 80


def plan_for(url: str, argv: list[str]) -> dict[str, Any]:
    return {"hardware": "gb10", "model": "qwen3.6-35b-a3b", "engine": "vllm", "url": url,
            "concurrency": 2, "input_tokens": 32, "output_tokens": 30, "requests": 6, "warmup": 1,
            "seeds": [1], "arms": [{"name": "off", "argv": argv or ["none"]}]}  # fmt: skip


@pytest.mark.slow  # starts a server and waits for it
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_after_a_signal_the_same_command_goes_on(sign: signal.Signals, tmp_path: Path) -> None:
    """The terminal sends SIGINT to the whole group of the command, and SIGHUP where it is closed;
    `kill`, systemd and a scheduler of jobs send SIGTERM.
    """
    port = free_port()
    server = [sys.executable, "-m", "tests.readers.results.paced_server", "--port", str(port)]
    server += ["--step-ms", "2", "--ttft-ms", "4"]
    server += ["--after", "9", "--until", str(tmp_path / "go")]  # a warm-up and eight
    made = plan_for(f"http://127.0.0.1:{port}", server) | {"requests": 40}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(made))
    code = "import sys; from advisor.cli.app import main; main(sys.argv[1:])"
    # a shell that starts its tests in the background passes on that a signal is ignored
    child = subprocess.Popen([sys.executable, "-c", code, "bench", "run", str(tmp_path)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             start_new_session=True,
                             preexec_fn=lambda: signal.signal(sign, signal.SIG_DFL))  # noqa: PLW1509  # fmt: skip
    path = tmp_path / "off-seed1.jsonl"
    wait_for_lines(path, 9)
    os.killpg(child.pid, sign)
    said = child.communicate(timeout=120)[0].decode()
    assert child.returncode == 128 + sign and "Traceback" not in said
    kept = path.read_text()
    assert kept.count('"i"') == 8
    sentence = " ".join(said.split())
    assert "stopped at 8 of 40 requests of off, seed 1" in sentence
    assert "the same command goes on from there" in sentence
    with pytest.raises(ServerGone):
        client.get(str(made["url"]), "/health", 1)
    (tmp_path / "go").touch()
    again = CliRunner().invoke(cli, ["bench", "run", str(tmp_path)])
    assert again.exit_code == 0, again.output + str(again.exception)
    assert path.read_text().startswith(kept) and path.read_text().count('"i"') == 40


@pytest.mark.slow  # starts a command and a server
def test_a_terminal_that_is_gone_does_not_keep_the_server(tmp_path: Path) -> None:
    """A closed terminal sends SIGHUP, and nothing can be written to it any more."""
    import pty

    master, slave = pty.openpty()
    with serve(**QUICK, after=6, until=tmp_path / "go") as url:  # two warm-ups and four
        words = ["bench", "run", str(tmp_path), "--url", url, "--arm", "off", "--requests", "40"]
        child = subprocess.Popen(
            [sys.executable, "-c", "from advisor.cli.app import main; main()", *words],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509
        )  # fmt: skip
        os.close(slave)
        os.set_blocking(master, False)
        is_over = threading.Event()

        def read_all_shown() -> None:
            while not is_over.wait(0.02):  # else the command waits to show its progress
                with suppress(OSError):
                    os.read(master, 2**16)

        terminal = threading.Thread(target=read_all_shown)
        terminal.start()
        path = tmp_path / "off-seed1.jsonl"
        try:
            wait_for_lines(path, 5)
        finally:
            is_over.set()
            terminal.join()
            os.close(master)
        os.killpg(child.pid, signal.SIGHUP)
        assert child.wait(120) == 128 + signal.SIGHUP
    assert read_results(path)[0].requests


def test_a_server_that_does_not_start_is_named_with_its_log(tmp_path: Path) -> None:
    plan = plan_for("http://127.0.0.1:9", [sys.executable, "-c", "raise SystemExit(3)"])
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    made = CliRunner().invoke(cli, ["bench", "run", str(tmp_path)])
    assert made.exit_code != 0
    assert "stopped with status 3 before it was ready" in str(
        made.exception
    ) and "server-off.log" in str(made.exception)


@pytest.mark.parametrize(
    "text", ["", "a: [", "[]", "{arms: []}", "version: 9", "!!python/object:os.system {}"]
)
def test_a_broken_plan_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    made = CliRunner().invoke(cli, ["bench", "run", str(tmp_path)])
    lines = str(made.exception).split("\n")
    assert made.exit_code != 0 and ["plan.yaml" in line for line in lines] == [True]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
def test_bench_plan_writes_a_script_that_bash_accepts(engine: str, tmp_path: Path) -> None:
    hw = "3090" if engine == "llama-server" else "gb10" if engine == "vllm" else "h100"
    words = ["bench", "plan", "--hw", hw, "--engine", engine, "--concurrency", "4"]
    words += ["--out", str(tmp_path)]
    made = CliRunner().invoke(cli, words)
    assert made.exit_code == 0, made.output + str(made.exception)
    script = (tmp_path / "run.sh").read_text()
    assert subprocess.run(["bash", "-n", str(tmp_path / "run.sh")], check=False).returncode == 0
    assert script.index("speculation off") < script.index("speculation on")
    assert "metrics-on-seed2-after.prom" in script and "bench_serving" not in script
    assert "--dataset-name random" not in script and "--workload mixed" in script
    assert script.count("--dataset-path prompts-seed1.jsonl") == 2, "both runs send the same text"
    rows = [json.loads(line) for line in (tmp_path / "prompts-seed1.jsonl").open()]
    texts = [row.get("prompt") or row["conversations"][0]["content"] for row in rows]
    assert texts == plans.make_prompts(16, 2048, "mixed", 1)
    lengths = [
        row.get("output_tokens") or len(row["conversations"][1]["content"].split()) for row in rows
    ]
    assert (min(lengths), max(lengths), sum(lengths)) == (272, 752, 16 * 512), (
        "512, half of it around"
    )
    assert ("--custom-output-len -1" in script) == (engine != "sglang"), "the file has the lengths"
    assert "mixed prompts" in made.output.split("next: ")[-1]
    plan = yaml.safe_load((tmp_path / "plan.yaml").read_text())
    assert [arm["name"] for arm in plan["arms"]] == ["off", "on"] and plan["arms"][1]["k"] > 0
    assert plans.with_plan({"k": 9}, tmp_path)["hardware"] == plan["hardware"]
    again = CliRunner().invoke(cli, [*words, "--ctx", "4096"])
    assert again.exit_code != 0 and "another plan" in str(again.exception)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
def test_an_off_run_whose_server_drafts_is_refused_at_once(engine: str, tmp_path: Path) -> None:
    with serve(**QUICK, k=2, rates=(0.75, 0.53), engine=engine) as url:
        status, text = bench(tmp_path, url, "off")
    assert status != 0 and "the server of the off run drafts" in text
    assert len((tmp_path / "off-seed1.jsonl").read_text().splitlines()) <= 1


def test_prompts_differ_between_requests_and_repeat_with_a_seed() -> None:
    first = plans.make_prompts(20, 200, "code", 1)
    assert first == plans.make_prompts(20, 200, "code", 1) != plans.make_prompts(20, 200, "code", 2)
    assert len({text[:60] for text in first}) > 15 and 100 < len(first[0].split()) < 220


def test_answers_vary_as_the_estimate_has_them_and_are_read_back(tmp_path: Path) -> None:
    """Answers of one length start and end together without drafts: an A/B then says "slower" of
    drafts that gain (H200, 35B-A3B, 8 requests, docs/research/one-engine.md).
    """
    with serve(**QUICK) as url:
        status, text = bench(tmp_path, url, "off")
    assert status == 0, text
    [run] = read_results(tmp_path / "off-seed1.jsonl")
    assert run.output_spread == pytest.approx(plans.usual_spread("mixed"), abs=0.05)
    assert plans.usual_spread("random") == 0
