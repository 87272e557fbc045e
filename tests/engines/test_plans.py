"""Plans and launches are two readings of one thing: round trips per engine and release, and what
each release accepts.
"""

import json
import shlex
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from advisor import engines
from advisor.domain.nouns import AdvisorError, Plan
from advisor.engines import Token
from advisor.engines.k_ranges import schedule_arguments
from tests.refusals import refusals
from tests.tables import fields

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
    limits = {"max_num_seqs": 512, "max_num_batched_tokens": 65536, "max_model_len": 262144}
    fields |= {name: draw(maybe(st.integers(1, top))) for name, top in limits.items()}
    fields["served_model_name"] = draw(maybe(st.sampled_from(("q", "my-model"))))
    fields["port"] = draw(maybe(st.integers(1, 65535)))
    fields["host"] = draw(maybe(st.sampled_from(("0.0.0.0", "127.0.0.1"))))
    fields["kv_cache_dtype"] = draw(
        maybe(
            st.sampled_from(("q8_0", "f16") if engine == "llama-server" else ("fp8_e4m3", "auto"))
        )
    )
    if engine == "llama-server":
        fields["prefix_caching"] = draw(st.sampled_from((None, True, False)))
        return Plan(**fields)
    fields["memory_fraction"] = draw(maybe(st.sampled_from((0.5, 0.85, 0.92))))
    fields |= {"pp": draw(st.integers(1, 4)), "dp": draw(st.integers(1, 4))}
    fields |= {
        "reasoning_parser": draw(maybe(st.just("qwen3"))),
        "tool_call_parser": draw(maybe(st.just("qwen3_coder"))),
    }
    fields["quantization"] = draw(maybe(st.just("fp8")))
    states = (None, True, False) if engine == "vllm" else (None, False)
    fields |= {
        "prefix_caching": draw(st.sampled_from(states)),
        "async_scheduling": draw(st.sampled_from(states)),
    }
    if engine == "sglang":
        fields["mamba_strategy"] = draw(st.sampled_from(("extra_buffer", "no_buffer")))
    if engine != "llama-server" and method == "mtp":
        rows = st.tuples(st.integers(1, 8), st.integers(9, 64), st.integers(1, 4))
        fields["k_schedule"] = tuple(draw(st.lists(rows, max_size=3)))
    if engine == "vllm" and method == "mtp":
        extra = draw(st.sampled_from(((), (("--speculative-config.moe_backend", '"triton"'),))))
        fields["extra"] = extra
    return Plan(**fields)


def launch_or_none(plan: Plan) -> Any:
    """The launch, or None where the release has no path for the plan (it must say so in one
    sentence).
    """
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
    found = engines.get("vllm").effective_prefix_caching(hybrid.model_copy(update=change))
    assert found is on


PLAN = Plan(engine="vllm", engine_version="0.33.0", model="m", method="mtp", k=3)
ROWS = ((1, 8, 3), (9, 64, 1))


def test_vllm_says_the_ranges_in_its_speculative_config() -> None:
    name, value = schedule_arguments(PLAN, ROWS).arguments
    told = json.loads(value)
    assert name == "--speculative-config"
    assert told["num_speculative_tokens_per_batch_size"] == [[1, 8, 3], [9, 64, 1]]
    assert told["num_speculative_tokens"] == 3


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
    """argparse takes what matches -1 and -0.5 for values, every other word with a dash for an
    option.
    """
    words = ["vllm", "serve", "m", "--seed=-1", "--gpu-memory-utilization=-0.5", "--tokenizer=-x"]
    adapter = engines.get("vllm")
    launch = adapter.read([Token(word) for word in words], {}, version_text="0.26.0")
    numbers = ("--seed", "-1", "--gpu-memory-utilization", "-0.5")
    assert adapter.argv(launch)[-5:] == (*numbers, "--tokenizer=-x")
