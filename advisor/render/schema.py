"""JSON Schemas (draft 2020-12) of what the commands print and read.

`recommend` is written out here, strictly: no key beyond those named. The others come from the
modules that own their form.
"""

from __future__ import annotations

from importlib import import_module
from typing import get_args

from advisor.domain.nouns import (
    LLM,
    METHODS,
    AdvisorError,
    Basis,
    Decision,
    DraftMethod,
    Engine,
    Goal,
    Hardware,
    Severity,
    Workload,
)
from advisor.render import schema_parts as part
from advisor.render.json_out import (
    DRAFTER_FIELDS,
    EVIDENCE_FIELDS,
    MEMORY_FIELDS,
    PLAN_FIELDS,
    SCHEMA_ID,
)
from advisor.render.schema_parts import Schema

# what `advisor schema NAME` prints -> the function that makes it
SCHEMAS = {
    "recommend": "advisor.render.schema:recommend_schema",
    "validate": "advisor.render.findings.json_out:validate_schema",
    "sweep": "advisor.render.explore.json_out:sweep_schema",
    "compare": "advisor.render.explore.compare:compare_schema",
    "why-not": "advisor.render.explore.compare:why_not_schema",
    "plan": "advisor.render.explore.plan:plan_schema",
    "results": "advisor.render.own_runs:results_schema",
    "ab": "advisor.render.own_runs:ab_schema",
    "hardware": "advisor.render.schema:hardware_schema",
    "model": "advisor.render.schema:model_schema",
}


def named_schema(name: str) -> Schema:
    """The schema of one command. Raises AdvisorError for a name that has none."""
    target = SCHEMAS.get(name)
    if target is None:
        raise AdvisorError(f"no schema is called '{name}'; there are {', '.join(SCHEMAS)}")
    module, attribute = target.split(":")
    made: Schema = getattr(import_module(module), attribute)()
    return made


def recommend_schema() -> Schema:
    """What `advisor recommend --format json` prints."""
    parts: Schema = {
        "schema": {"const": SCHEMA_ID},
        "request": _request(),
        "decision": part.enum(Decision),
        "decided_by": part.TEXT | {"description": "the step that decided, e.g. estimate or rule"},
        "gain": part.or_null(part.ref("interval")) | {"description": "speed-up for the goal"},
        "plan": part.ref("plan")
        | {"description": "what to run; without speculation: method none, k 0"},
        "estimate": part.or_null(part.ref("estimate"))
        | {"description": "describes the plan in `candidate`"},
        "candidate": part.or_null(part.ref("plan"))
        | {"description": "the best speculative plan, null where none can run"},
        "drafter": part.or_null(_drafter())
        | {"description": "the published drafter of the plan in `candidate`"},
        "findings": part.list_of(part.ref("finding")),
        "reasons": part.list_of(part.object_of({"text": part.TEXT, "sources": part.TEXTS})),
        "runners_up": part.list_of(part.ref("runner_up")),
        "evidence": part.object_of(
            {"newest": part.TEXT_OR_NULL, "rows": part.list_of(part.ref("evidence"))}
        ),
        "would_change": part.TEXTS,
        "defaults": part.list_of(
            part.object_of({"field": part.TEXT, "value": part.TEXT, "why": part.TEXT})
        ),
        "launch": part.ref("launch"),
        "launch_off": part.ref("launch") | {"description": "the same without speculation"},
        "launch_on": part.or_null(part.ref("launch"))
        | {"description": "the speculative candidate's launch"},
        "measure_with": part.TEXTS,
        "next_run": part.or_null(_next_run())
        | {
            "description": "with --machine: the A/B that is worth most to the decision; null where "
            "it is settled"
        },
    }
    head = {"$schema": part.DIALECT, "$id": SCHEMA_ID, "title": "advisor recommend --format json"}
    return head | part.object_of(parts) | {"$defs": _definitions()}


def hardware_schema() -> Schema:
    """One hardware file of the user's own."""
    return {"$schema": part.DIALECT} | Hardware.model_json_schema()


