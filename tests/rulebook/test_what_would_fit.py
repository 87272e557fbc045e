"""What SD301 proposes where the weights do not fit: the least change of each kind."""

from __future__ import annotations

import re

import pytest

from advisor.lint.validate import validate


def advice_text(model: str, hw: str, options: str = "") -> str:
    text = f"vllm serve {model} --max-model-len 4096 {options}\n"
    report = validate(text=text, hw=hw, concurrency=1, ctx=1024, select=["SD301"])
    (found,) = report.findings
    assert found.fix is not None
    return found.fix.text


def test_both_ways_are_named() -> None:
    said = advice_text("Qwen/Qwen3-32B", "rtx3090")
    found = re.fullmatch(
        r"Use a quantisation of at most (\d+\.\d) bits per weight \(now 16\) or tensor parallel "
        r"over (\d+) such devices\.",
        said,
    )
    assert found, said
    assert 4 < float(found[1]) < 7 and found[2] == "4"  # 61 GiB of weights on 24 GiB cards


@pytest.mark.parametrize(("tp", "cards"), [(1, 4), (2, 4)])
def test_more_cards_than_there_are(tp: int, cards: int) -> None:
    said = advice_text("Qwen/Qwen3-32B", "rtx3090", f"-tp {tp}" if tp > 1 else "")
    assert f"tensor parallel over {cards} such devices" in said


def test_a_larger_model_needs_more_cards_and_fewer_bits() -> None:
    small, large = (
        advice_text(model, "rtx3090") for model in ("Qwen/Qwen3-32B", "Qwen/Qwen3-235B-A22B-FP8")
    )
    bits = [float(re.findall(r"at most (\d+\.\d)", one)[0]) for one in (small, large)]
    assert bits[1] < bits[0]
    assert "(now 8)" in large or "(now 8." in large
