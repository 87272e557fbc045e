"""Sweep -> the JSON object that `advisor schema sweep` describes, and CSV with one row a point."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from math import isfinite, nan
from typing import Any

from advisor.advice.explore.values import BreakEven, KRanges, LoadPoint, Point, Sweep, Within
from advisor.domain.nouns import Interval
from advisor.domain.printable import csv_cell
from advisor.render.json_out import DEFAULTS, defaults
from advisor.render.objects import SHARE, Shape, list_of, object_of, or_null, schema_of

METRICS = ("output_tok_s", "tpot_ms", "ttft_ms")

_SETTING: dict[str, Any] = {
    "values": {"setting": lambda noun: dict(noun.setting)},
    "kinds": {
        "setting": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number"]},
            "description": "field of the request -> its value here",
        }
    },
}
Shape(
    Point,
    "point",
    "method k p_objective predictable gain p_gain utility decision output_tok_s tpot_ms ttft_ms "
    "accepted_length memory basis cost_per_million kwh_per_million forbidden_by documented plan",
    about={
        "p_objective": "chance of keeping the latency limits; null: none were given",
        "predictable": "false: neither sign nor size of the goal's change is known",
        "gain": "of the goal; above 1 is faster; null, with p_gain, where it is not predictable",
        "utility": "expected log gain, a loss weighing double: k is chosen by it",
        "decision": "this k alone against none",
        "forbidden_by": "rules that forbid this plan",
        "documented": "rules whose documented losses are in the gain",
    },
    values={
        "gain": lambda point: point.gain if point.predictable else None,
        "p_gain": lambda point: point.p_gain if point.predictable else None,
    },
    kinds={"gain": or_null(schema_of(Interval)), "p_gain": SHARE, "p_objective": SHARE},
)
_LACKING = object_of({"k": schema_of(int), "why": schema_of(str)})
Shape(
    LoadPoint,
    "load",
    "setting decision rule best_method best_k k_rules run_k points lacking refusal",
    about={
        "decision": "what recommend answers here",
        "best_k": "of the best speculative plan",
        "k_rules": "rules that name this k, or limit others",
        "run_k": "what the answer runs: 0 unless it is on",
        "refusal": "why this load cannot be served",
    },
    values=_SETTING["values"]
    | {"lacking": lambda load: [{"k": k, "why": why} for k, why in load.lacking]},
    kinds=_SETTING["kinds"] | {"lacking": list_of(_LACKING)},
)
Shape(BreakEven, "break_even", "axis method k quantile at direction setting", **_SETTING)
_FILE = object_of({"name": schema_of(str), "text": schema_of(str)})
Shape(
    KRanges,
    "k_ranges",
    "setting method rows static_k gain pays why arguments file",
    about={
        "rows": "[batch from, batch to, k], without a gap",
        "static_k": "the one k that serves all loads best",
        "gain": "mean over the loads against static_k",
    },
    values=_SETTING["values"]
    | {
        "file": lambda one: (
            None if one.file_name is None else {"name": one.file_name, "text": one.file_text}
        )
    },
    kinds=_SETTING["kinds"] | {"file": or_null(_FILE)},
)
Shape(
    Within,
    "within",
    "method k likely likely_bound p sure sure_bound slots",
    about={
        "likely": "users served within the objectives, more likely than not",
        "likely_bound": "what ends the count; null with 'search': every load tried is served, so "
        "no count is known; null otherwise: not even one",
        "sure": "the same with 90 %",
        "slots": "requests that run at once, where that ends a count: others wait",
    },
    kinds={"p": SHARE},
)
_SWEPT = "request axes ks loads break_even k_ranges within"
SWEEP = Shape(
    Sweep,
    "sweep",
    (*_SWEPT.split(), "pairs", "defaults"),
    identity="urn:mtp-advisor:sweep:1",
    about={
        "request": "with the engine, release and quantisation that all points share",
        "axes": "the varied fields with their values, without k",
        "k_ranges": "the best k per batch size, for each setting of the other fields",
        "within": "the largest load of each k within the given objectives",
        "pairs": "A/B runs that match a load, of the goal's metrics",
    },
    values={
        "axes": lambda found: dict(found.axes),
        "defaults": lambda found: defaults(found.facts),
    },
    kinds={
        "axes": {
            "type": "object",
            "additionalProperties": list_of({"type": ["string", "number"]}),
        },
        "defaults": DEFAULTS,
    },
)
sweep_json = SWEEP.json


_TABLE = (
    "method k gain_p10 gain_p50 gain_p90 p_gain decision output_tok_s tpot_ms ttft_ms "
    "ttft_predictable cost_per_million kwh_per_million basis answer answer_k answer_rules note"
)
COLUMNS = tuple(_TABLE.split())


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


def _cells(point: Point, load: LoadPoint) -> Mapping[str, Any]:
    gain = point.gain if point.predictable else Interval(p10=nan, p50=nan, p90=nan)
    metrics = {name: getattr(point, name) for name in METRICS}
    return {
        "method": point.method,
        "k": point.k,
        "gain_p10": _short(gain.p10),
        "gain_p50": _short(gain.p50),
        "gain_p90": _short(gain.p90),
        "p_gain": _short(point.p_gain if point.predictable else None),
        "decision": point.decision,
        **{name: _short(m.value if m.predictable else None) for name, m in metrics.items()},
        "ttft_predictable": str(point.ttft_ms.predictable).lower(),
        **{name: _short(getattr(point, name)) for name in ("cost_per_million", "kwh_per_million")},
        "basis": point.basis,
        "answer": load.decision,
        "answer_k": load.run_k,
        "answer_rules": " ".join(load.k_rules),
        "note": " ".join(point.forbidden_by),
    }


def _short(value: float | None) -> str:
    return "" if value is None or not isfinite(value) else f"{value:.4g}"
