"""Turn the plans of one request into `Points`: what is known, and what each plan sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from advisor.domain.question import USUAL_OUTPUT
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge.imputed import table
from advisor.perf import arrays as P
from advisor.perf import host_memory, memory
from advisor.perf.encoding import cells
from advisor.perf.encoding import encode_names as names
from advisor.perf.encoding.encode_rows import DRAFT_SIZE
from advisor.perf.kernels import kernel_path
from advisor.perf.load import SLOTS_HOLD, graphs_by_slots
from advisor.perf.sizes.pools import attention_groups

if TYPE_CHECKING:
    from advisor.domain.nouns import Facts, Plan

BRIDGED = sourced(2, "GPUs", "NVIDIA: one NVLink bridge joins two cards", "read")
GRAPHS_OFF = ("--enforce-eager", "--disable-cuda-graph", "--disable-decode-cuda-graph")
GRAPHS_OFF_BY_VALUE = (("--optimization-level", "0"), ("--cuda-graph-backend-decode", "disabled"))


def from_plans(facts: Facts, plans: Sequence[Plan]) -> P.Points:
    """Points of several plans for one request."""
    return from_questions([(facts, plans)])


def from_questions(questions: Sequence[tuple[Facts, Sequence[Plan]]]) -> P.Points:
    """The plans of several questions in order: a table costs the same for one as for fifty."""
    parts: list[dict[str, object]] = []
    machine: dict[str, object] = {}
    before: Facts | None = None
    counts_seen: Counts = {}
    for facts, plans in questions:
        if before is None or any(
            getattr(facts, part) is not getattr(before, part) for part in _MACHINE
        ):
            machine = _machine(facts)
        before = facts
        parts.append(_columns(facts, plans, machine, counts_seen))
    counts = [len(plans) for _, plans in questions]
    columns = {n: None for part in parts for n in part}
    return P.build(sum(counts), {name: _join_column(name, parts, counts) for name in columns})


def _join_column(
    name: str, parts: Sequence[dict[str, object]], counts: Sequence[int]
) -> list[object]:
    """One column of several tables; where a table lacks it, what `points.build` would put there."""
    lacking: object = (
        0
        if name in P.CODE_FIELDS
        else np.full(P.MAX_K, cells.NAN)
        if name == "given_conditional"
        else cells.NAN
    )
    found: list[object] = []
    for part, count in zip(parts, counts, strict=True):
        value = part.get(name, lacking)
        found += value if isinstance(value, list) else [value] * count
    return found


SHARED_LAYERS = ("tensor", "graph")  # llama.cpp's and ik_llama.cpp's name of the same
_MACHINE = ("hardware", "model", "shape", "quant")
# what the count of requests that fit (memory.max_requests) reads beside them, the drafters and the
# plan; not how many are sent
_COUNTED = ("engine", "engine_version", "gpus", "thinking", "ctx_tokens", "output_tokens")
# plan and facts, by identity -> requests without speculation and with it; kept while the questions
# that hold both are encoded, no longer
Counts = dict[tuple[int, tuple[object, ...]], tuple[float, float]]


def _machine(facts: Facts) -> dict[str, object]:
    """What hardware, model and quantisation give to every plan."""
    made: dict[str, object] = {}
    if facts.hardware:
        made.update(names.hardware_vector(facts.hardware))
    if facts.model:
        made.update(names.model_vector(facts.model, facts.shape))
    if facts.quant:
        made.update(names.quant_vector(facts.quant))
    return made


def _columns(
    facts: Facts, plans: Sequence[Plan], machine: dict[str, object], seen: Counts
) -> dict[str, object]:
    """Columns of some plans of one question: a list with a value for each, or one for all."""
    base = machine | _request_columns(facts)
    arch, kind = (int(float(str(base.get(name, 0)))) for name in ("arch", "hw_class"))
    path = [
        kernel_path(plan.engine, arch, dict(plan.extra).get("backend") or "", kind)
        for plan in plans
    ]
    columns = base | {name: [read(facts, p) for p in plans] for name, read in _OF_PLAN.items()}
    return columns | {"path": path} | _limits(facts, plans, seen) | _host_layers(facts, plans)


def ranks(facts: Facts, plan: Plan) -> int:
    """Devices that work on one layer at once. Of llama.cpp's split modes that is every device where
    each holds a part of every layer, and one where each holds layers of its own (the default),
    which a token passes one after another.
    """
    if not gguf_engine(plan.engine):
        return plan.tp
    shared = dict(plan.extra).get("--split-mode") in SHARED_LAYERS
    return max(facts.gpus, plan.tp) if shared else 1


def _limits(facts: Facts, plans: Sequence[Plan], seen: Counts) -> dict[str, object]:
    """Slots of each plan, and the requests that its memory holds without its speculation and with
    it. Where the memory is what limits a plan's slots, it limits the arm without speculation by
    that arm's own count; plans that differ in k alone share that one; for such a count the slots
    are those of the arm that has more. `seen`: both counts of the
    questions before, which differ in the load that they ask about more than in what fits.
    """
    slots: list[float] = []
    before: list[float] = []
    after: list[float] = []
    last: Plan | None = None
    plain_count = cells.NAN
    given = facts.request.max_num_seqs if facts.request is not None else None
    room = (
        *(id(getattr(facts, part)) for part in (*_MACHINE, "drafters")),
        *(getattr(facts, part) for part in _COUNTED),
    )
    for plan in plans:
        held = seen.get((id(plan), room))
        if held is None:
            plain = memory.without_drafts(plan).model_copy(update={"max_num_seqs": None})
            plain_count = plain_count if plain == last else _count(facts, plain)
            last = plain
            count = plain_count if plan.method == "none" else _count(facts, plan)
            held = seen[id(plan), room] = (plain_count, count)
        before_count, count = held
        full = plan.max_num_seqs is not None and plan.max_num_seqs == count and given is None
        counted = full or traits(plan.engine).pool != "slots"
        before.append(before_count if counted else SLOTS_HOLD)  # slots are reserved at the start
        after.append(count if counted else SLOTS_HOLD)
        load = float(facts.concurrency or 1)
        own = (
            SLOTS_HOLD if not graphs_by_slots(plan.engine) else max(count, min(before_count, load))
        )
        slots.append(own if full else names.scaled_value(plan.max_num_seqs))
    return {"max_num_seqs": slots, "held_base": before, "held_spec": after}


def _host_layers(facts: Facts, plans: Sequence[Plan]) -> dict[str, object]:
    """Layers with experts in the machine's memory, without speculation and with it."""
    shape = facts.shape or facts.model
    if shape is None or not shape.moe_layers or not any(gguf_engine(p.engine) for p in plans):
        return {}
    after = [float(host_memory.host_layers(facts, plan)) for plan in plans]
    before = [
        float(host_memory.host_layers(facts, memory.without_drafts(plan))) if layers else 0.0
        for plan, layers in zip(plans, after, strict=True)
    ]
    return {"host_base": before, "host_spec": after}


