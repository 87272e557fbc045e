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
from advisor.render.json_out import (
    DRAFTER_FIELDS,
    EVIDENCE_FIELDS,
    MEMORY_FIELDS,
    PLAN_FIELDS,
    SCHEMA_ID,
)
from advisor.render.schema_parts import BOOLEAN_OR_NULL as _BOOLEAN_OR_NULL
from advisor.render.schema_parts import COUNT as _COUNT
from advisor.render.schema_parts import COUNT_OR_NULL as _COUNT_OR_NULL
from advisor.render.schema_parts import DIALECT, Schema
from advisor.render.schema_parts import NUMBER as _NUMBER
from advisor.render.schema_parts import NUMBER_OR_NULL as _NUMBER_OR_NULL
from advisor.render.schema_parts import TEXT as _TEXT
from advisor.render.schema_parts import TEXT_OR_NULL as _TEXT_OR_NULL
from advisor.render.schema_parts import TEXTS as _TEXTS
from advisor.render.schema_parts import enum as _enum
from advisor.render.schema_parts import list_of as _list
from advisor.render.schema_parts import object_of as _object
from advisor.render.schema_parts import or_null as _or_null
from advisor.render.schema_parts import ref as _ref

# what `advisor schema NAME` prints -> the function that makes it
SCHEMAS = {
    "recommend": "advisor.render.schema:recommend_schema",
    "validate": "advisor.render.findings.json_out:validate_schema",
    "sweep": "advisor.render.sweep.schema:sweep_schema",
    "plan": "advisor.render.plan.json_out:plan_schema",
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
        "decision": _enum(Decision),
        "decided_by": _TEXT | {"description": "the step that decided, e.g. estimate or rule"},
        "gain": _or_null(_ref("interval")) | {"description": "speed-up for the goal"},
        "plan": _ref("plan")
        | {"description": "what to run; without speculation: method none, k 0"},
        "estimate": _or_null(_ref("estimate"))
        | {"description": "describes the plan in `candidate`"},
        "candidate": _or_null(_ref("plan"))
        | {"description": "the best speculative plan, null where none can run"},
        "drafter": _or_null(_drafter())
        | {"description": "the published drafter of the plan in `candidate`"},
        "findings": _list(_ref("finding")),
        "reasons": _list(_object({"text": _TEXT, "sources": _TEXTS})),
        "runners_up": _list(_ref("runner_up")),
        "evidence": _object({"newest": _TEXT_OR_NULL, "rows": _list(_ref("evidence"))}),
        "would_change": _TEXTS,
        "defaults": _list(_object({"field": _TEXT, "value": _TEXT, "why": _TEXT})),
        "launch": _ref("launch"),
        "launch_off": _ref("launch") | {"description": "the same without speculation"},
        "launch_on": _or_null(_ref("launch"))
        | {"description": "the speculative candidate's launch"},
        "measure_with": _TEXTS,
    }
    head = {"$schema": DIALECT, "$id": SCHEMA_ID, "title": "advisor recommend --format json"}
    return head | _object(parts) | {"$defs": _definitions()}


def hardware_schema() -> Schema:
    """One hardware file of the user's own."""
    return {"$schema": DIALECT} | Hardware.model_json_schema()


def model_schema() -> Schema:
    """One model file of the user's own."""
    return {"$schema": DIALECT} | LLM.model_json_schema()


def _definitions() -> Schema:
    interval = _object({"p10": _NUMBER_OR_NULL, "p50": _NUMBER_OR_NULL, "p90": _NUMBER_OR_NULL})
    return {
        "plan": _plan(),
        "interval": interval | {"description": "10th, 50th and 90th percentile"},
        "metric": _object(
            {
                "speedup": _ref("interval"),
                "baseline": _NUMBER_OR_NULL,
                "value": _NUMBER_OR_NULL,
                "baseline_range": _or_null(_ref("interval")),
                "value_range": _or_null(_ref("interval")),
            }
        )
        | {
            "description": "speedup above 1 means faster, for TPOT and TTFT as well; baseline is "
            "without speculation"
        },
        "memory": _memory(),
        "estimate": _estimate(),
        "finding": _finding(),
        "runner_up": _object(
            {
                "plan": _ref("plan"),
                "estimate": _or_null(_ref("estimate")),
                "regret": _NUMBER_OR_NULL,
                "findings": _list(_ref("finding")),
            }
        ),
        "evidence": _evidence(),
        "launch": _object(
            {
                "argv": _TEXTS,
                "env": {"type": "object", "additionalProperties": _TEXT},
                "text": _TEXT,
            },
        ),
    }


