"""Results of trtllm-bench, llm-d, inference-perf, InferenceX, evalscope 1.14
(run against the paced server), and tables that people write: figures, both arms in one file, what
is no result, and which file to give for a table that a client prints beside its JSON.

The forms are those that the clients' own code writes; where a file is not of a run of ours its
numbers are altered.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.advice.own_runs import machine as machines
from advisor.cli.app import cli
from advisor.readers.results.document import Unreadable, parse
from advisor.readers.results.formats import read_document, read_results
from advisor.readers.results.run import BenchmarkRun

FILES = Path(__file__).parent / "files"
# file -> figures of its runs, in order, copied by hand; an expression where the file has its parts
FIGURES: dict[str, list[dict[str, object]]] = {
    "trtllm-on.json": [
        {
            "engine": "tensorrt-llm", "hardware": "NVIDIA GB10", "method": "mtp", "k": 2,
            "concurrency": 3.91, "output_tok_s": 269.4, "ttft": 74.6, "tpot": 14.03, "e2e": 1856.5,
            "length": 2.286, "rate": 0.6429,
        }
    ],
    "inferencex.json": [
        {
            "engine": "sglang", "engine_version": "0.5.21", "hardware": "b200", "method": "mtp",
            "k": None, "concurrency": 64.0, "input_tokens": 1024.0, "output_tok_s": 8 * 511.2,
            "ttft": 411.3, "tpot": 15.23, "itl p50": 14.9,
        },
        {"method": "none", "output_tok_s": 8 * 402.0, "tpot": 19.1},
    ],
    "llm-d-0.2.yaml": [
        {
            "engine": "vllm", "engine_version": "0.27.1", "model": "Qwen/Qwen3.6-35B-A3B",
            "hardware": "NVIDIA-H100-80GB-HBM3", "concurrency": 16.0, "requests": 160,
            "input_tokens": 1024.0, "output_tokens": 256.0, "output_tok_s": 1377.4, "ttft": 136.8,
            "ttft p99": 210.0, "tpot": 11.05, "itl": 23.13, "e2e": 2960.0,
        }
    ],
    "llm-d-0.1.yaml": [
        {"hardware": "H100", "concurrency": 16.0, "duration_s": 29.7, "ttft": 136.8, "tpot": 11.05}
    ],
    "inference-perf.json": [
        {
            "request_rate": 10.0, "requests": 998, "failed": 2, "input_tokens": 1030.198,
            "output_tok_s": 12925.396, "ttft": 1063.928,
            "tpot": (16949.7 - 1063.928) / (976.13 - 1), "itl": 15.8547,
        }
    ],
    # genai-bench 0.0.5 against the paced server: 31 ms a step of 2.28 tokens
    "genai-bench.json": [
        {
            "concurrency": 4.0, "requests": 12, "failed": 0, "output_tokens": 100.0,
            "input_tokens": 90.25, "duration_s": 5.2962, "output_tok_s": 226.578,
            "ttft": 80.915, "tpot": 13.9140, "tpot p99": 14.2139,
        }
    ],
    "evalscope-1.14.json": [
        {"concurrency": 4.0, "output_tok_s": 277.7714, "itl": 31.0, "length": 2.1944}
    ],
    "sglang-offline.jsonl": [
        {"engine": "sglang", "kind": "offline", "output_tok_s": 2235.33, "requests": 200}
    ],
    "vllm-sweep.csv": [
        {"method": "none", "k": 0, "tpot": 20.004876136995488},
        {"method": "mtp", "k": 2, "tpot": 13.173019673610991},
    ],
    "table-k.md": [
        {"k": 0, "method": "none", "output_tok_s": 17.1, "length": None, "model": None},
        {"k": 1, "output_tok_s": 33.0, "rate": 0.8878, "length": 1.89},
        {"k": 2, "output_tok_s": 42.93, "rate": 0.7785, "length": 2.56},
        {"k": 3, "output_tok_s": 50.42, "rate": 0.733, "length": 3.2},
    ],
    "table-arms.md": [
        *({"k": 0, "request_tok_s": v, "output_tok_s": None} for v in (115.6, 115.7, 115.4)),
        *({"k": 3, "method": "mtp", "tpot": 1e3 / v, "rate": 0.852} for v in (116.9, 120.7, 120.7)),
    ],
    "table-config.md": [
        {"k": 0, "request_tok_s": 26.7},
        {"k": 3, "request_tok_s": 23.5, "rate": 0.34},
        {"k": 2, "request_tok_s": 29.6, "rate": 0.54},
    ],
    "table.csv": [
        {"k": 0, "concurrency": 8.0, "output_tok_s": 402.1, "ttft": 88.0, "tpot": 19.3},
        {"k": 1, "output_tok_s": 611.0, "rate": 0.86},
        {"k": 2, "output_tok_s": 702.5, "rate": 0.77},
    ],
    "table-spec-bench.md": [
        {"k": None, "method": "mtp", "output_tok_s": 37.42, "output_tok_s_sd": 1.48,
         "rate": 0.9215, "length": 3.76},
        {"output_tok_s": 18.83, "rate": 0.4658, "length": 2.39},
    ],
    "table-metric.md": [
        {"k": 0, "method": "none", "output_tok_s": 1646.15, "tpot p50": 37.18},
        {"k": 3, "output_tok_s": 2148.42, "length": 2.28, "rate": 0.4253},
    ],
    "vllm-answer-times.json": [
        {"tpot": 13.73, "ttft": 50.3, "request_tok_s": 1e3 / 13.73, "length": 1 + 56 / 44}
    ],
}  # fmt: skip


def figure(run: BenchmarkRun, name: str) -> object:
    """A field, an acceptance, the mean of a latency by its short name, or its percentile."""
    word, _, share = name.partition(" ")
    if name in ("length", "rate"):
        return getattr(run.acceptance, name) if run.acceptance else None
    if word not in ("ttft", "tpot", "itl", "e2e"):
        return getattr(run, name)
    latency = getattr(run, f"{word}_ms")
    return latency and getattr(latency, share or "mean")


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_the_files_own(name: str) -> None:
    runs = read_results(FILES / name)
    assert len(runs) == len(FIGURES[name])
    for run, expected in zip(runs, FIGURES[name], strict=True):
        for field, value in expected.items():
            found = figure(run, field)
            assert found == (
                pytest.approx(value, rel=1e-3) if isinstance(value, float) else value
            ), field


def read(text: str) -> list[BenchmarkRun]:
    return read_document(parse("table", text.encode()))


def test_a_report_without_drafts_says_so() -> None:
    text = (FILES / "trtllm-on.json").read_text()
    off = json.dumps(json.loads(text) | {"decoding_stats": None})
    (bare,) = read(off)
    assert bare.speculates is False and bare.k == 0
    both = read(f"{off}\n{text}")
    assert [run.k for run in both] == [0, 2] and both[0].part == "run 1"


def test_times_of_genai_bench_are_in_the_unit_that_it_states() -> None:
    made = json.loads((FILES / "genai-bench.json").read_text())
    seconds = read_document(parse("a.json", json.dumps(made).encode()))[0]
    stats = made["aggregated_metrics"]["stats"]
    for name in ("ttft", "tpot", "e2e_latency", "output_latency"):
        stats[name] = {key: value and value * 1e3 for key, value in stats[name].items()}
        for one in made["individual_request_metrics"]:
            one[name] *= 1e3
    made["_time_unit"] = "ms"
    again = read_document(parse("a.json", json.dumps(made).encode()))[0]
    assert again.tpot_ms is not None and seconds.tpot_ms is not None
    assert again.tpot_ms.mean == pytest.approx(seconds.tpot_ms.mean)
    assert again.tpot_ms.values == pytest.approx(seconds.tpot_ms.values)
    assert len(again.tpot_ms.values) == 12


@pytest.mark.parametrize(
    ("row", "k", "drafts"),
    [
        ("| baseline | 100 |", 0, False),
        ("| no MTP | 100 |", 0, False),
        ("| AR (vanilla) | 100 |", 0, False),
        ("| MTP 3 | 100 |", 3, True),
        ("| mtp-2 | 100 |", 2, True),
        ("| MTP k=1 | 100 |", 1, True),
        ("| **EAGLE-3** | 100 |", None, True),
        ("| EAGLE-3, num_speculative_tokens=5 | 100 |", 5, True),
        ("| `--spec-draft-n-max 4` | 100 |", 4, True),
    ],
)
def test_what_an_arm_drafted_is_read_off_its_name(row: str, k: int | None, drafts: bool) -> None:
    runs = read(
        f"| config | tok/s | notes |\n|---|---|---|\n{row} none |\n| MTP k=7 | 9 | base |\n"
    )
    assert (runs[0].k, runs[0].speculates, runs[0].output_tok_s) == (k, drafts, 100)
    assert (runs[1].k, runs[1].speculates) == (7, True), "a note behind the values is no name"


@pytest.mark.parametrize(
    ("cell", "k", "rate", "length"),
    [
        ("0.64", 2, 0.64, None),
        ("64%", 2, 0.64, None),
        ("64", 2, 0.64, None),
        ("2.28", 2, None, 2.28),
        ("-", 2, None, None),
        ("n/a", 2, None, None),
    ],
)
def test_an_acceptance_is_a_share_a_percentage_or_a_length(
    cell: str, k: int, rate: float | None, length: float | None
) -> None:
    run = read(f"| k | tok/s | accept |\n|--|--|--|\n| {k} | 50 | {cell} |\n| 0 | 20 | |\n")[0]
    made = run.acceptance
    assert (made.rate if made else None, made.length if made else None) == (rate, length)


@pytest.mark.parametrize(
    ("table", "speeds"),
    [
        (
            "| | baseline | MTP |\n|--|--|--|\n| output tok/s | 10 | 20 |\n| size | 1 | 2 |",
            [10, 20],
        ),
        ("k\ttok/s\n0\t10\n2\t20\n", [10, 20]),
        ('k,"tok/s\n0,10\n2,20\n', [10, 20]),  # a quote that is never closed
        ("k;tok/s\n0;10,5\n2;20,5\n", [10.5, 20.5]),
        ("> | k | tok/s |\n> |---|---|\n> | 0 | 1,010 |\n> | 2 | **2,020** (2.0x) |", [1010, 2020]),
        ("| K | tok/s (mean ± sd) |\n|---|---|\n| 0 | 10.0 ± 0.2 |\n| 2 | 20.0 ± 0.3 |", [10, 20]),
    ],
)
def test_tables_in_other_shapes(table: str, speeds: list[float]) -> None:
    assert [run.output_tok_s for run in read(table)] == speeds


@pytest.mark.parametrize(
    "table",
    [
        "| quant | tok/s |\n|---|---|\n| baseline | 10 |\n| Q4 | 20 |",  # not of drafts
        "| test | t/s |\n|---|---|\n| pp512 | 1000 |\n| tg128 | 20 |",
        "| k | size |\n|---|---|\n| 0 | 10 |\n| 2 | 20 |",  # no speed
        "| k | total tok/s |\n|---|---|\n| 0 | 10 |\n| 2 | 20 |",  # prompts and answers
        "| n | depth | tok/s |\n|---|---|---|\n| 1 | 2 | 10 |\n| 2 | 4 | 20 |",  # runs, context
        "k,tok/s\n",
        "|" * 5000 + "\n" + "|---" * 5000,
    ],
)
def test_other_tables_are_refused(table: str) -> None:
    with pytest.raises(Unreadable, match="no result of"):
        read(table)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"root_group": {}, "metrics": {"http_req_duration": {"avg": 1.0}}}', "k6 counts whole"),
        ("Type,Name,Request Count,Failure Count,Average Response Time\nGET,/,1,0,2\n", "locust"),
        ('[{"Percentiles": "50%", "TTFT (ms)": 1.0}]', "give benchmark_summary.json"),
        ('{"n_samples": 1, "last_window_s": 30, "rows": []}', "give benchmark_summary.json"),
        ('{"dataset": "a", "parallel": 1, "max_tokens": 2, "total_timeout": 3}', "the options"),
        ("Benchmarks Stats:\n=====\nMetadata | Request Stats || Out Tok/sec|", "benchmarks.json"),
        ("\u2139 Run Summary Info\n|====|\n| Benchmark | Timings |\n", "benchmarks.json"),
        ("Type,Run Id,Name\ngenerative_benchmark,1,concurrent@4\n", "benchmarks.json"),
        ("Benchmarking summary:\n+---+---+\n| Key | Value |\n", "benchmark_summary.json"),
        ("Performance Test Summary Report\n", "benchmark_summary.json"),
        (
            "NVIDIA AIPerf | LLM Metrics\n\u2503 Metric \u2503 avg \u2503\n",
            "profile_export_aiperf.json",
        ),
        ("Metric,avg,p50\nOutput Token Throughput (tokens/sec),1,1\n", "export_aiperf.json"),
        ("= PERFORMANCE OVERVIEW\n=====\nRequest Throughput (req/sec): 1\n", "--report_json"),
    ],
)
def test_what_lies_beside_a_result_is_named(text: str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as said:
        read(text)
    assert "\n" not in str(said.value)


def call(*words: str) -> tuple[int, str]:
    made = CliRunner().invoke(cli, list(words))
    return made.exit_code, made.output + (str(made.exception) if made.exception else "")


def test_one_file_with_both_arms_is_an_ab() -> None:
    name = str(FILES / "table-k.md")
    status, said = call("ab", name)
    assert status == 1 and "k=1, k=2, k=3" in said and "--k" in said
    status, said = call("ab", name, "--k", "2")
    assert status == 0 and "2.51x" in said and "load not stated" in said
    assert "no run with k=9" in call("ab", name, "--k", "9")[1]
    assert "1.52x" in call("ab", str(FILES / "vllm-sweep.csv"))[1]
    assert "without speculation" in call("ab", str(FILES / "trtllm-on.json"))[1]
    assert "same file" in call("ab", name, name)[1]


def test_runs_of_an_engine_without_predictions_are_judged_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    on = FILES / "trtllm-on.json"
    off = tmp_path / "off.json"
    off.write_text(json.dumps(json.loads(on.read_text()) | {"decoding_stats": None}))
    pair = [str(off), str(on), "--hw", "gb10"]
    status, said = call("ab", *pair)
    assert status == 0 and "NO DIFFERENCE" in said and "'tensorrt-llm' is none" in said
    status, said = call("calibrate", *pair, "--name", "t")
    assert status == 1 and "an engine that is predicted" in said
    assert not machines.path_of("t").exists()


def test_a_table_calibrates_every_draft_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    words = ["--hw", "h100", "--model", "qwen3.6-27b", "--name", "t"]
    status, said = call("calibrate", str(FILES / "table-k.md"), *words)
    assert status == 0 and "3 runs added to machine 't', 3 in total" in said
    assert [run.k for run in machines.load("t").runs] == [1, 2, 3]
    call("calibrate", str(FILES / "table-k.md"), *words, "--k", "2")
    assert sorted(run.k for run in machines.load("t").runs) == [1, 2, 3], (
        "k=2 again is the same run"
    )
