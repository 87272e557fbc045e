"""What a rule says of the decision, where k or a neighbour changes it."""

from __future__ import annotations

import pytest

from advisor.lint.validate import validate


@pytest.mark.parametrize(("k", "effect"), [(1, "caution"), (2, "loss"), (4, "loss")])
def test_a_separate_draft_is_a_loss_from_two_tokens_on(k: int, effect: str) -> None:
    config = f'{{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":{k}}}'
    text = f"vllm serve Qwen/Qwen3-30B-A3B --speculative-config '{config}'\n"
    report = validate(text=text, hw="h100-sxm", concurrency=1, ctx=2048)
    found = [one.effect for one in report.findings if one.code == "SD427"]
    assert found == [effect]
