"""What differs between engines, as their own documentation and sources have it: ports, options of
several machines, the benchmark client of each, builds by their number.
"""

import json
import shlex
from types import SimpleNamespace

import pytest

from advisor.domain.nouns import Plan
from advisor.engines import benchmarks, get, names
from advisor.engines.arguments import fields
from advisor.engines.arguments.llama_words import STAGE, stages
from advisor.engines.catalogue import image
from advisor.engines.k_ranges import schedule_arguments
from advisor.engines.traits import engines_with, traits

RANGES = ((1, 8, 3), (9, 64, 1))


@pytest.mark.parametrize(("engine", "port"), [("vllm", 8000), ("sglang", 30000),
                                              ("llama-server", 8080)])  # fmt: skip
def test_ports_are_those_of_the_documentation(engine: str, port: int) -> None:
    assert traits(engine).default_port == port
    command = benchmarks.command(Plan(engine=engine), None)
    assert f"127.0.0.1:{port}" in command or f"--host 127.0.0.1 --port {port}" in command


def test_who_waits_and_who_runs_how_many() -> None:
    """Ports that are written, one for both servers with a paged pool; SGLang's max_running_requests
    of 48 where it speculates (server_args.py); a k of 1 is tried first everywhere.
    """
    assert (traits("llama-server").port, traits("sglang").port) == (8080, 8000)
    assert traits("sglang").running == (256, 48)
    assert engines_with("gguf") == ("llama-server", "ik_llama.cpp")
    for engine, most in (("vllm", 5), ("sglang", 4), ("llama-server", 6), ("ik_llama.cpp", 3)):
        assert traits(engine).k_range == tuple(range(1, most + 1))


def test_numbers_of_a_plan_have_bounds() -> None:
    """Counts of 32 bits, a share of memory above 0 and up to all of it."""
    assert (fields.COUNT, fields.DEPTH) == ((1, 2**31 - 1), (0, 2**31 - 1))
    inside = [fields.within(value, fields.SHARE) for value in (0.0, 1e-9, 1.0, 1.001, float("nan"))]
    assert inside == [False, True, True, False, False]


@pytest.mark.parametrize("words", [1, 4])
def test_a_prompt_has_the_length_of_its_answer(words: int) -> None:
    """vLLM's custom data sets take `output_tokens`; SGLang's count the answer, a word a token."""
    assert json.loads(benchmarks.prompt_line("vllm", "x y", words)) == {
        "prompt": "x y", "output_tokens": words,
    }  # fmt: skip
    asks, answers = json.loads(benchmarks.prompt_line("sglang", "x y", words))["conversations"]
    assert asks == {"role": "user", "content": "x y"} and answers["role"] == "assistant"
    assert answers["content"].split() == ["a"] * words


def test_each_engine_is_measured_by_its_own_client() -> None:
    """vLLM's knows --skip-chat-template from 0.12 on, SGLang's moved with 0.5.17."""

    def words(engine: str, version: str) -> list[str]:
        plan = Plan(engine=engine, engine_version=version, model="Q")
        return shlex.split(benchmarks.command(plan, None, data="f.jsonl", result="out.json"))

    old, new = words("vllm", "0.11.0"), words("vllm", "0.12.0")
    assert [word for word in new if word not in old] == ["--skip-chat-template"]
    assert (
        new[:3] == ["vllm", "bench", "serve"] and new[new.index("--custom-output-len") + 1] == "-1"
    )
    assert words("sglang", "0.5.16")[2] == "sglang.bench_serving"
    assert words("sglang", "0.5.17")[2] == "sglang.benchmark.serving"
    assert words("sglang", "0.5.17")[-2:] == ["--output-file", "out.json"]
    assert "--tokenizer" in words("llama-server", "b11434") and "--tokenizer" not in new
    assert [benchmarks.requests(n) for n in (1, 4, 5, 64)] == [16, 16, 20, 256]


def test_ranges_of_k_in_each_engines_words() -> None:
    plan = Plan(engine="sglang", engine_version="0.5.23", method="mtp", k=3, model="Q")
    made = schedule_arguments(plan, RANGES)
    assert all(word.startswith("--speculative-") for word in made.arguments if word[:2] == "--")
    assert {"--speculative-adaptive", "adaptive.json"} < {*made.arguments, made.file_name}
    assert json.loads(made.file_text or "") == {
        "1": {"candidate_steps": [3]}, "9": {"candidate_steps": [1]},
    }  # fmt: skip


def test_a_build_is_named_as_the_server_prints_it() -> None:
    """`llama-server --version` of 0.5.0 says build 11312."""
    label = get("llama-server").label
    assert label("0.5.0") == "b11312 (0.5.0)" and label("b11434") == "b11434 (0.6.0)"
    assert label("unknown") == "unknown" and label(None) == ""


def test_what_to_run_instead_of_an_engine_that_has_none() -> None:
    text = names.answer("Ollama") or ""
    assert "llama-server -hf" in text and text.endswith(")") and "ollama/ollama#5800, " in text
    assert names.answer("no such engine") is None


def test_stages_of_ik_llama() -> None:
    """`type:key=value` (its README): all types; the settings of the first that is no lookup."""
    extra = (
        ("-ngl", "99"),
        (STAGE, "ngram-mod:size=12"),
        (STAGE, "draft:n=4,p-min=0.6"),
        (STAGE, ""),
    )
    assert stages(extra) == (["ngram-mod", "draft"], {"n": "4", "p-min": "0.6"})
    assert stages(extra[:2]) == (["ngram-mod"], {"size": "12"})
    assert stages((("--draft-max", "4"),)) is None


def test_images_are_of_the_vendor_and_of_what_they_are_built_for() -> None:
    images = {
        "nvidia": {"repository": "a/b", "tags": {"1": {"tag": "v1", "sm_87": "v1-jetson"}},
                   "archs": ["sm_90"]},
        "amd": {"repository": "amd/b", "tags": {"1": {"tag": "rocm"}}},
    }  # fmt: skip
    catalogue = SimpleNamespace(notes={"images": images})

    def of(vendor: str, arch: str, version: str = "1") -> str | None:
        return image(catalogue, version, SimpleNamespace(vendor=vendor, arch=arch))  # type: ignore[arg-type]

    assert of("nvidia", "sm_90") == of("unknown", "sm_90") == of("nvidia", "") == "docker.io/a/b:v1"
    assert of("nvidia", "sm_87") == "docker.io/a/b:v1-jetson"  # a tag of its own
    assert of("nvidia", "sm_70") is of("intel", "") is of("nvidia", "sm_90", "2") is None
    assert of("amd", "gfx942") == "docker.io/amd/b:rocm"  # built for all
    assert image(catalogue, "1") == "docker.io/a/b:v1"  # type: ignore[arg-type]


def test_the_template_is_left_to_the_server_where_the_client_asks() -> None:
    """vLLM's client has --skip-chat-template since 0.12; SGLang's has none of it."""
    skips = [
        benchmarks._skips_template(Plan(engine=engine, engine_version=version))
        for engine, version in (("vllm", "0.11.2"), ("vllm", "0.12.0"), ("vllm", None),
                                ("sglang", "0.5.20"), ("llama-server", "b9000"))
    ]  # fmt: skip
    assert skips == [False, True, True, False, True]
