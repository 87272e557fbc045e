"""The step-cost sweep against a mock engine: resumable, honest about what it measured, and right in
its bookkeeping.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.domain.nouns import AdvisorError, UnknownFact
from advisor.lab.bench import jobs, shapes, step_cost, timing, worker
from advisor.lab.bench.rows import campaign


@dataclass
class MockEngine:
    """Emits two tokens per request and step after one prefill step, like a speculative engine at
    full acceptance.
    """

    waiting: dict[str, int] = field(default_factory=dict)  # tokens left by request
    running: dict[str, int] = field(default_factory=dict)
    most: int = 0

    def add_request(self, name: str, prompt: dict[str, Any], length: int) -> None:
        self.waiting[name] = length

    def step(self) -> list[Any]:
        out = []
        for requests, most in ((self.running, 2), (self.waiting, 1)):
            for name, left in requests.items():
                take = min(most, left)
                requests[name] = left - take
                tokens = [SimpleNamespace(token_ids=[0] * take)]
                done = left == take
                out.append(SimpleNamespace(request_id=name, outputs=tokens, finished=done))
        self.running = {n: left for n, left in (self.running | self.waiting).items() if left}
        self.waiting = {}
        self.most = max(self.most, len(self.running))
        return out


def job(label: str = "demo", k: int = 0, clients: tuple[int, ...] = (1,), turns: int = 1) -> Any:
    points = tuple(jobs.TimedPoint(c, 64, 16) for c in clients)
    return jobs.Job(label, "qwen3.6-35b-a3b", "fp8", k, points, turns=turns)


def write(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(json.dumps({"label": a, "key": b}) + "\n" for a, b in rows))


def test_driver_counts_tokens_and_keeps_to_the_concurrency() -> None:
    engine = MockEngine()
    point = {"concurrency": 4, "input_tokens": 8, "output_tokens": 20}
    row = worker.Driver(engine, lambda length: length).run(point, 16)
    assert row["prompts"] == 16
    assert engine.most <= 4
    assert 1.8 < row["acceptance_length"] <= 2.0
    assert 16 * 10 <= row["tokens"] <= 16 * 30
    assert row["tpot_ms"] > 0
    assert row["span"][1] - row["span"][0] == pytest.approx(row["wall_s"], abs=1e-4)


def test_figures_of_a_closed_loop() -> None:
    """Two requests of 1 + 2 tokens: first tokens after 1 and 2 s, then a step of half a second."""
    requests = [timing.TimedRequest(0.0, [t, t + 0.5, t + 0.5], [t, t + 0.5]) for t in (1.0, 2.0)]
    row = timing.closed_row(requests, 3.0)
    expected = {"prompts": 2, "tokens": 6, "output_tok_s": 2.0, "ttft_ms": 1500.0, "tpot_ms": 250.0}
    expected |= {"itl_p50_ms": 500.0, "decode_steps": 1, "acceptance_length": 2.0}
    assert {name: row[name] for name in expected} == expected


def test_gaps_touched_by_a_wait_for_a_first_token_are_left_out() -> None:
    spans = [(0.0, 1.0), (0.5, 2.0), (5.0, 6.0)]
    free = timing.outside(spans, [(0.2, 0.4), (2.5, 3.0), (4.0, 5.5), (6.0, 6.5)])
    assert free == pytest.approx([0.5, 0.5])


def test_shared_prefix_is_shared() -> None:
    driver = worker.Driver(MockEngine(), lambda length: length)
    first, second = driver.prompts({"input_tokens": 100, "prefix_share": 0.5}, 2)
    assert first[:50] == second[:50]
    assert first[50:] != second[50:]


def test_turns_take_every_point_once_before_any_is_taken_again(tmp_path: Path) -> None:
    one = job("m-k2", 2, (1, 2), turns=2)
    todo = [(label, point["key"]) for label, point in step_cost.todo_of(one, tmp_path)]
    keys = [point.key for point in one.points]
    assert todo == [(label, key) for label in ("m-k2", "m-k2-again2") for key in keys]
    write(step_cost.rows_file(tmp_path, one), todo[:3])  # a sweep that was stopped goes on
    assert step_cost.progress([one], tmp_path)[:2] == (3, 4)
    assert [label for label, _ in step_cost.todo_of(one, tmp_path)] == ["m-k2-again2"]
    assert campaign("m-k2-again2") == campaign("m-k0-again2") != campaign("m-k2")


def test_a_failing_engine_is_reported_and_the_sweep_goes_on(tmp_path: Path) -> None:
    notes: list[str] = []
    both = [job(f"j{i}") for i in range(2)]  # no vLLM here: both workers fail
    assert step_cost.run(both, tmp_path, tell=lambda p: notes.append(p.note)).done == 0
    assert len(notes) == 2
    assert all("status" in note for note in notes)


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    """A module `vllm` of this text for the workers; returns the file of what they `say`."""
    package, notes = tmp_path / "site" / "vllm", tmp_path / "notes"
    package.mkdir(parents=True)
    head = f"""
