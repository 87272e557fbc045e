"""Comparison, files side by side and why-not -> the JSON that their schemas describe."""

from __future__ import annotations

import json
from typing import Any

from advisor.advice.explore.compare import Comparison, Kind
from advisor.advice.explore.values import Rate
from advisor.advice.explore.why_not import WhyNot
from advisor.lint.side_by_side import SideBySide
from advisor.render import schema_parts as part
from advisor.render.compare_text import speeds
from advisor.render.json_out import advice_json, finite, memory_json
from advisor.render.schema import recommend_schema
from advisor.render.schema_parts import Schema
from advisor.render.sweep.schema import within_schema

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
