"""One setting has one answer through every door: a row of `predict`, `sweep`, `recommend`,
`compare`, `why-not`, `plan`, the HTTP API and the tools for agents say the same of a question.
"""

import itertools
import json
import random
import shlex
from collections.abc import Iterator
from functools import cache, partial
from math import log
from typing import Any

import pytest

from advisor import predict, validate
from advisor.advice import judge as judging
from advisor.advice.explore.compare import compare, compare_over
from advisor.advice.explore.mix import read_mix
from advisor.advice.explore.mix_plan import plan_mix
from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import Point
from advisor.advice.explore.why_not import why_not
from advisor.advice.judge import attempt
from advisor.advice.recommend import check_request, recommend
from advisor.advice.resolve import facts_for_request
from advisor.cli.serve import api, tools
from advisor.cli.serve.curve import curve_view
from advisor.cli.serve.launch import LaunchQuestion
from advisor.cli.serve.question import check_fields
from advisor.cli.serve.tools import LaunchArguments
from advisor.domain.nouns import Advice, AdvisorError, Estimate, Interval
from advisor.engines.vllm import verifies_adaptively
from advisor.lint.compare import drafting_estimate
from tests.tables import cells, spread

MACHINES = ("gb10", "rtx3090", "rtx4090", "rtx5090", "rtx-pro-6000", "a100-80gb", "h100-sxm",
            "h200", "b200", "mi300x", "apple-m4-max", "strix-halo", "l40s", "rtx3060",
            "apple-m3-ultra", "a10", "l4", "v100")  # fmt: skip
MODELS = ("qwen3.6-35b-a3b", "qwen3.6-35b-a3b", "qwen3.6-27b", "qwen3.8-27b", "qwen3.5-9b",
          "qwen3-8b", "qwen3-next-80b-a3b", "llama-3.3-70b", "gemma-4-31b", "gpt-oss-120b",
          "glm-4.7-flash")  # fmt: skip
# what a row and an option call otherwise
ROW_NAMES = {"gpus": "gpu_count", "ctx_tokens": "input_tokens"}
OPTIONS = {"hardware": "hw", "ctx_tokens": "ctx"}
BLOCKS = (
    ("deepseek-v4-flash", None), ("glm-4.6", None), ("llama-3.3-70b", "eagle3"),
    ("qwen3-8b", "dspark"), ("qwen3.6-27b", "dflash"), ("minimax-m3", "eagle3"),
)  # fmt: skip
METRICS = {"output_tok_s": "output_tok_s", "tpot": "tpot_ms", "ttft": "ttft_ms"}
AGREE = 0.01


NO_COLUMN = {"--enable-expert-parallel", "--ep-size", "--enable-dp-attention"}  # of a row