import sys, time
NOTES = {str(notes)!r}
main = sys.modules["__main__"]
job = sys.argv[sys.argv.index("--job") + 1].split("/")[-1].split(".")[0]
def say(word):
    print(job, word, file=open(NOTES, "a"), flush=True)
"""
    (package / "__init__.py").write_text(head + text)
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}:{Path(jobs.__file__).parents[3]}")
    return notes


def test_the_next_engine_imports_while_the_present_one_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second import comes before the first worker ends."""
    text = """
say("imported")
def measure(*rest):
    main.protocol.note(main.protocol.BOOT)
    end = time.time() + 60
    while job == "j0" and "j1 imported" not in open(NOTES).read() and time.time() < end:
        time.sleep(0.05)
    say("done")
    return 0
main.measure = measure
"""
    notes = stand_in(tmp_path, monkeypatch, text)
    step_cost.run([job(f"j{i}") for i in range(2)], tmp_path / "rows")
    assert notes.read_text().split("\n")[:4] == ["j0 imported", "j1 imported", "j0 done", "j1 done"]


def test_rounds_time_nothing_before_all_are_warm_and_start_nothing_before_all_are_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs, four jobs; one of each round is slow to warm and slow to measure."""
    text = """
def measure(task, todo, out, deadline, time_file):
    slow = 0.8 if job in ("j0", "j3") else 0
    say("start")
    main.protocol.note(main.protocol.BOOT)
    time.sleep(slow)
    say("warm")
    main.protocol.note(main.protocol.WARM + job)
    main.protocol.await_file(time_file)
    say("time")
    with out.open("a") as sink:
        sink.write('{"label": "%s", "key": "1:64:16:0"}\\n' % job)
    time.sleep(slow)
    say("done")
    return 0
