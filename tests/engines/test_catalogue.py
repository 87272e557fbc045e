"""The compact catalogues: built from what they say, sound in themselves, and quick to ask."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from advisor import engines, recommend, validate
from advisor.domain.nouns import AdvisorError, Hardware, Plan, UnknownFact
from advisor.domain.paths import knowledge_dir
from advisor.engines import benchmarks, get, names
from advisor.engines.arguments import fields
from advisor.engines.arguments.llama_words import STAGE, stages
from advisor.engines.catalogue import image
from advisor.engines.extract import build_catalogue
from advisor.engines.images import official_engine
from advisor.engines.traits import engines_with, traits

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
    image = engines.get("sglang").image("0.5.18", newer)
    assert image == "docker.io/lmsysorg/sglang:v0.5.18-rocm720-mi35x"
    image = engines.get("llama-server").image("0.5.0")
    assert image == "ghcr.io/ggml-org/llama.cpp:server-cuda-b11312"
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
    assert (having[0], having[-1]) == (first or known.versions[0], last or known.newest)


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
    assert "deepseek_v4" in recommend(**asked, engine_version="0.32.0", what_if=False).launch.argv
    with pytest.raises(AdvisorError, match="cannot load DeepSeek-V4-Flash"):
        recommend(**asked, engine_version="0.19.1", what_if=False)


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
