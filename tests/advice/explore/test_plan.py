"""A plan for a mix: one class is `recommend`, splits pay or are refused in words."""

import json
import re
import shlex
from pathlib import Path

import jsonschema
import pytest
from cli_run import run
from click.testing import CliRunner

from advisor.advice.explore.mix import WorkClass, WorkMix, read_mix
from advisor.advice.explore.mix_plan import plan_mix
from advisor.cli.app import cli
from advisor.domain.nouns import AdvisorError, Request
from advisor.render.explore.plan import mix_plan_json, plan_text
from advisor.render.objects import named_schema
from tests.tables import spread


@pytest.mark.parametrize(
    ("hardware", "gpus", "model", "engine", "load"),
    [
        ("h200", 2, "qwen3.6-27b", "vllm", 64),
        ("h200", 4, "qwen3.6-35b-a3b", "sglang", 128),
        ("h100-sxm", 8, "llama-3.3-70b", "vllm", 32),
        ("rtx-pro-6000", 4, "qwen3-32b", "vllm", 128),
        ("l40s", 4, "qwen3.6-27b", "sglang", 64),
        ("rtx3090", 4, "qwen3-8b", "vllm", 16),
    ],
)
def test_one_load_one_server(hardware: str, gpus: int, model: str, engine: str, load: int) -> None:
    """Two classes alike are one load: one layout of all GPUs reaches what two servers do."""
    of_class = {"concurrency": load, "ctx_tokens": 1024, "output_tokens": 512}
    classes = tuple(WorkClass(name=name, **of_class) for name in ("first", "second"))
    asked = {"hardware": hardware, "gpus": gpus, "model": model, "engine": engine}
    made = plan_mix(WorkMix(classes=classes, **asked))
    assert made.chosen < 2
    gains = [one.gain.p50 for one in made.layouts if one.gain is not None]
    assert len(gains) > 2 and max(gains[2:]) < 1.03 * max(gains[:2])


@pytest.mark.parametrize(
    ("hardware", "model", "load"), [("gb10", "qwen3.6-35b-a3b", 16), ("h100", "qwen3.6-27b", 60)]
)
def test_a_class_cut_in_two_is_answered_as_one(hardware: str, model: str, load: int) -> None:
    def server(*parts: int) -> tuple[object, ...]:
        names = (WorkClass(name=f"c{i}", concurrency=n) for i, n in enumerate(parts))
        made = plan_mix(WorkMix(classes=tuple(names), hardware=hardware, model=model)).best
        one = made.instances[0]
        return one.decision, one.plan, one.best, sum(x.output_tok_s for x in made.results)

    *whole, speed = server(load)
    *halves, together = server(load // 2, load // 2)
    assert halves == whole and together == pytest.approx(speed, rel=1e-6)


def test_a_document_beside_chats_leaves_them_their_slots() -> None:
    """By hand: 60 x 1,300 and 100,100 tokens are 178,100 of the 626,000 that the pool holds."""
    chats = WorkClass(name="chats", concurrency=60, ctx_tokens=1000, output_tokens=300)
    paper = WorkClass(name="p", workload="rag", concurrency=1, ctx_tokens=100_000, output_tokens=99)
    asked = {"hardware": "h100", "model": "qwen3.6-27b", "engine": "vllm"}
    plan = plan_mix(WorkMix(classes=(chats, paper), **asked)).layouts[0].instances[0].plan
    assert plan.max_num_seqs >= 61 and plan.max_model_len >= 100_100
    assert plan.kv_cache_dtype is None and plan.tool_call_parser and plan.reasoning_parser
    three = (chats, paper, WorkClass(name="third", concurrency=8))
    text = plan_text(plan_mix(WorkMix(classes=three, gpus=3, **asked)))
    assert text.count("\n  gain ") == 5 and "3 other splits" in text  # of 3 ways to part x 2


def test_a_class_asks_what_a_question_asks_by_default() -> None:
    alone, asked = WorkClass(name="a", concurrency=1), Request(hardware="gb10")
    for name in WorkClass.model_fields.keys() & Request.model_fields:
        assert getattr(alone, name) == getattr(asked, name), name


BAD = {
    "": "table",
    "[]": "table",
    "a: [": "not YAML",
    "hardware: gb10": "classes",
    "hardware: gb10\nclasses: []": "classes",
    "hardware: gb10\ncolour: red\nclasses: [{name: a, concurrency: 1}]": "colour",
    "hardware: gb10\nclasses: [{name: a, concurrency: 1, size: 3}]": "size",
    "hardware: gb10\nclasses: [{name: A b, concurrency: 1}]": "lower-case",
    "hardware: gb10\nclasses: [{name: 'a;b', concurrency: 1}]": "lower-case",
    "hardware: gb10\nclasses: [{concurrency: 1}]": "name",
    "hardware: gb10\nclasses: [{name: a}]": "needs its concurrency",
    "hardware: gb10\nconcurrency: 4\nclasses: [{name: a, concurrency: 1}]": "concurrency",
    "hardware: gb10\nclasses: [{name: a, concurrency: 1}, {name: a, concurrency: 1}]": "same name",
    "hardware: gb10\nclasses: [{name: a, concurrency: .nan}]": "concurrency",
    "hardware: gb10\nclasses: [{name: a, concurrency: 1, prompt: 1.5}]": "prompt",
    "hardware: gb10\nclasses: [{name: a, concurrency: 1, goal: fast}]": "goal",
    "hardware: gb10\nclasses: [{name: a, concurrency: 1, objective: {tpot: 50}}]": "50ms",
    "hardware: gb10\nclasses: [{name: a, concurrency: 1, objective: {itl: 50ms}}]": "itl",
    "hardware: [gb10]\nclasses: [{name: a, concurrency: 1}]": "hardware",
    "hardware: !!python/object:os.system {}\nclasses: []": "not YAML",
    "x" * 70_000: "bytes",
    "hardware: gb10\nclasses: [&a {name: a, concurrency: 1}, *a]": "aliases",
    "hardware: \x1b[31m\nclasses: [{name: a, concurrency: 1}]": "the mix",
    "[" * 5000: "nest",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_mix_that_is_none_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(AdvisorError, match=BAD[text]) as refused:
        read_mix(text)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 300


def test_units_of_objectives() -> None:
    text = "hardware: gb10\nclasses: [{name: a, concurrency: 1, objective: {tpot: 50ms, ttft: 2s}}]"
    work = read_mix(text).classes[0]
    assert (work.max_tpot_ms, work.max_ttft_ms) == (50.0, 2000.0)


ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "explore.md").read_text()
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE, re.S))
COMMANDS = [x for x in SHELL.splitlines() if x.startswith("advisor ") and ".yaml" not in x]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_pages_commands(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, shlex.split(command)[1:])
    assert done.exit_code == 0 and done.output, done.output


