"""Advice -> the JSON object that `advisor schema recommend` describes."""

from math import nan
from typing import Any, get_type_hints

from advisor.advice.decide import tells
from advisor.domain import nouns
from advisor.knowledge.age import facts_age
from advisor.render.objects import (
    SHARE,
    Schema,
    Shape,
    list_of,
    object_of,
    or_null,
    schema_of,
    text_of,
)

_FIELDS = get_type_hints(nouns.Request)
Shape(
    nouns.Request,
    "request",
    " ".join(nouns.Request.model_fields),
    kinds={
        name: schema_of(_FIELDS[name]) | {"minimum": low, "maximum": high}
        for name, (low, high) in nouns.LIMITS.items()
    }
    | {"acceptance": or_null(list_of({"type": "number", "minimum": 0, "maximum": 1}))},
)
PLAN = Shape(
    nouns.Plan,
    "plan",
    "engine engine_version model method k k_schedule draft_model prefix_caching kv_cache_dtype "
    "max_num_seqs max_num_batched_tokens max_model_len memory_fraction tp",
    about={
        "k": "draft tokens beyond the bonus token",
        "k_schedule": "rows of [batch from, batch to, k]; empty: k is fixed",
    },
    kinds={"memory_fraction": SHARE, "tp": {"type": "integer", "minimum": 1}},
)
Shape(nouns.Interval, "interval", "p10 p50 p90", about={"": "10th, 50th and 90th percentile"})
Shape(
    nouns.MetricEstimate,
    "metric",
    "speedup predictable baseline value baseline_range value_range",
    about={
        "": "speedup above 1 means faster, for TPOT and TTFT as well; baseline is without "
        "speculation",
        "predictable": "false: neither the sign nor the size of the change is known: no speed-up "
        "and no value, only where it lies (value_range, p50 null)",
    },
    values={
        "speedup": lambda metric: metric.speedup if metric.predictable else None,
        "value": lambda metric: metric.value if metric.predictable else None,
        "value_range": lambda metric: (
            metric.value_range
            if metric.predictable or metric.value_range is None
            else dict(metric.value_range) | {"p50": None}
        ),
    },
    kinds={"speedup": or_null(schema_of(nouns.Interval))},
)
Shape(
    nouns.MemoryBill,
    "memory",
    "weights_gib spec_gib state_gib kv_gib overhead_gib available_gib kv_tokens kv_tokens_lost "
    "requests requests_without request_tokens fits",
    about={
        "": "GiB per GPU; KV tokens over all GPUs of one replica",
        "kv_tokens_lost": "against the same plan without speculation",
        "requests": "of request_tokens, that run at once in one replica",
    },
    kinds={
        "weights_gib": {"type": "number"},
        "spec_gib": {"type": "number"},
        "kv_tokens_lost": {"type": ["integer", "null"]},
    },
)
Shape(
    nouns.Estimate,
    "estimate",
    "output_tok_s tpot_ms ttft_ms accepted_length p_gain memory basis notes",
    about={"accepted_length": "tokens emitted per step, bonus token included"},
    kinds={"p_gain": SHARE},
)
CODE: Schema = {"type": "string", "pattern": "^SD[0-9]{3}$"}
Shape(nouns.Fix, "fix", "text safe")
Shape(
    nouns.Finding,
    "finding",
    "code severity message flag fix sources conflicts",
    kinds={"code": CODE},
)
Shape(nouns.Candidate, "runner_up", "plan estimate regret findings")
Shape(
    nouns.Reason,
    "reason",
    "text sources brief risk",
    about={"brief": "the same in a line; may be empty", "risk": "of what could go wrong"},
)
Shape(
    nouns.Objective,
    "objective",
    "max_tpot_ms max_ttft_ms met chance chance_without users users_without",
    about={
        "": "limits of the mean latency, which say nothing of its 99th percentile",
        "met": "whether the run in `launch` probably keeps them",
        "chance": "that the run with speculation keeps them; null: none can run",
        "users": "served within them with 90 % with speculation; null: every load tried is, or "
        "they were not counted",
    },
    kinds={"chance": SHARE, "chance_without": SHARE},
)
Shape(
    nouns.Evidence,
    "evidence",
    "run_id source hardware model quant engine engine_version method k concurrency input_tokens "
    "output_tokens metric speedup date covers",
)
Shape(
    nouns.Drafter,
    "drafter",
    "method repository target engines k params_b size_gb reported sources conflicts note",
)
Shape(
    nouns.LaunchText,
    "launch",
    "argv env text files",
    about={"files": "texts of the files that argv names, by name"},
)


def _estimate(advice: nouns.Advice, estimate: nouns.Estimate | None) -> nouns.Estimate | None:
    """An estimate, without a chance of a gain whose sign is not known."""
    if estimate is None or tells(estimate, advice.facts.goal):
        return estimate
    return estimate.replace(p_gain=nan)


def defaults(facts: Any) -> list[dict[str, str]]:
    """What was chosen for the user, and why."""
    return [{"field": name, "value": value, "why": why} for name, value, why in facts.defaults]


_TEXT = schema_of(str)
DEFAULTS = list_of(object_of(dict.fromkeys(("field", "value", "why"), _TEXT)))
ANSWER = Shape(
    nouns.Advice,
    "recommend",
    "request decision decided_by objective cost_per_million gain plan estimate candidate drafter "
    "findings reasons runners_up evidence would_change defaults launch launch_off launch_on "
    "measure_with facts",
    identity="urn:mtp-advisor:recommend:1",
    about={
        "decided_by": "the step that decided, e.g. estimate or rule",
        "objective": "of the question's latency limits; null where it has none",
        "cost_per_million": "output tokens, without speculation and with it; null: no price",
        "gain": "speed-up for the goal; null where it is not predictable, as is then p_gain",
        "plan": "what to run; without speculation: method none, k 0",
        "estimate": "describes the plan in `candidate`, or in `plan_off` where there is none",
        "candidate": "the best speculative plan, null where none can run",
        "drafter": "the published drafter of the plan in `candidate`",
        "launch_off": "the same without speculation",
        "launch_on": "the speculative candidate's launch",
        "facts": "how old they are: the newest dated source, the newest release by engine",
    },
    values={
        "drafter": lambda advice: next(
            (
                drafter
                for drafter in advice.facts.drafters
                if advice.candidate and drafter.repository == advice.candidate.draft_model
            ),
            None,
        ),
        "estimate": lambda advice: _estimate(advice, advice.estimate),
        "runners_up": lambda advice: [
            one.replace(estimate=_estimate(advice, one.estimate)) for one in advice.runners_up
        ],
        "facts": lambda _: facts_age(),
        "reasons": lambda advice: sorted(advice.reasons, key=lambda reason: -reason.weight),
        "evidence": lambda advice: {
            "newest": advice.evidence_newest or None,
            "rows": advice.facts.evidence,
        },
        "defaults": lambda advice: defaults(advice.facts),
    },
    kinds={
        "drafter": schema_of(nouns.Drafter | None),
        "facts": object_of({"date": _TEXT, "releases": schema_of(dict[str, str])}),
        "evidence": object_of(
            {"newest": or_null(_TEXT), "rows": schema_of(tuple[nouns.Evidence, ...])}
        ),
        "defaults": DEFAULTS,
    },
)
advice_json = ANSWER.json


def advice_json_text(advice: nouns.Advice) -> str:
    """The answer as JSON."""
    return text_of(advice_json(advice))