def questions(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Questions as keywords of `recommend`; what is left out is left to the advisor."""
    draw = random.Random(seed)
    for _ in range(count):
        asked = {
            "hardware": draw.choice(MACHINES),
            "model": draw.choice(MODELS),
            "engine": draw.choice((None, "vllm", "vllm", "sglang", "llama-server")),
            "quant": draw.choice((None, None, None, "fp8", "q4_k_m")),
            "gpus": draw.choice((None, None, None, 2, 3, 4, 8)),
            "concurrency": round(1024 ** draw.random()),
            "ctx_tokens": draw.choice((None, 512, 3000, 8192, 32768)),
            "output_tokens": draw.choice((None, 2, 16, 256, 2048)),
            "workload": draw.choice((None, "chat", "code", "random", "rag")),
            "prefix_share": draw.choice((None, None, 0.5)),
            "output_spread": draw.choice((None, None, 0.0)),
            "goal": draw.choice((None, "throughput", "tpot", "ttft")),
            "max_num_seqs": draw.choice((None, None, None, 64, 256)),
            "max_model_len": draw.choice((None, None, None, 100_000)),
            "memory_fraction": draw.choice((None, None, None, 0.8)),
        }
        if asked["gpus"] == 8 and draw.random() < 0.5:  # two boards, or eight machines of one
            link = draw.choice(("roce", "ethernet"))
            asked |= {"interconnect": link, "gpus": draw.choice((8, 16))}
        yield {name: value for name, value in asked.items() if value is not None}


def block_questions(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Questions where the engine may verify adaptively: long blocks of drafts, vLLM of today."""
    draw = random.Random(seed)
    for _ in range(count):
        model, method = draw.choice(BLOCKS)
        asked = {
            "hardware": draw.choice(("h200", "b200", "b300", "mi355x", "h100-sxm", "a100-80gb")),
            "gpus": draw.choice((4, 8)),
            "model": model,
            "engine": "vllm",
            "concurrency": draw.choice((1, 4, 24, 64, 100, 256)),
            "ctx_tokens": draw.choice((256, 2048, 8192)),
            "output_tokens": draw.choice((256, 1024)),
            "workload": draw.choice(("chat", "code")),
            "goal": draw.choice((None, None, "throughput", "ttft")),
            "method": method,
        }
        yield {name: value for name, value in asked.items() if value is not None}


def answers(count: int, seed: int) -> Iterator[tuple[dict[str, Any], dict[int, Point]]]:
    """Questions that can be answered, with the points of their first method by k. Not those at one
    limit of requests in both arms, which is that of the best k, nor layouts that a row has no
    columns for: stages, whole experts, attention by groups of ranks.
    """
    for asked in questions(count, seed):
        swept = attempt(partial(sweep, check_request(asked), {}))
        if isinstance(swept, AdvisorError) or (load := swept.loads[0]).refusal is not None:
            continue
        points = [point for point in load.points if point.k]
        if any(p.plan.pp > 1 or NO_COLUMN & dict(p.plan.extra).keys() for p in points):
            continue
        if points and load.request.max_num_seqs == asked.get("max_num_seqs"):
            first = points[0].method  # a row has no column for adaptive verification
            yield asked, {p.k: p for p in points if p.method == first and not p.adaptive}


def rows_apart(count: int, seed: int) -> list[tuple[float, dict[str, str]]]:
    """By how much each row and its question differ, in log speed-up, the worst first."""
    rows: list[dict[str, str]] = []
    said: list[Interval] = []
    for asked, points in answers(count, seed):
        row = {ROW_NAMES.get(name, name): str(value) for name, value in asked.items()}
        for k in {min(points), max(points)}:
            for metric, field in METRICS.items():
                spec = {"spec_method": points[k].method, "k": str(k), "speedup_metric": metric}
                rows.append(row | spec)
                said.append(getattr(points[k], field).speedup)
    assert len(rows) > 2 * count
    apart = [
        max(abs(log(row[f"speedup_{name}"] / getattr(own, name))) for name in ("p10", "p50", "p90"))
        for row, own in zip(predict(rows), said, strict=True)
    ]
    return sorted(zip(apart, rows, strict=True), key=lambda pair: -pair[0])


def test_a_row_that_asks_is_answered_as_its_question() -> None:
    worst = rows_apart(40, seed=20261128)[0]
    assert worst[0] <= AGREE, worst


@pytest.mark.slow
def test_many_rows_are_answered_as_their_questions() -> None:
    """A row does not count the prefix cache that cuts a hybrid's limit in its plain arm (3.3 %)."""
    for apart, row in rows_apart(300, seed=20261129):
        assert apart <= (0.034 if "max_num_seqs" in row else AGREE), row


def test_a_row_that_was_run_is_not_completed() -> None:
    """What it leaves blank is not known, nor taken for the plan's: its interval is wider."""
    row = {"model": "qwen3.6-27b", "hardware": "h100-sxm", "engine": "vllm", "spec_method": "mtp"}
    row |= {"k": "2", "concurrency": "32", "input_tokens": "8192", "output_tokens": "512"}
    asks, run, published = predict([row, row | {"speedup": "1.3"}, row | {"source_id": "x"}])
    assert run == published != asks
    assert run["speedup_p90"] / run["speedup_p10"] > asks["speedup_p90"] / asks["speedup_p10"]


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_all_cards_of_llama_server_hold_its_slots(gpus: int) -> None:
    """A row of several cards has the memory of all of them, whether it asks or was run."""
    asked = {"hardware": "rtx3090", "model": "qwen3.8-27b", "engine": "llama-server",
             "quant": "q4_k_m", "concurrency": 32, "ctx_tokens": 8192, "gpus": gpus}  # fmt: skip
    point = sweep(check_request(asked | {"method": "mtp"}), {"k": [2]}).loads[0].points[0]
    row = {"spec_method": "mtp", "k": "2", "max_num_seqs": str(point.plan.max_num_seqs),
           "max_model_len": str(point.plan.max_model_len), "output_tokens": "512",
           "workload": "mixed", "engine_version": str(point.plan.engine_version),
           "kv_cache_dtype": point.plan.kv_cache_dtype or ""}  # fmt: skip
    row |= {ROW_NAMES.get(name, name): str(value) for name, value in asked.items()}
    for told in predict([row, row | {"speedup": "1.3"}]):
        assert told["speedup_p50"] == pytest.approx(point.output_tok_s.speedup.p50, rel=AGREE)


def numbers(estimate: Estimate | Point) -> list[float]:
    """The gains and levels of all metrics."""
    metrics = (estimate.output_tok_s, estimate.tpot_ms, estimate.ttft_ms)
    return [x for m in metrics for x in (m.speedup.p10, m.speedup.p50, m.baseline, m.value)]


def of_json(estimate: dict[str, Any], said: list[float]) -> list[float]:
    """The same of an answer in JSON, which tells no speed-up that cannot be predicted."""
    metrics = [estimate[name] for name in METRICS.values()]
    gains = [m["speedup"] and [m["speedup"]["p10"], m["speedup"]["p50"]] for m in metrics]
    levels = [[m["baseline"], m["value"]] for m in metrics]
    told = [x for g, both in zip(gains, levels, strict=True) for x in (*(g or (None, None)), *both)]
    return [own if x is None else x for own, x in zip(said, told, strict=True)]


def check_doors(asked: dict[str, Any], advice: Advice) -> None:
    """Every other door against `recommend`."""
    request, k, said = check_request(asked), advice.candidate.k, numbers(advice.estimate)
    arm = advice.candidate.method, k, verifies_adaptively(advice.candidate)
    # where TPOT decides, the limit of both runs is that of the best k, which may be left out
    for vary in ({}, {"concurrency": [request.concurrency]}, {"k": [0, k]})[
        : 3 - (request.goal == "tpot")
    ]:
        point = sweep(request, vary).loads[0].best
        assert point is not None and point.arm == arm
        assert numbers(point) == pytest.approx(said, rel=AGREE), vary
    assert sweep(request, {}).loads[0].decision == advice.decision
    other = "h200" if request.hardware != "h200" else "h100-sxm"
    try:
        side = compare(request, (request.hardware, other)).arms[0]
    except AdvisorError as refusal:
        assert str(refusal).startswith(other)
    else:
        assert numbers(side.estimate) == pytest.approx(said, rel=AGREE)
        assert side.advice.decision == advice.decision
    head = why_not(request, f"k={k}").head
    assert ("already recommended" in head) == (advice.decision == "on"), head
    assert arm[2] == (f"k={k} adaptive" in head)
    options = {OPTIONS.get(name, name): value for name, value in asked.items()}
    agent = tools.recommend(check_fields(LaunchArguments, options))[1]
    for told in (
        json.loads(bytes(api.recommend(check_fields(LaunchQuestion, options)).body)),
        agent,
    ):
        assert told["decision"] == advice.decision
        assert of_json(told["estimate"], said) == pytest.approx(said, rel=AGREE)
    if request.goal == "balanced":
        check_plan(asked, advice.gain.p50)


def check_plan(asked: dict[str, Any], gain: float) -> None:
    """A mix of one class is its question."""
    of_class = {"concurrency": "concurrency", "ctx_tokens": "prompt", "output_tokens": "output",
                "workload": "workload", "prefix_share": "prefix_share"}  # fmt: skip
    mix = {name: value for name, value in asked.items() if name not in (*of_class, "goal")}
    one = {key: asked[name] for name, key in of_class.items() if name in asked}
    text = json.dumps(mix | {"classes": [{"name": "one"} | one]})
    layout = next(layout for layout in plan_mix(read_mix(text)).layouts if layout.kind == "on")
    assert layout.gain.p50 == pytest.approx(gain, rel=AGREE)


def check_all_doors(asks: list[dict[str, Any]]) -> None:
    seen = 0
    for asked in asks:
        advice = attempt(partial(recommend, check_request(asked), what_if=False))
        if isinstance(advice, Advice) and advice.candidate is not None:  # something drafts
            seen += 1
            check_doors(asked, advice)
    assert seen > len(asks) / 2


def test_every_door_answers_alike_of_adaptive_verification_too() -> None:
    """Also in a sweep at each load, few and many."""
    check_all_doors([*questions(2, seed=20261130), *block_questions(2, seed=20261202)])
    asked = {"hardware": "mi355x", "gpus": 8, "tp": 8, "model": "deepseek-v4-flash"}
    request = check_request(asked | {"engine": "vllm", "engine_version": "0.33.0"})
    swept = sweep(request, {"concurrency": [1, 256]}).loads
    for load in swept:
        advice = recommend(load.request, what_if=False)
        assert verifies_adaptively(advice.candidate) == load.best_adaptive
        assert numbers(advice.estimate) == pytest.approx(numbers(load.best), rel=AGREE)
    assert [load.best_adaptive for load in swept] == [False, True]
    over = compare_over(swept[1].request, ("dspark", "mtp"), 1).arms[0].points
    assert over[-1].arm == swept[1].best.arm
    page = curve_view(sweep(request, {"concurrency": [1, 16, 128]}), 128)
    assert any("adaptive" in x["text"] for y in page["drawings"][0]["lines"] for x in y["dots"])
    assert "adaptive" in page["table"][-1]["answer"]


@pytest.mark.slow
def test_every_door_answers_alike_on_many_questions() -> None:
    check_all_doors([*questions(20, seed=20261131), *block_questions(20, seed=20261203)])


HARDWARE = ("gb10", "rtx3090", "rtx5090", "h100", "h200", "l40s", "strix-halo", "apple-m4-max")
LOADS = ((1, 512), (4, 4096), (16, 2048), (64, 2048))
CASES = list(itertools.product(HARDWARE, ("qwen3.6-35b-a3b", "qwen3.6-27b", "gemma-4-31b")))


@cache
def launch_pairs(hardware: str, model: str) -> tuple[tuple[dict[str, Any], Advice], ...]:
    """Questions whose best candidate has a launch."""
    found = []
    for concurrency, ctx in LOADS:
        asked = {"hardware": hardware, "model": model}
        load = {"concurrency": concurrency, "ctx_tokens": ctx}
        try:
            advice = recommend(what_if=False, **asked, **load)
        except AdvisorError:
            continue
        if advice.launch_on is not None and advice.estimate is not None:
            found.append((load, advice))
    return tuple(found)


def medians(one: Estimate) -> list[float]:
    return [one.output_tok_s.speedup.p50, one.tpot_ms.speedup.p50, one.p_gain]


def read_back(advice: Advice) -> Estimate | None:
    """What `validate` expects of the launch that `recommend` printed."""
    env = [f"export {name}={shlex.quote(value)}" for name, value in advice.launch_on.env.items()]
    facts = advice.facts
    report = validate(
        text="\n".join([*env, shlex.join(advice.launch_on.argv), ""]),
        hw=facts.hardware.id if facts.hardware else None,
        gpus=facts.gpus,
        concurrency=facts.concurrency,
        ctx=facts.ctx_tokens,
        output_tokens=facts.output_tokens,
        workload=facts.workload,
        engine_version=advice.plan.engine_version,
    )
    return drafting_estimate(report.launches[0])


@pytest.mark.parametrize(("hardware", "model"), spread(CASES, 4))
def test_validate_expects_what_recommend_said(hardware: str, model: str) -> None:
    pairs = [(load, one.estimate, read_back(one)) for load, one in launch_pairs(hardware, model)]
    # elsewhere the file's slots bind its arm without speculation as well
    alike = [row for row in pairs if row[1].terms["requests_base"] == row[2].terms["requests_base"]]
    assert alike
    for load, said, read in alike:
        assert said.terms["requests_verify"] == read.terms["requests_verify"], load
        assert medians(read) == pytest.approx(medians(said), rel=1e-6), load


def test_a_goal_asks_for_the_chance_of_its_metric() -> None:
    for goal, metric in (("throughput", "output_tok_s"), ("tpot", "tpot"), ("ttft", "ttft")):
        asked = {"hardware": "gb10", "concurrency": 4, "ctx_tokens": 8192, "goal": goal}
        question = judging.candidate_plans(facts_for_request(check_request(asked)))
        made = judging.estimate_plans(question.facts, question.plans)
        row = cells("hardware=gb10 model=qwen3.6-35b-a3b concurrency=4 input_tokens=8192 "
                    f"speedup_metric={metric}")  # fmt: skip
        rows = [row | {"spec_method": p.method, "k": str(p.k)} for p in question.plans]
        told = [row["p_gain"] for row in predict(rows)]
        assert told == pytest.approx([one.p_gain for one in made], abs=1e-4), goal


def width(row: dict[str, Any]) -> float:
    """How far the ends of a row's 80 % interval are apart, a ratio."""
    return float(row["speedup_p90"] / row["speedup_p10"])


def test_a_blank_load_spans_what_is_usual() -> None:
    """A row that does not say how many requests run is not answered as one of a single request."""
    row = {"model": "qwen3.6-27b", "hardware": "h100", "engine": "vllm", "spec_method": "mtp"}
    row |= {"k": "3", "input_tokens": "2048", "quant": "fp8"}
    loads = ({"concurrency": "1"}, {"concurrency": "32"}, {})
    few, many, blank = predict([row | {"gpu_count": "1"} | load for load in loads])
    low, high = sorted((few["speedup_p50"], many["speedup_p50"]))
    assert low <= blank["speedup_p50"] <= high and width(blank) > max(width(few), width(many))
    # published: of a question the GPUs that are not said are one
    published = row | {"concurrency": "4", "source_id": "published"}
    one, unsaid = predict([published | {"gpu_count": "1"}, published])
    assert width(unsaid) > width(one)
