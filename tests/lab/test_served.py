"""The sweep of servers over HTTP: what a stream says about steps, and that a sweep is taken up."""

from __future__ import annotations

import json
import re
import socket
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

from advisor.lab.bench import served, served_jobs, served_rows, served_worker, streams
from advisor.lab.bench.power import Meter, Sample
from advisor.lab.bench.sglang_server import arguments

MOCK = Path(__file__).with_name("served_mock.py")


def reply(*events: tuple[float, dict[str, Any]], sent: float = 0.0) -> streams.Reply:
    return streams.Reply(sent, [streams.Event(at, data) for at, data in events])


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
    one = served.TimedRequest("llama-server", reply(*((t, {"tokens": [7]}) for t in at)), True)
    assert one.steps() == [0.0, 0.010, 0.020, 0.030]
    plain = served.TimedRequest("llama-server", reply(*((t, {"tokens": [7]}) for t in at)), False)
    assert plain.steps() == at


def test_long_waits_do_not_merge_the_steps_between_them() -> None:
    """A prompt of another client stalls every second step: the others still count as steps."""
    at, now = [], 0.0
    for i in range(40):
        now += 0.3 if i % 2 else 0.02
        at.append(now)
    events = [(t, {"output_ids": [1, 2]}) for t in at]
    one = served.TimedRequest("sglang", reply(*events), True)
    assert len(one.steps()) == 40


def test_sglang_may_send_all_ids_or_the_new_ones() -> None:
    def event(ids: list[int], total: int) -> streams.Event:
        return streams.Event(0, {"output_ids": ids, "meta_info": {"completion_tokens": total}})

    assert served.tokens_of("sglang", event([4, 5, 6], 3), 1) == [5, 6]
    assert served.tokens_of("sglang", event([5, 6], 3), 1) == [5, 6]
    assert served.tokens_of("sglang", event([5, 6], 3), 3) == []


def test_only_the_span_in_which_all_decode_counts() -> None:
    """The second request starts late and ends early; outside its span steps are quicker."""
    first = [0.01 * i for i in range(10)] + [0.1 + 0.02 * i for i in range(10)] + [0.30, 0.31]
    second = [0.1 + 0.02 * i for i in range(10)]
    ones = [
        served.TimedRequest("llama-server", reply(*((t, {"tokens": [1]}) for t in times)), False)
        for times in (first, second)
    ]
    row, begin, end = served.decode_row(ones)
    assert (begin, end) == (pytest.approx(0.12), pytest.approx(0.28))
    assert row["decode_step_mean_ms"] == pytest.approx(20.0)
    assert row["acceptance_length"] == pytest.approx(1.0)
    assert row["decode_tok_s"] == pytest.approx(2 / 0.02, rel=0.05)


def test_tokens_that_arrive_at_once_make_no_span() -> None:
    """A busy client reads the last two steps together: no time lies between them."""
    events = ((t, {"tokens": [1]}) for t in (0.1, 0.2, 0.2))
    one = served.TimedRequest("llama-server", reply(*events), False)
    with pytest.raises(streams.ServerError, match="no step lies in the span"):
        served.decode_row([one])


