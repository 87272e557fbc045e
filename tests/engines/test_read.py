"""Golden readings: real command lines in, plan out. Most are from published deployments."""

import shlex
from typing import Any

import pytest

from advisor import engines
from advisor.domain.nouns import EnvVar, Launch, Plan, Span
from advisor.engines import Token
from advisor.engines.vllm import speculative_config
from tests.tables import cells

MTP2 = '\'{"method":"mtp","num_speculative_tokens":2}\''


def read(engine: str, text: str, version: str | None = None, **env: str) -> Launch:
    variables = [EnvVar(name=name, value=value) for name, value in env.items()]
    return engines.get(engine).read(
        [Token(word) for word in shlex.split(text)], variables, version_text=version
    )


CASES: list[tuple[str, str, str | None, dict[str, Any]]] = [
    # vLLM: names, prefixes, JSON, dotted keys, shorthand
    ("vllm", f"vllm serve Qwen/Qwen3.6-27B --speculative-config {MTP2}", "0.25.1",
     {"method": "mtp", "k": 2}),
    ("vllm", "vllm serve m -tp=2 --max_model_len=128k --max-num-seqs 32", "0.33.0",
     {"tp": 2, "max_model_len": 128000, "max_num_seqs": 32}),
    ("vllm", "vllm serve m --max-model-len auto", "0.33.0",
     {"extra": (("--max-model-len", "auto"),)}),
    ("vllm", "vllm serve m --speculative-config.method mtp "
     "--speculative-config.num_speculative_tokens 3", None, {"method": "mtp", "k": 3}),
    ("vllm", "python3 -m vllm.entrypoints.openai.api_server --model m --no-enable-prefix-caching",
     None, {"model": "m", "prefix_caching": False}),
    ("vllm", "vllm serve m --disable-prefix-caching --no-async-scheduling", "0.33.0",
     {"prefix_caching": False, "async_scheduling": False}),
    ("vllm", "vllm serve m --enable-prefix-caching --no-enable-prefix-caching", "0.33.0",
     {"prefix_caching": False}),
    ("vllm", "vllm serve Qwen/Qwen3.5-9B --speculative-config "
     '\'{"method":"qwen3_5_mtp","num_speculative_tokens":4,"moe_backend":"triton"}\'', None,
     {"method": "mtp", "k": 4, "extra": (("--speculative-config.moe_backend", '"triton"'),)}),
    ("vllm", 'vllm serve m --speculative-config \'{"method":"mtp","num_speculative_tokens":3,'
     '"num_speculative_tokens_per_batch_size":[[1,8,3],[9,64,1]]}\'', "0.26.0",
     {"method": "mtp", "k": 3, "k_schedule": ((1, 8, 3), (9, 64, 1))}),
    ("vllm", 'vllm serve Qwen/Qwen3.6-27B --speculative-config \'{"method":"mtp"}\'', None,
     {"method": "mtp", "k": 1}),
    ("vllm", "vllm serve m --speculative-config "
     '\'{"model":"a/eagle3-head","num_speculative_tokens":3}\'', None,
     {"method": "eagle3", "k": 3, "draft_model": "a/eagle3-head"}),
    ("vllm", "vllm serve m --speculative-config "
     '\'{"model":"Qwen/Qwen3.5-0.8B","num_speculative_tokens":5}\'', None,
     {"method": "draft_model", "k": 5, "draft_model": "Qwen/Qwen3.5-0.8B"}),
    ("vllm", "vllm serve m --speculative-config "
     '\'{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}\'', None,
     {"method": "ngram", "k": 4, "extra": (("--speculative-config.prompt_lookup_max", "4"),)}),
    ("vllm", "vllm serve m --speculative-config '{broken'", None,
     {"method": "none", "extra": (("--speculative-config", "{broken"),)}),
    ("vllm",
     "vllm serve m --enable-auto-tool-choice --tool-call-parser qwen3_coder --trust-remote-code",
     None, {"tool_call_parser": "qwen3_coder", "extra": (("--trust-remote-code", None),)}),
    ("vllm", "vllm serve m --tool-call-parser hermes", None,
     {"tool_call_parser": "hermes", "extra": (("--enable-auto-tool-choice", "false"),)}),
    ("vllm", "vllm serve m --max-model-len 128K", "0.33.0", {"max_model_len": 131072}),
    ("vllm", "vllm serve m -O3", "0.33.0", {"extra": (("--optimization-level", "3"),)}),
    # SGLang: algorithms, steps and tokens, automatic choice
    ("sglang", "python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 "
     "--speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 "
     "--speculative-num-draft-tokens 4", "0.5.12", {"method": "mtp", "k": 3}),
    ("sglang", "--model-path Qwen/Qwen3.5-397B-A17B-FP8 --speculative-algorithm EAGLE "
     "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
     "--tp 8", "v0.5.13.post1", {"method": "mtp", "k": 3, "tp": 8}),
    (
        "sglang",
        "--model meta/Llama-3.1-8B --speculative-algo EAGLE --speculative-draft-model-path a/d "
        "--speculative-num-steps 5 --speculative-eagle-topk 8 --speculative-num-draft-tokens 32",
        None,
        {
            "method": "eagle",
            "k": 31,
            "draft_model": "a/d",
            "extra": (
                ("--speculative-num-steps", "5"),
                ("--speculative-eagle-topk", "8"),
                ("--speculative-num-draft-tokens", "32"),
            ),
        },
    ),
    ("sglang", "--model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm NEXTN", "0.5.23",
     {"method": "mtp", "k": 3}),
    ("sglang", "--model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm MTP "
     "--speculative-num-steps 2", None,
     {"method": "mtp", "k": 2, "extra": (("--speculative-num-steps", "2"),)}),
    ("sglang",
     "--model-path Qwen/Qwen3.5-9B --speculative-algorithm NEXTN --speculative-num-steps 1 "
     "--speculative-num-draft-tokens 1", None, {"method": "mtp", "k": 0}),
    ("sglang",
     "--model-path m --disable-radix-cache --context-length 8192 --max-running-requests "
     "16 --mem-fraction-static 0.8", None,
     {"prefix_caching": False, "max_model_len": 8192, "max_num_seqs": 16, "memory_fraction": 0.8}),
    ("sglang", "--model-path m --mamba-scheduler-strategy extra_buffer --cuda-graph-bs 1 2 4",
     "0.5.13", {"mamba_strategy": "extra_buffer", "extra": (("--cuda-graph-bs", "1 2 4"),)}),
    # llama-server: slots, types, old spellings
    ("llama-server",
     "llama-server -m q.gguf -c 65536 -np 4 --spec-type draft-mtp --spec-draft-n-max 2", "b9976",
     {"method": "mtp", "k": 2, "max_num_seqs": 4, "max_model_len": 16384}),
    ("llama-server", "./build/bin/llama-server -m q.gguf -c 65536 -np 4 -kvu", "0.5.0",
     {"max_num_seqs": 4, "max_model_len": 65536, "extra": (("--kv-unified", None),)}),
    ("llama-server", "llama-server -m q.gguf --spec-type draft-mtp", "0.5.0",
     {"method": "mtp", "k": 3}),
    ("llama-server", "llama-server -m q.gguf --spec-type mtp", "b9235", {"method": "mtp", "k": 3}),
    ("llama-server", "llama-server -m q.gguf -md d.gguf", "b8643",
     {"method": "draft_model", "k": 16, "draft_model": "d.gguf"}),
    ("llama-server",
     "llama-server -m q.gguf --spec-type draft-mtp,ngram-mod --spec-draft-n-max 4", None,
     {"method": "mtp", "k": 4, "extra": (("--spec-type", "draft-mtp,ngram-mod"),)}),
    ("llama-server", "llama-server -m q.gguf --spec-type ngram-cache", None,
     {"method": "ngram", "k": 0, "extra": (("--spec-type", "ngram-cache"),)}),
    ("llama-server", "llama-server -m q.gguf -fa -ctk q8_0 -ctv q8_0 -ngl 99", "b6200",
     {"kv_cache_dtype": "q8_0"}),
    ("llama-server", "llama-server -m q.gguf -fa off -ctk q8_0", "0.5.0",
     {"extra": (("--flash-attn", "off"), ("--cache-type-k", "q8_0"))}),
    ("llama-server", "llama-server -m q.gguf --tensor-split 1,1,1", "0.5.0", {"tp": 3}),
    ("llama-server",
     "llama-server -hf unsloth/Qwen3.6-35B-A3B-MTP-GGUF:UD-Q4_K_XL --no-cache-prompt", "0.5.0",
     {"model": "unsloth/Qwen3.6-35B-A3B-MTP-GGUF:UD-Q4_K_XL", "prefix_caching": False}),
    ("ik_llama.cpp", "llama-server -m q-MTP.gguf --spec-type mtp:n_max=2,p_min=0.0", None,
     {"method": "mtp", "k": 2, "extra": (("--spec-type", "mtp:n_max=2,p_min=0.0"),)}),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "text", "version", "expected"), CASES)
