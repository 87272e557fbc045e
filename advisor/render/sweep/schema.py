"""The JSON Schema of `advisor sweep --format json`."""

from __future__ import annotations

from advisor.domain.nouns import METHODS, Basis, Decision
from advisor.render.schema import recommend_schema
from advisor.render.schema_parts import (
    COUNT,
    COUNT_OR_NULL,
    DIALECT,
    NUMBER_OR_NULL,
    TEXT,
    TEXT_OR_NULL,
    TEXTS,
    Schema,
    enum,
    list_of,
    object_of,
    or_null,
    ref,
)
from advisor.render.sweep.json_out import METRICS, SCHEMA_ID

_SETTING: Schema = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number"]},
    "description": "field of the request -> its value here",
}
_DECISION_OR_NULL: Schema = {"enum": [*enum(Decision)["enum"], None]}


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
            "additionalProperties": list_of({"type": ["string", "number"]}),
            "description": "the varied fields with their values, without k",
        },
        "ks": list_of(COUNT),
        "loads": list_of(ref("load")),
        "break_even": list_of(_break_even()),
        "k_ranges": list_of(_k_ranges())
        | {"description": "the best k per batch size, for each setting of the other fields"},
        "within": list_of(_within())
        | {"description": "the largest load of each k within the objectives asked about"},
        "pairs": list_of(ref("evidence"))
        | {"description": "measured pairs that cover a load, of the goal's metrics"},
        "defaults": known["properties"]["defaults"],
    }
    defs = {
        name: known["$defs"][name] for name in ("plan", "interval", "metric", "memory", "evidence")
    }
    defs |= {"point": _point(), "load": _load()}
    head = {"$schema": DIALECT, "$id": SCHEMA_ID, "title": "advisor sweep --format json"}
    return head | object_of(parts) | {"$defs": defs}


def _load() -> Schema:
    return object_of(
        {
            "setting": _SETTING,
            "decision": _DECISION_OR_NULL | {"description": "what recommend answers here"},
            "rule": TEXT,
            "best_method": {"enum": [*METHODS, None]},
            "best_k": COUNT_OR_NULL | {"description": "of the best speculative plan"},
            "run_k": COUNT | {"description": "what the answer runs: 0 unless it is on"},
            "points": list_of(ref("point")),
            "lacking": list_of(object_of({"k": COUNT, "why": TEXT})),
            "refusal": TEXT_OR_NULL | {"description": "why this load cannot be served"},
        }
    )


def _point() -> Schema:
    return object_of(
        {
            "method": {"enum": list(METHODS)},
            "k": COUNT,
            "gain": ref("interval") | {"description": "of the goal; above 1 is faster"},
            "p_gain": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "utility": NUMBER_OR_NULL
            | {"description": "expected log gain, a loss weighing double: k is chosen by it"},
            "decision": enum(Decision) | {"description": "this k alone against none"},
            **dict.fromkeys(METRICS, ref("metric")),
            "accepted_length": or_null(ref("interval")),
            "memory": or_null(ref("memory")),
            "basis": enum(Basis),
            "forbidden_by": TEXTS | {"description": "rules that forbid this plan"},
            "documented": TEXTS | {"description": "rules whose documented losses are in the gain"},
            "plan": ref("plan"),
        }
    )


def _within() -> Schema:
    return object_of(
        {
            "method": {"enum": list(METHODS)},
            "k": COUNT,
            "likely": COUNT_OR_NULL | {"description": "kept more likely than not"},
            "p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "sure": COUNT_OR_NULL | {"description": "kept with 90 %"},
        }
    )


def _k_ranges() -> Schema:
    row = list_of(COUNT) | {"minItems": 3, "maxItems": 3}
    return object_of(
        {
            "setting": _SETTING,
            "method": {"enum": list(METHODS)},
            "rows": list_of(row) | {"description": "[batch from, batch to, k], without a gap"},
            "static_k": COUNT | {"description": "the one k that serves all loads best"},
            "gain": NUMBER_OR_NULL | {"description": "mean over the loads against static_k"},
            "pays": {"type": "boolean"},
            "why": TEXT,
            "arguments": TEXTS,
            "file": or_null(object_of({"name": TEXT, "text": TEXT})),
        }
    )


def _break_even() -> Schema:
    return object_of(
        {
            "axis": TEXT,
            "setting": _SETTING,
            "method": {"enum": list(METHODS)},
            "k": COUNT,
            "quantile": {"enum": ["p10", "p50", "p90"]},
            "at": NUMBER_OR_NULL,
            "direction": {"enum": ["falls", "rises"]},
        }
    )