@pytest.fixture
def on_the_servers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event came when the server says: how busy this machine is does not matter."""
    parse, ask = streams.parse, streams.stream

    def by_server(reads: list[tuple[float, bytes]]) -> list[streams.Event]:
        assert reads == sorted(reads, key=lambda one: one[0])
        raw, now = b"".join(data for _, data in reads), 0.0
        told = []
        for number, text in enumerate(re.split(rb"(: at [0-9.]+\n\n)", raw)):
            now = float(text[5:]) if number % 2 else now
            told.append((now, text))
        return parse(told)

    async def stream(*asked: Any, **more: Any) -> streams.Reply:
        begin = time.perf_counter()
        reply = await ask(*asked, **more)
        assert begin <= reply.sent <= time.perf_counter()
        return streams.Reply(0.0, reply.events)

    monkeypatch.setattr(streams, "parse", by_server)
    monkeypatch.setattr(served_worker, "stream", stream)


def mock_job(engine: str, k: int, points: tuple[served_jobs.ServedPoint, ...]) -> Any:
    port = free_port()
    return served_jobs.ServedJob(
        f"mock-k{k}",
        engine,
        "1",
        "qwen3.6-35b-a3b",
        "q4_k_s",
        k,
        (sys.executable, str(MOCK), engine, str(port), str(k)),
        points,
        port,
        vocabulary=2000,
        rates=(1.0,) * k,
        start_s=300,
    )


@pytest.mark.parametrize("engine", ["llama-server", "sglang"])
def test_a_sweep_measures_a_server_and_takes_up_where_it_stopped(
    engine: str, tmp_path: Path, on_the_servers_clock: None
) -> None:
    kind = "decode" if engine == "llama-server" else "closed"
    points = tuple(served_jobs.ServedPoint(kind, c, 128, 12, rounds=1) for c in (1, 2))
    job = mock_job(engine, 1, points)
    half = replace(job, points=points[:1])
    assert served_worker.run([half], tmp_path).done == 1
    notes: list[str] = []
    last = served_worker.run([job], tmp_path, tell=lambda p: notes.append(p.note))
    assert (last.done, last.total) == (2, 2)
    assert notes == [f"{job.label} {points[1].key}", f"{job.label}: done"]
    lines = (tmp_path / f"{job.label}.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["key"] for row in rows] == [p.key for p in points]
    for row in rows:
        assert row["decode_step_p50_ms"] == pytest.approx(20, rel=0.001)
        assert row["acceptance_length"] == pytest.approx(2.0, rel=0.15)
        assert row["engine"] == engine and row["k"] == 1
    again = served_worker.run([job], tmp_path)
    assert (again.done, len(lines)) == (
        2,
        len((tmp_path / f"{job.label}.jsonl").open().readlines()),
    )


def test_a_server_that_does_not_start_is_reported(tmp_path: Path) -> None:
    job = replace(mock_job("sglang", 0, served_jobs.closed_loops(((1, 64),))), command=("false",))
    notes: list[str] = []
    assert served_worker.run([job], tmp_path, tell=lambda p: notes.append(p.note)).done == 0
    assert "not ready" in notes[0]


def test_forced_acceptance_and_slots_reach_the_command_line() -> None:
    jobs = served_jobs.llama_sweep(Path("m.gguf"), model="qwen3.6-35b-a3b", quant="q4_k_s")
    assert len({job.label for job in jobs}) == len(jobs)
    assert [job.k for job in jobs[:2]] == [0, 2]
    plain, drafts = jobs[0].command, jobs[1].command
    assert "--spec-type" not in plain
    assert plain[plain.index("-np") + 1] == "64"
    assert drafts[drafts.index("--spec-synth-rates") + 1] == "0.816,0.635"
    depth = int(drafts[drafts.index("-c") + 1]) // int(drafts[drafts.index("-np") + 1])
    assert depth >= 2048 + 8 * 70 * 2.46  # a slot's text grows from point to point


def test_slots_hold_their_prompts_and_what_they_write() -> None:
    points = served_jobs.decode((1, 4, 16), 16_384)
    job = served_jobs.llama_job(2, Path("m.gguf"), points, model="qwen3.6-27b", quant="q4_k_s")
    each = job.settings["context"] // job.settings["slots"]
    assert each >= max(p.input_tokens for p in job.points) + 1000


def test_the_cache_type_of_a_row_is_the_servers() -> None:
    row = {"engine": "llama-server", "engine_version": "b1", "kind": "decode", "k": 0, "rates": []}
    row |= {"acceptance_length": 1.0, "sampling": ""}
    flags = {"flags": ["-b", "2048", "-ctk", "q8_0", "-ctv", "q8_0"]}
    assert served_rows.in_columns(row | {"settings": flags})["kv_cache_dtype"] == "q8_0"
    assert served_rows.in_columns(row)["kv_cache_dtype"] == "f16"


def test_sglang_is_started_with_the_drafts_of_its_job() -> None:
    jobs = served_jobs.sglang_sweep("qwen3.6-35b-a3b", "fp8")
    by = {job.label: job for job in jobs}
    assert by["qwen3.6-35b-a3b-fp8-k2"].env["SGLANG_SIMULATE_ACC_LEN"] == "2.451"
    asked = json.loads(by["qwen3.6-35b-a3b-fp8-k2-sync"].command[-1])
    made = arguments(asked, "/shape")
    assert made["speculative_num_draft_tokens"] == 3 and made["disable_overlap_schedule"]
    assert made["cuda_graph_bs_decode"][-1] == 64
    assert "speculative_algorithm" not in arguments(asked | {"k": 0}, "/shape")


def test_power_is_taken_from_the_energy_counter() -> None:
    meter = Meter.__new__(Meter)
    meter.samples = [Sample(i / 10, 50.0 * i, 400.0, 1980, 3201, 40) for i in range(11)]
    assert meter.between(0.0, 1.0)["power_w"] == pytest.approx(500.0)
    assert meter.between(0.0, 0.4)["power_w"] == pytest.approx(400.0)
    assert meter.between(5.0, 6.0)["power_w"] is None


def test_a_count_that_went_astray_gives_way_to_the_forced_mean() -> None:
    row = {"kind": "closed", "k": 2, "rates": [0.8, 0.6], "acceptance_length": 4.2}
    assert served_rows.acceptance_length(row) == pytest.approx(2.4)
    assert served_rows.acceptance_length({**row, "acceptance_length": 2.5}) == 2.5
    assert served_rows.acceptance_length({**row, "kind": "decode"}) == 4.2


def test_a_sweep_that_is_ended_takes_its_server_with_it(tmp_path: Path) -> None:
    job = mock_job("sglang", 0, (served_jobs.ServedPoint("closed", 1, 64, 5000, rounds=1),))
    code = (
        "import json, sys; from pathlib import Path; from advisor.lab.bench import served_jobs, "
        "served_worker; made = json.loads(sys.argv[1]); made['points'] = "
        "(served_jobs.ServedPoint(**made['points'][0]),); served_worker.run("
        "[served_jobs.ServedJob(**made)], Path(sys.argv[2]))"
    )
    sweep = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(job.as_dict()), str(tmp_path)],
        stderr=subprocess.DEVNULL,
    )

    def listens() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", job.port)) == 0

    wait_for(listens)
    sweep.terminate()
    assert sweep.wait(120) == 143
    wait_for(lambda: not listens())


def wait_for(met: Callable[[], bool]) -> None:
    for _ in range(2400):
        if met():
            return
        time.sleep(0.05)
    raise AssertionError("waited two minutes")


def test_slots_apart_stand_in_the_key_and_make_room() -> None:
    apart = served_jobs.ServedPoint("decode", 4, 2048, 48, places=(0, 2, 4, 6))
    assert apart.key == "4:2048:48:0:at0.2.4.6"
    # one point alone takes as many slots as its highest place needs
    only = served_jobs.llama_job(0, Path("m.gguf"), (apart,), model="qwen3.6-27b", quant="q8_0")
    assert only.command[only.command.index("-np") + 1] == "7"


def test_slots_apart_are_the_ones_that_decode(tmp_path: Path, on_the_servers_clock: None) -> None:
    point = served_jobs.ServedPoint("decode", 2, 128, 12, places=(0, 3))
    job = mock_job("llama-server", 0, (point,))
    assert served_worker.run([job], tmp_path).done == 1
    row = json.loads(served_worker.rows_file(tmp_path, job).read_text())
    assert row["busy_slots"] == [0, 3]
    assert row["prompts"] == 2


def test_lookups_keep_to_few_words() -> None:
    about: dict[str, Any] = {"model": "qwen3.6-27b", "quant": "q8_0"}
    points = served_jobs.decode((1, 4))
    lookup, heads = (
        served_jobs.llama_job(2, Path("m.gguf"), points, **about, method=method)
        for method in ("ngram", "mtp")
    )
    assert (lookup.label, heads.label) == ("gguf-k2-ngram", "gguf-k2")
    assert "ngram-simple" in lookup.command
    assert "draft-mtp" not in lookup.command
    assert lookup.settings["method"] == "ngram"
    driver = served_worker.Driver(lookup, Meter())
    assert len(set(driver.ids(500))) == lookup.words == served_jobs.WORDS
    assert len(set(served_worker.Driver(heads, Meter()).ids(500))) > 400
