"""Tables in shapes that people published, cut to what is read, each with its place."""

from __future__ import annotations

import pytest

from advisor.readers.results.document import Unreadable, parse
from advisor.readers.results.formats import read_document
from advisor.readers.results.run import BenchmarkRun

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


def test_guidellms_yaml_without_its_figures_is_refused() -> None:
    with pytest.raises(Unreadable, match="no metrics > output_tokens_per_second"):
        read("benchmarks:\n- metrics:\n    inter_token_latency_ms:\n      successful: {}\n")


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
