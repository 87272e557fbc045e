"""`recommend`, `validate` and `predict` give the same numbers for the same configuration."""

from __future__ import annotations

import itertools
import shlex
from functools import cache
from typing import Any

import pytest

from advisor import predict, recommend, validate
from advisor.domain.nouns import Advice, AdvisorError, Estimate

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
    assert advice.launch_on is not None
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
    estimate: Estimate | None = report.launches[0].estimate
    return estimate


@pytest.mark.parametrize(("hardware", "model"), CASES)
def test_validate_expects_what_recommend_said(hardware: str, model: str) -> None:
    for load, advice in answers(hardware, model):
        said, read = advice.estimate, read_back(advice)
        assert said is not None and read is not None
        if said.terms["requests_base"] != read.terms["requests_base"]:
            continue  # the file's slots bind its arm without speculation as well
        assert said.terms["requests_verify"] == read.terms["requests_verify"], load
        assert medians(read) == pytest.approx(medians(said), rel=1e-6), load


def row_of(advice: Advice) -> dict[str, str]:
    """The same configuration as a row of a table."""
    facts, plan = advice.facts, advice.candidate
    assert facts.hardware and facts.model and facts.quant and plan is not None
    words = {
        "model": facts.model.id,
        "quant": facts.quant.id,
        "hardware": facts.hardware.id,
        "gpu_count": facts.gpus,
        "tp": plan.tp,
        "engine": plan.engine,
        "engine_version": plan.engine_version,
        "spec_method": plan.method,
        "k": plan.k,
        "concurrency": facts.concurrency,
        "input_tokens": facts.ctx_tokens,
        "output_tokens": facts.output_tokens,
        "workload": facts.workload,
        "temperature": facts.temperature,
        "thinking": facts.thinking,
        "prefix_caching": plan.prefix_caching,
        "prefix_share": 0,
        "max_num_seqs": plan.max_num_seqs,
        "max_num_batched_tokens": plan.max_num_batched_tokens,
        "kv_cache_dtype": plan.kv_cache_dtype,
    }
    text = {name: "" if value is None else str(value) for name, value in words.items()}
    return {name: value.lower() if value in ("True", "False") else value
            for name, value in text.items()}  # fmt: skip


def test_a_row_of_the_same_configuration_is_predicted_the_same() -> None:
    """Where memory lets all requests run and nothing beside measured runs is documented: a row says
    nothing of a memory share, and no rule is asked of a row.
    """
    compared = 0
    for hardware, model in CASES:
        rows, said = [], []
        for _, advice in answers(hardware, model):
            one = advice.estimate
            assert one is not None and advice.candidate is not None
            documented = any(f.effect in ("loss", "caution") for f in advice.findings)
            waits = one.terms["requests_verify"] < (advice.facts.concurrency or 1)
            if documented or waits or advice.candidate.dp > 1:
                continue
            rows.append(row_of(advice))
            said.append(one.output_tok_s.speedup)
        for row, told, span in zip(rows, predict(rows), said, strict=True):
            assert told["error"] is None, row
            found = [told[f"speedup_{name}"] for name in ("p10", "p50", "p90")]
            assert found == pytest.approx([span.p10, span.p50, span.p90], rel=1e-3), row
            compared += 1
    assert compared > 30
