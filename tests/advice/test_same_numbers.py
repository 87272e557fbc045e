"""`recommend`, `validate` and `predict` give the same numbers for the same configuration."""

import itertools
import shlex
from functools import cache
from typing import Any

import pytest

from advisor import predict, recommend, validate
from advisor.advice import judge as judging
from advisor.advice.recommend import check_request
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Advice, AdvisorError, Estimate
from advisor.lint.compare import drafting_estimate
from tests.tables import cells, spread

HARDWARE = ("gb10", "rtx3090", "rtx5090", "h100", "h200", "l40s", "strix-halo", "apple-m4-max")
MODELS = ("qwen3.6-35b-a3b", "qwen3.6-27b", "gemma-4-31b")
LOADS = ((1, 512), (4, 4096), (16, 2048), (64, 2048))
CASES = list(itertools.product(HARDWARE, MODELS))


@cache
def answers(hardware: str, model: str) -> tuple[tuple[dict[str, Any], Advice], ...]:
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
    pairs = [(load, one.estimate, read_back(one)) for load, one in answers(hardware, model)]
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
    assert low <= blank["speedup_p50"] <= high
    assert width(blank) > max(width(few), width(many))
    # published: of a question the GPUs that are not said are one
    published = row | {"concurrency": "4", "source_id": "published"}
    one, unsaid = predict([published | {"gpu_count": "1"}, published])
    assert width(unsaid) > width(one)
