"""Turn the plans of one request into `Points`: what is known, and what each plan sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from advisor.domain.nouns import Facts, Plan
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge.imputed import table
from advisor.perf import arrays as P
from advisor.perf import host_memory, memory
from advisor.perf.encoding import cells
from advisor.perf.encoding.encode_names import (
    hardware_vector,
    model_vector,
    quant_vector,
    scaled_value,
)
from advisor.perf.kernels import kernel_path
from advisor.perf.load import SLOTS_HOLD, graphs_by_slots
from advisor.perf.sizes.device import captured_tokens, without_graphs
from advisor.perf.sizes.pools import attention_groups, expert_ranks
from advisor.perf.sizes.weights import DRAFT_SIZE

BRIDGED = sourced(2, "GPUs", "NVIDIA: one NVLink bridge joins two cards", "read")


def from_plans(facts: Facts, plans: Sequence[Plan]) -> P.Points:
    """Points of several plans for one request."""
    return from_questions([(facts, plans)])


def from_questions(questions: Sequence[tuple[Facts, Sequence[Plan]]]) -> P.Points:
    """The plans of several questions in order: a table costs the same for one as for fifty."""
    bases: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    counts: Counts = {}
    for facts, plans in questions:
        bases.append(_machine(facts) | _request_columns(facts))
        rows += [_plan_columns(facts, plan, bases[-1], counts) for plan in plans]
    questions_of_rows = np.repeat(np.arange(len(bases)), [len(plans) for _, plans in questions])
    return P.build(len(bases), _join(bases)).take(questions_of_rows).replace(**_join(rows))


def _join(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Their columns; where a row lacks one, what `points.build` would put there."""
    lacking = {**dict.fromkeys(P.CODE_FIELDS, 0), "given_conditional": [cells.NAN] * P.MAX_K}
    return {
        name: [row.get(name, lacking.get(name, cells.NAN)) for row in rows]
        for name in {name for row in rows for name in row}
    }


SHARED_LAYERS = ("tensor", "graph")  # llama.cpp's and ik_llama.cpp's name of the same
_MACHINE = ("hardware", "model", "shape", "quant")
# what the count of requests that fit (memory.max_requests) reads beside them, the drafters and the
# plan; not how many are sent
_COUNTED = ("engine", "engine_version", "gpus", "thinking", "memory_tokens")
# facts, or a plan by identity and they -> the plan and its requests, without its speculation and
# with it; kept while the questions that hold both are encoded, no longer
Counts = dict[tuple[object, ...], tuple[Plan, float, float]]


def _machine(facts: Facts) -> dict[str, object]:
    """What hardware, model and quantisation give to every plan."""
    made: dict[str, object] = {}
    made |= hardware_vector(facts.hardware) if facts.hardware else {}
    made |= model_vector(facts.model, facts.shape) if facts.model else {}
    if (quant := facts.quant) is None:
        return made
    own = {"bytes_mixer": facts.model.mixer_width(quant)} if facts.model else {}
    return made | quant_vector(quant) | own


def _plan_columns(
    facts: Facts, plan: Plan, base: dict[str, object], counts: Counts
) -> dict[str, object]:
    """What a plan adds to the columns of its question."""
    arch, kind = (int(float(str(base.get(name, 0)))) for name in ("arch", "hw_class"))
    backend = dict(plan.extra).get("backend") or ""
    made: dict[str, object] = {name: read(facts, plan) for name, read in _OF_PLAN.items()}
    made["path"] = kernel_path(plan.engine, arch, backend, kind)
    return made | _limits(facts, plan, counts) | _host_layers(facts, plan)


def ranks(facts: Facts, plan: Plan) -> int:
    """Devices that work on one layer at once. Of llama.cpp's split modes that is every device where
    each holds a part of every layer, and one where each holds layers of its own (the default),
    which a token passes one after another.
    """
    if not gguf_engine(plan.engine):
        return plan.tp
    shared = dict(plan.extra).get("--split-mode") in SHARED_LAYERS
    return max(facts.gpus, plan.tp) if shared else 1


def _limits(facts: Facts, plan: Plan, counts: Counts) -> dict[str, object]:
    """Slots of a plan, and the requests that its memory holds without its speculation and with it.
    Where the memory is what limits its slots, it limits the arm without speculation by that arm's
    own count; plans that differ in k alone share that one; for such a count the slots are those of
    the arm that has more. `counts`: those of the questions before, which differ in the load that
    they ask about more than in what fits.
    """
    room = (
        *(id(getattr(facts, part)) for part in (*_MACHINE, "drafters")),
        *(getattr(facts, part) for part in _COUNTED),
    )
    if (id(plan), *room) not in counts:
        plain = memory.without_drafts(plan).replace(max_num_seqs=None)
        last, before, _ = counts.get(room, (None, cells.NAN, cells.NAN))
        if last != plain:
            before = _count(facts, plain)
            counts[room] = plain, before, before
        after = before if plan.method == "none" else _count(facts, plan)
        counts[id(plan), *room] = plan, before, after
    _, before, after = counts[id(plan), *room]
    slots = scaled_value(plan.max_num_seqs)
    # where the memory holds none it is counted as one, and does not limit
    holds = after > 1 or (memory.room(facts, plan, facts.memory_tokens) or 1.0) >= 1
    stated = facts.question.max_num_seqs or SLOTS_HOLD
    if slots == after and holds and slots < stated:
        before, by_slots = min(before, stated), graphs_by_slots(plan.engine)
        slots = max(after, min(before, float(facts.load))) if by_slots else SLOTS_HOLD
    elif traits(plan.engine).pool == "slots":  # slots are reserved at the start
        before = after = SLOTS_HOLD
    return {"max_num_seqs": slots, "held_base": before, "held_spec": after}


