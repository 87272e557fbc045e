"""Over 1,000 fixed requests: what `recommend` emits passes the catalogue and `validate`."""

from __future__ import annotations

from collections import Counter

import pytest

from advisor.advice.plans import topology
from advisor.domain.nouns import Advice
from advisor.lint.validate import validate
from advisor.perf import memory
from advisor.perf.sizes.pools import shares_context
from tests.grid import advices, launches
from tests.refusals import refusals

PARTS = 20  # the grid in slices, so that several processes share it
SLOW = [pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS // 2)]


@pytest.mark.parametrize("part", [0, *SLOW])  # 100 requests in a quick run
def test_grid(part: int) -> None:
    answers = [a for _, a in advices(part, PARTS)]
    assert len(answers) == 2000 // PARTS
    given = [a for a in answers if isinstance(a, Advice)]
    refusals = [str(a) for a in answers if not isinstance(a, Advice)]
    assert len(refusals) < 0.5 * len(answers), Counter(refusals).most_common(5)
    assert all(len(text) > 20 and "\n" not in text for text in refusals)
    for advice in given:
        check_catalogue(advice)
        check_validate(advice)
        check_memory(advice)


def check_memory(advice: Advice) -> None:
    """Every arm starts, and has no more slots than the memory holds; experts in system memory are
    not billed to the card.
    """
    for arm in (advice.plan, advice.plan_off, advice.candidate):
        if arm is None:
            continue
        served = memory.replica(advice.facts, arm)
        tokens = (served.ctx_tokens or 2048) + (served.output_tokens or 512)
        room = memory.room(served, arm, tokens)
        assert memory.bill(served, arm).fits is not False, (advice.request, arm)
        # slots that share a context are more than the long requests that it holds
        slots = served.concurrency if shares_context(arm) else arm.max_num_seqs
        assert room is None or (slots or 1) <= max(room, 1.0), (advice.request, arm)


def check_catalogue(advice: Advice) -> None:
    for engine, version, argv, _ in launches(advice):
        assert version is None or not refusals(engine, argv, version), argv


def check_validate(advice: Advice) -> None:
    """No error on what is to be run, and no warning that the recommendation does not carry
    itself.
    """
    request = advice.request
    alone = (
        topology.spans(advice.facts) and advice.plan.dp > 1
    )  # the launch is that of one machine, with its share of the requests
    served = memory.replica(advice.facts, advice.plan) if alone else advice.facts
    report = validate(
        text=advice.launch.text,
        engine_version=advice.plan.engine_version,
        hw=request.hardware,
        gpus=served.gpus,
        concurrency=served.concurrency,
        ctx=request.ctx_tokens,
        output_tokens=request.output_tokens,
        workload=request.workload,
    )
    errors = [f for f in report.findings if f.severity == "error"]
    assert not errors, (request, errors[0], advice.launch.text)
    known = {f.code for f in advice.plan_findings}
    extra = {f.code for f in report.findings if f.severity == "warning"} - known
    assert not extra, (request, extra, advice.launch.text)