def _count(facts: Facts, plan: Plan) -> float:
    if facts.ctx_tokens is None:
        return cells.NAN
    held = memory.max_requests(
        facts, plan, facts.ctx_tokens + (facts.output_tokens or USUAL_OUTPUT)
    )
    return cells.NAN if held is None else float(held)


def scheduled_k(plan: Plan, concurrency: int | None) -> float:
    """The k of the plan's schedule at this many running requests, else the plan's k."""
    running = min(concurrency or 1, plan.max_num_seqs or concurrency or 1)
    for first, last, k in plan.k_schedule:
        if first <= running <= last:
            return float(k)
    return float(plan.k)


def without_graphs(plan: Plan) -> bool:
    """Whether the plan's own flags take CUDA graphs from the engine, for both arms."""
    for name, value in plan.extra:
        text = (value or "").replace(" ", "")
        if name in GRAPHS_OFF and text.lower() != "false":
            return True
        if (name, text) in GRAPHS_OFF_BY_VALUE or (
            name == "--compilation-config" and '"cudagraph_mode":"NONE"' in text
        ):
            return True
    return False


def _draft_model_size(plan: Plan) -> float:
    found = DRAFT_SIZE.search(plan.draft_model or "") if plan.method == "draft_model" else None
    return float(found.group(1)) * 1e9 if found else cells.NAN


def _version(facts: Facts, plan: Plan) -> float:
    return cells.version_number(plan.engine, plan.engine_version or facts.engine_version or "")


def _link(facts: Facts, plan: Plan) -> str:
    """The slowest link between the ranks of a layer: bridged pairs are pairs alone."""
    if facts.interconnect == "nvlink-pairs":
        return "nvlink" if ranks(facts, plan) <= BRIDGED else "pcie"
    return facts.interconnect or ""


def _in_pieces(_: Facts, plan: Plan) -> float:
    """vLLM's schedule by batch size gives up FULL graphs on the V1 runner."""
    return 1.0 if plan.k_schedule and traits(plan.engine).schedule_in_pieces else cells.NAN


# What each plan sets by itself, or with the facts
_OF_PLAN: dict[str, Callable[[Facts, Plan], float]] = {
    "engine": lambda _, plan: P.code(P.ENGINES, plan.engine),
    "method": lambda _, plan: P.METHOD_CODE[plan.method],
    "k": lambda facts, plan: scheduled_k(plan, facts.concurrency),
    "eager": lambda _, plan: 1.0 if without_graphs(plan) else cells.NAN,
    "piecewise": _in_pieces,
    "tp": lambda facts, plan: float(ranks(facts, plan)),
    "attention_groups": lambda _, plan: float(attention_groups(plan)),
    "link": lambda facts, plan: P.code(P.LINKS, _link(facts, plan)),
    "prefix_caching": lambda _, plan: names.scaled_value(plan.prefix_caching),
    "plain_caching": lambda _, plan: names.scaled_value(plan.plain_caching),
    "max_num_batched_tokens": lambda _, plan: names.scaled_value(plan.max_num_batched_tokens),
    "kv_bytes": lambda _, plan: table("kv_cache_types").get(
        cells.normal(plan.kv_cache_dtype), cells.NAN
    ),
    "version": _version,
    "draft_params": lambda _, plan: _draft_model_size(plan),
}


def _request_columns(facts: Facts) -> dict[str, object]:
    made: dict[str, object] = {
        "gpus": float(facts.gpus),
        "concurrency": names.scaled_value(facts.concurrency),
        "input_tokens": names.scaled_value(facts.ctx_tokens),
        "output_tokens": names.scaled_value(facts.output_tokens),
        "output_spread": names.scaled_value(facts.output_spread),
        "temperature": names.scaled_value(facts.temperature),
        "thinking": names.scaled_value(facts.thinking),
        "prefix_share": names.scaled_value(facts.prefix_share),
        "workload": P.code(P.WORKLOADS, facts.workload or ""),
    }
    request = facts.request
    if request and request.acceptance:
        conditional = np.full(P.MAX_K, np.nan)
        given = request.acceptance[: P.MAX_K]
        conditional[: len(given)] = given
        made["given_conditional"] = conditional
    if request and request.acceptance_length is not None:
        made["given_length"] = float(request.acceptance_length)
        made["given_k"] = names.scaled_value(request.acceptance_k)
    return made
