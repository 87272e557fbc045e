"""Outputs in shapes that people published, cut to what is read, each with its place: what clients
and releases print that no file of our own has. Numbers that a comment calls ours are not theirs.
"""

import json
import subprocess
import sys

import pytest

from advisor.readers.results.document import parse
from advisor.readers.results.formats import read_document
from advisor.readers.results.run import BenchmarkRun

# sgl-project/sglang#12389: a client that writes no total throughput, answers that did not stream
JSONL = (
    '{"backend": "sglang", "dataset_name": "random", "request_rate": Infinity, "max_concurrency": '
    '16, "duration": 91.82476212800248, "completed": 300, "total_input_tokens": 75000000, '
    '"total_output_tokens": 300000, "request_throughput": 3.267092590795978, "input_throughput": '
    '816773.1476989945, "output_throughput": 3267.0925907959777, "mean_e2e_latency_ms": '
    '4760.202868748844, "mean_ttft_ms": 0.0, "median_ttft_ms": 0.0, "mean_tpot_ms": '
    '4.76496783658543, "mean_itl_ms": 0.0, "accept_length": null}\n'
)
# ggml-org/llama.cpp#23269: the statistics alone, of two kinds of drafts
STATISTICS = """\
[53409] 5.05.552.782 I statistics ngram-mod: #calls(b,g,a) = 11 800 4, #gen drafts = 4, #acc drafts = 4, #gen tokens = 256, #acc tokens = 47, dur(b,g,a) = 0.340, 2.107, 1.102 ms
[53409] 5.05.552.787 I statistics draft-mtp: #calls(b,g,a) = 11 796 796, #gen drafts = 796, #acc drafts = 694, #gen tokens = 1585, #acc tokens = 1252, dur(b,g,a) = 0.008, 33271.024, 1.264 ms
"""
# a server of May 2026, before the kind was called "draft-mtp"
EARLY = """\
slot print_timing: id  3 | task 0 |
prompt eval time =     648.99 ms /   133 tokens (    4.88 ms per token,   204.94 tokens per second)
       eval time =   30387.12 ms /  2048 tokens (   14.84 ms per token,    67.40 tokens per second)
      total time =   31036.11 ms /  2181 tokens
draft acceptance rate = 0.98260 ( 1186 accepted /  1207 generated)
statistics mtp: #calls(b,g,a) = 1 861 690, #gen drafts = 690, #acc drafts = 690, #gen tokens = 1207, #acc tokens = 1186, dur(b,g,a) = 0.006, 3112.317, 0.287 ms
"""
# vllm-project/vllm#10880: the progress bar has no end of line; the latencies are cut
BAR = """\
Maximum request concurrency: None
100%|█████████████████████████████████████████████████████████████████████████████████████████████████████████████████████████| 128/128 [00:09<00:00, 13.97it/s]============ Serving Benchmark Result ============
Successful requests:                     128
Benchmark duration (s):                  9.16
Total input tokens:                      39247
Total generated tokens:                  27716
Request throughput (req/s):              13.97
Output token throughput (tok/s):         3025.13
Total Token throughput (tok/s):          7308.85
==================================================
"""
# ovg-project/kvcached, benchmarks: SGLang's client without a TPOT
WITHOUT_TPOT = """\
============ Serving Benchmark Result ============
Backend:                                 sglang-oai
Traffic request rate:                    32.0
Max request concurrency:                not set
Successful requests:                     1920
Benchmark duration (s):                  213.71
Total input tokens:                      1843657
Total generated tokens:                  157031
Output token throughput (tok/s):         734.77
----------------End-to-End Latency----------------
Mean E2E Latency (ms):                   157842.85
---------------Time to First Token----------------
Mean TTFT (ms):                          112043.40
---------------Inter-Token Latency----------------
Mean ITL (ms):                           569.94
==================================================
"""
# vLLM where no draft is accepted: the loop of an issue's log; the numbers are ours
ZERO = """\
INFO 06-28 10:00:00 [metrics.py:96] SpecDecoding metrics: Mean acceptance length: 1.00, Accepted throughput: 0.00 tokens/s, Drafted throughput: 67.00 tokens/s, Accepted: 0 tokens, Drafted: 670 tokens, Per-position acceptance rate: 0.000, 0.000, 0.000, 0.000, 0.000, Avg Draft acceptance rate: 0.0%
"""
# a page of notes on GLM-5.3-Flash: a field between, the release left out
DEPTH = """\
(EngineCore pid=986) INFO 09-04 10:58:50 [core.py:123] Initializing a V1 LLM engine (...) with config: model='local-inference-lab/GLM-5.3-Flash-NVFP4', speculative_config=SpeculativeConfig(method='dflash', model='local-inference-lab/GLM-5.3-Flash-DFlash2', num_spec_tokens=7), ... tensor_parallel_size=3
(APIServer pid=1) INFO 09-04 11:01:16 [metrics.py:125] SpecDecoding metrics: Mean acceptance length: 6.82, Current speculative depth: 7, Accepted throughput: 6.46 tokens/s, Drafted throughput: 7.77 tokens/s, Accepted: 256 tokens, Drafted: 308 tokens, Per-position acceptance rate: 1.000, 1.000, 1.000, 1.000, 0.795, 0.614, 0.409, Avg Draft acceptance rate: 83.1%
"""
# llama.cpp, docs/speculative.md: lookups alone
LOOKUPS = """\
statistics ngram_map_k: #calls(b,g,a) = 6 1690 26, #gen drafts = 26, #acc drafts = 26, #gen tokens = 1248, #acc tokens = 968, dur(b,g,a) = 2.234, 1.427, 0.016 ms
"""
# the same page: lookups beside a draft model, both in the line of the request
BOTH = """\
draft acceptance rate = 0.57576 (  171 accepted /   297 generated)
statistics ngram_simple: #calls = 15, #gen drafts = 5, #acc drafts = 5, #gen tokens = 187, #acc tokens = 73
statistics draft: #calls = 10, #gen drafts = 10, #acc drafts = 10, #gen tokens = 110, #acc tokens = 98
"""
# a test of radixark/miles: two engines under Ray and a rank of a third
RANKS = """\
(SGLangEngine pid=35555) [2025-10-31 03:45:20 TP0] Decode batch [51341], #running-req: 317, #token: 1094261, token usage: 0.67, cuda graph: True, gen throughput (token/s): 14806.57, #queue-req: 0,
(SGLangEngine pid=111711, ip=10.15.36.1) [2025-10-31 03:45:20 TP0] Decode batch [39913], #running-req: 78, #token: 432100, token usage: 0.27, cuda graph: True, gen throughput (token/s): 7269.16, #queue-req: 0,
[2025-11-03 14:31:10 DP6 TP6 EP6] Decode batch, #running-req: 251, #token: 2811200, token usage: 1.00, cuda graph: True, gen throughput (token/s): 2055.94, #queue-req: 655,
"""
# from notes on disaggregated prefill: the first line counts the idle time before it
IDLE = """\
[2026-03-02 14:44:10 TP0] Decode batch, #running-req: 1, #token: 33, token usage: 0.00, pre-allocated usage: 0.00, #prealloc-req: 0, #transfer-req: 0, #retracted-req: 0, cuda graph: True, gen throughput (token/s): 0.04, #queue-req: 0
[2026-03-02 14:44:11 TP0] Decode batch, #running-req: 1, #token: 73, token usage: 0.00, pre-allocated usage: 0.00, #prealloc-req: 0, #transfer-req: 0, #retracted-req: 0, cuda graph: True, gen throughput (token/s): 78.20, #queue-req: 0
"""
# two data-parallel ranks of vLLM; the numbers are ours
ENGINES = """\
INFO 08-14 11:31:25 [loggers.py:273] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 240.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 6.5%
INFO 08-14 11:31:25 [loggers.py:273] Engine 001: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 260.0 tokens/s, Running: 5 reqs, Waiting: 0 reqs, GPU KV cache usage: 6.5%
"""
# a test of a fork's tools: no time per token is printed
BRIEF = """\
0.17.923.567 I common_perf_print: prompt eval time = 4000.00 ms / 2003 tokens
0.17.923.567 I common_perf_print: eval time = 5600.00 ms / 299 runs
"""
# the names of vLLM's result as columns; the numbers are ours
SWEEP_CSV = """\
run,request_rate,max_concurrency,completed,duration,request_throughput,output_throughput,mean_ttft_ms,mean_tpot_ms,spec_decode_acceptance_length,itls
1,inf,4,16,5.5,2.9,291.5,75.7,13.17,2.38,"[[0.1]]"
2,inf,16,64,7.0,9.1,914.25,102.0,16.9,,
"""
# lemonade-sdk/llamacpp-rocm#129: the log ends before the request does
SO_FAR = """\
1.34.507.301 I slot print_timing: id  0 | task 0 | n_gen =   3591, tg =  47.42 t/s, tg_3s =  61.32 t/s
1.37.555.369 I slot print_timing: id  0 | task 0 | n_gen =   3767, tg =  47.82 t/s, tg_3s =  57.74 t/s
"""


