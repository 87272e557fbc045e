"""Published runs of one model in several layouts: is the order the measured one, is the first the
best, and how far is the ratio off?
"""

import csv
import re
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from advisor.advice.judge import estimate_plans, replica_bill
from advisor.advice.plans import propose
from advisor.advice.resolve import bare_facts
from advisor.domain.nouns import Facts, Plan, Request
from advisor.knowledge import store
from advisor.perf.sizes.device import GRAPHS

TABLE = Path(__file__).with_name("published_layouts.csv")
ALIKE = 0.03  # speeds as near as this have no order


class Group(NamedTuple):
    """One question: measured and expected tokens per second of each layout."""

    row: dict[str, str]
    layouts: list[str]
    measured: list[float]
    expected: list[float]

    @property
    def errors(self) -> list[float]:
        """How far each ratio of two layouts is off, as a share."""
        pairs = combinations(zip(self.measured, self.expected, strict=True), 2)
        return [abs(float(np.log(a[1] / b[1] / (a[0] / b[0])))) for a, b in pairs]

    @property
    def is_ordered(self) -> bool | None:
        """Whether all pairs are in the measured order; None where they are alike."""
        pairs = combinations(zip(self.measured, self.expected, strict=True), 2)
        apart = [(a, b) for a, b in pairs if abs(np.log(a[0] / b[0])) >= ALIKE]
        return all((a[0] > b[0]) == (a[1] > b[1]) for a, b in apart) if apart else None

    @property
    def best(self) -> bool:
        """Whether the layout of the highest estimate was the fastest, or as good as it."""
        return self.measured[int(np.argmax(self.expected))] >= max(self.measured) * (1 - ALIKE)


def facts_of(row: dict[str, str], gpus: int) -> Facts:
    """What is known of a row on so many cards."""
    asked = {name: row[name] for name in ("hardware", "model", "engine")}
    prompt, *cached = row["prompt"].split()
    link, *lanes = row["link"].split() or [""]
    fork = row["quant"] == "q2_k" and row["engine"] == "vllm"  # a fork of vLLM runs GGUF's weights
    facts = bare_facts(
        Request.model_validate(
            asked
            | {"gpus": gpus, "interconnect": link or None if gpus > 1 else None}
            | {"quant": "int4" if fork else row["quant"], "concurrency": int(row["requests"])}
            | {"ctx_tokens": int(prompt), "output_tokens": int(row["output"])}
            | {"prefix_share": 0.99 if cached else 0.0}
        )
    )
    if fork:
        quant = store.quant("q2_k").model_copy(update={"family": "int4"})
        facts = facts.model_copy(update={"quant": quant})
    if lanes and facts.hardware is not None and facts.hardware.link_gb_s is not None:
        slow = facts.hardware.link_gb_s.model_copy(update={"value": 0.25})
        hardware = facts.hardware.model_copy(update={"link_gb_s": slow})
        facts = facts.model_copy(update={"hardware": hardware})
    return facts


def plan_of(row: dict[str, str], layout: str) -> tuple[Facts, Plan]:
    """The plan of "TP4 DP2", "TP8 AD8 EP8", "layer2" or "tensor4", with the row's drafts."""
    sizes = {name: int(n) for name, n in re.findall(r"([A-Za-z]+)(\d+)", layout)}
    mode = next((name for name in sizes if name in ("layer", "tensor")), "")
    ranks = sizes.get("TP", 1) * sizes.get("PP", 1)
    facts = facts_of(row, sizes[mode] if mode else ranks * sizes.get("DP", 1))
    if mode:
        plans = propose.base_plans(facts, (facts.gpus, 1))
        plan = plans[-1] if mode == "tensor" else plans[0]
        if facts.gpus % 2:  # by rows then, over three cards, which is no option of ours
            plan = plan.model_copy(update={"extra": (("--split-mode", mode),)})
        assert facts.gpus == 1 or mode == dict(plan.extra)["--split-mode"]
    else:
        split = (ranks, sizes.get("DP", 1))
        plan = propose.base_plan(facts, split, sizes.get("AD", 1), sizes.get("PP"))
        extra = [row for row in plan.extra if row[0] != GRAPHS]  # published: the engine's own
        if experts := sizes.get("EP"):
            flag = {"sglang": ("--ep-size", str(experts))}
            extra.append(flag.get(plan.engine, ("--enable-expert-parallel", None)))
        plan = plan.model_copy(update={"extra": tuple(extra)})
    method, *k = row["drafts"].split()[:2] or [""]
    return facts, propose.with_method(facts, plan, method, int(k[0])) if method else plan


def expected_speed(row: dict[str, str], layout: str) -> float:
    """Output tok/s of a row's layout: of the run, or of all requests that it holds."""
    facts, plan = plan_of(row, layout)
    (found,) = estimate_plans(facts, [plan])
    drafts = plan.method != "none"
    if row["metric"] == "output":
        return (found.output_tok_s.value if drafts else found.output_tok_s.baseline) or 0.0
    load, bill = int(row["requests"]), replica_bill(facts, plan)
    slots = [n * plan.dp for n in (bill.requests, plan.max_num_seqs) if n is not None]
    return (
        1e3 / ((found.tpot_ms.value if drafts else found.tpot_ms.baseline) or 0) * min(load, *slots)
    )


def read_groups() -> list[Group]:
    with TABLE.open(encoding="utf-8") as lines:
        rows = [*csv.DictReader(line for line in lines if not line.startswith("#"))]
    groups = []
    for row in rows:
        parts = [part.rsplit(" ", 1) for part in row["measured"].split(" | ")]
        own = [expected_speed(row, layout) for layout, _ in parts]
        groups.append(Group(row, [p[0] for p in parts], [float(p[1]) for p in parts], own))
    return groups


def report(groups: list[Group], title: str) -> tuple[float, float, float]:
    """Shares of the orders and the first layouts that are right, and the median ratio error."""
    orders = [g.is_ordered for g in groups if g.is_ordered is not None]
    firsts, off = [g.best for g in groups], sorted(e for g in groups for e in g.errors)
    order, first = (sum(found) / len(found) for found in (orders, firsts))
    median = float(np.expm1(off[len(off) // 2]))
    print(
        f"{title}: order right in {sum(orders)} of {len(orders)}, first layout in {sum(firsts)} of "
        f"{len(firsts)}, median error of a ratio {median:.0%}"
    )
    return order, first, median


def test_published_layouts_are_ordered_as_measured() -> None:
    groups = read_groups()
    assert (len(groups), len({g.row["source"].split("/")[0] for g in groups})) == (65, 24)
    for group in groups:
        names = [f"{name} {seen:g} ({own:.0f})" for name, seen, own in zip(*group[1:], strict=True)]
        word = {None: "alike", True: "right", False: "wrong"}[group.is_ordered]
        print(word, *(group.row[n] for n in ("source", "model", "requests")), *names, sep=", ")
    outside = [g for g in groups if not g.row["used"]]
    report([g for g in groups if g.row["used"]], "of which constants were derived")
    order, first, median = report(outside, "others")
    assert order > 0.83 and first > 0.86 and median < 0.15  # as reached