def model_schema() -> Schema:
    """One model file of the user's own."""
    return {"$schema": part.DIALECT} | LLM.model_json_schema()


def _definitions() -> Schema:
    interval = part.object_of(
        {"p10": part.NUMBER_OR_NULL, "p50": part.NUMBER_OR_NULL, "p90": part.NUMBER_OR_NULL}
    )
    return {
        "plan": _plan(),
        "interval": interval | {"description": "10th, 50th and 90th percentile"},
        "metric": part.object_of(
            {
                "speedup": part.ref("interval"),
                "predictable": {
                    "type": "boolean",
                    "description": "false: neither the sign nor the size of the change is known; "
                    "do not act on the median",
                },
                "baseline": part.NUMBER_OR_NULL,
                "value": part.NUMBER_OR_NULL,
                "baseline_range": part.or_null(part.ref("interval")),
                "value_range": part.or_null(part.ref("interval")),
            }
        )
        | {
            "description": "speedup above 1 means faster, for TPOT and TTFT as well; baseline is "
            "without speculation"
        },
        "memory": _memory(),
        "estimate": _estimate(),
        "finding": _finding(),
        "runner_up": part.object_of(
            {
                "plan": part.ref("plan"),
                "estimate": part.or_null(part.ref("estimate")),
                "regret": part.NUMBER_OR_NULL,
                "findings": part.list_of(part.ref("finding")),
            }
        ),
        "evidence": _evidence(),
        "launch": part.object_of(
            {
                "argv": part.TEXTS,
                "env": {"type": "object", "additionalProperties": part.TEXT},
                "text": part.TEXT,
                "files": {
                    "type": "object",
                    "additionalProperties": part.TEXT,
                    "description": "texts of the files that argv names, by name",
                },
            },
        ),
    }


def _request() -> Schema:
    positive: Schema = {"type": "integer", "minimum": 1}
    rate: Schema = {"type": "number", "minimum": 0, "maximum": 1}
    return part.object_of(
        {
            "hardware": part.TEXT,
            "gpus": positive,
            "tp": {"type": ["integer", "null"], "minimum": 1},
            "gpus_per_machine": {"type": ["integer", "null"], "minimum": 1},
            "interconnect": part.TEXT_OR_NULL,
            "model": part.TEXT,
            "quant": part.TEXT_OR_NULL,
            "engine": part.TEXT_OR_NULL,
            "engine_version": part.TEXT_OR_NULL,
            "method": {"enum": [*get_args(DraftMethod), None]},
            "concurrency": positive,
            "ctx_tokens": positive,
            "output_tokens": positive,
            "workload": part.enum(Workload),
            "thinking": part.BOOLEAN_OR_NULL,
            "temperature": {"type": ["number", "null"], "minimum": 0},
            "prefix_share": rate,
            "output_spread": {"type": ["number", "null"], "minimum": 0, "maximum": 0.95},
            "acceptance": {"type": ["array", "null"], "items": rate},
            "acceptance_length": {"type": ["number", "null"], "minimum": 1},
            "acceptance_k": {"type": ["integer", "null"], "minimum": 1},
            "goal": part.enum(Goal),
            "max_ttft_ms": {"type": ["number", "null"], "exclusiveMinimum": 0},
            "max_tpot_ms": {"type": ["number", "null"], "exclusiveMinimum": 0},
            "max_num_seqs": {"type": ["integer", "null"], "minimum": 1},
            "max_model_len": {"type": ["integer", "null"], "minimum": 1},
            "memory_fraction": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
            "kv_cache_dtype": part.TEXT_OR_NULL,
        }
    )


def _next_run() -> Schema:
    return part.object_of(
        {
            "method": {"enum": list(METHODS)},
            "k": part.COUNT,
            "concurrency": part.COUNT,
            "now": part.ref("interval"),
            "then": part.ref("interval") | {"description": "expected after the run"},
            "value": part.NUMBER_OR_NULL
            | {"description": "log ratio that choosing again after the run gains on average"},
        }
    )