main.measure = measure
"""
    notes = stand_in(tmp_path, monkeypatch, text)
    seen: list[step_cost.SweepProgress] = []
    four = [job(f"j{i}") for i in range(4)]
    step_cost.run(four, tmp_path / "rows", gpus=("0", "1"), tell=seen.append)
    lines = notes.read_text().split("\n")

    def when(word: str, *names: str) -> list[int]:
        return [lines.index(f"{name} {word}") for name in names]

    for pair in (("j0", "j1"), ("j2", "j3")):
        assert max(when("warm", *pair)) < min(when("time", *pair))
    assert max(when("done", "j0", "j1")) < min(when("start", "j2", "j3"))
    assert [p.note for p in seen if p.note != "measuring"] == [f"j{i}: done" for i in range(4)]
    assert [p.done for p in seen] == sorted(p.done for p in seen) and seen[-1].done == 4
    early = {p.note for p in seen if p.done < 4}
    assert "measuring" in early, "a point shows before its round is over"


def test_engines_of_one_card_take_turns() -> None:
    """Nothing is timed beside another engine of the same GPU; GPUs work side by side."""
    seats: list[Any] = [SimpleNamespace(gpu=gpu) for gpu in ("0", "1", "0", "0,1", "1", "2")]
    turns = [[engine.gpu for engine in turn] for turn in step_cost._turns(seats)]
    assert turns == [["0", "1", "2"], ["0", "1"], ["0,1"]]


@pytest.mark.parametrize("model", sorted(shapes.SHAPES))
def test_shape_matches_the_layer_pattern(model: str) -> None:
    text = shapes.config(model, "fp8")["text_config"]
    assert text["layer_types"].count("full_attention") * 4 == text["num_hidden_layers"]
    with pytest.raises(UnknownFact, match="qwen"):
        shapes.config("qwen3.6-99b", "fp8")


def sweep_file(tmp_path: Path, *entries: dict[str, Any]) -> Path:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(entries))
    return path


def test_the_default_sweep_starts_with_the_most_valuable_engines() -> None:
    sweep = jobs.default_jobs()
    assert len({one.label for one in sweep}) == len(sweep)
    assert [one.k for one in sweep] == [0, 2, 4, 1, 3]
    assert all(len({p.key for p in one.points}) == len(one.points) for one in sweep)


def test_a_sweep_file_gives_an_engine_start_for_each_draft_length(tmp_path: Path) -> None:
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps({"vocab_size": 777, "model_type": "llama"}))
    entry = {"label": "llama-k{k}", "model": "llama", "quant": "bf16", "k": [0, 2], "kv_gib": 9}
    entry |= {"config": str(shape), "draft_config": str(shape), "graph_sizes": [12, 3]}
    point = {"concurrency": 4, "input_tokens": 64, "output_tokens": 32, "prefix_share": 0.5}
    path = sweep_file(tmp_path, {**entry, "points": [[1, 2048, 128], point]})
    plain, drafting = jobs.read_sweep(path, jobs.TimedPoint, jobs.Job)
    assert [plain.label, drafting.label] == ["llama-k0", "llama-k2"]
    data = jobs.as_data(drafting)
    assert [p["key"] for p in data["points"]] == ["1:2048:128:0", "4:64:32:0.5"]
    launch = worker.engine_arguments(data, "m")
    assert launch["gpu_memory_utilization"] == 0.05 and launch["kv_cache_memory_bytes"] == 9 * 2**30
    assert launch["compilation_config"] == {"cudagraph_capture_sizes": [3, 12]}
    assert launch["speculative_config"]["model"] == "m/drafter"
    assert worker.engine_arguments(jobs.as_data(plain), "m")["speculative_config"] is None
    assert shapes.vocabulary(shapes.config_of(data)) == 777
    shapes.write(data, tmp_path)
    assert json.loads((tmp_path / "drafter" / "config.json").read_text())["vocab_size"] == 777


ENTRY = {"label": "a", "model": "m", "quant": "q", "points": []}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (ENTRY, "'k'"),
        (ENTRY | {"k": [0, 2]}, "two engine starts"),
        (ENTRY | {"k": 0, "x": 1}, "'x'"),
        (ENTRY | {"k": 0, "points": [[1, 2]]}, "output_tokens"),
    ],
)
def test_what_is_no_sweep_is_refused(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        jobs.read_sweep(sweep_file(tmp_path, entry), jobs.TimedPoint, jobs.Job)


def test_engines_of_one_card_need_a_memory_bound_and_a_port_each() -> None:
    points = jobs.closed_loops(((1, 64),))
    about: dict[str, Any] = {"model": "qwen3.5-9b", "quant": "bf16"}
    same_port = [jobs.sglang_job(k, points, **about) for k in (0, 2)]
    for group in (jobs.default_jobs(), same_port):
        with pytest.raises(AdvisorError, match="together"):
            jobs.check_together(group, 2)
    jobs.check_together([jobs.sglang_job(k, points, **about, seat=k) for k in (0, 2)], 2)
