"""Comparison, files side by side and why-not: text, and the JSON that their schemas describe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from advisor.advice.explore.compare import Arm, Comparison, Kind
from advisor.advice.explore.values import Rate, Within
from advisor.advice.explore.why_not import WhyNot
from advisor.domain.nouns import Estimate, Interval
from advisor.lint.side_by_side import SideBySide
from advisor.render import schema_parts as part
from advisor.render.explore.json_out import within_schema
from advisor.render.json_out import advice_json, finite, memory_json
from advisor.render.layout import (
    MIN_WIDTH,
    Paper,
    Rows,
    columns,
    finish,
    heading,
    number,
    users_size,
    users_words,
)
from advisor.render.schema import recommend_schema
from advisor.render.schema_parts import Schema


def comparison_text(
    found: Comparison, rate: Rate, width: int = 80, color: bool = False, *, unicode: bool = True
) -> str:
    """A column for each choice, then what makes the difference."""
    paper = Paper(width=max(width, MIN_WIDTH))
    lines = columns(comparison_rows(found, rate), paper)
    lines += ["", heading("Differences")]
    for line in found.differences:
        lines += paper.item(line)
    return finish(lines, color=color, unicode=unicode) + "\n"


def comparison_rows(found: Comparison, rate: Rate) -> Rows:
    """The choices side by side: a row for each figure, headed by the choices' names."""
    rows: Rows = [("", *(arm.label for arm in found.arms))]
    for name, cell in (
        ("hardware", lambda a: a.advice.facts.hardware.name or a.advice.facts.hardware.id),
        ("model", lambda a: a.advice.facts.model.id),
        ("quantisation", lambda a: a.advice.facts.quant.id),
        ("engine", lambda a: f"{a.advice.plan.engine} {a.advice.plan.engine_version or ''}"),
        ("answer", _answer),
        ("gain", _gain),
        ("P(gain)", lambda a: f"{a.advice.estimate.p_gain:.2f}" if a.advice.estimate else "-"),
        ("tok/s", lambda a: _arrow(a.estimate, "output_tok_s", a)),
        ("TPOT ms", lambda a: _arrow(a.estimate, "tpot_ms", a)),
        ("TTFT ms", lambda a: _arrow(a.estimate, "ttft_ms", a)),
        ("weights GiB", lambda a: f"{a.memory.weights_gib + a.memory.spec_gib:.1f}"),
        ("KV tokens", lambda a: number(a.memory.kv_tokens) if a.memory.kv_tokens else "-"),
    ):
        rows.append((name, *(str(cell(arm)).strip() for arm in found.arms)))
    rows += _costs(found.arms, rate)
    if any(arm.within for arm in found.arms):
        rows.append(("users within", *(_users(arm.within) for arm in found.arms)))
    return rows


def files_text(
    found: SideBySide, width: int = 80, color: bool = False, *, unicode: bool = True
) -> str:
    """What files start, where they differ, and what is expected of each."""
    paper = Paper(width=max(width, MIN_WIDTH))
    rows: Rows = [("", *(arm.label for arm in found.arms))]
    rows.append(("model", *(arm.judged.plan.model or "-" for arm in found.arms)))
    for one in found.differences:
        if one.name != "model":
            rows.append((one.name, *(v if v is not None else "default" for v in one.values)))
    if any(arm.estimate for arm in found.arms):
        for name, title in (
            ("output_tok_s", "tok/s"),
            ("tpot_ms", "TPOT ms"),
            ("ttft_ms", "TTFT ms"),
        ):
            rows.append((title, *(_value(arm.estimate, name) for arm in found.arms)))
    rows.append(("findings", *(", ".join(arm.codes) or "none" for arm in found.arms)))
    lines = columns(rows, paper)
    for arm in found.arms:
        if arm.others:
            lines += paper.item(f"{arm.label}: compared by its first launch of {arm.others + 1}")
    if not any(arm.estimate for arm in found.arms):
        lines += ["", *paper.wrap("Give --hw and --concurrency for what is expected of each.")]
    return finish(lines, color=color, unicode=unicode) + "\n"


def why_not_text(
    found: WhyNot, width: int = 80, color: bool = False, *, unicode: bool = True
) -> str:
    """The answer in a sentence, then its reasons."""
    paper = Paper(width=max(width, MIN_WIDTH))
    lines: list[str] = [heading(line) for line in paper.wrap(found.head)]
    for line in found.reasons:
        lines += paper.item(line)
    return finish(lines, color=color, unicode=unicode) + "\n"


# ---------------------------------------------------------------- cells


def _answer(arm: Arm) -> str:
    plan = arm.advice.candidate
    word = {"on": "on", "off": "off", "measure": "measure first"}[arm.advice.decision]
    return f"{word}, k={plan.k}" if plan is not None else word


def _gain(arm: Arm) -> str:
    if arm.advice.estimate is None:
        return "-"
    gain: Interval = arm.advice.estimate.output_tok_s.speedup
    return " ".join(
        (
            f"{100 * (gain.p50 - 1):+.0f} %",
            f"({100 * (gain.p10 - 1):+.0f} to {100 * (gain.p90 - 1):+.0f})",
        )
    )