def test_a_request_that_has_not_ended_has_a_speed_so_far() -> None:
    (run,) = read(SO_FAR)
    assert run.request_tok_s == pytest.approx(47.82) and run.output_tokens == 3767
    assert "had not ended" in run.notes[0]


def test_results_of_vllm_in_a_table_are_read() -> None:
    first, second = read(SWEEP_CSV)
    assert (first.concurrency, first.output_tok_s, first.value("tpot")) == (4, 291.5, 13.17)
    assert first.acceptance is not None and first.acceptance.length == 2.38
    assert (second.requests, second.output_tok_s, second.acceptance) == (64, 914.25, None)
    assert (first.client, second.part) == ("vllm bench serve", "row 2")


def test_a_time_per_token_that_is_not_printed_is_time_over_tokens() -> None:
    (run,) = read(BRIEF)
    assert run.value("tpot") == pytest.approx(5600 / 299) and run.value("ttft") == 4000


def test_a_log_where_no_draft_is_accepted_says_so() -> None:
    (run,) = read(ZERO)
    assert run.speculates and run.acceptance is not None
    assert (run.k, run.acceptance.length, run.acceptance.rate) == (5, 1, 0)


def test_what_the_start_of_the_engine_says_is_read_without_its_release() -> None:
    (run,) = read(DEPTH)
    assert (run.k, run.method, run.engine_version) == (7, "dflash", None)
    assert run.model == "local-inference-lab/GLM-5.3-Flash-NVFP4"
    assert run.acceptance.length == pytest.approx(6.82, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "method"),
    [("draft-mtp", "mtp"), ("draft-eagle3", "eagle3"), ("draft-simple", "draft_model"),
     ("draft-mtp-adaptive", "mtp"), ("ngram-mod", "ngram"), ("mtp", "mtp")],
)  # fmt: skip
def test_the_statistics_name_the_method(kind: str, method: str) -> None:
    assert read(STATISTICS.splitlines()[1].replace("draft-mtp", kind))[0].method == method
    both = STATISTICS.replace("draft-mtp", kind)
    assert read(both)[0].method == method, "lookups beside it are no method of their own"


