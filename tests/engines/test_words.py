"""Whole command lines and whole readings, word by word, as the engines' documentation has them:
benchmark clients, launches, release texts, and a small catalogue whose history fits a page.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from advisor import engines
from advisor.domain.nouns import LLM, AdvisorError, Checkpoint, Container, EnvVar, Facts, Plan
from advisor.engines import benchmarks, records, versions
from advisor.engines.arguments import fields, llama_words, speculative_json
from advisor.engines.base import Match, Token, VersionMatch
from advisor.engines.catalogue import Catalogue, full_name
from advisor.engines.k_ranges import files
from tests.tables import load_yaml

CASES = load_yaml(Path(__file__).with_name("words.yaml"))
LOADED = Facts(concurrency=16, ctx_tokens=4096, output_tokens=256, model=LLM(
    id="q", checkpoints=(
        Checkpoint(quant="fp8", repository="u/q-fp8", engines=("vllm",), source="s"),
        Checkpoint(quant="bf16", repository="u/q.gguf", file="q", engines=("vllm",), source="s"),
        Checkpoint(quant="bf16", repository="u/q", engines=("vllm",), source="s"),
    )))  # fmt: skip
BUILDS: list[dict[str, Any]] = [
    {"id": "abcdef123", "from": 6000, "commit": "abcdef1234567890"},
    {"id": "b7000", "from": 6500, "build": 7000, "base": "0.1.0"},
    {"id": "b8000", "from": 8000, "build": 8000, "base": "0.1.0"},
    {"id": "0.3.0", "from": 9000, "build": 9001, "base": "0.3.0"},
]


@pytest.mark.parametrize("case", CASES["benchmarks"])
def test_the_command_of_a_benchmark(case: dict[str, Any]) -> None:
    facts, options = LOADED if case.get("loaded") else None, case.get("options", {})
    assert benchmarks.command(Plan(**case["plan"]), facts, **options) == case["words"]


@pytest.mark.parametrize("case", CASES["launches"])
def test_the_words_of_a_launch(case: dict[str, Any]) -> None:
    adapter = engines.get(case["plan"]["engine"])
    plan = {"model": "m"} | case["plan"] | {"extra": tuples(case.get("extra", []))}
    made = adapter.render(adapter.to_launch(Plan(**plan)))
    assert list(made.argv) == shlex.split(case["words"]) and made.env == case.get("env", {})


def tuples(value: Any) -> Any:
    return tuple(map(tuples, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("case", CASES["readings"], ids=lambda case: case["launch"][:60])
def test_what_a_launch_means(case: dict[str, Any]) -> None:
    engine, version = (case["plan"].get(name) for name in ("engine", "engine_version"))
    adapter = engines.get(engine)
    tokens = [Token(word) for word in shlex.split(case["launch"])]
    found = adapter.to_plan(adapter.read(tokens, version_text=version))
    expected = {"method": "none"} | {name: tuples(value) for name, value in case["plan"].items()}
    expected["engine_version"] = adapter.resolve_version(version).version
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(("text", "found"), CASES["releases"])
def test_the_release_of_a_text(text: str | None, found: list[Any]) -> None:
    known = ("0.2.1", "0.3.0", "0.5.1", "0.5.3")
    assert versions.resolve_release("x", known, text) == VersionMatch(*found)


@pytest.mark.parametrize(("text", "found", "later"), CASES["builds"])
def test_the_build_of_a_text(text: str | None, found: list[Any], later: str | None) -> None:
    match = VersionMatch(*found)
    assert versions.resolve_build(BUILDS, text) == match
    assert versions.later_build(BUILDS, match) == later
    name = versions.name_build(text, match, match.version)
    assert name == (text if text in ("b6100", "b6500", "b9000", "b5999", "b9002") else found[0])


@pytest.mark.parametrize(("config", "method", "k"), CASES["methods"])
def test_the_method_of_a_speculative_json(config: dict[str, Any], method: str, k: object) -> None:
    tokens = speculative_json.TOKENS
    found, left = speculative_json.read(config, "own", lambda name: name.strip("/")[-3:] == "own")
    assert (found["method"], found.get("k")) == (method, k)
    assert (tokens in left) == (k is None) and "method" not in left


def test_a_k_per_batch_size_stands_in_a_file_of_sglang_alone() -> None:
    plan = Plan(engine="sglang", model="m", method="mtp", k=1, k_schedule=((1, 8, 3), (9, 64, 1)))
    table = {"1": {"candidate_steps": [3]}, "9": {"candidate_steps": [1]}}
    assert {name: json.loads(x) for name, x in files(plan).items()} == {"adaptive.json": table}
    argv = engines.get("sglang").argv(engines.get("sglang").to_launch(plan))
    assert argv[-3:] == ("--speculative-adaptive", "--speculative-adaptive-config", "adaptive.json")
    assert argv[argv.index("--speculative-num-draft-tokens") + 1] == "4"  # the largest k, and one
    assert files(plan.replace(engine="vllm")) == files(plan.replace(k_schedule=())) == {}


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("128k", 128_000), ("128K", 131_072), ("1.5m", 1_500_000), ("2M", 2 * 2**20),
     ("1g", 10**9), ("1G", 2**30), (" 0.3k ", 300), ("1.0005k", 1000), ("k", None), ("-1", None),
     ("8kk", None), ("auto", None)],
)  # fmt: skip
def test_numbers_as_vllm_reads_them(text: str, number: int | None) -> None:
    if number is not None:
        assert fields.human_integer(text) == number
        return
    with pytest.raises(ValueError, match=text):
        fields.human_integer(text)


def test_numbers_as_the_others_read_them() -> None:
    read = [fields.whole(x) for x in ("-7", "x", None, str(2**31 - 1), str(2**31))]
    read += [fields.depth(x) for x in ("0", "-1", "5", "x")]
    read += [fields.switch(None), fields.switch("false"), fields.write_number(0.90)]
    assert read == [-7, None, None, 2**31 - 1, None, 0, None, 5, None, True, False, "0.9"]
    extra = [("-a", "1"), ("-b", "2"), ("-a", None), ("-a", "3"), ("-c", None)]
    assert (fields.last(extra, "-a"), fields.last(extra, "-c")) == ("3", None)
    fields.drop_if(extra, "-a", lambda value: value == "1")  # the last one counts
    assert len(extra) == 5
    fields.drop_if(extra, "-a", lambda value: value == "3")
    assert extra == [("-b", "2"), ("-c", None)]


def test_what_llama_server_writes_inside_a_value() -> None:
    words = llama_words.speculation_words
    assert words("draft-mtp,ngram-mod:n_max=2,none,p_min=0.5") == (
        ["draft-mtp", "ngram-mod"], {"n_max": "2", "p_min": "0.5"},
    )  # fmt: skip
    assert words("none") == words(None) == words("") == ([], {}) and llama_words.mode_of(()) == ""

    def mode(*names: str) -> str:
        row = engines.get("llama-server").read([Token(name) for name in names], (),
                                               version_text="b9976")  # fmt: skip
        return llama_words.mode_of(row.flags)

    assert [mode(*names) for names in (["--mlock"], ["--mlock", "--no-mmap"], ["--no-mmap"],
                                       ["--direct-io"], ["--mlock", "--direct-io"],
                                       ["--mmap"])] == [
        "mmap+mlock", "mlock", "none", "dio", "dio", "mmap",
    ]  # fmt: skip
    assert llama_words.draft_flag("u/d:Q8_0") == "--spec-draft-hf"
    for file in ("u/d.gguf", "/d", "d", "./u/d"):
        assert llama_words.draft_flag(file) == "--spec-draft-model"


@pytest.mark.parametrize(
    ("short", "full"),
    [("a", "docker.io/library/a"), ("a/b", "docker.io/a/b"), ("ghcr.io/a/b", "ghcr.io/a/b"),
     ("localhost/b", "localhost/b"), ("host:5000/b", "host:5000/b"), ("localhost", None)],
)  # fmt: skip
def test_a_repository_with_its_registry(short: str, full: str | None) -> None:
    assert full_name(short) == (full or f"docker.io/library/{short}")


def test_another_build_is_named_by_its_image_and_old_spellings_are_written_to_old_builds() -> None:
    llama, fork = engines.get("llama-server"), Container(image="me/IK_llama.cpp:x")
    assert llama.read([Token("-fa")]).fork is None
    assert llama.read([], (), container=fork).fork == "ik_llama.cpp"
    assert llama.read([], (), container=Container(image="me/llama")).fork == "me/llama"
    assert engines.get("ik_llama.cpp").read([]).fork == "ik_llama.cpp"
    assert engines.get("vllm").read([], (), version_text="v0.11-ascend").fork == "vllm-ascend"
    pair = [(Token("spec-draft-model"), Token("/d")), (Token("model"), Token("/m"))]
    old = llama.read_mapping(pair, version_text="b8643")
    assert llama.argv(old) == ("llama-server", "--model-draft", "/d", "--model", "/m")
    assert llama.argv(old.replace(engine_version="0.5.0"))[1] == "--spec-draft-model"


def test_variables_of_llama_server_are_its_options() -> None:
    env = [EnvVar(name=n, value=v) for n, v in (("LLAMA_ARG_CTX_SIZE", "8192"), ("HOME", "/"),
           ("LLAMA_ARG_NO_MMAP", "1"), ("LLAMA_ARG_CONT_BATCHING", "0"))]  # fmt: skip
    launch = engines.get("llama-server").read([], env, version_text="b9976")
    found = [(flag.name, flag.value, flag.raw, flag.origin, flag.known) for flag in launch.flags]
    assert found == [
        ("--ctx-size", "8192", "LLAMA_ARG_CTX_SIZE", "env", True),
        ("--mmap", "false", "LLAMA_ARG_NO_MMAP", "env", True),
        ("--cont-batching", "false", "LLAMA_ARG_CONT_BATCHING", "env", True),
    ]
    assert [var.name for var in launch.env] == ["HOME"]
    with pytest.raises(AdvisorError, match=r"^llama-server b99 is not catalogued: .*b\d+"):
        engines.get("llama-server").known_version("b99")


def test_what_is_beside_the_options_of_a_launch() -> None:
    words = ["vllm", "serve", "m", "more", "--trust-remote-code", "true", "--enforce-eager=false"]
    tokens = [Token(word, line) for line, word in enumerate(words, 3)]
    launch = engines.get("vllm").read(tokens, (), version_text="0.25.0")
    assert (launch.model, launch.line, launch.file, launch.form) == ("m", 7, "", "command")
    assert launch.notes == (
        "a switch takes no value: --trust-remote-code is followed by 'true'",
        "a switch takes no value: --enforce-eager is followed by 'false'",
        "vllm 0.25.0 is read as 0.25.1, its minor release", "the argument 'more' was not read",
    )  # fmt: skip
    assert [(stray.name, stray.value, stray.line) for stray in launch.strays] == [("", "more", 6)]
    long = engines.get("vllm").read([Token(word) for word in ("m", "x" * 41)], (), file="f", line=2)
    assert long.notes == (f"the argument '{'x' * 37}...' was not read",)
    assert (long.file, long.line, long.version_pinned) == ("f", 2, False)


def test_keys_of_a_preset_stand_as_they_are_compared() -> None:
    """llama-server compares the keys of its presets; vLLM's YAML goes through its parser."""

    def read_keys(engine: str, origin: str, *keys: str) -> list[tuple[str, bool, str]]:
        items = [(Token(key), Token("8")) for key in keys]
        launch = engines.get(engine).read_mapping(items, origin=origin)
        assert (launch.form, {flag.origin for flag in launch.flags}) == ("config", {origin})
        return [(flag.name, flag.known, flag.raw) for flag in launch.flags]

    assert read_keys("llama-server", "ini", "ctx-size", "ctx_size", "c", "LLAMA_ARG_CTX_SIZE") == [
        ("--ctx-size", True, "ctx-size"), ("--ctx-size", False, "ctx_size"),
        ("--ctx-size", True, "c"), ("--ctx-size", True, "LLAMA_ARG_CTX_SIZE"),
    ]  # fmt: skip
    assert read_keys("vllm", "yaml", "max_num_seq", "max-num-seqs") == [
        ("--max-num-seqs", True, "max_num_seq"), ("--max-num-seqs", True, "max-num-seqs"),
    ]  # fmt: skip
    assert read_keys("vllm", "python", "max_num_seq", "max_num_seqs") == [
        ("max_num_seq", False, "max_num_seq"), ("--max-num-seqs", True, "max_num_seqs"),
    ]  # fmt: skip


