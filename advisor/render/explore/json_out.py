"""Sweep -> the JSON object that `advisor schema sweep` describes."""

from typing import Any

from advisor.advice.explore.values import (
    BreakEven,
    KRanges,
    LoadPoint,
    Point,
    Policy,
    RangeLoad,
    Sweep,
    Within,
)
from advisor.domain.nouns import Interval
from advisor.render.json_out import DEFAULTS, defaults
from advisor.render.objects import SHARE, Shape, list_of, object_of, or_null, schema_of

_SETTING: dict[str, Any] = {
    "values": {"setting": lambda noun: dict(noun.setting)},
    "kinds": {
        "setting": {
            "type": "object",
            "additionalProperties": {"type": "number"},
            "description": "field of the request -> its value here",
        }
    },
}
Shape(
    Point,
    "point",
    "method k adaptive p_objective predictable gain p_gain utility decision output_tok_s tpot_ms "
    "ttft_ms accepted_length memory basis cost_per_million kwh_per_million forbidden_by documented "
    "graphs_end plan",
    about={
        "adaptive": "the engine chooses how many of the drafts it verifies",
        "p_objective": "chance of keeping the latency limits; null: none were given",
        "predictable": "false: neither sign nor size of the goal's change is known",
        "gain": "of the goal; above 1 is faster; null, with p_gain, where it is not predictable",
        "utility": "expected log gain, a loss weighing double: k is chosen by it",
        "decision": "this k alone against none",
        "forbidden_by": "rules that forbid this plan",
        "graphs_end": "requests up to which verify steps run in vLLM's CUDA graphs; null: none end",
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
    "setting decision rule best_method best_k best_adaptive k_rules run_k points lacking refusal",
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
Shape(BreakEven, "break_even", "axis method k adaptive quantile at direction setting", **_SETTING)
_FILE = object_of({"name": schema_of(str), "text": schema_of(str)})
Shape(RangeLoad, "range_load", "requests k gain best_k best_gain best_adaptive")
Shape(
    KRanges,
    "k_ranges",
    "setting method rows static_k gain pays why loads regrets arguments file",
    about={
        "rows": "[batch from, batch to, k], without a gap",
        "static_k": "the one k that serves all loads best",
        "gain": "mean over the loads against static_k",
        "loads": "median gain at each load, and the best k there with its own",
        "regrets": "[k, mean loss of expected log gain against the best of each load]",
    },
    values=_SETTING["values"]
    | {
        "file": lambda one: (
            None if one.file_name is None else {"name": one.file_name, "text": one.file_text}
        )
    },
    kinds=_SETTING["kinds"]
    | {"file": or_null(_FILE), "regrets": list_of(list_of({"type": "number"}))},
)
Shape(
    Within,
    "within",
    "method k adaptive likely likely_bound p sure sure_bound slots",
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
        "axes": {"type": "object", "additionalProperties": list_of({"type": ["string", "number"]})},
        "defaults": DEFAULTS,
    },
)
sweep_json = SWEEP.json
POLICY = Shape(
    Policy,
    "policy",
    "decision unsure plan launch launch_off ranges findings sweep",
    identity="urn:mtp-advisor:policy:1",
    about={
        "unsure": "requests at once where this k alone is not clearly a gain",
        "ranges": "rows where a k per batch size pays, else static_k; 0 is no speculation",
        "sweep": "every load and k that it was chosen from",
    },
)
