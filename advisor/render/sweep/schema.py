"""The JSON Schema of `advisor sweep --format json`."""

from __future__ import annotations

from advisor.domain.nouns import METHODS, Basis, Decision
from advisor.render import schema_parts as part
from advisor.render.schema import recommend_schema
from advisor.render.schema_parts import Schema
from advisor.render.sweep.json_out import METRICS, SCHEMA_ID

_SETTING: Schema = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number"]},
    "description": "field of the request -> its value here",
}
_DECISION_OR_NULL: Schema = {"enum": [*part.enum(Decision)["enum"], None]}


def sweep_schema() -> Schema:
    """What `advisor sweep --format json` prints."""
    known = recommend_schema()
    request = known["properties"]["request"]
    parts: Schema = {
        "schema": {"const": SCHEMA_ID},
        "request": request
        | {"description": "with the engine, release and quantisation that all points share"},
        "axes": {
            "type": "object",
            "additionalProperties": part.list_of({"type": ["string", "number"]}),
            "description": "the varied fields with their values, without k",
        },
        "ks": part.list_of(part.COUNT),
        "loads": part.list_of(part.ref("load")),
        "break_even": part.list_of(_break_even()),
        "k_ranges": part.list_of(_k_ranges())
        | {"description": "the best k per batch size, for each setting of the other fields"},
        "within": part.list_of(within_schema())
        | {"description": "the largest load of each k within the given objectives"},
        "pairs": part.list_of(part.ref("evidence"))
        | {"description": "A/B runs that match a load, of the goal's metrics"},
        "defaults": known["properties"]["defaults"],
    }
    defs = {
        name: known["$defs"][name] for name in ("plan", "interval", "metric", "memory", "evidence")
    }
    defs |= {"point": _point(), "load": _load()}
    head = {"$schema": part.DIALECT, "$id": SCHEMA_ID, "title": "advisor sweep --format json"}
    return head | part.object_of(parts) | {"$defs": defs}


def _load() -> Schema:
    return part.object_of(
        {
            "setting": _SETTING,
            "decision": _DECISION_OR_NULL | {"description": "what recommend answers here"},
            "rule": part.TEXT,
            "best_method": {"enum": [*METHODS, None]},
            "best_k": part.COUNT_OR_NULL | {"description": "of the best speculative plan"},
            "run_k": part.COUNT | {"description": "what the answer runs: 0 unless it is on"},
            "points": part.list_of(part.ref("point")),
            "lacking": part.list_of(part.object_of({"k": part.COUNT, "why": part.TEXT})),
            "refusal": part.TEXT_OR_NULL | {"description": "why this load cannot be served"},
        }
    )


def _point() -> Schema:
    return part.object_of(
        {
            "method": {"enum": list(METHODS)},
            "k": part.COUNT,
            "gain": part.ref("interval") | {"description": "of the goal; above 1 is faster"},
            "p_gain": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "utility": part.NUMBER_OR_NULL
            | {"description": "expected log gain, a loss weighing double: k is chosen by it"},
            "decision": part.enum(Decision) | {"description": "this k alone against none"},
            **dict.fromkeys(METRICS, part.ref("metric")),
            "accepted_length": part.or_null(part.ref("interval")),
            "memory": part.or_null(part.ref("memory")),
            "basis": part.enum(Basis),
            "forbidden_by": part.TEXTS | {"description": "rules that forbid this plan"},
            "documented": part.TEXTS
            | {"description": "rules whose documented losses are in the gain"},
            "plan": part.ref("plan"),
        }
    )


def within_schema() -> Schema:
    """Return the schema of the largest load of one k within objectives."""
    return part.object_of(
        {
            "method": {"enum": list(METHODS)},
            "k": part.COUNT,
            "likely": part.COUNT_OR_NULL | {"description": "kept more likely than not"},
            "p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "sure": part.COUNT_OR_NULL | {"description": "kept with 90 %"},
        }
    )


def _k_ranges() -> Schema:
    row = part.list_of(part.COUNT) | {"minItems": 3, "maxItems": 3}
    return part.object_of(
        {
            "setting": _SETTING,
            "method": {"enum": list(METHODS)},
            "rows": part.list_of(row) | {"description": "[batch from, batch to, k], without a gap"},
            "static_k": part.COUNT | {"description": "the one k that serves all loads best"},
            "gain": part.NUMBER_OR_NULL | {"description": "mean over the loads against static_k"},
            "pays": {"type": "boolean"},
            "why": part.TEXT,
            "arguments": part.TEXTS,
            "file": part.or_null(part.object_of({"name": part.TEXT, "text": part.TEXT})),
        }
    )


def _break_even() -> Schema:
    return part.object_of(
        {
            "axis": part.TEXT,
            "setting": _SETTING,
            "method": {"enum": list(METHODS)},
            "k": part.COUNT,
            "quantile": {"enum": ["p10", "p50", "p90"]},
            "at": part.NUMBER_OR_NULL,
            "direction": {"enum": ["falls", "rises"]},
        }
    )
