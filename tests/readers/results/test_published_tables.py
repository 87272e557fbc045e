"""Tables in shapes that people published, cut to what is read, each with its place."""

from __future__ import annotations

import pytest

from advisor.readers.results.document import Unreadable, parse
from advisor.readers.results.formats import read_document
from advisor.readers.results.run import BenchmarkRun

# GuideLLM 0.2 on two L40S, from a workshop on InstructLab: seconds under a head of milliseconds
GUIDELLM_OLD = """\
Backend openai_http connected to http://127.0.0.1:8000 for model granite-3.3-8b-instruct.
Benchmarks Info:
======================================================================================================================================================
Metadata                                      |||| Requests Made  ||| Prompt Tok/Req  ||| Output Tok/Req  ||| Prompt Tok Total||| Output Tok Total  ||
    Benchmark| Start Time| End Time| Duration (s)|  Comp|  Inc|  Err|   Comp|  Inc|  Err|   Comp|  Inc|  Err|   Comp|  Inc|  Err|   Comp|   Inc|   Err
-------------|-----------|---------|-------------|------|-----|-----|-------|-----|-----|-------|-----|-----|-------|-----|-----|-------|------|------
  synchronous|   20:10:02| 20:12:13|        130.7|    30|    0|    0|  512.3|  0.0|  0.0|  256.0|  0.0|  0.0|  15369|    0|    0|   7680|     0|     0
   throughput|   20:12:13| 20:12:21|          7.7|    30|    0|    0|  512.3|  0.0|  0.0|  256.0|  0.0|  0.0|  15369|    0|    0|   7680|     0|     0
constant@0.69|   20:12:23| 20:13:09|         46.5|    30|    0|    0|  512.3|  0.0|  0.0|  256.0|  0.0|  0.0|  15368|    0|    0|   7680|     0|     0
======================================================================================================================================================

Benchmarks Stats:
===================================================================================================================================================
Metadata     | Request Stats         || Out Tok/sec| Tot Tok/sec| Req Latency (ms)||| TTFT (ms)          ||| ITL (ms)        ||| TPOT (ms)       ||
    Benchmark| Per Second| Concurrency|        mean|        mean| mean| median|  p99|  mean| median|    p99| mean| median|  p99| mean| median|  p99
-------------|-----------|------------|------------|------------|-----|-------|-----|------|-------|-------|-----|-------|-----|-----|-------|-----
  synchronous|       0.23|        1.00|        58.7|       293.7| 4.36|   4.27| 4.91|  59.8|   59.1|   63.1| 16.8|   16.5| 19.0| 16.8|   16.5| 18.9
   throughput|       3.89|       29.65|       996.1|      4979.5| 7.62|   7.62| 7.68| 817.7|  784.0| 1387.9| 26.7|   26.8| 29.3| 26.6|   26.7| 29.2
constant@0.69|       0.65|        2.93|       165.1|       825.3| 4.54|   4.57| 4.58|  71.9|   73.5|   80.0| 17.5|   17.6| 17.7| 17.5|   17.5| 17.6
===================================================================================================================================================
"""
# GuideLLM of 2026, from a workshop on llm-d
GUIDELLM_NEW = """\
╭─ Benchmarks ─────────────────────────────────────────────────────────────────╮
│ [1… conc… (… Req:    1.1 req/s,   20.57s Lat,    22.3 Conc,      33 Comp,  … │
│              Tok:  215.7 gen/s,  675.8 tot/s, 1578.2ms TTFT,   74.5ms ITL, … │
╰──────────────────────────────────────────────────────────────────────────────╯
ℹ Run Summary Info
|============|==========|==========|======|======|======|=========|=========|=====|=========|========|=====|
| Benchmark  | Timings                              ||||| Input Tokens          ||| Output Tokens        |||
| Strategy   | Start    | End      | Dur  | Warm | Cool | Comp    | Inc     | Err | Comp    | Inc    | Err |
|            |          |          | Sec  | Sec  | Sec  | Tot     | Tot     | Tot | Tot     | Tot    | Tot |
|------------|----------|----------|------|------|------|---------|---------|-----|---------|--------|-----|
| concurrent | 10:13:04 | 10:13:34 | 30.0 | 0.0  | 0.0  | 18018.0 | 16926.0 | 0.0 | 8448.0  | 7786.0 | 0.0 |
| concurrent | 10:13:45 | 10:14:15 | 30.0 | 0.0  | 0.0  | 24024.0 | 32590.0 | 0.0 | 11264.0 | 5231.0 | 0.0 |
|============|==========|==========|======|======|======|=========|=========|=====|=========|========|=====|


ℹ Request Token Statistics (Completed Requests)
|============|=======|=======|=======|=======|=======|=======|=======|=======|=========|========|
| Benchmark  | Input Tok    || Output Tok   || Total Tok    || Stream Iter  || Output Tok      ||
| Strategy   | Per Req      || Per Req      || Per Req      || Per Req      || Per Stream Iter ||
|            | Mdn   | p95   | Mdn   | p95   | Mdn   | p95   | Mdn   | p95   | Mdn     | p95    |
|------------|-------|-------|-------|-------|-------|-------|-------|-------|---------|--------|
| concurrent | 546.0 | 546.0 | 256.0 | 256.0 | 802.0 | 802.0 | 259.0 | 259.0 | 1.0     | 1.0    |
| concurrent | 546.0 | 546.0 | 256.0 | 256.0 | 802.0 | 802.0 | 259.0 | 259.0 | 1.0     | 1.0    |
|============|=======|=======|=======|=======|=======|=======|=======|=======|=========|========|


ℹ Request Latency Statistics (Completed Requests)
|============|=========|========|========|========|=======|=======|=======|=======|
| Benchmark  | Request Latency || TTFT           || ITL          || TPOT         ||
| Strategy   | Sec             || ms             || ms           || ms           ||
|            | Mdn     | p95    | Mdn    | p95    | Mdn   | p95   | Mdn   | p95   |
|------------|---------|--------|--------|--------|-------|-------|-------|-------|
| concurrent | 20.4    | 21.8   | 1465.9 | 2797.0 | 74.3  | 76.1  | 79.6  | 85.1  |
| concurrent | 28.3    | 30.3   | 2212.2 | 4038.4 | 102.6 | 103.0 | 110.7 | 118.4 |
|============|=========|========|========|========|=======|=======|=======|=======|


ℹ Server Throughput Statistics (All Requests)
|============|=======|======|=========|==============|===============|==============|
| Benchmark  | Requests             ||| Input Tokens | Output Tokens | Total Tokens |
| Strategy   | Concurrency || Per Sec | Per Sec      | Per Sec       | Per Sec      |
|            | Mdn   | Mean | Mean                                               ||||
|------------|-------|------|---------|--------------|---------------|--------------|
| concurrent | 32.0  | 32.0 | 1.1     | 1553.4       | 414.5         | 1306.9       |
| concurrent | 64.0  | 64.0 | 1.3     | 1873.0       | 545.7         | 2418.8       |
|============|=======|======|=========|==============|===============|==============|
"""
# AIPerf's documentation of a file of prompts; what follows the latency of requests is cut
AIPERF = """\
                                     NVIDIA AIPerf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┓
┃               Metric ┃      avg ┃      min ┃      max ┃      p99 ┃      p90 ┃      p50 ┃      std ┃
┡━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━┩
│  Time to First Token │    19.99 │    12.53 │    49.62 │    48.89 │    42.24 │    13.93 │    12.92 │
│                 (ms) │          │          │          │          │          │          │          │
│ Time to Second Token │     3.81 │     2.01 │     8.25 │     7.94 │     5.15 │     3.36 │     1.62 │
│                 (ms) │          │          │          │          │          │          │          │
│ Request Latency (ms) │ 2,940.39 │ 1,536.67 │ 7,319.35 │ 7,034.86 │ 4,474.42 │      N/A │      N/A │
"""
# ai-dynamo/aiperf#535: rows without their header
AIPERF_ROWS = """\
│       Input Sequence Length (tokens) │    512.00 │    512.00 │    512.00 │    512.00 │    512.00 │    512.00 │   0.00 │
│ Output Token Throughput (tokens/sec) │  5,388.43 │       N/A │       N/A │       N/A │       N/A │       N/A │    N/A │
│             Request Count (requests) │    100.00 │       N/A │       N/A │       N/A │       N/A │       N/A │    N/A │
"""
# GenAI-Perf's documentation of goodput (2024), and a console too narrow for its numbers
GENAI = """\
                              NVIDIA GenAI-Perf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━━┳━━━━━━━━┳━━━━━━━━┳━━━━━━━━┳━━━━━━━━┓
┃                         Statistic ┃    avg ┃    min ┃    max ┃    p99 ┃    p90 ┃    p75 ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━━╇━━━━━━━━╇━━━━━━━━╇━━━━━━━━╇━━━━━━━━┩
│          Time to first token (ms) │   7.46 │   4.15 │  18.40 │  17.89 │  13.26 │   5.56 │
│          Inter token latency (ms) │   1.05 │   0.98 │   1.16 │   1.16 │   1.12 │   1.… │
│            Output sequence length │ 595.60 │ 539.00 │ 638.00 │ 636.80 │ 626.00 │ 608.00 │
│ Output token throughput (per sec) │ 940.96 │    N/A │    N/A │    N/A │    N/A │    N/A │
└───────────────────────────────────┴────────┴────────┴────────┴────────┴────────┴────────┘
"""
# notes on a GB10: llama-benchy's table without the model, a dash where there is no number
BENCHY = """\
| test | t/s | peak t/s | est_ppt (ms) | e2e_ttft (ms) |
|---|---|---|---|---|
| pp2048 @ d0 | 3215.7 ± 67.2 | — | 637.5 ± 13.4 | 923.9 ± 12.7 |
| tg128 @ d0 | 22.6 ± 1.6 | 32.7 ± 3.1 | — | — |
| pp2048 @ d4096 | 3903.4 ± 15.1 | — | 1574.7 ± 6.2 | 1862.3 ± 4.4 |
| tg128 @ d4096 | 19.4 ± 1.2 | 27.0 ± 2.8 | — | — |
"""
# a recipe for 16 of them: bold, commas between thousands
BENCHY_BOLD = """\
| test | t/s | peak t/s | ttfr (ms) | est_ppt (ms) | e2e_ttft (ms) |
|:---|---:|---:|---:|---:|---:|
| pp2048 @ d60000 | **684.17** | — | 81,825.38 | 81,823.69 | 81,827.58 |
| tg1500 @ d60000 | **13.04** | 29.00 | — | — | — |
"""