def test_engines_that_are_not_ours_are_named_with_those_that_are() -> None:
    with pytest.raises(AdvisorError, match=r"'lama-server'.*vllm.*sglang.* llama-server"):
        engines.get("lama-server")
    label = engines.get("llama-server").label
    assert (label("63d93d173", "b9000"), label("0.5.0", "server-cuda")) == (
        "b9000", "b11312 (0.5.0)",
    )  # fmt: skip


def plain(value: Any) -> Any:
    """As the file has it."""
    if isinstance(value, Match):
        return [value.option.name, *value[1:]]
    return [plain(part) for part in value] if isinstance(value, tuple) else value


def test_a_catalogue_of_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"knowledge/engines/small{end}.json": json.dumps(CASES[part]).encode()
             for end, part in (("", "page"), ("_cold", "cold"))}  # fmt: skip
    monkeypatch.setattr(records, "read_data", texts.__getitem__)
    page = Catalogue("small", "argparse", True)
    for name, arguments, answer in CASES["answers"]:
        made = getattr(page, name)
        made = made(*arguments) if callable(made) else {key: [*made[key]] for key in made}
        assert plain(made) == answer, (name, arguments)
    option = page.option("--all")
    kinds = ("json", "parse_dataclass", "union_dict_and_str", "_parse_type", "<lambda>", "loads")
    assert [page.takes_json(option._replace(type=kind)) for kind in kinds] == [True] * 6


@pytest.mark.parametrize(("engine", "words", "flags", "no_number"), CASES["flags"])
def test_values_as_each_parser_takes_them(
    engine: str, words: str, flags: list[list[Any]] | None, no_number: list[str]
) -> None:
    """Name, value and whether the release knows it so; those whose number no server takes."""
    adapter = engines.get(engine)
    launch = adapter.read([Token(word, unresolved="$" in word) for word in words.split()])
    assert flags in (None, [[flag.name, flag.value, flag.known] for flag in launch.flags])
    assert list(adapter.not_taken(launch, adapter.to_plan(launch))) == no_number
