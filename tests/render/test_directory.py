"""The folder of an answer."""

from __future__ import annotations

import pytest

from advisor import recommend
from advisor.render.directory import folder


@pytest.mark.parametrize("asked", [{"engine": "vllm"}, {"engine": "sglang", "concurrency": 1}])
def test_no_steps_file_where_one_k_does(asked: dict[str, object]) -> None:
    base = {"hardware": "h200", "concurrency": 16, "what_if": False}
    files = folder(recommend(**(base | asked)))  # type: ignore[arg-type]
    assert not any("adaptive" in text for text in files.values())