def read(text: str) -> list[BenchmarkRun]:
    return read_document(parse("published", text.encode()))


def test_the_tables_of_guidellm_0_2_are_read() -> None:
    one, all_at_once, constant = read(GUIDELLM_OLD)
    assert (one.model, one.concurrency, one.requests) == ("granite-3.3-8b-instruct", 1, 30)
    assert (one.output_tok_s, one.value("ttft"), one.value("tpot")) == (58.7, 59.8, 16.8)
    assert (one.input_tokens, one.output_tokens, one.value("e2e")) == (512.3, 256, 4360)
    assert (all_at_once.concurrency, all_at_once.request_rate) == (None, None)
    assert "29.65 requests in flight" in all_at_once.notes[-1]
    assert (constant.request_rate, constant.output_tok_s) == (0.69, 165.1)


@pytest.mark.parametrize("twice", [False, True])
def test_the_tables_of_guidellm_since_0_4_are_read(twice: bool) -> None:
    """Printed twice they say the same, and their panel of progress is not read."""
    first, second = read(GUIDELLM_NEW * (1 + twice))
    assert (first.concurrency, second.concurrency) == (32, 64)
    assert (first.requests, second.requests) == (33, 44)
    assert (first.output_tok_s, second.output_tok_s) == (414.5, 545.7)
    assert (second.value("ttft"), second.value("tpot")) == (2212.2, 102.6)
    assert second.tpot_ms is not None and second.tpot_ms.mean is None
    assert (second.input_tokens, second.output_tokens) == (546, 256)


