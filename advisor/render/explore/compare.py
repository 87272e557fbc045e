"""Comparison and why-not: text, and the JSON that their schemas describe."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from advisor.advice.explore.compare import (
    ArmOverLoads,
    ComparedArm,
    Comparison,
    Kind,
    LoadComparison,
)
from advisor.advice.explore.values import Point, Rate, Within
from advisor.advice.explore.why_not import WhyNot
from advisor.render.json_out import ANSWER
from advisor.render.layout import (
    PAGE,
    Paper,
    Rows,
    columns,
    heading,
    number,
    users_size,
    users_words,
)
from advisor.render.objects import Shape, list_of, schema_of
from advisor.render.text_sections import drafts_note

_SPEEDS = {"output_tok_s": "tok/s", "tpot_ms": "TPOT ms", "ttft_ms": "TTFT ms"}


def comparison_text(found: Comparison, rate: Rate, paper: Paper = PAGE) -> str:
    """A column for each choice, then what makes the difference."""
    lines = columns(comparison_rows(found, rate), paper)
    lines += ["", heading("Differences")]
    for line in found.differences:
        lines += paper.item(line)
    return paper.text(lines)


def comparison_rows(found: Comparison, rate: Rate) -> Rows:
    """The choices side by side: a row for each figure, headed by the choices' names."""
    rows: Rows = [("", *(arm.label for arm in found.arms))]
    cells: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("hardware", lambda a: a.advice.facts.hardware.name or a.advice.facts.hardware.id),
        ("model", lambda a: a.advice.facts.model.id),
        ("quantisation", lambda a: a.advice.facts.quant.id),
        ("engine", lambda a: f"{a.advice.plan.engine} {a.advice.plan.engine_version or ''}"),
        ("KV cache", lambda a: a.advice.plan.kv_cache_dtype or "default"),
        ("slots", lambda a: a.advice.plan.max_num_seqs or "-"),
        ("answer", _answer),
        ("gain", _gain),  # for the goal
        ("P(gain)", lambda a: f"{a.advice.estimate.p_gain:.2f}" if a.advice.gain else "-"),
        *((title, partial(_arrow, name)) for name, title in _SPEEDS.items()),
        ("weights GiB", lambda a: f"{a.memory.weights_gib + a.memory.spec_gib:.1f}"),
        ("KV tokens", lambda a: number(a.memory.kv_tokens) if a.memory.kv_tokens else "-"),
    )
    for name, cell in cells:
        rows.append((name, *(str(cell(arm)).strip() for arm in found.arms)))
    rows += _costs(found.arms, rate)
    if any(arm.within for arm in found.arms):
        rows.append(("users within", *(_users(arm.within) for arm in found.arms)))
    return rows


def loads_text(found: LoadComparison, paper: Paper = PAGE) -> str:
    """A row for each load, a column for each choice, then which is ahead where."""
    rows: Rows = [("requests", *(arm.label for arm in found.arms))]
    for i, load in enumerate(found.loads):
        rows.append((str(load), *(_at_load(arm.points[i], arm.kind) for arm in found.arms)))
    asked = found.request
    size = f"requests of {asked.ctx_tokens} + {asked.output_tokens} tokens, {asked.workload}"
    method = found.arms[0].kind == "method"
    what = "Median gain (10 to 90 %)" if method else "Output tok/s with the best k, and its gain"
    what += f" for the goal {asked.goal}"
    lines = [*paper.wrap(f"{what}; {size}")]
    lines += [*columns(rows, paper), ""]
    spans = (
        f"{label} at {first}" + (f" to {last}" if last > first else "")
        for first, last, label in found.ahead()
    )
    lines += paper.wrap(f"Ahead by the median: {', '.join(spans)} requests.")
    if method:
        lines += paper.wrap(
            "By the median alone: recommend leaves a model's own head only where another is better "
            "with a chance of 0.8 and two owners measured it. An A/B decides: advisor bench plan."
        )
    return paper.text(lines)


def _at_load(point: Point | None, kind: Kind) -> str:
    if point is None:
        return "cannot be served"
    gain = f"{point.gain.p50:.2f}x {point.words}" if point.k else "cannot draft"
    if kind == "method":
        return gain + (f" ({point.gain.p10:.2f}-{point.gain.p90:.2f})" if point.k else "")
    speed = point.output_tok_s.value if point.k else point.output_tok_s.baseline
    return f"{number(speed)} tok/s, {gain}" if speed is not None else gain


def why_not_text(found: WhyNot, paper: Paper = PAGE) -> str:
    """The answer in a sentence, then its reasons."""
    lines: list[str] = [heading(line) for line in paper.wrap(found.head)]
    for line in found.reasons:
        lines += paper.item(line)
    return paper.text(lines)