def test_golden(engine: str, text: str, version: str | None, expected: dict[str, Any]) -> None:
    plan = engines.get(engine).to_plan(read(engine, text, version))
    found = {name: getattr(plan, name) for name in expected}
    assert found == expected
    if "method" not in expected:
        assert plan.method == "none"


def test_env_of_llama_server_comes_before_the_command_line() -> None:
    env = cells(
        "LLAMA_ARG_N_PARALLEL=8 LLAMA_ARG_SPEC_TYPE=draft-mtp LLAMA_ARG_NO_CACHE_PROMPT=1 "
        "LLAMA_ARG_HF_REPO=u/q HF_TOKEN=x"
    )
    launch = read("llama-server", "llama-server -np 2", "0.5.0", **env)
    plan = engines.get("llama-server").to_plan(launch)
    said = (plan.max_num_seqs, plan.method, plan.prefix_caching, plan.model)
    assert said == (2, "mtp", False, "u/q")
    assert [flag.origin for flag in launch.flags].count("env") == 5
    removed = read("llama-server", "llama-server", "0.5.0", LLAMA_ARG_DRAFT_MAX="8")
    assert not removed.flag("--draft-max").known


def test_mappings_ini_yaml_and_python() -> None:
    def items(**pairs: str) -> list[tuple[Token, Token | None]]:
        return [(Token(name), Token(value)) for name, value in pairs.items()]

    def plan_values(plan: Plan, *names: str) -> tuple[Any, ...]:
        return tuple(getattr(plan, name) for name in names)

    llama, vllm = engines.get("llama-server"), engines.get("vllm")
    keys = cells(
        "np=4 fa=on ctk=q8_0 ctv=q8_0 c=65536 model=/m/q.gguf jinja=true "
        "LLAMA_ARG_SPEC_TYPE=draft-mtp mmap=false"
    )
    preset = llama.read_mapping(items(**keys), origin="ini", version_text="b9976")
    plan = llama.to_plan(preset)
    names = ("max_num_seqs", "max_model_len", "kv_cache_dtype", "method")
    assert plan_values(plan, *names) == (4, 16384, "q8_0", "mtp")
    assert ("--mmap", "false") in plan.extra and all(flag.known for flag in preset.flags)
    keys = cells("model=Qwen/Qwen3.6-27B max_model_len=8192 enable_prefix_caching=False")
    keys["speculative_config"] = '{"method": "mtp", "num_speculative_tokens": 2}'
    plan = vllm.to_plan(vllm.read_mapping(items(**keys), origin="python"))
    names = ("model", "max_model_len", "prefix_caching", "method", "k")
    assert plan_values(plan, *names) == ("Qwen/Qwen3.6-27B", 8192, False, "mtp", 2)
    keys = cells("max-num-seqs=16 tensor-parallel-size=2 no-such-key=1")
    config = vllm.read_mapping(items(**keys))
    assert [flag.name for flag in config.flags if not flag.known] == ["no-such-key"]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_key_of_yaml_is_completed_as_the_command_line_is(engine: str) -> None:
    """Every beginning of an option reads alike in both; Python's keywords take the whole name."""
    adapter = engines.get(engine)
    release = adapter.catalogue.newest
    for name in adapter.catalogue.names(release)[::7]:
        for cut in range(6, len(name)):
            option = adapter.catalogue.find(name[:cut], release)
            if option is None or option.takes_value is False or "." in name[:cut]:
                continue
            pair = [(Token(name[2:cut]), Token("1"))]
            (command,) = adapter.read([Token(f"{name[:cut]}=1")], version_text=release).flags
            (key,) = adapter.read_mapping(pair, version_text=release).flags
            assert (key.name, key.known) == (command.name, command.known), name[:cut]
            (word,) = adapter.read_mapping(pair, origin="python", version_text=release).flags
            assert word.known == (name[:cut] in option.flags), name[:cut]


