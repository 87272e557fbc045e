"""Published runs of one model split in several ways: is the order the measured one?"""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from advisor.advice.judge import estimate_plans
from advisor.advice.plans import propose
from advisor.advice.resolve import bare_facts
from advisor.domain.nouns import Request

TABLE = Path(__file__).with_name("published_layouts.csv")
ALIKE = 0.03  # speeds as near as this have no order


class Group(NamedTuple):
    """One question: its name, and measured and expected tokens per second of each layout."""

    name: str
    measured: list[float]
    expected: list[float]


def expected_speed(row: dict[str, str]) -> float:
    """Output tok/s of a row's layout without speculation, while a request decodes."""
    gpus = int(row["gpus"])
    asked = {name: row[name] for name in ("hardware", "model", "quant", "engine")}
    facts = bare_facts(
        Request.model_validate(
            asked
            | {"gpus": gpus, "interconnect": row["link"] if gpus > 1 else None}
            | {"concurrency": int(row["requests"]), "ctx_tokens": int(row["prompt"])}
            | {"output_tokens": int(row["output"])}
        )
    )
    plans = propose.base_plans(facts, (int(row["tp"] or gpus), 1))
    plan = plans[-1] if row["mode"] == "tensor" else plans[0]
    assert row["mode"] in ("", dict(plan.extra).get("--split-mode"))
    (estimate,) = estimate_plans(facts, [plan])
    assert estimate.tpot_ms.baseline is not None
    return 1e3 / estimate.tpot_ms.baseline * int(row["requests"])


def read_groups() -> list[Group]:
    with TABLE.open(encoding="utf-8") as lines:
        rows = [*csv.DictReader(line for line in lines if not line.startswith("#"))]
    parts = groupby(
        rows, lambda r: " ".join(r[n] for n in ("source", "model", "requests", "prompt"))
    )
    return [
        Group(name, [float(r["tok_s"]) for r in each], [expected_speed(r) for r in each])
        for name, part in parts
        if (each := list(part))
    ]


def test_the_order_of_published_layouts() -> None:
    right, ties, ratios = 0, 0, []
    for name, measured, own in (found := read_groups()):
        seen, here = (values[1] / values[0] for values in (measured, own))
        ratios.append(here / seen)
        tie = abs(seen - 1) < ALIKE
        ties += tie
        right += not tie and (seen > 1) == (here > 1)
        print(f"{name}: measured {seen:.2f}, expected {here:.2f}")
    asked = len(found) - ties
    off = sorted(max(ratio, 1 / ratio) - 1 for ratio in ratios)
    print(f"order right in {right} of {asked}, median error of the ratio {off[len(off) // 2]:.0%}")
    assert len(found) >= 9 and right >= asked - 1  # as reached: the P100's mixture is the other one
    assert off[len(off) // 2] < 0.15