def _host_layers(facts: Facts, plan: Plan) -> dict[str, object]:
    """Layers with experts in the machine's memory, without speculation and with it."""
    shape = facts.known_shape
    if shape is None or not shape.moe_layers or not gguf_engine(plan.engine):
        return {}
    after = float(host_memory.host_layers(facts, plan))
    alone = host_memory.host_layers(facts, memory.without_drafts(plan)) if after else 0.0
    return {"host_base": float(alone), "host_spec": after}


def _count(facts: Facts, plan: Plan) -> float:
    if facts.ctx_tokens is None:
        return cells.NAN
    return scaled_value(memory.max_requests(facts, plan, facts.memory_tokens))


def scheduled_k(plan: Plan, concurrency: int | None) -> float:
    """The k of the plan's schedule at this many running requests, else the plan's k."""
    running = min(concurrency or 1, plan.max_num_seqs or concurrency or 1)
    for first, last, k in plan.k_schedule:
        if first <= running <= last:
            return float(k)
    return float(plan.k)


def _draft_model_size(plan: Plan) -> float:
    stated = DRAFT_SIZE.search(plan.draft_model or "") if plan.method == "draft_model" else None
    return float(stated[1]) * 1e9 if stated else cells.NAN


def _link(facts: Facts, plan: Plan) -> str:
    """The slowest link between the ranks of a layer: bridged pairs are pairs alone."""
    if facts.interconnect == "nvlink-pairs":
        return "nvlink" if ranks(facts, plan) <= BRIDGED else "pcie"
    return facts.interconnect or ""


# What each plan sets by itself, or with the facts
_OF_PLAN: dict[str, Callable[[Facts, Plan], float]] = {
    "engine": lambda _, plan: P.code(P.ENGINES, plan.engine),
    "method": lambda _, plan: P.METHOD_CODE[plan.method],
    "k": lambda facts, plan: scheduled_k(plan, facts.concurrency),
    "eager": lambda _, plan: 1.0 if without_graphs(plan) else cells.NAN,
    # vLLM's schedule by batch size gives up FULL graphs on the V1 runner
    "piecewise": lambda _, plan: (
        1.0 if plan.k_schedule and traits(plan.engine).schedule_in_pieces else cells.NAN
    ),
    "tp": lambda facts, plan: float(ranks(facts, plan)),
    "attention_groups": lambda _, plan: float(attention_groups(plan)),
    "expert_ranks": lambda _, plan: float(expert_ranks(plan)),
    # where the whole question has several requests: a step sees those of its own batch alone
    "stages": lambda facts, plan: float(
        plan.pp if max(facts.question.concurrency, facts.load) > 1 else 1
    ),
    "link": lambda facts, plan: P.code(P.LINKS, _link(facts, plan)),
    "prefix_caching": lambda _, plan: scaled_value(plan.prefix_caching),
    "graph_tokens": lambda _, plan: scaled_value(captured_tokens(plan)),
    "plain_caching": lambda _, plan: scaled_value(plan.plain_caching),
    "max_num_batched_tokens": lambda _, plan: scaled_value(plan.max_num_batched_tokens),
    "kv_bytes": lambda _, plan: table("kv_cache_types").get(
        cells.normal(plan.kv_cache_dtype), cells.NAN
    ),
    "version": lambda facts, plan: cells.version_number(
        plan.engine, plan.engine_version or facts.engine_version or ""
    ),
    "draft_params": lambda _, plan: _draft_model_size(plan),
}


def _request_columns(facts: Facts) -> dict[str, object]:
    made: dict[str, object] = {
        "gpus": float(facts.gpus),
        "concurrency": scaled_value(facts.mean_batch or facts.concurrency),
        "input_tokens": scaled_value(facts.ctx_tokens),
        "output_tokens": scaled_value(facts.output_tokens),
        "output_spread": scaled_value(facts.output_spread),
        "temperature": scaled_value(facts.temperature),
        "thinking": scaled_value(facts.thinking),
        "prefix_share": scaled_value(facts.prefix_share),
        "workload": P.code(P.WORKLOADS, facts.workload or ""),
    }
    if given := facts.question.acceptance:
        conditional = np.full(P.MAX_K, np.nan)
        conditional[: len(given)] = given[: P.MAX_K]
        made["given_conditional"] = conditional
    if (length := facts.question.acceptance_length) is not None:
        made["given_length"] = float(length)
        made["given_k"] = scaled_value(facts.question.acceptance_k)
    return made
