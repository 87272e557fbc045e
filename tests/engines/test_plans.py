"""Plans and launches are two readings of one thing: round trips per engine and release, and what
each release accepts. No command line, however odd, makes a reader fall over; what it cannot use it
keeps. Whole readings: test_words.py.
"""

import re
import shlex
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from advisor import engines
from advisor.domain.nouns import AdvisorError, EnvVar, Launch, Plan, Span
from advisor.engines import Token
from advisor.engines.k_ranges import schedule_arguments
from advisor.engines.vllm import speculative_config
from tests.refusals import refusals
from tests.tables import cells, fields

PAIRS = [
    (engine, version)
    for engine in ("vllm", "sglang", "llama-server")
    for version in engines.get(engine).versions
]
MODELS = ("Qwen/Qwen3.6-35B-A3B-FP8", "Qwen/Qwen3.6-27B", "meta/Llama-3.1-8B",
          "a b/'quoted' \"model\"", "/models/x.gguf", "-dash")  # fmt: skip
GGUFS = ("u/Q-GGUF:Q4_K_M", "u/Q-GGUF:sub/q.gguf", "u/Q-GGUF", "/models/x.gguf", "./x",
         "http://h/x.gguf")  # fmt: skip
WORD = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=12
).filter(lambda text: text.strip() == text and "  " not in text and text != "false")


METHODS = ("none", "mtp", "eagle3", "draft_model", "ngram", "dflash", "dspark", "eagle")
DRAFTED = dict.fromkeys(("eagle", "eagle3", "draft_model", "dflash", "dspark"), "a/draft")


@cache
def methods(engine: str, version: str) -> list[str]:
    """Those that a release has."""
    plain = Plan(engine=engine, engine_version=version)
    plans = [plain] + [
        plain.model_copy(update={"method": name, "k": 2, "draft_model": DRAFTED.get(name)})
        for name in METHODS[1:]
    ]
    return [plan.method for plan in plans if launch_or_none(plan) is not None]


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


@st.composite
def plans(draw: st.DrawFn, engine: str, version: str) -> Plan:
    """Canonical plans: what a Plan can say that this engine has words for."""
    method = draw(st.sampled_from(methods(engine, version)))
    model = draw(st.sampled_from(GGUFS if engine == "llama-server" else MODELS))
    fields: dict[str, Any] = {"engine": engine, "engine_version": version, "model": model}
    fields |= {"method": method, "tp": draw(st.integers(1, 8))}
    if method != "none":
        fields["k"] = draw(st.integers(1, 16))
    if method in DRAFTED:
        fields["draft_model"] = "a/draft"
    caches = ("q8_0", "f16") if engine == "llama-server" else ("fp8_e4m3", "auto")
    said = {
        "max_num_seqs": maybe(st.integers(1, 512)),
        "max_num_batched_tokens": maybe(st.integers(1, 65536)),
        "max_model_len": maybe(st.integers(1, 262144)),
        "served_model_name": maybe(st.sampled_from(("q", "my-model"))),
        "port": maybe(st.integers(1, 65535)),
        "host": maybe(st.sampled_from(("0.0.0.0", "127.0.0.1"))),
        "kv_cache_dtype": maybe(st.sampled_from(caches)),
    }
    if engine == "llama-server":
        said["prefix_caching"] = st.sampled_from((None, True, False))
        return Plan(**fields, **draw(st.fixed_dictionaries(said)))
    states = st.sampled_from((None, True, False) if engine == "vllm" else (None, False))
    fields |= draw(
        st.fixed_dictionaries(
            said
            | {"memory_fraction": maybe(st.sampled_from((0.5, 0.85, 0.92)))}
            | {"pp": st.integers(1, 4), "dp": st.integers(1, 4)}
            | {"reasoning_parser": maybe(st.just("qwen3")), "quantization": maybe(st.just("fp8"))}
            | {"tool_call_parser": maybe(st.just("qwen3_coder"))}
            | {"prefix_caching": states, "async_scheduling": states}
        )
    )
    if engine == "sglang":
        fields["mamba_strategy"] = draw(st.sampled_from(("extra_buffer", "no_buffer")))
    if method == "mtp":
        rows = st.tuples(st.integers(1, 8), st.integers(9, 64), st.integers(1, 4))
        fields["k_schedule"] = tuple(draw(st.lists(rows, max_size=3)))
    if engine == "vllm" and method == "mtp":
        extra = draw(st.sampled_from(((), (("--speculative-config.moe_backend", '"triton"'),))))
        fields["extra"] = extra
    return Plan(**fields)


def launch_or_none(plan: Plan) -> Any:
    """The launch, or None where the release has no path for the plan (one sentence says so)."""
    try:
        return engines.get(plan.engine).to_launch(plan)
    except AdvisorError as error:
        assert "known from" in str(error) or "has " in str(error) or "takes " in str(error), error
        return None