@pytest.mark.parametrize(
    ("text", "speed", "running", "note"),
    [
        (RANKS, 14806.57 + 7269.16 + 2055.94, 317 + 78 + 251, "summed over 3 ranks"),
        (ENGINES, 500.0, 8, "summed over 2 ranks"),
        (IDLE, 78.2, 1, "1 lines after idle time"),
        (IDLE.replace("0.04,", "4.1,"), 78.2, 1, "1 lines after idle time"),
        (IDLE.replace("0.04,", "4.2,"), 41.2, 1, "means of the printed decode lines"),
    ],
    ids=["SGLang's ranks", "vLLM's engines", "idle", "below a tenth", "a tenth"],
)
def test_ranks_add_up_and_idle_time_is_left_out(
    text: str, speed: float, running: float, note: str
) -> None:
    (run,) = read(text)
    assert run.output_tok_s == pytest.approx(speed) and run.concurrency == running
    assert any(note in line for line in run.notes)


def test_standard_input_is_read() -> None:
    code = "from advisor.cli.app import main; main(['results', '-', '--format', 'json'])"
    done = subprocess.run(
        [sys.executable, "-c", code], input=BAR, capture_output=True, text=True, check=True
    )
    assert [run["output_tok_s"] for run in json.loads(done.stdout)["runs"]] == [3025.13]


def read(text: str) -> list[BenchmarkRun]:
    return read_document(parse("published", text.encode()))


def test_times_of_answers_that_did_not_stream_are_left_out() -> None:
    (run,) = read(JSONL)
    assert run.output_tok_s == pytest.approx(3267.0925907959777)
    assert (run.concurrency, run.ttft_ms, run.tpot_ms, run.itl_ms) == (16, None, None, None)
    assert run.e2e_ms is not None and run.e2e_ms.mean == pytest.approx(4760.202868748844)


@pytest.mark.parametrize(
    ("text", "length", "rate"),
    [(STATISTICS, 1 + 1252 / 796, 1252 / 1585), (EARLY, 1 + 1186 / 690, 1186 / 1207),
     (LOOKUPS, 1 + 968 / 26, 968 / 1248), (BOTH, None, 171 / 297)],
    ids=["statistics alone", "before draft-mtp", "lookups", "lookups beside a draft model"],
)  # fmt: skip
def test_short_lines_give_what_they_hold(text: str, length: float | None, rate: float) -> None:
    (run,) = read(text)
    assert (run.acceptance.length, run.acceptance.rate) == pytest.approx((length, rate))


def test_a_progress_bar_before_the_block_is_passed_over() -> None:
    (run,) = read(BAR)
    assert (run.requests, run.output_tok_s, run.concurrency) == (128, 3025.13, None)


def test_a_tpot_that_is_not_printed_follows_from_the_means() -> None:
    (run,) = read(WITHOUT_TPOT)
    tokens = 157031 / 1920
    assert run.value("tpot") == pytest.approx((157842.85 - 112043.40) / (tokens - 1))
    assert "none is printed" in run.notes[0]
    for name in ("E2E Latency", "TTFT"):  # one of them is not there: no guess
        lines = [line for line in WITHOUT_TPOT.splitlines(keepends=True) if name not in line]
        assert read("".join(lines))[0].tpot_ms is None
