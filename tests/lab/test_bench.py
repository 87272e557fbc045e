"""The step-cost sweep against a mock engine: resumable, honest about what it measured, and right in
its bookkeeping.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.domain.nouns import AdvisorError, UnknownFact
from advisor.lab.bench import (
    host,
    point_rows,
    served_jobs,
    shapes,
    step_cost,
    worker,
)
from advisor.lab.bench import jobs as bench
from advisor.lab.bench.rows import campaign


@dataclass
class _Request:
    name: str
    left: int


class MockEngine:
    """Emits two tokens per request and step after one prefill step, like a speculative engine at
    full acceptance.
    """

    def __init__(self) -> None:
        self.waiting: list[_Request] = []
        self.running: list[_Request] = []
        self.most = 0

    def add_request(self, name: str, prompt: dict[str, Any], length: int) -> None:
        self.waiting.append(_Request(name, length))

    def step(self) -> list[Any]:
        out = []
        for request in self.running:
            take = min(2, request.left)
            request.left -= take
            out.append(self._output(request, take))
        self.running = [r for r in self.running if r.left]
        for request in self.waiting:
            request.left -= 1
            out.append(self._output(request, 1))
            self.running.append(request)
        self.waiting = []
        self.most = max(self.most, len(self.running))
        return out

    @staticmethod
    def _output(request: _Request, count: int) -> Any:
        return SimpleNamespace(
            request_id=request.name,
            outputs=[SimpleNamespace(token_ids=[0] * count)],
            finished=request.left == 0,
        )


def test_driver_counts_tokens_and_keeps_to_the_concurrency() -> None:
    engine = MockEngine()
    row = worker.Driver(engine, lambda length: length).run(
        {"concurrency": 4, "input_tokens": 8, "output_tokens": 20}, 16
    )
    assert row["prompts"] == 16
    assert engine.most <= 4
    assert 1.8 < row["acceptance_length"] <= 2.0
    assert 16 * 10 <= row["tokens"] <= 16 * 30
    assert row["tpot_ms"] > 0


def test_gaps_touched_by_a_wait_for_a_first_token_are_left_out() -> None:
    kept = point_rows.outside(
        [(0.0, 1.0), (0.5, 2.0), (5.0, 6.0)], [(0.2, 0.4), (2.5, 3.0), (4.0, 5.5), (6.0, 6.5)]
    )
    assert kept == pytest.approx([0.5, 0.5])


def test_shared_prefix_is_shared() -> None:
    driver = worker.Driver(MockEngine(), lambda length: length)
    first, second = driver.prompts({"input_tokens": 100, "prefix_share": 0.5}, 2)
    assert first[:50] == second[:50]
    assert first[50:] != second[50:]


def test_resumes_where_it_stopped(tmp_path: Path) -> None:
    job = bench.Job(
        "demo", "qwen3.6-35b-a3b", "fp8", 2, (bench.Point(1, 64, 16), bench.Point(2, 64, 16))
    )
    assert step_cost.missing_jobs([job], tmp_path) == (job,)
    rows = step_cost.rows_file(tmp_path, job)
    rows.write_text(json.dumps({"label": "demo", "key": job.points[0].key}) + "\n")
    assert step_cost.progress([job], tmp_path).done == 1
    rows.write_text("".join(json.dumps({"label": "demo", "key": p.key}) + "\n" for p in job.points))
    assert step_cost.missing_jobs([job], tmp_path) == ()


def test_turns_take_every_point_once_before_any_is_taken_again(tmp_path: Path) -> None:
    job = bench.Job(
        "m-k2",
        "qwen3.6-35b-a3b",
        "fp8",
        2,
        (bench.Point(1, 64, 16), bench.Point(2, 64, 16)),
        turns=2,
    )
    rows = step_cost.rows_file(tmp_path, job)
    asked = [
        (label, worker.point_key(point))
        for label, point in worker.missing_points(job.as_dict(), rows)
    ]
    keys = [point.key for point in job.points]
    assert asked == [
        ("m-k2", keys[0]),
        ("m-k2", keys[1]),
        ("m-k2-again2", keys[0]),
        ("m-k2-again2", keys[1]),
    ]
    rows.write_text(
        "".join(json.dumps({"label": label, "key": key}) + "\n" for label, key in asked[:3])
    )
    assert (
        step_cost.progress([job], tmp_path).done,
        step_cost.progress([job], tmp_path).total,
    ) == (3, 4)
    assert [label for label, _ in worker.missing_points(job.as_dict(), rows)] == ["m-k2-again2"]
    assert campaign("m-k2-again2") == campaign("m-k0-again2") != campaign("m-k2")


def test_a_failing_engine_is_reported_and_the_sweep_goes_on(tmp_path: Path) -> None:
    jobs = [
        bench.Job(f"j{i}", "qwen3.6-35b-a3b", "fp8", 0, (bench.Point(1, 64, 16),)) for i in range(2)
    ]
    told: list[str] = []
    last = step_cost.run(
        jobs, tmp_path, tell=lambda p: told.append(p.note)
    )  # no vLLM here: both workers fail
    assert last.done == 0
    assert len(told) == 2
    assert all("status" in note for note in told)


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A module `vllm` of this text for the workers."""
    package = tmp_path / "site" / "vllm"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}:{Path(bench.__file__).parents[3]}")


