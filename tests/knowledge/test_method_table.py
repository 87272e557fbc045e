"""The launch of each way of drafting, for the models most served: written down, taken by the
catalogue of the engine's arguments, and none left out.
"""

from pathlib import Path

from advisor import recommend
from advisor.advice import judge
from tests import method_table

PAGE = Path(__file__).parents[2] / "docs" / "drafters.md"


def test_the_page_is_up_to_date() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == method_table.table(), f"python -m tests.method_table > {PAGE.name}"


def test_every_launch_is_taken_by_the_catalogue() -> None:
    """No unknown flag, value, key, method or combination (SD1xx), nor one that does not start."""
    refused = {}
    for way in method_table.ways():
        if way.plan is not None and way.facts is not None:
            found = judge.judge(way.facts, way.plan, None).findings
            if errors := {f.code: f.message for f in found if f.severity == "error"}:
                refused[way.model, way.word, way.engine] = errors
    assert not refused


def test_no_published_way_is_answered_none() -> None:
    """Each head and drafter has a launch, and its model is never answered "nothing drafts"."""
    for model in method_table.top_models():
        mine = [way for way in method_table.ways() if way.model == model]
        words = {way.word for way in mine if way.word not in method_table.ALWAYS}
        assert words <= {way.word for way in mine if way.plan is not None}, model
        if words:
            engine = next(way.engine for way in mine if way.plan is not None)
            answer = recommend(**method_table.MACHINE, model=model, engine=engine, what_if=False)
            assert answer.candidate is not None and answer.decided_by != "no_method", model
