"""One launch or file at which the program fails takes no other with it, and no number of a file
makes it fail: zero, negative, no number, or more than there can be.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor import engines, rules
from advisor.cli.validate import validate as command
from advisor.lint.report import Report
from advisor.lint.validate import validate
from advisor.perf import memory

HEADS = {
    "vllm": "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config "
    '\'{"method":"mtp","num_speculative_tokens":2}\'',
    "sglang": "python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 "
    "--speculative-algorithm EAGLE",
    "llama-server": "llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp",
}
LOAD: dict[str, Any] = {"hw": "h100", "concurrency": 4, "ctx": 2048, "changes": True}
VALUES = ("0", "-1", "nan", "inf", str(10**20), "1e308", "", "9" * 5000, "1024", "2147483647")
NUMBERS = ("int", "float", "human_readable_int", "human_readable_int_or_auto")


def options(engine: str) -> list[str]:
    """The options of the newest release that take a number, and those that a plan reads."""
    adapter = engines.get(engine)
    known = adapter.catalogue
    typed = {
        name
        for name in known.names()
        if (option := known.option(name, adapter.newest)) is not None and option.type in NUMBERS
    }
    read = {name for name, field in adapter.FIELDS.items() if field.bounds is not None}
    counts = {name for name in adapter.COUNTS if "." not in name}
    assert read | counts <= set(known.names()) and len(typed) > 20
    return sorted(typed | read | counts)


def judge(text: str) -> Report:
    return validate(text=text, name="a.sh", **LOAD)


@pytest.mark.parametrize("engine", HEADS)
def test_no_number_of_a_file_makes_it_fail(engine: str) -> None:
    failed = []
    for value in VALUES:
        lines = [f"{HEADS[engine]} {name} {shlex.quote(value)}" for name in options(engine)]
        report = judge("\n".join(lines) + "\n")
        assert sum(one.launches for one in report.files) == len(lines)
        failed += [(lines[one.line - 1], one.reason) for one in report.failures]
    assert not failed
