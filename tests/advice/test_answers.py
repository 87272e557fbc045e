"""Single answers that a source or a past mistake settles: answers.yaml, a row each."""

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from advisor import recommend
from advisor.domain.nouns import AdvisorError
from advisor.render.text import advice_text
from tests.tables import fields, load_yaml

ROWS = [
    (asked, row)
    for row in load_yaml(Path(__file__).with_name("answers.yaml"))
    for asked in ([row["asked"]] if isinstance(row["asked"], str) else row["asked"])
]


@pytest.mark.parametrize(("asked", "row"), ROWS, ids=[asked for asked, _ in ROWS])
def test_an_answer_has_what_a_source_or_mistake_settles(asked: str, row: dict[str, Any]) -> None:
    assert {*row} <= {"asked", "is", "launch", "lacks", "said", "unsaid", "refused"}
    if "refused" in row:
        with pytest.raises(AdvisorError, match=row["refused"]):
            recommend(**fields(asked), what_if=False)
        return
    made = recommend(**fields(asked), what_if=False)
    for path, value in row.get("is", {}).items():
        assert attrgetter(path)(made) == value, path
    launch = " ".join(made.launch.argv)
    assert [word for word in row.get("launch", ()) if word not in launch] == []
    assert [word for word in row.get("lacks", ()) if word in launch] == []
    text = " ".join(advice_text(made, explain=True).replace("\\\n", "").split())
    assert [word for word in row.get("said", ()) if word not in text] == [], text
    assert [word for word in row.get("unsaid", ()) if word in text] == [], text
