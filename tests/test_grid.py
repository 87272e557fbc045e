"""Over a fixed grid of 2,000 requests: what `recommend` emits is accepted by the catalogue and by `validate`."""

from __future__ import annotations

from collections import Counter

import pytest

from advisor import engines
from advisor.types import Advice
from advisor.validating import validate
from tests.grid import advices, launches

SLICES = 8  # the grid in slices, so that several processes share it


def part(index: int) -> list[Advice]:
    found = [a for i, (_, a) in enumerate(advices()) if i % SLICES == index]
    return [a for a in found if isinstance(a, Advice)]


def test_most_requests_get_an_answer_and_refusals_are_sentences() -> None:
    answers = [a for _, a in advices()]
    refusals = [str(a) for a in answers if not isinstance(a, Advice)]
    assert len(answers) == 2000
    assert len(refusals) < 0.6 * len(answers), Counter(refusals).most_common(5)
    assert all(len(text) > 20 and "\n" not in text and "Traceback" not in text for text in refusals)


@pytest.mark.parametrize("index", range(SLICES))
def test_every_emitted_launch_is_accepted_by_the_catalogue(index: int) -> None:
    for advice in part(index):
        for engine, version, argv, _ in launches(advice):
            assert engines.get(engine).problems(argv, version) == (), argv


@pytest.mark.parametrize("index", range(SLICES))
def test_validate_agrees_with_recommend(index: int) -> None:
    for advice in part(index):
        request = advice.request
        report = validate(
            text=advice.launch.text,
            engine_version=advice.plan.engine_version,
            hw=request.hardware,
            gpus=request.gpus,
            concurrency=request.concurrency,
            ctx=request.ctx_tokens,
            output_tokens=request.output_tokens,
            workload=request.workload,
        )
        errors = [f for f in report.findings if f.severity == "error"]
        assert not errors, (request, errors[0])
        known = {f.code for f in advice.plan_findings}
        extra = {f.code for f in report.findings if f.severity == "warning"} - known
        assert not extra, (request, extra, advice.launch.text)