def test_places_are_kept() -> None:
    text = "vllm serve m --max-num-seqs 32 --max-model-len=8k"
    tokens, at = [], 0
    for word in text.split():
        start = text.index(word, at)
        at = start + len(word)
        tokens.append(Token(word, 7, start, Span(start=start, end=at)))
    places = {flag.name: flag for flag in engines.get("vllm").read(tokens).flags}
    seqs, length = places["--max-num-seqs"], places["--max-model-len"]
    spans = (seqs.span, seqs.value_span, length.value_span)
    assert [text[s.start : s.end] for s in spans] == ["--max-num-seqs 32", "32", "8k"]
    assert (seqs.line, seqs.column) == (7, 13)


@pytest.mark.parametrize(
    ("engine", "text", "version", "pinned"),
    [
        ("vllm", "v0.25.1-cu130", "0.25.1", True), ("vllm", "0.25.0", "0.25.1", True),
        ("vllm", "latest", None, False), ("vllm", "0.26.1rc1.dev12", None, False),
        ("vllm", "0.99.0", None, False), ("vllm", None, None, False),
        ("sglang", "v0.5.10.post1-cu130", "0.5.10", True), ("sglang", "0.5.8", "0.5.9", False),
        ("llama-server", "server-cuda-b9553", "b9553", True),
        ("llama-server", "b9235", "b9445", True), ("llama-server", "b9000", "63d93d173", True),
        ("llama-server", "0.3.0", "b10705", False), ("llama-server", "f49e9178767d", "b8643", True),
        ("llama-server", "b11312", "0.5.0", True), ("llama-server", "0.4.0", "b10878", False),
        ("llama-server", "b10870", "b10825", True), ("llama-server", "b11311", "b11223", True),
        ("llama-server", "b99999", None, False), ("llama-server", "deadbeef", None, False),
        ("llama-server", "server-cuda", None, False),
    ],
)  # fmt: skip
def test_versions(engine: str, text: str | None, version: str | None, pinned: bool) -> None:
    found = engines.get(engine).resolve_version(text)
    assert (found.version, found.pinned) == (version, pinned)
    assert found.version is not None or not text or found.note


def test_dotted_keys_join_one_object() -> None:
    """vLLM's help: `--json-arg.key1 value1 --json-arg.key2.key3 value2` is one JSON object."""
    name = "--speculative-config"
    rows: list[tuple[str, str | None]] = [(name, '{"key2": {"key3": 1}}')]
    rows += [(f"{name}.key1", "value1"), (f"{name}.key2.key4", "2"), ("--seed", "1")]
    merged = {"key1": "value1", "key2": {"key3": 1, "key4": 2}}
    assert speculative_config(rows) == (merged, [("--seed", "1")])
