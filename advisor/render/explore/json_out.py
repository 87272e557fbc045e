"""Sweep -> the JSON object that `advisor schema sweep` describes, that schema, and CSV with one row
a point.

Numbers that are not finite become null. Keys are stable; new ones may be added.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

from advisor.advice.explore.values import Bound, BreakEven, KRanges, Load, Point, Setting, Sweep
from advisor.domain.nouns import METHODS, Basis, Decision
from advisor.domain.printable import csv_cell
from advisor.render import schema_parts as part
from advisor.render.json_out import (
    evidence_json,
    finite,
    memory_json,
    metric_json,
    number_or_none,
    plan_json,
)
from advisor.render.schema import recommend_schema
from advisor.render.schema_parts import Schema

SCHEMA_ID = "urn:mtp-advisor:sweep:1"

METRICS = ("output_tok_s", "tpot_ms", "ttft_ms")


def sweep_json(found: Sweep) -> dict[str, Any]:
    """The curves as plain dicts, lists, strings, numbers, booleans and None."""
    return {
        "schema": SCHEMA_ID,
        "request": finite(found.request.model_dump(mode="json")),
        "axes": {name: list(values) for name, values in found.axes},
        "ks": list(found.ks),
        "loads": [load_json(load) for load in found.loads],
        "break_even": [break_even_json(one) for one in found.break_even],
        "k_ranges": [k_ranges_json(one) for one in found.k_ranges],
        "within": [finite(one.model_dump()) for one in found.within],
        "pairs": [evidence_json(row) for row in found.pairs],
        "defaults": [{"field": f, "value": v, "why": w} for f, v, w in found.facts.defaults],
    }


def sweep_json_text(found: Sweep) -> str:
    """The object as indented ASCII JSON that ends in a line feed."""
    return json.dumps(sweep_json(found), indent=2, allow_nan=False) + "\n"


def load_json(load: Load) -> dict[str, Any]:
    """Return one load of a sweep in the form of its JSON output."""
    return {
        "setting": setting_json(load.setting),
        "decision": load.decision,
        "rule": load.rule,
        "best_method": load.best_method,
        "best_k": load.best_k,
        "run_k": load.run_k,
        "points": [point_json(point) for point in load.points],
        "lacking": [{"k": k, "why": why} for k, why in load.lacking],
        "refusal": load.refusal,
    }


def point_json(point: Point) -> dict[str, Any]:
    """One k at one load; `value` of a metric is with speculation, `baseline` without."""
    accepted = point.accepted_length
    return {
        "method": point.method,
        "k": point.k,
        "gain": finite(point.gain.model_dump()),
        "p_gain": number_or_none(point.p_gain),
        "utility": number_or_none(point.utility),
        "decision": point.decision,
        **{name: metric_json(getattr(point, name)) for name in METRICS},
        "accepted_length": None if accepted is None else finite(accepted.model_dump()),
        "memory": None if point.memory is None else memory_json(point.memory),
        "basis": point.basis,
        "forbidden_by": list(point.forbidden_by),
        "documented": list(point.documented),
        "plan": plan_json(point.plan),
    }


def break_even_json(one: BreakEven) -> dict[str, Any]:
    """Return a break-even point in the form of the sweep's JSON output."""
    plain = {name: value for name, value in one if name != "setting"}
    return plain | {"at": number_or_none(one.at), "setting": setting_json(one.setting)}


def k_ranges_json(one: KRanges) -> dict[str, Any]:
    """Rows are [batch from, batch to, k]; `arguments` are the engine's, `file` what they name."""
    name, text = one.file_name, one.file_text
    return {
        "setting": setting_json(one.setting),
        "method": one.method,
        "rows": [list(row) for row in one.rows],
        "static_k": one.static_k,
        "gain": number_or_none(one.gain),
        "pays": one.pays,
        "why": one.why,
        "arguments": list(one.arguments),
        "file": None if name is None else {"name": name, "text": text},
    }


def setting_json(setting: Setting) -> dict[str, Any]:
    """Return the setting of a load; a number that is not finite becomes null."""
    return {name: number_or_none(value) for name, value in setting}


COLUMNS = (
    "method",
    "k",
    "gain_p10",
    "gain_p50",
    "gain_p90",
    "p_gain",
    "decision",
    "output_tok_s",
    "tpot_ms",
    "ttft_ms",
    "ttft_predictable",
    "basis",
    "answer",
    "answer_k",
    "note",
)


def sweep_csv(found: Sweep) -> str:
    """A table: the varied fields, then one point. `answer` and `answer_k` are what `recommend`
    says of the whole load; a load that cannot be served has one row with the reason in `note`.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [name for name, _ in found.axes]
    writer.writerow([*names, *COLUMNS])
    for load in found.loads:
        where = [csv_cell(value) if isinstance(value, str) else value for _, value in load.setting]
        for point in load.points:
            cells = _cells(point, load)
            writer.writerow([*where, *(cells[name] for name in COLUMNS)])
        for note in [why for _, why in load.lacking] + [load.refusal or ""]:
            if note:
                writer.writerow([*where, *[""] * (len(COLUMNS) - 1), csv_cell(note)])
    return out.getvalue()


def _cells(point: Point, load: Load) -> Mapping[str, Any]:
    gain = point.gain
    return {
        "method": point.method,
        "k": point.k,
        "gain_p10": _short(gain.p10),
        "gain_p50": _short(gain.p50),
        "gain_p90": _short(gain.p90),
        "p_gain": _short(point.p_gain),
        "decision": point.decision,
        **{name: _short(getattr(point, name).value) for name in METRICS},
        "ttft_predictable": str(point.ttft_ms.predictable).lower(),
        "basis": point.basis,
        "answer": load.decision,
        "answer_k": load.run_k,
        "note": " ".join(point.forbidden_by),
    }


def _short(value: float | None) -> str:
    return "" if value is None or number_or_none(value) is None else f"{value:.4g}"


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
            "likely": part.COUNT_OR_NULL
            | {"description": "users served within the objectives, more likely than not"},
            "likely_bound": part.enum(Bound)
            | {
                "description": "what ends the count; null with 'search': every load tried is "
                "served, so no count is known; null otherwise: not even one"
            },
            "p": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "sure": part.COUNT_OR_NULL | {"description": "the same with 90 %"},
            "sure_bound": part.enum(Bound),
            "slots": part.COUNT_OR_NULL
            | {"description": "requests that run at once, where that ends a count: others wait"},
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