def test_the_mix_of_the_page_is_one() -> None:
    made = plan_mix(read_mix(re.findall(r"```yaml\n(.*?)```", PAGE, re.S)[0]))
    told = json.loads(json.dumps(mix_plan_json(made), allow_nan=False))
    jsonschema.Draft202012Validator(named_schema("plan")).validate(told)
    for one in (one for one in made.layouts if one.refusal is None):
        assert [seen.name for seen in one.results] == ["chat", "documents"]
    assert len(COMMANDS) >= 7


GB10 = ["--hw", "gb10", "--concurrency", "8"]
CALLS = {
    "compare": [
        ["gb10", "h100", "--users-within", "tpot=50ms,ttft=2s", "--price", "2.10/h"],
        ["vllm@0.25.1", "vllm@0.32.0", "sglang", *GB10, "--watts", "200"],
        ["fp8", "bf16", "--hw", "h100"],
        ["qwen3.6-35b-a3b", "llama-3.3-70b", "--hw", "h200"],
    ],
    "why-not": [["k=4", *GB10], ["k=2", "--hw", "apple-m4-max"]],
    "sweep": [
        [*GB10, "--vary", "concurrency=1,4,16", "--vary", "k=0..3"],
        ["--hw", "h100", "--vary", "ctx=512,8192", "--users-within", "tpot=50ms"],
        ["--hw", "apple-m4-max", "--engine", "llama-server", "--vary", "concurrency=1,2"],
        ["--hw", "h200", "--model", "qwen2.5-72b", "--vary", "concurrency=1,2"],
        ["--hw", "v100", "--model", "qwen3.5-9b", "--vary", "output_tokens=16,512"],
    ],
    "policy": [["--hw", "gb10", "--concurrency", "1..64"]],
}


@pytest.mark.parametrize(
    ("name", "words"),
    [one for name, calls in CALLS.items() for one in spread([(name, w) for w in calls], 9)],
)
def test_output_is_as_its_schema(name: str, words: list[str]) -> None:
    ran = run("recommend" if name == "policy" else name, *words, "--format", "json")
    assert ran.code == 0, ran.err
    schema = named_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(ran.out), schema)