@pytest.mark.parametrize(("engine", "version"), PAIRS)
@settings(max_examples=8)
@given(data=st.data())
def test_plan_survives_the_launch(engine: str, version: str, data: st.DataObject) -> None:
    plan = data.draw(plans(engine, version))
    launch = launch_or_none(plan)
    assume(launch is not None)
    adapter = engines.get(engine)
    wanted = adapter.canonical(plan) if plan.k_schedule else plan
    assert adapter.to_plan(launch) == wanted
    argv = adapter.render(launch).argv
    if plan.model != "-dash":
        assert not refusals(engine, argv, version)
    again = adapter.read([Token(word) for word in argv], launch.env, version_text=version)
    if plan.model != "-dash" or engine != "vllm":
        assert adapter.to_plan(again) == wanted


@settings(max_examples=60)
@given(model=WORD, name=WORD)
def test_text_pastes_into_a_shell(model: str, name: str) -> None:
    adapter = engines.get("vllm")
    launch = adapter.to_launch(Plan(engine="vllm", model=model, served_model_name=name))
    rendered = adapter.render(launch)
    assert tuple(shlex.split(rendered.text.replace("\\\n", " "))) == rendered.argv


@pytest.mark.parametrize(
    ("engine", "version", "plan", "says"),
    [
        ("vllm", "0.23.0", {"method": "mtp", "k": 3, "k_schedule": ((1, 8, 3),)}, "from 0.24.0"),
        ("vllm", "0.19.1", {"method": "dspark", "k": 3, "draft_model": "d"}, "known from"),
        ("sglang", "0.5.10", {"method": "dflash", "k": 3, "draft_model": "d"}, "from 0.5.11"),
        ("sglang", "0.5.12", {"method": "mtp", "k": 3, "k_schedule": ((1, 8, 3),)}, "from 0.5.14"),
        ("llama-server", "b8643", {"method": "mtp", "k": 3}, "known from b9180"),
        ("llama-server", "0.5.0", {"method": "eagle", "k": 3}, "no catalogued build has"),
        ("ik_llama.cpp", None, {"method": "mtp", "k": 3}, "llama-server"),
        ("vllm", "7.0.0", {}, "newer than the catalogue"),
        ("vllm", "0.25.1", {"extra": (("--max-num-active-seqs", "8"),)},
         "has no --max-num-active-seqs: it is known from 0.31.0"),
        ("vllm", "0.33.0", {"extra": (("--no-such-option", "1"),)}, "no catalogued release has it"),
        ("vllm", "0.19.1", {"tool_call_parser": "minimax_m3"},
         "has no 'minimax_m3' for --tool-call-parser"),
        ("sglang", "0.5.23", {"extra": (("--cuda-graph-max-bs", "8"),)}, "has no --cuda-graph-"),
    ],
)  # fmt: skip
def test_what_a_release_does_not_know_is_never_written(
    engine: str, version: str | None, plan: dict[str, Any], says: str
) -> None:
    asked = Plan.model_validate({"engine": engine, "engine_version": version} | plan)
    with pytest.raises(AdvisorError, match=says):
        engines.get(engine).to_launch(asked)


def test_canonical_plan_of_sglang_names_the_strategy_that_the_release_needs() -> None:
    adapter = engines.get("sglang")
    asked = "engine_version=0.5.10 model=Qwen/Qwen3.6-35B-A3B-FP8 method=mtp k=3"
    plan = Plan(engine="sglang", prefix_caching=True, **fields(asked))
    launch = adapter.to_launch(plan)
    assert launch.flag("--mamba-scheduler-strategy").value == "extra_buffer"
    assert {v.name: v.value for v in launch.env} == {"SGLANG_ENABLE_SPEC_V2": "1"}
    canonical = adapter.canonical(plan)
    assert adapter.to_plan(launch) == canonical == adapter.canonical(canonical)
    for version in ("0.5.11", "0.5.14", "0.5.23"):
        later = adapter.to_launch(plan.model_copy(update={"engine_version": version}))
        assert not later.env
    assert not any("mamba" in flag.name for flag in later.flags)


@pytest.mark.parametrize(
    ("change", "on"),
    [({}, False), ({"engine_version": "0.26.0"}, True), ({"model": "meta/Llama-3.1-8B"}, True),
     ({"prefix_caching": True}, True)],
)  # fmt: skip
def test_prefix_caching_default_of_hybrids_by_release(change: dict[str, Any], on: bool) -> None:
    hybrid = Plan(engine="vllm", engine_version="0.25.1", model="Qwen/Qwen3.6-35B-A3B-FP8")
    assert engines.get("vllm").effective_prefix_caching(hybrid.model_copy(update=change)) is on


PLAN = Plan(engine="vllm", engine_version="0.33.0", model="m", method="mtp", k=3)
ROWS = ((1, 8, 3), (9, 64, 1))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"engine_version": "0.21.0"}, "0.24.0"),
        ({"dp": 2}, "data parallelism"),
        ({"engine": "llama-server", "engine_version": None}, "one k"),
        ({"engine": "sglang", "engine_version": "0.5.12"}, "0.5.14"),
        ({"engine": "sglang", "engine_version": "0.5.23", "method": "dflash"}, "only"),
    ],
)
def test_what_takes_one_k_only_is_refused(change: dict[str, object], word: str) -> None:
    with pytest.raises(AdvisorError, match=word):
        schedule_arguments(PLAN.model_copy(update=change), ROWS)