def _arrow(estimate: Estimate | None, name: str, arm: Arm) -> str:
    if estimate is None:
        return "-"
    metric = getattr(estimate, name)
    if metric.baseline is None:
        return "-"
    if arm.advice.candidate is None or metric.value is None:
        return number(metric.baseline)
    if not metric.predictable:
        return f"{number(metric.baseline)} > not predictable"
    return f"{number(metric.baseline)} > {number(metric.value)}"


def _value(estimate: Estimate | None, name: str) -> str:
    metric = getattr(estimate, name) if estimate is not None else None
    if metric is None or metric.value is None:
        return "-"
    return number(metric.value) if metric.predictable else "not predictable"


def speeds(arm: Arm) -> list[float]:
    """Output tok/s without speculation, and with it where it can run."""
    if arm.estimate is None:
        return []
    metric = arm.estimate.output_tok_s
    both = (metric.baseline, metric.value if arm.advice.candidate is not None else None)
    return [value for value in both if value is not None]


def _costs(arms: Sequence[Arm], rate: Rate) -> Rows:
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
    told = users_words(best.likely, best.likely_bound) + (f" with k={best.k}" if best.k else "")
    if best.p is not None:
        told += f" (P {best.p:.2f})"
    if plain is not None and best.k:
        told += f", {users_words(plain.likely, plain.likely_bound)} without"
    return told


COMPARE_ID = "urn:mtp-advisor:compare:1"

WHY_NOT_ID = "urn:mtp-advisor:why-not:1"


def comparison_json(found: Comparison, rate: Rate) -> dict[str, Any]:
    """Whole answers of the choices, and what makes the difference, as plain dicts and lists."""
    arms = []
    for arm in found.arms:
        reached = speeds(arm)
        arms.append(
            {
                "label": arm.label,
                "kind": arm.kind,
                "answer": advice_json(arm.advice),
                "memory": memory_json(arm.memory),
                "within": [finite(one.model_dump()) for one in arm.within],
                "cost_per_million": [rate.cost(speed) for speed in reached],
                "kwh_per_million": [rate.energy_kwh(speed) for speed in reached],
            }
        )
    return {"schema": COMPARE_ID, "arms": arms, "differences": list(found.differences)}


def comparison_json_text(found: Comparison, rate: Rate) -> str:
    """The same as indented JSON that ends in a line feed."""
    return json.dumps(comparison_json(found, rate), indent=2, allow_nan=False) + "\n"


def compare_schema() -> Schema:
    """What `advisor compare --format json` prints of hardware, models, engines, quantisations."""
    known = recommend_schema()
    answer = {key: value for key, value in known.items() if key not in ("$schema", "$id", "$defs")}
    amounts = part.list_of(part.NUMBER_OR_NULL)
    arm = part.object_of(
        {
            "label": part.TEXT,
            "kind": part.enum(Kind),
            "answer": part.ref("answer"),
            "memory": part.ref("memory"),
            "within": part.list_of(within_schema())
            | {"description": "the largest load of each k within --users-within"},
            "cost_per_million": amounts
            | {"description": "of output tokens, without speculation and with it; null: no price"},
            "kwh_per_million": amounts,
        }
    )
    parts = {
        "schema": {"const": COMPARE_ID},
        "arms": part.list_of(arm) | {"description": "the choices in the order given"},
        "differences": part.TEXTS,
    }
    head = {"$schema": part.DIALECT, "$id": COMPARE_ID, "title": "advisor compare --format json"}
    return head | part.object_of(parts) | {"$defs": known["$defs"] | {"answer": answer}}


def files_json_text(found: SideBySide) -> str:
    """Files side by side as indented JSON."""
    made = {
        "arms": [
            {
                "file": arm.label,
                "plan": arm.judged.plan.model_dump(mode="json"),
                "speeds": None
                if arm.estimate is None
                else {
                    name: getattr(arm.estimate, name).value
                    for name in ("output_tok_s", "tpot_ms", "ttft_ms")
                },
                "ttft_predictable": arm.estimate and arm.estimate.ttft_ms.predictable,
                "findings": list(arm.codes),
                "other_launches": arm.others,
            }
            for arm in found.arms
        ],
        "differences": [{"name": d.name, "values": list(d.values)} for d in found.differences],
    }
    return json.dumps(made, indent=2) + "\n"


def why_not_json(found: WhyNot) -> dict[str, Any]:
    """Why the answer is another, as plain dicts and lists."""
    return {
        "schema": WHY_NOT_ID,
        "asked": found.asked,
        "answer": found.head,
        "reasons": list(found.reasons),
    }


def why_not_json_text(found: WhyNot) -> str:
    """The same as indented JSON that ends in a line feed."""
    return json.dumps(why_not_json(found), indent=2) + "\n"


def why_not_schema() -> Schema:
    """What `advisor why-not --format json` prints."""
    parts = {
        "schema": {"const": WHY_NOT_ID},
        "asked": part.TEXT,
        "answer": part.TEXT,
        "reasons": part.TEXTS,
    }
    head = {"$schema": part.DIALECT, "$id": WHY_NOT_ID, "title": "advisor why-not --format json"}
    return head | part.object_of(parts)
