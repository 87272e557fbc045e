"""Machines, engines, models and sizes as people say them: each is read, or gets one sentence
with the nearest words that are valid.
"""

import shlex

import pytest
from click.testing import CliRunner

from advisor import recommend
from advisor.advice.spoken import split_count, split_engine, strip_size
from advisor.cli.app import cli
from advisor.knowledge import store as knowledge

# written before the readers were looked at
READ = """
--hw h100 --method ngram
--hw h100 --method DSpark
--hw 2x3090
--hw "4 x a100 80gb"
--hw "dgx spark"
--hw "m3 ultra 512gb"
--hw "rtx 6000 pro"
--hw "RTX PRO 6000 Blackwell"
--hw "geforce 3090 ti"
--hw "dual 3090"
--hw "H100 SXM"
--hw "h100 pcie 80gb"
--hw "a100 40GB"
--hw "8x MI355X"
--hw "strix halo"
--hw "ryzen ai max+ 395"
--hw "framework desktop"
--hw "mac studio m2 ultra 192gb"
--hw "macbook pro m4 max 128gb"
--hw "rtx 4060 ti 16gb"
--hw "tesla t4"
--hw "RTX-4090"
--hw "4090 24gb"
--hw h100 --model "qwen 3.6 35b"
--hw h100 --model "Qwen/Qwen3.6-35B-A3B-FP8"
--hw h100 --model "Qwen3.6-35B-A3B-MTP-GGUF"
--hw h100 --model "llama 3.3 70b instruct"
--hw h100 --gpus 2 --model "meta-llama/Llama-3.3-70B-Instruct"
--hw h100 --model "gpt oss 120b"
--hw h100 --gpus 8 --model "deepseek v3.2"
--hw h100 --gpus 8 --model "glm 4.6"
--hw h100 --model "mistral small 3.2"
--hw h100 --model "unsloth/Qwen3.6-35B-A3B-MTP-GGUF:UD-Q4_K_M"
--hw h100 --ctx 128k
--hw h100 --ctx "32K tokens"
--hw h100 --ctx 8,192
--hw h100 --concurrency "16 users"
--hw h100 --concurrency c16
--hw h100 --engine "vllm 0.25.1"
--hw h100 --engine vLLM==0.25.1
--hw h100 --engine vllm/vllm-openai:v0.25.1
--hw h100 --engine llama.cpp
--hw h100 --engine "llama.cpp b9976"
--hw h100 --quant fp4
--hw rtx3090 --quant Q4_K_M
--hw h100 --quant 4bit
--hw h100 --quant w4a16
--hw rtx3090 --quant UD-Q4_K_XL
--hw h100 --gpus 2x
--hw "rtx 3090 x2"
--hw "quad 3090"
--hw "h100 80gb"
--hw "2x 4090 24gb"
--hw "macbook pro m3 max"
--hw h100 --engine "sglang v0.5.12"
--hw h100 --engine lmsysorg/sglang:v0.5.12-cu129
--hw h100 --engine vllm-0.25.1
--hw h100 --ctx "32 k"
--hw h100 --concurrency "16 concurrent"
--hw h100 --concurrency 1-16
"""
REFUSED = {
    "--hw h100 --engine ollama": "Ollama has no documented MTP option",
    "--hw h100 --ctx 4096-8192": "one number, or ask `advisor sweep --vary ctx=4096..8192`",
    '--hw h100 --quant "4-bit awq"': "did you mean int4 or awq-int4",
    "--hw h100 --goal latency": "is not one of 'throughput', 'tpot', 'ttft', 'balanced'",
    '--hw h100 --goal "tokens/s"': "is not one of 'throughput', 'tpot', 'ttft', 'balanced'",
    "--hw h100 --method draft-model": "draft_model is priced by `advisor predict --rows` alone",
    "--hw h100 --method medusa": "is not one of 'mtp', 'eagle', 'eagle3', 'dflash'",
    "--hw h100 --out-tokens 1k": "Did you mean '--output-tokens'?",
    "--hw h100 --gpus two": "'two' is not a whole number",
    '--hw "m4 max 36gb"': "Apple M4 Max is known with 128 GB, not 36",
    '--hw "h100 pcie 94gb"': "is known with 80 GB, not 94",
    '--hw "1080 x"': "did you mean",
    '--hw "h300 80gb"': "unknown hardware 'h300 80gb'",
    '--hw "rx 6800"': "did you mean rx6800xt",
    '--hw "4070 super"': "unknown hardware '4070 super'",
    '--hw h100 --model "mistral small"': "mistral-small-4-119b or mistral-small-3.2-24b",
}


@pytest.mark.parametrize("line", [line for line in READ.splitlines() if line])
def test_it_is_read(line: str) -> None:
    made = CliRunner().invoke(cli, ["recommend", *shlex.split(line)])
    assert made.exit_code == 0, made.output