def test_a_negative_number_stands_alone_and_a_dash_does_not() -> None:
    """argparse: what matches -1 and -0.5 is a value, other words with a dash an option."""
    words = ["vllm", "serve", "m", "--seed=-1", "--gpu-memory-utilization=-0.5", "--tokenizer=-x"]
    adapter = engines.get("vllm")
    launch = adapter.read([Token(word) for word in words], {}, version_text="0.26.0")
    numbers = ("--seed", "-1", "--gpu-memory-utilization", "-0.5")
    assert adapter.argv(launch)[-5:] == (*numbers, "--tokenizer=-x")


def read(engine: str, text: str, version: str | None = None, **env: str) -> Launch:
    variables = [EnvVar(name=name, value=value) for name, value in env.items()]
    return engines.get(engine).read(
        [Token(word) for word in shlex.split(text)], variables, version_text=version
    )


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


def test_dotted_keys_join_one_object() -> None:
    """vLLM's help: `--json-arg.key1 value1 --json-arg.key2.key3 value2` is one JSON object."""
    name = "--speculative-config"
    rows: list[tuple[str, str | None]] = [(name, '{"key2": {"key3": 1}}')]
    rows += [(f"{name}.key1", "value1"), (f"{name}.key2.key4", "2"), ("--seed", "1")]
    merged = {"key1": "value1", "key2": {"key3": 1, "key4": 2}}
    assert speculative_config(rows) == (merged, [("--seed", "1")])


def spellings(name: str) -> list[str]:
    """Every option of every release, whole, cut short and with a dotted tail."""
    adapter = engines.get(name)
    names = {option for version in adapter.versions for option in adapter.catalogue.names(version)}
    return sorted({text for option in names for text in (option, option[:-1], option + ".a.b")})


WORDS = {name: spellings(name) for name in ("vllm", "sglang", "llama-server")}
ODD = ["", "-", "--", "---", "--=", "-=1", "--no-", "{", '{"a":', "[[[", "null", "-1", "1e999",
       "nan", "128k", "128k9"]  # fmt: skip
ODD += ["$X", "${X}", "é", "\x00", "--speculative-config", "9" * 400]
ODD += [
    '{"method":5,"num_speculative_tokens":[1]}',
    '{"method":"mtp","num_speculative_tokens":true}',
]
ODD += ['{"num_speculative_tokens_per_batch_size":[[1,2]],"model":3}']
ODD += ["mtp:n_max=,=", ",,", "draft-mtp,", "-O", "-O9x", "-tp"]
RELEASE = st.from_regex(r"v?\d{1,3}\.\d{1,3}\.\d{1,3}[-+.]?\w{0,8}", fullmatch=True)
BUILD = st.from_regex(r"b\d{1,9}", fullmatch=True)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server", "ik_llama.cpp"])
@settings(max_examples=60)
@given(data=st.data())
def test_any_arguments(engine: str, data: st.DataObject) -> None:
    pool = WORDS.get(engine, WORDS["llama-server"])
    word = (
        st.sampled_from(pool)
        | st.sampled_from(ODD)
        | st.text(max_size=8)
        | st.integers(-9, 99999).map(str)
    )
    words = data.draw(st.lists(word, max_size=14))
    version = data.draw(st.sampled_from((None, "latest", "b9235", "0.25.1", "0.5.12", "nonsense")))
    adapter = engines.get(engine)
    env = [
        EnvVar(name=n, value=v)
        for n, v in (("LLAMA_ARG_N_PARALLEL", "x"), ("SGLANG_ENABLE_SPEC_V2", None), ("X", "1"))
    ]
    launch = adapter.read(
        [Token(w, 1, 0, None, "$" in w) for w in words], env, version_text=version
    )
    plan = adapter.to_plan(launch)
    kept = sum(w.startswith("-") and len(w) > 1 for w in words)
    assert len(launch.flags) <= kept + 1 + len(env)
    rendered = adapter.render(launch)
    # continued lines, but not a backslash and a line feed inside quotes
    line = re.sub(r"(\"[^\"]*\"|'[^']*')|\\\n", lambda m: m.group(1) or " ", rendered.text)
    if "$'" not in line:  # which bash reads, and shlex does not: tests/cli/test_terminal.py
        assert "\x00" in line or shlex.split(line)[-len(rendered.argv) :] == list(rendered.argv)
    for target in (adapter.versions[0], adapter.newest):
        try:
            adapter.to_launch(plan.model_copy(update={"engine_version": target}))
        except AdvisorError:
            pass


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
@settings(max_examples=50)
@given(text=st.text(max_size=20) | RELEASE | BUILD)
def test_any_version_text(engine: str, text: str) -> None:
    found = engines.get(engine).resolve_version(text)
    assert found.version is None or found.version in engines.get(engine).versions
    assert not found.pinned or found.version is not None