# ---------------------------------------------------------------- cells


def _answer(arm: ComparedArm) -> str:
    plan = arm.advice.candidate
    word = {"on": "on", "off": "off", "measure": "measure first"}[arm.advice.decision]
    return f"{word}, k={plan.k}{drafts_note(plan)}" if plan is not None else word


def _gain(arm: ComparedArm) -> str:
    if arm.advice.candidate is None:
        return "-"
    if (gain := arm.advice.gain) is None:
        return "not predictable"
    middle, low, high = (f"{100 * (x - 1):+.0f}" for x in (gain.p50, gain.p10, gain.p90))
    return f"{middle} % ({low} to {high})"


def _arrow(name: str, arm: ComparedArm) -> str:
    metric = getattr(arm.estimate, name) if arm.estimate is not None else None
    if metric is None or metric.baseline is None:
        return "-"
    if arm.advice.candidate is None or metric.value is None:
        return number(metric.baseline)
    if not metric.predictable:
        return f"{number(metric.baseline)} > not predictable"
    return f"{number(metric.baseline)} > {number(metric.value)}"


def speeds(arm: ComparedArm) -> list[float]:
    """Output tok/s without speculation, and with it where it can run."""
    if arm.estimate is None:
        return []
    metric = arm.estimate.output_tok_s
    both = (metric.baseline, metric.value if arm.advice.candidate is not None else None)
    return [value for value in both if value is not None]


def _costs(arms: Sequence[ComparedArm], rate: Rate) -> Rows:
    rows: Rows = []
    for title, each in (("cost per 1M tokens", rate.cost), ("kWh per 1M tokens", rate.energy_kwh)):
        cells = []
        for arm in arms:
            found = [each(speed) for speed in speeds(arm)]
            cells.append(" > ".join(number(v) for v in found if v is not None))
        if any(cells):
            rows.append((title, *cells))
    return rows


def _users(within: Sequence[Within]) -> str:
    """The best arm, and without speculation."""
    if not within:
        return "-"
    best = max(within, key=lambda w: (users_size(w.likely, w.likely_bound), -w.k))
    plain = next((one for one in within if one.k == 0), None)
    told = users_words(best.likely, best.likely_bound) + (f" with {best.words}" if best.k else "")
    if best.p is not None:
        told += f" (P {best.p:.2f})"
    if plain is not None and best.k:
        told += f", {users_words(plain.likely, plain.likely_bound)} without"
    return told


_PAIR = list_of({"type": ["number", "null"]})
_COSTS = {"cost_per_million": Rate.cost, "kwh_per_million": Rate.energy_kwh}
Shape(
    ComparedArm,
    "arm",
    ("label", "kind", "answer", "memory", "within", *_COSTS),
    about={
        "within": "the largest load of each k within --users-within",
        "cost_per_million": "of output tokens, without speculation and with it; null: no price",
    },
    values={"answer": lambda arm: arm.advice} | dict.fromkeys(_COSTS, lambda _: ()),
    kinds={"answer": schema_of(ANSWER.noun)} | dict.fromkeys(_COSTS, _PAIR),
)
COMPARISON = Shape(
    Comparison,
    "compare",
    ("arms", "differences"),
    identity="urn:mtp-advisor:compare:1",
    about={"arms": "the choices in the order given"},
    listed=False,
)
Shape(ArmOverLoads, "load_arm", "label kind points")
LOADS = Shape(
    LoadComparison,
    "compare-loads",
    (*LoadComparison.model_fields, "ahead"),
    identity="urn:mtp-advisor:compare-loads:1",
    about={
        "arms": "of each choice the best speculative point at each load; k 0 where none runs",
        "ahead": "first load, last load and choice of the highest median",
    },
    values={"ahead": lambda found: found.ahead()},
    kinds={"ahead": list_of({"type": "array"})},
    listed=False,
)
loads_json = LOADS.json
WHY_NOT = Shape(
    WhyNot,
    "why-not",
    ("asked", "answer", "reasons"),
    identity="urn:mtp-advisor:why-not:1",
    values={"answer": lambda found: found.head},
    kinds={"answer": schema_of(str)},
)
why_not_json = WHY_NOT.json


def comparison_json(found: Comparison, rate: Rate) -> dict[str, Any]:
    """Whole answers of the choices, and what makes the difference."""
    made = COMPARISON.json(found)
    for side, arm in zip(made["arms"], found.arms, strict=True):
        side |= {name: [each(rate, x) for x in speeds(arm)] for name, each in _COSTS.items()}
    return made
