"""The step-cost sweep against a mock engine: resumable, honest about what it measured, and right in
its bookkeeping.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.domain.nouns import AdvisorError
from advisor.lab.bench import step_cost, worker


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


def job(label: str = "demo", k: int = 0, clients: tuple[int, ...] = (1,)) -> step_cost.Job:
    points = tuple(step_cost.TimedPoint(c, 64, 16) for c in clients)
    return step_cost.Job(label, "qwen3.6-35b-a3b", "fp8", "config.json", k, points)


def test_driver_counts_tokens_and_keeps_to_the_concurrency() -> None:
    engine = MockEngine()
    point = {"concurrency": 4, "input_tokens": 8, "output_tokens": 20}
    row = worker.Driver(engine, lambda length: length).run(point, 16)
    assert row["prompts"] == 16
    assert engine.most <= 4
    assert 1.8 < row["acceptance_length"] <= 2.0
    assert 16 * 10 <= row["tokens"] <= 16 * 30
    assert row["tpot_ms"] > 0


def test_figures_of_a_closed_loop() -> None:
    """Two requests of 1 + 2 tokens: first tokens after 1 and 2 s, then a step of half a second."""
    requests = [worker.TimedRequest(0.0, [t, t + 0.5, t + 0.5], [t, t + 0.5]) for t in (1.0, 2.0)]
    row = worker.closed_row(requests, 3.0)
    expected = {"prompts": 2, "tokens": 6, "output_tok_s": 2.0, "ttft_ms": 1500.0, "tpot_ms": 250.0}
    expected |= {"itl_p50_ms": 500.0, "decode_steps": 1, "acceptance_length": 2.0}
    assert {name: row[name] for name in expected} == expected


def test_gaps_touched_by_a_wait_for_a_first_token_are_left_out() -> None:
    spans = [(0.0, 1.0), (0.5, 2.0), (5.0, 6.0)]
    free = worker.outside(spans, [(0.2, 0.4), (2.5, 3.0), (4.0, 5.5), (6.0, 6.5)])
    assert free == pytest.approx([0.5, 0.5])


def test_shared_prefix_is_shared() -> None:
    driver = worker.Driver(MockEngine(), lambda length: length)
    first, second = driver.prompts({"input_tokens": 100, "prefix_share": 0.5}, 2)
    assert first[:50] == second[:50]
    assert first[50:] != second[50:]


def test_a_sweep_takes_up_where_it_stopped(tmp_path: Path) -> None:
    one, out = job("m-k2", 2, (1, 2)), tmp_path / "m-k2.jsonl"
    points = [{"key": p.key, **vars(p)} for p in one.points]
    driver = worker.Driver(MockEngine(), lambda length: length)
    assert worker.take(driver, points[:1], {"label": one.label}, str(out), float("inf")) == 0
    assert step_cost.remaining_points(one, tmp_path) == list(one.points[1:])
    assert step_cost.progress([one, job("m-k0")], tmp_path)[:2] == (1, 3)
    assert worker.take(driver, points, {}, str(out), 0.0) == 3  # too late
    assert len(out.read_text().splitlines()) == 1


def test_a_failing_engine_is_reported_and_the_sweep_goes_on(tmp_path: Path) -> None:
    notes: list[str] = []
    both = [job(f"j{i}") for i in range(2)]  # no vLLM here: both workers fail
    assert step_cost.run(both, tmp_path, tell=lambda p: notes.append(p.note)).done == 0
    assert notes == [f"j{i}: stopped with status 1, see j{i}.log" for i in range(2)]
    assert "config.json" in (tmp_path / "j0.log").read_text()
    notes.clear()
    step_cost.run(both, tmp_path, 100, lambda p: notes.append(p.note))
    assert notes == [], "no engine starts that could not finish"


def sweep_file(tmp_path: Path, *entries: dict[str, Any]) -> Path:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(entries))
    return path


def test_a_sweep_file_gives_an_engine_start_for_each_draft_length(tmp_path: Path) -> None:
    shape = tmp_path / "config.json"
    shape.write_text(json.dumps({"vocab_size": 777, "model_type": "llama"}))
    entry: dict[str, Any] = {"label": "llama-k{k}", "k": [0, 2], "gpus": "0,1"}
    entry |= {"model": "llama", "quant": "bf16"}
    entry |= {"config": str(shape), "draft_config": str(shape), "graph_sizes": [12, 3]}
    point = {"concurrency": 4, "input_tokens": 64, "output_tokens": 32, "prefix_share": 0.5}
    path = sweep_file(tmp_path, {**entry, "points": [[1, 2048, 128], point]})
    plain, drafting = step_cost.read_sweep(path)
    assert [plain.label, drafting.label] == ["llama-k0", "llama-k2"]
    assert [p.key for p in drafting.points] == ["1:2048:128:0", "4:64:32:0.5"]
    launch = worker.engine_arguments(vars(drafting), "m")
    assert launch["tensor_parallel_size"] == 2
    assert launch["compilation_config"] == {"cudagraph_capture_sizes": [3, 12]}
    assert launch["speculative_config"]["model"] == "m/drafter"
    assert launch["speculative_config"]["synthetic_acceptance_rates"] == [0.816, 0.635]
    assert worker.engine_arguments(vars(plain), "m")["speculative_config"] is None
    assert worker.write_shape(vars(drafting), tmp_path) == 777
    assert json.loads((tmp_path / "drafter" / "config.json").read_text())["vocab_size"] == 777


ENTRY = {"label": "a", "points": [], "model": "m", "quant": "q", "config": "c"}


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
        step_cost.read_sweep(sweep_file(tmp_path, entry))