def test_the_panel_of_guidellm_alone_is_refused() -> None:
    with pytest.raises(Unreadable, match=r"without its tables .* cut off"):
        read(GUIDELLM_NEW[: GUIDELLM_NEW.index("ℹ Run Summary Info")])


def test_guidellms_yaml_without_its_figures_is_refused() -> None:
    with pytest.raises(Unreadable, match="output_tokens_per_second"):
        read("benchmarks:\n- metrics:\n    inter_token_latency_ms:\n      successful: {}\n")


def test_a_log_line_within_a_table_is_passed_over() -> None:
    line = "26-11-25 14:16:20|INFO     |guidellm.benchmark.benchmarker:run:199 - finalized\n"
    for before in ("| Strategy   | Concurrency", "| concurrent | 64.0 "):
        again = GUIDELLM_NEW.replace(before, line + before)
        assert [run.output_tok_s for run in read(again)] == [414.5, 545.7]


def test_aiperfs_wrapped_names_are_read() -> None:
    (run,) = read(AIPERF)
    assert run.ttft_ms is not None
    assert (run.ttft_ms.mean, run.ttft_ms.p50, run.ttft_ms.p99) == (19.99, 13.93, 48.89)
    assert (run.value("e2e"), run.client) == (2940.39, "aiperf")


