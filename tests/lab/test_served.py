"""The sweep of servers over HTTP: what a stream says about steps, and that a sweep is taken up."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ports import free_port

from advisor.lab.bench import (
    jobs,
    rows,
    served_worker,
    sglang_server,
    step_cost,
    streams,
    timing,
)
from advisor.lab.bench.machine import Meter, Sample

MOCK = Path(__file__).with_name("served_mock.py")
FIELDS = ("label", "engine", "engine_version", "model", "quant", "k", "command")


def read(engine: str, times: list[float], drafts: bool, **data: Any) -> timing.TimedRequest:
    """A reply with an event at each of these times."""
    events = [streams.Event(at, data or {"tokens": [7]}) for at in times]
    return streams.read_reply(engine, streams.Reply(0.0, events), drafts).request


def chunk(texts: list[bytes]) -> bytes:
    body = b"".join(b"%x\r\n" % len(t) + t + b"\r\n" for t in texts)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n"


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12), st.integers(1, 40))
def test_events_are_found_however_the_bytes_were_read(ids: list[int], size: int) -> None:
    raw = chunk([b"data: " + json.dumps({"tokens": [i]}).encode() + b"\n\n" for i in ids])
    reads = [(float(n), raw[i : i + size]) for n, i in enumerate(range(0, len(raw), size))]
    found = streams.parse(reads)
    assert [e.data["tokens"][0] for e in found] == ids
    assert [e.at for e in found] == sorted(e.at for e in found)


def test_an_event_has_the_time_of_the_read_that_ended_it() -> None:
    raw = chunk([b'data: {"tokens":[1]}\n\n', b'data: {"tokens":[2]}\n\n'])
    cut = raw.index(b"[2]")
    assert [e.at for e in streams.parse([(1.0, raw[:cut]), (2.0, raw[cut:])])] == [1.0, 2.0]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 500 no\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\ndata: [1]\n\n",
        b"HTTP/1.1 200 OK\r\n\r\ndata: {\n\n",
    ],
)
def test_what_is_no_event_stream_is_refused(raw: bytes) -> None:
    with pytest.raises(streams.ServerError):
        streams.parse([(0.0, raw)])


def test_tokens_that_arrive_together_are_one_step() -> None:
    at = [0.0, 0.010, 0.0101, 0.0102, 0.020, 0.0201, 0.030]
    assert read("llama-server", at, True).steps == [0.0, 0.010, 0.020, 0.030]
    assert read("llama-server", at, False).steps == at


def test_long_waits_do_not_merge_the_steps_between_them() -> None:
    """A prompt of another client stalls every second step: the others still count as steps."""
    at = [0.32 * (i // 2) + 0.02 * (i % 2) for i in range(40)]
    assert len(read("sglang", at, True, output_ids=[1, 2]).steps) == 40


def test_sglang_may_send_all_ids_or_the_new_ones() -> None:
    def event(ids: list[int], total: int) -> streams.Event:
        return streams.Event(0, {"output_ids": ids, "meta_info": {"completion_tokens": total}})

    assert streams.tokens_of("sglang", event([4, 5, 6], 3), 1) == [5, 6]
    assert streams.tokens_of("sglang", event([5, 6], 3), 1) == [5, 6]
    assert streams.tokens_of("sglang", event([5, 6], 3), 3) == []


def test_only_the_span_in_which_all_decode_counts() -> None:
    """The second request starts late and ends early; outside its span steps are quicker."""
    second = [0.1 + 0.02 * i for i in range(10)]
    first = [0.01 * i for i in range(10)] + second + [0.30, 0.31]
    row, begin, end = timing.decode_row(
        [timing.TimedRequest(0.0, at, at) for at in (first, second)]
    )
    assert (begin, end) == (pytest.approx(0.12), pytest.approx(0.28))
    assert row["decode_step_mean_ms"] == pytest.approx(20.0)
    assert row["acceptance_length"] == pytest.approx(1.0)
    assert row["decode_tok_s"] == pytest.approx(2 / 0.02, rel=0.05)


def test_tokens_that_arrive_at_once_make_no_span() -> None:
    """A busy client reads the last two steps together: no time lies between them."""
    at = [0.1, 0.2, 0.2]
    with pytest.raises(ValueError, match="no step lies in the span"):
        timing.decode_row([timing.TimedRequest(0.0, at, at)])


@pytest.fixture
def on_the_servers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event came when the server says: how busy this machine is does not matter."""
    parse, ask = streams.parse, streams.stream

    def by_server(reads: streams.Reads) -> list[streams.Event]:
        assert reads == sorted(reads, key=lambda one: one[0])
        raw, now = b"".join(data for _, data in reads), 0.0
        parts = []
        for number, text in enumerate(re.split(rb"(: at [0-9.]+\n\n)", raw)):
            now = float(text[5:]) if number % 2 else now
            parts.append((now, text))
        return parse(parts)

    async def stream(*words: Any, **more: Any) -> streams.Reply:
        begin = time.perf_counter()
        reply = await ask(*words, **more)
        assert begin <= reply.sent <= time.perf_counter()
        return streams.Reply(0.0, reply.events)

    monkeypatch.setattr(streams, "parse", by_server)
    monkeypatch.setattr(served_worker, "stream", stream)