def test_the_next_engine_imports_while_the_present_one_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for the engine module notes when it is imported; the second import comes before
    the first worker ends.
    """
    stand_in(
        tmp_path,
        monkeypatch,
        "import os, sys, time\n"
        f"notes = open({str(tmp_path / 'notes')!r}, 'a')\n"
        "job = sys.argv[sys.argv.index('--job') + 1].split('/')[-1].split('.')[0]\n"
        "print(job, 'imported', file=notes, flush=True)\n"
        "from advisor.lab.bench import worker\n"
        "def measure(*rest):\n"
        "    print(worker.BOOT + '{}', file=sys.stderr, flush=True)\n"
        "    end = time.time() + 60\n"
        f"    while job == 'j0' and 'j1 imported' not in open({str(tmp_path / 'notes')!r}).read() "
        f"and time.time() < end:\n"
        "        time.sleep(0.05)\n"
        "    print(job, 'done', file=notes, flush=True)\n"
        "    return 0\n"
        "sys.modules['__main__'].measure = measure\n",
    )
    jobs = [
        bench.Job(f"j{i}", "qwen3.6-35b-a3b", "fp8", 0, (bench.Point(1, 64, 16),)) for i in range(2)
    ]
    step_cost.run(jobs, tmp_path / "rows")
    assert (tmp_path / "notes").read_text().split("\n")[:4] == [
        "j0 imported",
        "j1 imported",
        "j0 done",
        "j1 done",
    ]


@pytest.mark.parametrize("model", sorted(shapes.SHAPES))
def test_shape_matches_the_layer_pattern(model: str) -> None:
    text = shapes.config(model, "fp8")["text_config"]
    assert text["layer_types"].count("full_attention") * 4 == text["num_hidden_layers"]
    with pytest.raises(UnknownFact, match="qwen"):
        shapes.config("qwen3.6-99b", "fp8")


def test_rounds_time_nothing_before_all_are_warm_and_start_nothing_before_all_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs, four jobs: a stand-in for the engine notes its stages; one of each round is slow to
    warm and slow to measure.
    """
    stand_in(
        tmp_path,
        monkeypatch,
        "import sys, time\n"
        f"notes = open({str(tmp_path / 'notes')!r}, 'a')\n"
        "job = sys.argv[sys.argv.index('--job') + 1].split('/')[-1].split('.')[0]\n"
        "main = sys.modules['__main__']\n"
        "def say(word):\n"
        "    print(job, word, file=notes, flush=True)\n"
        "def measure(task, todo, out, deadline, time_file):\n"
        "    slow = job in ('j0', 'j3')\n"
        "    say('start')\n"
        "    print(main.BOOT + '{}', file=sys.stderr, flush=True)\n"
        "    time.sleep(0.8 if slow else 0)\n"
        "    say('warm')\n"
        "    print(main.WARM + job, file=sys.stderr, flush=True)\n"
        "    main.await_file(time_file)\n"
        "    say('time')\n"
        "    with out.open('a') as sink:\n"
        '        sink.write(\'{"label": "%s", "key": "1:64:16:0"}\\n\' % job)\n'
        "    time.sleep(0.8 if slow else 0)\n"
        "    say('done')\n"
        "    return 0\n"
        "main.measure = measure\n",
    )
    jobs = [
        bench.Job(f"j{i}", "qwen3.6-35b-a3b", "fp8", 0, (bench.Point(1, 64, 16),)) for i in range(4)
    ]
    told: list[step_cost.Progress] = []
    step_cost.run(jobs, tmp_path / "rows", gpus=("0", "1"), tell=told.append)
    notes = (tmp_path / "notes").read_text().split("\n")
    for pair in (("j0", "j1"), ("j2", "j3")):
        assert max(notes.index(f"{j} warm") for j in pair) < min(
            notes.index(f"{j} time") for j in pair
        )
    first_done = max(notes.index(f"{j} done") for j in ("j0", "j1"))
    assert first_done < min(notes.index(f"{j} start") for j in ("j2", "j3"))
    assert [p.note for p in told if p.note != "measuring"] == [f"j{i}: done" for i in range(4)]
    assert [p.done for p in told] == sorted(p.done for p in told) and told[-1].done == 4
    assert "measuring" in {p.note for p in told if p.done < 4}, (
        "a point shows before its round is over"
    )


def test_prompt_calls_are_grouped_by_first_tokens() -> None:
    calls = [(0, 4, 0.005), (0, 4, 0.007), (1, 4, 0.120), (0, 3, 0.006), (2, 4, 0.2)]
    assert point_rows.prompt_calls(calls) == [[0, 3, 4, 6.0], [1, 1, 4, 120.0], [2, 1, 4, 200.0]]
    assert point_rows.prompt_calls([]) == []