def test_aiperfs_rows_without_a_header_give_means() -> None:
    (run,) = read(AIPERF_ROWS)
    assert (run.output_tok_s, run.requests, run.input_tokens) == (5388.43, 100, 512)


def test_genai_perfs_table_is_read_where_a_number_is_cut() -> None:
    (run,) = read(GENAI)
    assert (run.client, run.output_tok_s, run.output_tokens) == ("genai-perf", 940.96, 595.6)
    assert (run.value("ttft"), run.value("tpot")) == (7.46, 1.05)


def test_tables_of_two_runs_are_two_runs() -> None:
    runs = read(GENAI + GENAI.replace("940.96", "1,240.96"))
    assert [run.output_tok_s for run in runs] == [940.96, 1240.96]


def test_llama_benchys_table_is_read_without_a_model_and_with_marks() -> None:
    flat, deep = read(BENCHY)
    assert (flat.output_tok_s, flat.value("ttft"), flat.prompt_tok_s) == (22.6, 923.9, 3215.7)
    assert (flat.model, deep.output_tok_s, deep.depth_tokens) == (None, 19.4, 4096)
    (bold,) = read(BENCHY_BOLD)
    assert (bold.output_tok_s, bold.value("ttft"), bold.depth_tokens) == (13.04, 81827.58, 60000)


def test_llama_benchys_tables_of_one_page_are_kept_apart() -> None:
    off, on = read(BENCHY_BOLD + "\n### MTP on\n\n" + BENCHY_BOLD.replace("13.04", "21.05"))
    assert [(run.output_tok_s, run.part[:7]) for run in (off, on)] == [
        (13.04, "table 1"), (21.05, "table 2"),
    ]  # fmt: skip


def test_prompts_of_two_sizes_are_two_loads() -> None:
    rows = """\
| model | test | t/s | peak t/s | ttfr (ms) | est_ppt (ms) | e2e_ttft (ms) |
|:--|--:|--:|--:|--:|--:|--:|
| m | pp512 | 100.0 | | 1.0 | 1.0 | 11.0 |
| m | tg32 | 20.0 | 21.0 | | | |
| m | pp2048 | 110.0 | | 1.0 | 1.0 | 22.0 |
| m | tg32 | 19.0 | 20.0 | | | |
"""
    runs = read(rows)
    assert [(run.input_tokens, run.output_tok_s, run.value("ttft")) for run in runs] == [
        (512, 20.0, 11.0), (2048, 19.0, 22.0),
    ]  # fmt: skip


# ggml-org/llama.cpp#2059 of January 2024, with a space in the test's name, and a table of 2026
# with another column, set in by a list
LLAMA_BENCH = """\
| model          |       size |     params | backend    | ngl | test       |              t/s |
| -------------- | ---------: | ---------: | ---------- | --: | ---------- | ---------------: |
| llama 13B Q6_K |   9.95 GiB |    13.02 B | Vulkan     |  99 | pp 512     |    374.44 ± 4.66 |
ggml_vulkan: a line of the backend
| llama 13B Q6_K |   9.95 GiB |    13.02 B | Vulkan     |  99 | tg 128     |     34.13 ± 0.45 |

    | model                    |     size |  params | backend | ngl | fa |  test |          t/s |
    | ------------------------ | -------: | ------: | ------- | --: | -: | ----: | -----------: |
    | gemma4 ?B IQ4_NL - 4.5 bpw | 6.24 GiB | 11.91 B | ROCm   |  99 |  1 | tg512 | **34.61** ± 0.12 |
    build: 0a50d9909 (10108)
"""


def test_every_table_of_llama_bench_is_read_by_its_own_header() -> None:
    prompt, old, new = read(LLAMA_BENCH)
    assert (prompt.prompt_tok_s, prompt.input_tokens) == (374.44, 512)
    assert (old.output_tok_s, old.output_tokens) == (34.13, 128)
    assert (new.output_tok_s, new.engine_version) == (34.61, "b10108")