def _request() -> Schema:
    positive: Schema = {"type": "integer", "minimum": 1}
    rate: Schema = {"type": "number", "minimum": 0, "maximum": 1}
    return _object(
        {
            "hardware": _TEXT,
            "gpus": positive,
            "tp": {"type": ["integer", "null"], "minimum": 1},
            "interconnect": _TEXT_OR_NULL,
            "model": _TEXT,
            "quant": _TEXT_OR_NULL,
            "engine": _TEXT_OR_NULL,
            "engine_version": _TEXT_OR_NULL,
            "method": {"enum": [*get_args(DraftMethod), None]},
            "concurrency": positive,
            "ctx_tokens": positive,
            "output_tokens": positive,
            "workload": _enum(Workload),
            "thinking": _BOOLEAN_OR_NULL,
            "temperature": {"type": ["number", "null"], "minimum": 0},
            "prefix_share": rate,
            "acceptance": {"type": ["array", "null"], "items": rate},
            "acceptance_length": {"type": ["number", "null"], "minimum": 1},
            "acceptance_k": {"type": ["integer", "null"], "minimum": 1},
            "goal": _enum(Goal),
            "max_ttft_ms": {"type": ["number", "null"], "exclusiveMinimum": 0},
            "max_tpot_ms": {"type": ["number", "null"], "exclusiveMinimum": 0},
            "max_num_seqs": {"type": ["integer", "null"], "minimum": 1},
            "max_model_len": {"type": ["integer", "null"], "minimum": 1},
            "memory_fraction": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1},
            "kv_cache_dtype": _TEXT_OR_NULL,
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
        "engine": _enum(Engine),
        "engine_version": _TEXT_OR_NULL,
        "model": _TEXT_OR_NULL,
        "method": {"enum": list(METHODS)},
        "k": _COUNT | {"description": "draft tokens beyond the bonus token"},
        "k_schedule": _list(row)
        | {"description": "rows of [batch from, batch to, k]; empty: k is fixed"},
        "draft_model": _TEXT_OR_NULL,
        "prefix_caching": _BOOLEAN_OR_NULL,
        "kv_cache_dtype": _TEXT_OR_NULL,
        "max_num_seqs": _COUNT_OR_NULL,
        "max_num_batched_tokens": _COUNT_OR_NULL,
        "max_model_len": _COUNT_OR_NULL,
        "memory_fraction": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "tp": {"type": "integer", "minimum": 1},
    }
    return _object({name: kinds[name] for name in PLAN_FIELDS})


def _drafter() -> Schema:
    kinds: Schema = dict.fromkeys(DRAFTER_FIELDS, _TEXT)
    kinds |= {
        "engines": {"type": "object", "additionalProperties": _TEXT},
        "sources": _TEXTS,
        "conflicts": _TEXTS,
    }
    kinds |= {"k": _COUNT_OR_NULL, "params_b": _NUMBER_OR_NULL, "size_gb": _NUMBER_OR_NULL}
    return _object(kinds)


def _estimate() -> Schema:
    return _object(
        {
            "output_tok_s": _ref("metric"),
            "tpot_ms": _ref("metric"),
            "ttft_ms": _ref("metric"),
            "accepted_length": _ref("interval")
            | {"description": "tokens emitted per step, bonus token included"},
            "p_gain": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "memory": _or_null(_ref("memory")),
            "basis": _enum(Basis),
            "notes": _TEXTS,
        }
    )


def _memory() -> Schema:
    kinds: Schema = dict.fromkeys(MEMORY_FIELDS, _NUMBER_OR_NULL)
    kinds |= {
        "weights_gib": _NUMBER,
        "spec_gib": _NUMBER,
        "kv_tokens": _COUNT_OR_NULL,
        "requests": _COUNT_OR_NULL
        | {"description": "of request_tokens, that run at once in one replica"},
        "requests_without": _COUNT_OR_NULL,
        "request_tokens": _COUNT_OR_NULL,
        "fits": _BOOLEAN_OR_NULL,
    }
    kinds["kv_tokens_lost"] = {
        "type": ["integer", "null"],
        "description": "against the same plan without speculation",
    }
    return _object(kinds) | {"description": "GiB per GPU; KV tokens over all GPUs of one replica"}


def _finding() -> Schema:
    fix = _object({"text": _TEXT, "safe": {"type": "boolean"}})
    return _object(
        {
            "code": {"type": "string", "pattern": "^SD[0-9]{3}$"},
            "severity": _enum(Severity),
            "message": _TEXT,
            "flag": _TEXT_OR_NULL,
            "fix": _or_null(fix),
            "sources": _TEXTS,
            "conflicts": _TEXTS,
        }
    )


def _evidence() -> Schema:
    kinds: Schema = dict.fromkeys(EVIDENCE_FIELDS, _TEXT)
    kinds |= {"k": _COUNT_OR_NULL, "speedup": _NUMBER_OR_NULL, "covers": {"type": "boolean"}}
    kinds |= dict.fromkeys(("concurrency", "input_tokens", "output_tokens"), _NUMBER_OR_NULL)
    return _object(kinds)
