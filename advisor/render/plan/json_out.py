"""MixPlan -> the JSON object that `advisor schema plan` describes."""

from __future__ import annotations

import json
from typing import Any

from advisor.advice.explore.layouts import ClassResult, Instance, Layout, MixPlan
from advisor.domain.nouns import Decision
from advisor.render import schema_parts as part
from advisor.render.json_out import finite, memory_json, number_or_none, plan_json
from advisor.render.schema import recommend_schema
from advisor.render.schema_parts import Schema

SCHEMA_ID = "urn:mtp-advisor:plan:1"


def mix_plan_json(made: MixPlan) -> dict[str, Any]:
    """The layouts as plain dicts, lists, strings, numbers, booleans and None."""
    return {
        "schema": SCHEMA_ID,
        "mix": made.mix.model_dump(mode="json"),
        "chosen": made.chosen,
        "why": list(made.why),
        "layouts": [_layout(one) for one in made.layouts],
    }


def mix_plan_json_text(made: MixPlan) -> str:
    """The object as indented ASCII JSON that ends in a line feed."""
    return json.dumps(mix_plan_json(made), indent=2, allow_nan=False) + "\n"


def _layout(one: Layout) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "title": one.title,
        "model": one.model,
        "refusal": one.refusal,
        "gain": None if one.gain is None else finite(one.gain.model_dump()),
        "p_gain": number_or_none(one.p_gain),
        "objectives": one.objectives,
        "objectives_met": one.objectives_met,
        "device_gib": number_or_none(one.device_gib),
        "usable_gib": number_or_none(one.usable_gib),
        "instances": [_instance(server) for server in one.instances],
        "classes": [_class(seen) for seen in one.results],
    }


def _instance(one: Instance) -> dict[str, Any]:
    return {
        "name": one.name,
        "classes": list(one.classes),
        "gpus": one.gpus,
        "decision": one.decision,
        "plan": plan_json(one.plan),
        "memory": memory_json(one.memory),
        "concurrency": number_or_none(one.concurrency),
        "slowdown": number_or_none(one.slowdown),
        "saturated": one.saturated,
    }


def _class(seen: ClassResult) -> dict[str, Any]:
    plain = {name: number_or_none(value) for name, value in seen if name != "gain"}
    return plain | {"gain": finite(seen.gain.model_dump())}


def plan_schema() -> Schema:
    """What `advisor plan --format json` prints."""
    known = recommend_schema()["$defs"]
    rate = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
    seen = part.object_of(
        {
            "name": part.TEXT,
            "concurrency": part.NUMBER,
            "output_tok_s": part.NUMBER_OR_NULL,
            "tpot_ms": part.NUMBER_OR_NULL,
            "ttft_ms": part.NUMBER_OR_NULL,
            "p_objective": rate,
            "gain": part.ref("interval"),
        }
    )
    server = part.object_of(
        {
            "name": part.TEXT,
            "classes": part.TEXTS,
            "gpus": part.COUNT,
            "decision": part.enum(Decision),
            "plan": part.ref("plan"),
            "memory": part.ref("memory"),
            "concurrency": part.NUMBER,
            "slowdown": part.NUMBER,
            "saturated": {"type": "boolean"},
        }
    )
    layout = part.object_of(
        {
            "kind": {"enum": ["off", "on", "scheduled", "shared", "gpus", "model"]},
            "title": part.TEXT,
            "model": part.TEXT,
            "refusal": part.TEXT_OR_NULL,
            "gain": part.or_null(part.ref("interval"))
            | {"description": "against one server without speculation; above 1 is faster"},
            "p_gain": rate,
            "objectives": part.COUNT,
            "objectives_met": part.COUNT,
            "device_gib": part.NUMBER_OR_NULL,
            "usable_gib": part.NUMBER_OR_NULL,
            "instances": part.list_of(server),
            "classes": part.list_of(seen),
        }
    )
    parts = {
        "schema": {"const": SCHEMA_ID},
        "mix": {"type": "object"},
        "chosen": part.COUNT | {"description": "index into layouts"},
        "why": part.TEXTS,
        "layouts": part.list_of(layout),
    }
    defs = {name: known[name] for name in ("plan", "interval", "memory")}
    head = {"$schema": part.DIALECT, "$id": SCHEMA_ID, "title": "advisor plan --format json"}
    return head | part.object_of(parts) | {"$defs": defs}