def test_the_host_is_watched_while_a_point_is_timed() -> None:
    before = host.jiffies("cpu  100 0 50 800 10 5 5 30 0 0\ncpu0 1 2\n")
    after = host.jiffies("cpu  300 0 150 1100 10 5 5 430 0 0\n")
    assert before == host.Jiffies(160, 30, 1000) and after == host.Jiffies(460, 430, 2000)
    assert host.shares(before, after) == {"host_busy": 0.3, "host_stolen": 0.4}
    for text in ("", "cpu 1 2", "intr 1 2 3 4 5 6 7 8", "cpu a b c d e f g h"):
        assert host.jiffies(text) is None
    assert (
        host.shares(None, after)
        == host.shares(after, after)
        == {"host_busy": None, "host_stolen": None}
    )
    assert host.loop_ms() > 0


def test_engines_of_one_card_take_turns(tmp_path: Path) -> None:
    """Nothing is timed beside another engine of the same GPU; GPUs work side by side."""
    job = bench.Job("j", "qwen3.6-35b-a3b", "fp8", 0, ())
    seats = [
        step_cost.Engine(job, None, tmp_path, tmp_path, tmp_path, 0, gpu)  # type: ignore[arg-type]
        for gpu in ("0", "1", "0", "1", "0")
    ]
    turns = [[engine.gpu for engine in turn] for turn in step_cost._turns(seats)]
    assert turns == [["0", "1"], ["0", "1"], ["0"]]


def sweep_file(tmp_path: Path, *entries: dict[str, Any]) -> Path:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(entries))
    return path


def test_the_default_sweep_starts_with_the_most_valuable_engines() -> None:
    made = bench.default_jobs()
    assert len({job.label for job in made}) == len(made)
    assert [job.k for job in made] == [0, 2, 4, 1, 3]
    assert all(len({p.key for p in job.points}) == len(job.points) for job in made)


def test_a_sweep_file_gives_an_engine_start_for_each_draft_length(tmp_path: Path) -> None:
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps({"vocab_size": 777, "model_type": "llama"}))
    entry = {"label": "llama-k{k}", "model": "llama", "quant": "bf16", "k": [0, 2], "kv_gib": 9}
    entry |= {"config": str(shape), "draft_config": str(shape), "graph_sizes": [12, 3]}
    path = sweep_file(tmp_path, {**entry, "points": [[1, 2048, 128], {"concurrency": 4,
                      "input_tokens": 64, "output_tokens": 32, "prefix_share": 0.5}]})  # fmt: skip
    plain, drafting = bench.read_sweep(path, bench.Point, bench.Job)
    assert [plain.label, drafting.label] == ["llama-k0", "llama-k2"]
    assert [p.key for p in drafting.points] == ["1:2048:128:0", "4:64:32:0.5"]
    told = worker.engine_arguments(drafting.as_dict(), "m")
    assert told["gpu_memory_utilization"] == 0.05 and told["kv_cache_memory_bytes"] == 9 * 2**30
    assert told["compilation_config"] == {"cudagraph_capture_sizes": [3, 12]}
    assert told["speculative_config"]["model"] == "m/drafter"
    assert "speculative_config" not in plain.as_dict()
    assert shapes.vocabulary(shapes.config_of(drafting.as_dict())) == 777
    worker.write_shape(drafting.as_dict(), tmp_path)
    assert json.loads((tmp_path / "drafter" / "config.json").read_text())["vocab_size"] == 777


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"label": "a", "model": "m", "quant": "q", "points": []}, "'k'"),
        (
            {"label": "a", "model": "m", "quant": "q", "k": [0, 2], "points": []},
            "two engine starts",
        ),
        ({"label": "a", "model": "m", "quant": "q", "k": 0, "points": [], "x": 1}, "'x'"),
        ({"label": "a", "model": "m", "quant": "q", "k": 0, "points": [[1, 2]]}, "output_tokens"),
    ],
)
def test_what_is_no_sweep_is_refused(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        bench.read_sweep(sweep_file(tmp_path, entry), bench.Point, bench.Job)


def test_engines_of_one_card_need_a_memory_bound_and_a_port_each() -> None:
    points = served_jobs.closed_loops(((1, 64),))
    about: dict[str, Any] = {"model": "qwen3.5-9b", "quant": "bf16"}
    with pytest.raises(AdvisorError, match="together"):
        served_jobs.check_together(bench.default_jobs(), 2)
    with pytest.raises(AdvisorError, match="together"):
        served_jobs.check_together([served_jobs.sglang_job(k, points, **about) for k in (0, 2)], 2)
    served_jobs.check_together(
        [served_jobs.sglang_job(k, points, **about, seat=k) for k in (0, 2)], 2
    )