def mock_job(engine: str, k: int, points: tuple[jobs.ServedPoint, ...]) -> Any:
    port = free_port()
    command = (sys.executable, str(MOCK), engine, str(port), str(k))
    about = (f"mock-k{k}", engine, "1", "qwen3.6-35b-a3b", "q4_k_s", k, command, points, port)
    return jobs.ServedJob(*about, vocabulary=2000, rates=(1.0,) * k, start_s=300)


def measure(job: Any, folder: Path) -> list[dict[str, Any]]:
    """The rows of a job after its missing points were measured in this process."""
    out = step_cost.rows_file(folder, job)
    todo = step_cost.todo_of(job, folder)
    assert served_worker.measure(jobs.as_data(job), todo, out, float("inf")) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.parametrize("engine", ["llama-server", "sglang"])
def test_a_sweep_measures_a_server_and_takes_up_where_it_stopped(
    engine: str, tmp_path: Path, on_the_servers_clock: None
) -> None:
    kind = "decode" if engine == "llama-server" else "closed"
    points = tuple(jobs.ServedPoint(kind, c, 128, 12, rounds=1) for c in (1, 2))
    job = mock_job(engine, 1, points)
    assert len(measure(replace(job, points=points[:1]), tmp_path)) == 1
    rows = measure(job, tmp_path)
    assert [row["key"] for row in rows] == [p.key for p in points]
    for row in rows:
        assert row["decode_step_p50_ms"] == pytest.approx(20, rel=0.001)
        assert row["acceptance_length"] == pytest.approx(2.0, rel=0.15)
        assert row["engine"] == engine and row["k"] == 1
    assert step_cost.progress([job], tmp_path)[:2] == (2, 2)


def test_the_sweep_starts_servers_and_reports_one_that_does_not_start(tmp_path: Path) -> None:
    points = (jobs.ServedPoint("closed", 1, 64, 4, rounds=1),)
    good = mock_job("sglang", 0, points)
    bad = replace(mock_job("sglang", 0, points), command=("false",), label="bad")
    notes: list[str] = []
    last = step_cost.run([bad, good], tmp_path, tell=lambda p: notes.append(p.note))
    assert (last.done, last.total) == (1, 2)
    assert notes[0] == "bad: stopped with status 5, see bad.log" and notes[-1] == "mock-k0: done"
    assert "not ready" in (tmp_path / "bad.log").read_text()


def test_forced_acceptance_and_slots_reach_the_command_line() -> None:
    sweep = jobs.llama_sweep(Path("m.gguf"), model="qwen3.6-35b-a3b", quant="q4_k_s")
    assert len({job.label for job in sweep}) == len(sweep)
    assert [job.k for job in sweep[:2]] == [0, 2]
    plain, drafts = sweep[0].command, sweep[1].command
    assert "--spec-type" not in plain
    assert plain[plain.index("-np") + 1] == "64"
    assert drafts[drafts.index("--spec-synth-rates") + 1] == "0.816,0.635"
    depth = int(drafts[drafts.index("-c") + 1]) // int(drafts[drafts.index("-np") + 1])
    assert depth >= 2048 + 8 * 70 * 2.46  # a slot's text grows from point to point


def test_slots_hold_their_prompts_and_what_they_write() -> None:
    points = tuple(jobs.ServedPoint("decode", c, 16_384, 40) for c in (1, 4, 16))
    job = jobs.llama_job(2, Path("m.gguf"), points, model="qwen3.6-27b", quant="q4_k_s")
    each = job.settings["context"] // job.settings["slots"]
    assert each >= max(p.input_tokens for p in job.points) + 1000