def _plan() -> Schema:
    row: Schema = {
        "type": "array",
        "items": {"type": "integer", "minimum": 0},
        "minItems": 3,
        "maxItems": 3,
    }
    kinds: Schema = {
        "engine": part.enum(Engine),
        "engine_version": part.TEXT_OR_NULL,
        "model": part.TEXT_OR_NULL,
        "method": {"enum": list(METHODS)},
        "k": part.COUNT | {"description": "draft tokens beyond the bonus token"},
        "k_schedule": part.list_of(row)
        | {"description": "rows of [batch from, batch to, k]; empty: k is fixed"},
        "draft_model": part.TEXT_OR_NULL,
        "prefix_caching": part.BOOLEAN_OR_NULL,
        "kv_cache_dtype": part.TEXT_OR_NULL,
        "max_num_seqs": part.COUNT_OR_NULL,
        "max_num_batched_tokens": part.COUNT_OR_NULL,
        "max_model_len": part.COUNT_OR_NULL,
        "memory_fraction": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "tp": {"type": "integer", "minimum": 1},
    }
    return part.object_of({name: kinds[name] for name in PLAN_FIELDS})


def _drafter() -> Schema:
    kinds: Schema = dict.fromkeys(DRAFTER_FIELDS, part.TEXT)
    kinds |= {
        "engines": {"type": "object", "additionalProperties": part.TEXT},
        "sources": part.TEXTS,
        "conflicts": part.TEXTS,
    }
    kinds |= {
        "k": part.COUNT_OR_NULL,
        "params_b": part.NUMBER_OR_NULL,
        "size_gb": part.NUMBER_OR_NULL,
    }
    return part.object_of(kinds)


def _estimate() -> Schema:
    return part.object_of(
        {
            "output_tok_s": part.ref("metric"),
            "tpot_ms": part.ref("metric"),
            "ttft_ms": part.ref("metric"),
            "accepted_length": part.ref("interval")
            | {"description": "tokens emitted per step, bonus token included"},
            "p_gain": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "memory": part.or_null(part.ref("memory")),
            "basis": part.enum(Basis),
            "notes": part.TEXTS,
        }
    )


def _memory() -> Schema:
    kinds: Schema = dict.fromkeys(MEMORY_FIELDS, part.NUMBER_OR_NULL)
    kinds |= {
        "weights_gib": part.NUMBER,
        "spec_gib": part.NUMBER,
        "kv_tokens": part.COUNT_OR_NULL,
        "requests": part.COUNT_OR_NULL
        | {"description": "of request_tokens, that run at once in one replica"},
        "requests_without": part.COUNT_OR_NULL,
        "request_tokens": part.COUNT_OR_NULL,
        "fits": part.BOOLEAN_OR_NULL,
    }
    kinds["kv_tokens_lost"] = {
        "type": ["integer", "null"],
        "description": "against the same plan without speculation",
    }
    return part.object_of(kinds) | {
        "description": "GiB per GPU; KV tokens over all GPUs of one replica"
    }


def _finding() -> Schema:
    fix = part.object_of({"text": part.TEXT, "safe": {"type": "boolean"}})
    return part.object_of(
        {
            "code": {"type": "string", "pattern": "^SD[0-9]{3}$"},
            "severity": part.enum(Severity),
            "message": part.TEXT,
            "flag": part.TEXT_OR_NULL,
            "fix": part.or_null(fix),
            "sources": part.TEXTS,
            "conflicts": part.TEXTS,
        }
    )


def _evidence() -> Schema:
    kinds: Schema = dict.fromkeys(EVIDENCE_FIELDS, part.TEXT)
    kinds |= {
        "k": part.COUNT_OR_NULL,
        "speedup": part.NUMBER_OR_NULL,
        "covers": {"type": "boolean"},
    }
    kinds |= dict.fromkeys(("concurrency", "input_tokens", "output_tokens"), part.NUMBER_OR_NULL)
    return part.object_of(kinds)
