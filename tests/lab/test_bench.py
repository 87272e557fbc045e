"""The step-cost sweep against a mock engine: resumable, honest about what it measured, and right in
its bookkeeping.
"""

import csv
import json
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from advisor.cli.data import data
from advisor.domain.nouns import AdvisorError
from advisor.lab.bench import rows, step_cost, worker
from advisor.lab.measurements import files
from advisor.lab.measurements import schema as m


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


RAW = m.measurements_dir() / "raw"

SETTING = {"model": "qwen3.6-35b-a3b", "quant": "fp8", "prefix_caching": False,
           "max_num_seqs": 128, "max_num_batched_tokens": 8192, "vllm": "0.25.1",
           "concurrency": 8, "input_tokens": 2048, "output_tokens": 128, "prefix_share": 0.0,
           "key": "8:2048:128:0", "prompts": 32, "wall_s": 6.0, "ttft_ms": 170.0,
           "itl_p99_ms": 130.0, "tokens": 4096}  # fmt: skip
ABOUT = "id: bench-demo\nhardware: h200\ndate: '2026-11-20'\n"


def point(k: int, **changes: Any) -> dict[str, Any]:
    speeds = {"output_tok_s": 600.0 + 100 * k, "tpot_ms": 11.0 - k}
    speeds |= {"decode_step_p50_ms": 6.0 + 2 * k, "acceptance_length": 1.0 + 0.7 * k}
    return {"label": f"demo-k{k}", "k": k, **SETTING, **speeds, **changes}


def folder(tmp_path: Path, points: list[dict[str, Any]], about: str = "") -> Path:
    made = tmp_path / "sweep"
    made.mkdir()
    (made / "demo.jsonl").write_text("".join(json.dumps(p) + "\n" for p in points))
    (made / "about.yaml").write_text(about or ABOUT)
    return made


def test_arms_of_a_point_are_a_group_with_both_speedups(tmp_path: Path) -> None:
    where, into = folder(tmp_path, [point(0), point(2)]), tmp_path / "m"
    assert rows.import_folder(where, into) == ("bench-demo", 4)
    assert files.check(into, m.known_ids()) == (4, [])
    found, _ = m.read_runs(into)
    groups = m.by_group(found)
    assert len(groups) == 2
    arms = {r.run.speedup_metric: r.run for r in found if r.run.spec_method == "mtp"}
    assert arms["output_tok_s"].speedup == pytest.approx(800 / 600, abs=1e-3)
    assert arms["request_tok_s"].speedup == pytest.approx(
        2.4 / 10 * 6, abs=1e-3
    )  # tokens per step over step times
    assert arms["output_tok_s"].output_spread == 0.5
    assert arms["output_tok_s"].n_requests == 32
    assert all(r.run.use == "train" and "forced" in r.run.notes for r in found)


@pytest.mark.parametrize(
    ("points", "about", "reason"),
    [
        ([point(0), point(2, prompts=4, tokens=512)], "", "4 prompts"),
        ([point(2)], "", "only one arm"),
        ([point(0), point(2)], "weak: [{labels: '*-k2', why: two engines at once}]",
         "two engines at once"),
    ],
)  # fmt: skip
def test_weak_points_are_kept_and_not_trained_on(
    tmp_path: Path, points: list[dict[str, Any]], about: str, reason: str
) -> None:
    where = folder(tmp_path, points, ABOUT + about)
    found = [r for r in rows.runs(rows.read_rows(where), rows.read_about(where)) if r["k"] == "2"]
    assert found
    assert all(r["use"] == "eval" and reason in r["use_why"] for r in found)


def test_long_prompts_have_no_decode_step_of_their_own() -> None:
    about = {"id": "bench-demo", "hardware": "h200"}
    long = {"input_tokens": 32_768, "key": "8:32768:128:0"}
    found = rows.runs([point(0, **long), point(2, **long)], about)
    assert {r["use"] for r in found if r.get("request_tok_s")} == {"eval"}
    assert {r["use"] for r in found if r.get("output_tok_s")} == {"train"}


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("hardware: h200\ndate: x\n", "`id`"),
        ("id: bench-x\ndate: x\n", "`hardware`"),
        ("id: bench-x\nhardware: h2000\ndate: x\n", "h2000"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, about: str, message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        rows.import_folder(folder(tmp_path, [point(0), point(2)], about), tmp_path / "m")


def test_broken_and_empty_folders(tmp_path: Path) -> None:
    with pytest.raises(AdvisorError, match="no measured points"):
        rows.read_rows(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"label": "x"\n')
    with pytest.raises(AdvisorError, match=r"a\.jsonl:1"):
        rows.read_rows(tmp_path)


def test_a_folder_is_added_once(tmp_path: Path) -> None:
    words = ["add", str(folder(tmp_path, [point(0), point(2)])), "--into", str(tmp_path / "m")]
    assert "bench-demo" in CliRunner().invoke(data, words).output
    assert isinstance(CliRunner().invoke(data, words).exception, AdvisorError)


@pytest.mark.parametrize(
    "source", sorted({path.parent.name for path in RAW.glob("*vllm*/*.jsonl")})
)
def test_raw_points_become_the_shipped_rows(source: str) -> None:
    about, points = rows.read_about(RAW / source), rows.read_rows(RAW / source)
    made = [{k: v for k, v in row.items() if v} for row in rows.runs(points, about)]
    drafts = [one for one in points if one["k"] and f"-k{one['k']}" in one["label"]]
    compared = {row["spec_method"] for row in made if "speedup" in row}
    assert compared == {one.get("method", "mtp") for one in drafts}
    path = m.measurements_dir() / "runs" / f"{about['id']}.csv"
    if path.exists():  # the others are kept apart
        shipped = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        assert made == [{k: v for k, v in row.items() if v} for row in shipped]