@pytest.mark.parametrize("line", list(REFUSED))
def test_or_refused_in_one_sentence(line: str) -> None:
    made = CliRunner().invoke(cli, ["recommend", *shlex.split(line)])
    said = made.output if made.exit_code == 2 else str(made.exception)
    assert made.exit_code != 0 and REFUSED[line] in said


@pytest.mark.parametrize(
    ("said", "parts"),
    [("2x3090", ("3090", 2)), ("3090x2", ("3090", 2)), ("5090 x4", ("5090", 4)),
     ("4 x a100 80gb", ("a100 80gb", 4)), ("dual 3090", ("3090", 2)), ("h200x8", ("h200", 8)),
     ("rtx 3090 x2", ("rtx 3090", 2)), ("mi300x", ("mi300x", None)), ("8x MI355X", ("MI355X", 8)),
     ("ryzen ai max 395", ("ryzen ai max 395", None)), ("0x3090", ("0x3090", None))],
)  # fmt: skip
def test_the_number_of_gpus_is_apart(said: str, parts: tuple[str, int | None]) -> None:
    assert split_count(said) == parts


# sizes that Apple's technical specifications name of each chip, at the bandwidth of its largest
APPLE = """apple-m1 8 16,apple-m1-pro 16 32,apple-m1-max 32 64,apple-m1-ultra 64 128,
apple-m2 8 16 24,apple-m2-pro 16 32,apple-m2-max 32 64 96,apple-m2-ultra 64 128 192,
apple-m3 8 16 24,apple-m3-pro 18 36,apple-m3-max 48 64 128,apple-m3-ultra 96 256 512,
apple-m4 16 24 32,apple-m4-pro 24 48 64,apple-m4-max 48 64 128"""


@pytest.mark.parametrize(
    ("said", "ident", "gb"),
    [("4090 24gb", "rtx4090", 24), ("h100 pcie 80gb", "h100-pcie", 80),
     ("a100 40GB", "a100-40gb", 40), ("mac studio m2 ultra 192gb", "apple-m2-ultra", 192),
     ("macbook pro m4 max", "apple-m4-max", 128), ("M2 Ultra 192", "apple-m2-ultra", 192),
     *((f"{chip[6:].replace('-', ' ')} {gb}gb", chip, int(gb))
       for chip, *sizes in map(str.split, APPLE.split(",")) for gb in sizes)],
)  # fmt: skip
def test_a_size_that_fits_is_its_machine(said: str, ident: str, gb: float) -> None:
    found = knowledge.hardware(strip_size(said))
    assert found.memory_gb is not None and (found.id, found.memory_gb.value) == (ident, gb)


@pytest.mark.parametrize(
    ("said", "parts"),
    [("vllm", ("vllm", "")), ("vllm@0.25.1", ("vllm", "0.25.1")),
     ("vLLM==0.25.1", ("vLLM", "0.25.1")), ("vllm/vllm-openai:v0.25.1", ("vllm", "v0.25.1")),
     ("lmsysorg/sglang:v0.5.12-cu129", ("sglang", "v0.5.12-cu129")),
     ("llama.cpp b9976", ("llama.cpp", "b9976")), ("no such 1.0", ("no such 1.0", ""))],
)  # fmt: skip
def test_an_engine_and_its_release(said: str, parts: tuple[str, str]) -> None:
    assert split_engine(said) == parts


@pytest.mark.parametrize(("said", "gb"), [("M4 Pro 24GB", 24), ("m3 pro 18", 18), ("M4 Max", 128)])
def test_a_smaller_mac_is_the_chip_with_less_memory(said: str, gb: int) -> None:
    """The same cell and bandwidth, another size; one that halves the bandwidth stays unknown."""
    made = recommend(hardware=strip_size(said), model="qwen3-4b")
    known, whole = made.facts.hardware, knowledge.hardware(strip_size(said).partition("@")[0])
    assert known.memory_gb.value == gb
    assert (known.id, known.memory_bandwidth_gb_s) == (whole.id, whole.memory_bandwidth_gb_s)
    assert f"{gb} GB" in known.name or gb == 128


@pytest.mark.parametrize("name", ["concurrency", "ctx"])
def test_a_sweep_says_how_its_own_range_is_given(name: str) -> None:
    """It sent to `advisor sweep` who had asked just that; what it says now is understood."""
    asked = ["sweep", "--hw", "gb10"]
    refused = CliRunner().invoke(cli, [*asked, f"--{name}", "1k..4k"])
    assert refused.exit_code == 2 and f"here it is --vary {name}=1k..4k" in refused.output
    assert CliRunner().invoke(cli, [*asked, "--vary", f"{name}=1k..4k"]).exit_code == 0
