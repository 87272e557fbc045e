"""The compact catalogues: built from what they say, sound in themselves, and quick to ask."""

import json
from pathlib import Path

import pytest

from advisor import engines, recommend, validate
from advisor.domain.nouns import (
    LLM,
    AdvisorError,
    Checkpoint,
    Facts,
    Hardware,
    Plan,
    Request,
    UnknownFact,
)
from advisor.domain.paths import knowledge_dir
from advisor.engines import benchmarks, names
from advisor.engines.extract import build_catalogue
from advisor.engines.images import official_engine

NAMES = ("vllm", "sglang", "llama-server")
FOLDER = knowledge_dir() / "engines"


@pytest.mark.parametrize("name", NAMES)
def test_generated_file_is_untouched(name: str) -> None:
    data = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert next(iter(data)) == "generated" and "build_catalogue" in data["generated"]
    assert data["content_sha256"] == build_catalogue.content_hash(data["options"])


def test_notes_are_current_and_can_be_refreshed_without_the_raw_catalogues(tmp_path: Path) -> None:
    for path in FOLDER.glob("*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    build_catalogue.main(["--notes", "--out", str(tmp_path)])
    for name in NAMES:
        assert (tmp_path / f"{name}.json").read_bytes() == (FOLDER / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_every_spelling_reads_back_and_every_note_points_somewhere(name: str) -> None:
    catalogue = engines.get(name).catalogue
    for version in catalogue.versions:
        for option_name in catalogue.names(version):
            option = catalogue.option(option_name, version)
            assert option is not None
            spelling = catalogue.spelling(option_name, version)
            if spelling is not None:
                found = catalogue.match(spelling, version)
                assert found is not None and found.option == option and not found.abbreviated
    for flag, row in {**catalogue.notes["successors"], **catalogue.notes["removed_before"]}.items():
        assert row["message"] and row["source"], flag
        assert row.get("use") is None or catalogue.find(row["use"]) is not None, flag
    for rows in catalogue.notes["behaviours"].values():
        assert all(
            row["source"] and {row.get("from"), row.get("until")} <= {None, *catalogue.versions}
            for row in rows
        )


@pytest.mark.parametrize(
    ("name", "token", "version", "canonical"),
    [
        ("vllm", "-tp", "0.33.0", "--tensor-parallel-size"),
        ("vllm", "--max_num_seqs", "0.19.1", "--max-num-seqs"),
        ("vllm", "--max-num-s", "0.25.1", "--max-num-seqs"),
        ("vllm", "--max-num-a", "0.33.0", "--max-num-active-seqs"),
        ("vllm", "--no-enable-prefix-caching", "0.33.0", "--enable-prefix-caching"),
        ("vllm", "--speculative-config.method", None, "--speculative-config"),
        ("vllm", "--swap-space", None, None),
        ("vllm", "--max-num-active-seqs", "0.30.0", None),
        ("sglang", "--tp", "0.5.12", "--tp-size"),
        ("sglang", "--speculative-algo", "0.5.23", "--speculative-algorithm"),
        ("sglang", "--cuda-graph-max-bs", "0.5.23", None),
        ("sglang", "--model_path", "0.5.23", None),
        ("llama-server", "-fa", "0.5.0", "--flash-attn"),
        ("llama-server", "--spec-draft-n", "0.5.0", None),
        ("llama-server", "--draft_max", "b8643", "--draft-max"),
    ],
)
def test_find(name: str, token: str, version: str | None, canonical: str | None) -> None:
    found = engines.get(name).catalogue.find(token, version)
    assert (found.name if found else None) == canonical


def test_history() -> None:
    vllm, sglang, llama = (engines.get(name).catalogue for name in NAMES)
    assert [
        vllm.default("--gpu-memory-utilization", v) for v in ("0.19.1", "0.20.2", "0.33.0")
    ] == [0.9, 0.92, 0.92]
    assert (
        vllm.since("--max-num-active-seqs") == "0.31.0" and vllm.since("--spec-method") == "0.22.1"
    )
    gone = vllm.removal("--num-scheduler-steps")
    assert gone is not None and gone.version is None and "V0" in gone.message
    moved = sglang.removal("--mamba-scheduler-strategy")
    assert moved is not None and (moved.version, moved.successor) == (
        "0.5.20",
        "--mamba-radix-cache-strategy",
    )
    drafted = llama.removal("--draft-max")
    assert drafted is not None and drafted.successor == "--spec-draft-n-max"
    mmap = llama.removal("--no-mmap")
    assert mmap is not None and (mmap.version, mmap.successor) == ("b10878", "--load-mode")
    assert (
        vllm.removal("--disable-log-requests", "0.33.0") is None
        and vllm.removal("--disable-log-requests", "0.25.1") is not None
    )
    assert (
        llama.removal("--no-mmap", "b9976") is None
        and llama.removal("--load-mode", "b9976") is None
    )
    assert vllm.removal("--max-num-seqs") is None and vllm.removal("--never-was") is None
    assert "num_speculative_tokens_per_batch_size" not in vllm.json_fields(
        "SpeculativeConfig", "0.23.0"
    )
    assert "num_speculative_tokens_per_batch_size" in vllm.json_fields(
        "SpeculativeConfig", "0.24.0"
    )
    assert (
        vllm.env("VLLM_ATTENTION_BACKEND", "0.33.0") is None
        and vllm.env("VLLM_LOGGING_LEVEL", "0.33.0") is not None
    )
    assert [llama.behaviour("draft_n_max_default", v) for v in ("b8643", "0.5.0", None)] == [
        16,
        3,
        3,
    ]


def test_names_of_engines() -> None:
    assert engines.get("llama.cpp").name == engines.get("llama-server").name == "llama-server"
    assert engines.get("vLLM").name == "vllm" and engines.get("vllm-ascend").name == "vllm"
    for name in ("ollama", "LM Studio", "llama-cpp-python", "mlx", "tensorrt-llm"):
        with pytest.raises(AdvisorError, match=r"[rR]un (llama-server|vLLM)"):
            engines.get(name)
        assert engines.no_mtp_answer(name)
    with pytest.raises(UnknownFact, match="did you mean"):
        engines.get("vlllm")


@pytest.mark.parametrize(
    ("name", "mtp", "hybrid"),
    [
        ("Qwen/Qwen3.6-35B-A3B-FP8", True, True), ("/models/qwen36-awq", True, True),
        ("Qwen3.8-27B-W4A16", True, True), ("Qwen/Qwen3-Next-80B-A3B-Instruct", True, True),
        ("qwen3_5-27b", True, True), ("Qwen/Qwen3-8B", False, False),
        ("Qwen/Qwen3-30B-A3B", False, False), ("meta-llama/Llama-3.1-8B", False, False),
        ("zai-org/GLM-4.5-Air", True, False), ("deepseek-ai/DeepSeek-V3", True, False),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", False, False),
        ("x/gemma-4-12b-MTP-GGUF", True, False), ("nvidia/Nemotron-H-8B", False, True),
    ],
)  # fmt: skip
def test_what_a_name_tells(name: str, mtp: bool, hybrid: bool) -> None:
    assert (names.own_mtp(name), names.hybrid(name)) == (mtp, hybrid)


def test_images_are_claimed_only_where_a_source_names_them() -> None:
    amd = Hardware(id="mi300x", vendor="amd", arch="gfx942")
    assert engines.get("vllm").image("0.32.0") == "docker.io/vllm/vllm-openai:v0.32.0"
    assert engines.get("vllm").image("0.33.0") is None
    assert engines.get("vllm").image("0.31.0", amd) == "docker.io/vllm/vllm-openai-rocm:v0.31.0"
    newer = amd.model_copy(update={"arch": "gfx950"})
    assert (
        engines.get("sglang").image("0.5.18", newer)
        == "docker.io/lmsysorg/sglang:v0.5.18-rocm720-mi35x"
    )
    assert (
        engines.get("llama-server").image("0.5.0")
        == "ghcr.io/ggml-org/llama.cpp:server-cuda-b11312"
    )
    assert engines.get("llama-server").image("0.5.0", Hardware(id="m4", vendor="apple")) is None


@pytest.mark.parametrize(
    ("engine", "version", "arch", "tag"),
    [
        ("sglang", "0.5.18", "gfx942", "v0.5.18-rocm720-mi30x"),
        ("sglang", "0.5.18", "gfx1201", None),
        ("sglang", "0.5.18", "gfx906", None),
        ("vllm", "0.31.0", "gfx1201", "v0.31.0"),
        ("vllm", "0.31.0", "gfx906", None),
        ("vllm", "0.31.0", "gfx1030", None),
        ("llama-server", "0.5.0", "gfx1030", "server-rocm-b11312"),
        ("llama-server", "0.5.0", "gfx906", None),
        ("llama-server", "0.5.0", "gfx1151", "server-vulkan-b11347"),
        ("llama-server", "0.5.0", "gfx1103", "server-vulkan-b11347"),
    ],
)
def test_no_image_of_other_amd_chips(engine: str, version: str, arch: str, tag: str | None) -> None:
    found = engines.get(engine).image(version, Hardware(id="card", vendor="amd", arch=arch))
    assert found == tag if tag is None else found is not None and found.endswith(f":{tag}")


def test_benchmark_commands_follow_the_load() -> None:
    request = Request(hardware="gb10", concurrency=16, ctx_tokens=2048, output_tokens=256)
    clients = {"vllm": "vllm bench serve", "sglang": "sglang.benchmark.serving",
               "llama-server": "/v1/chat/completions"}  # fmt: skip
    for engine, words in clients.items():
        plan = Plan(engine=engine, model="Qwen/Qwen3.6-27B")  # type: ignore[arg-type]
        text = benchmarks.command(plan, request)
        assert words in text and "--max-concurrency 16" in text and "2048" in text and "256" in text


def test_benchmark_of_llama_server_counts_with_the_models_tokenizer() -> None:
    checkpoint = Checkpoint(
        quant="bf16", repository="Qwen/Qwen3.6-27B", engines=("vllm", "sglang"), source="s"
    )
    facts = Facts(model=LLM(id="qwen3.6-27b", checkpoints=(checkpoint,)), concurrency=4)
    plan = Plan(engine="llama-server", model="u/Q-GGUF", port=9000)
    assert "--tokenizer Qwen/Qwen3.6-27B " in benchmarks.command(plan, facts)
    assert "--tokenizer YOUR-TOKENIZER-REPO " in benchmarks.command(plan, Facts())


@pytest.mark.parametrize(
    ("build", "words"),
    [
        ("b6200", ("--flash-attn", "--jinja")),
        ("b6400", ("--flash-attn", "on")),
        ("b8000", ("--flash-attn", "on")),
    ],
)
def test_flash_attention_is_as_the_build_takes_it(build: str, words: tuple[str, ...]) -> None:
    """Builds from b6327 on refuse the bare switch, which eats the option behind it."""
    adapter = engines.get("llama-server")
    version = adapter.resolve_version(build).version
    plan = Plan(engine="llama-server", engine_version=version, model="/models/q.gguf")
    argv = adapter.argv(adapter.to_launch(plan))
    at = argv.index("--flash-attn")
    assert argv[at : at + 2] == words


@pytest.mark.parametrize(
    ("image", "engine"),
    [
        ("vllm/vllm-openai:v0.33.0", "vllm"),
        ("registry.example:5000/mirror/vllm/vllm-openai@sha256:0", "vllm"),
        ("lmsysorg/sglang:v0.5.23", "sglang"),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", "llama-server"),
        ("nvcr.io/nvidia/vllm:25.12-py3", None),  # builds of commits between releases
        ("nvcr.io/nvidia/sglang:25.12-py3", None),
        ("me/vllm", None),
    ],
)
def test_builds_of_others_are_no_release_of_the_project(image: str, engine: str | None) -> None:
    assert official_engine(image) == engine


LISTED = ("--attention-backend", "--config-format", "--data-parallel-backend",
          "--distributed-executor-backend", "--dtype", "--kv-cache-dtype", "--load-format",
          "--moe-backend", "--quantization", "--reasoning-parser", "--runner", "--tokenizer-mode",
          "--tool-call-parser")  # fmt: skip


@pytest.mark.parametrize("version", engines.get("vllm").versions)
def test_vllms_lists_are_known_for_every_release(version: str) -> None:
    known = engines.get("vllm").catalogue
    for name in LISTED:
        found, option = known.values(name, version).names, known.option(name, version)
        assert len(found) >= 2 and len(set(found)) == len(found), name
        assert option is not None and (str(option.default or found[0]) in found), name


@pytest.mark.parametrize(
    ("name", "value", "first", "last"),
    [
        ("--load-format", "gguf", None, "0.23.0"),
        ("--load-format", "bitsandbytes", None, "0.27.1"),
        ("--load-format", "ipc_cache", "0.30.0", None),
        ("--mamba-backend", "FLASHINFER", "0.20.2", None),
        ("--tokenizer-mode", "deepseek_v4", "0.20.2", None),
    ],
)
def test_a_value_comes_and_goes(name: str, value: str, first: str | None, last: str | None) -> None:
    known = engines.get("vllm").catalogue
    having = [one for one in known.versions if value in known.values(name, one).names]
    assert having[0] == (first or known.versions[0])
    assert having[-1] == (last or known.newest)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_list_of_the_newest_release_is_asked(engine: str) -> None:
    """The share of options with a list: of vLLM's the others take numbers, texts, paths, JSON."""
    known = engines.get(engine).catalogue
    names = [name for name in known.names(known.newest) if known.values(name, known.newest).names]
    assert len(names) >= {"vllm": 55, "sglang": 96}[engine]


def test_a_format_that_a_release_dropped_is_a_warning_since_plugins_may_add_it() -> None:
    text = "vllm serve m --load-format gguf"
    found = validate(text=text, engine_version="0.33.0").findings
    assert [(one.code, one.severity) for one in found if "load-format" in one.message] == [
        ("SD107", "warning")
    ]
    assert not [
        one for one in validate(text=text, engine_version="0.22.1").findings if one.code == "SD107"
    ]


def test_a_tokenizer_mode_is_written_where_the_release_has_it() -> None:
    asked = {"hardware": "b300", "gpus": 8, "model": "deepseek-v4-flash", "engine": "vllm"}
    new = recommend(**asked, engine_version="0.32.0", what_if=False)
    assert "deepseek_v4" in new.launch.argv
    with pytest.raises(AdvisorError, match="cannot load DeepSeek-V4-Flash"):
        recommend(**asked, engine_version="0.19.1", what_if=False)