def test_the_cache_type_of_a_row_is_the_servers() -> None:
    row = {"engine": "llama-server", "engine_version": "b1", "kind": "decode", "k": 0, "rates": []}
    row |= {"acceptance_length": 1.0, "sampling": ""}
    flags = {"flags": ["-b", "2048", "-ctk", "q8_0", "-ctv", "q8_0"]}
    assert rows.in_columns(row | {"settings": flags})["kv_cache_dtype"] == "q8_0"
    assert rows.in_columns(row)["kv_cache_dtype"] == "f16"


def test_sglang_is_started_with_the_drafts_of_its_job() -> None:
    by = {job.label: job for job in jobs.sglang_sweep("qwen3.6-35b-a3b", "fp8")}
    assert by["qwen3.6-35b-a3b-fp8-k2"].env["SGLANG_SIMULATE_ACC_LEN"] == "2.451"
    server = json.loads(by["qwen3.6-35b-a3b-fp8-k2-sync"].command[-1])
    launch = sglang_server.arguments(server, "/shape")
    assert launch["speculative_num_draft_tokens"] == 3 and launch["disable_overlap_schedule"]
    assert launch["cuda_graph_bs_decode"][-1] == 64
    assert "speculative_algorithm" not in sglang_server.arguments(server | {"k": 0}, "/shape")


def test_power_is_taken_from_the_energy_counter() -> None:
    meter = Meter.__new__(Meter)
    meter.samples = [Sample(i / 10, 50.0 * i, 400.0, 1980, 3201, 40) for i in range(11)]
    assert meter.between(0.0, 1.0)["power_w"] == pytest.approx(500.0)
    assert meter.between(0.0, 0.4)["power_w"] == pytest.approx(400.0)
    assert meter.between(5.0, 6.0)["power_w"] is None
    assert meter.figures(0.0, 1.0, 2000.0)["joule_per_token"] == pytest.approx(500 / 2000)


def test_a_count_that_went_astray_gives_way_to_the_forced_mean() -> None:
    row = {"kind": "closed", "k": 2, "rates": [0.8, 0.6], "acceptance_length": 4.2}
    assert rows.acceptance_length(row) == pytest.approx(2.4)
    assert rows.acceptance_length({**row, "acceptance_length": 2.5}) == 2.5
    assert rows.acceptance_length({**row, "kind": "decode"}) == 4.2


def test_a_sweep_that_is_ended_takes_its_server_with_it(tmp_path: Path) -> None:
    job = mock_job("sglang", 0, (jobs.ServedPoint("closed", 1, 64, 5000, rounds=1),))
    code = (
        "import sys; from pathlib import Path; from advisor.lab.bench import jobs, step_cost; "
        "point = jobs.ServedPoint('closed', 1, 64, 5000, rounds=1); "
        f"job = jobs.ServedJob(*{tuple(getattr(job, n) for n in FIELDS)!r}, (point,), {job.port}); "
        "step_cost.run([job], Path(sys.argv[1]))"
    )
    sweep = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.DEVNULL)
    wait_for(lambda: asyncio.run(streams.is_healthy(job.port)))
    sweep.terminate()
    sweep.wait(120)
    wait_for(lambda: not asyncio.run(streams.is_healthy(job.port)))


def wait_for(met: Callable[[], bool]) -> None:
    for _ in range(2400):
        if met():
            return
        time.sleep(0.05)
    raise AssertionError("waited two minutes")


def test_lookups_keep_to_few_words() -> None:
    about: dict[str, Any] = {"model": "qwen3.6-27b", "quant": "q8_0"}
    lookup, heads = (
        jobs.llama_job(2, Path("m.gguf"), jobs.decode((1, 4)), **about, method=method)
        for method in ("ngram", "mtp")
    )
    assert (lookup.label, heads.label) == ("gguf-k2-ngram", "gguf-k2")
    assert "ngram-simple" in lookup.command and "draft-mtp" not in lookup.command
    assert lookup.settings["method"] == "ngram"
    few, many = (set(served_worker.ServerDriver(jobs.as_data(j)).ids(500)) for j in (lookup, heads))
    assert len(few) == lookup.words == jobs.WORDS and len(many) > 400
