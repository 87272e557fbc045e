"""Many cases at once, of plans or of the rows of a table, as things with names: their settings, and
of rows the requests that memory holds, counted as for a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, cast

import numpy as np

from advisor.domain.nouns import Engine, Facts, MemoryBill, Plan
from advisor.domain.question import USUAL_OUTPUT
from advisor.domain.records import NamedTuple
from advisor.engines import canonical
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge import drafters as knowledge_drafters
from advisor.knowledge import store as knowledge
from advisor.perf import arrays as P
from advisor.perf import host_memory, memory
from advisor.perf.arrays import Floats, Ints, Mask
from advisor.perf.encoding import cells
from advisor.perf.encoding.cells import Columns, group_same, normal, read_words
from advisor.perf.encoding.encode_names import find_hardware, find_model, find_quant
from advisor.perf.encoding.encode_rows import method_word, read_engine
from advisor.perf.load import SLOTS_HOLD, graphs_by_slots
from advisor.perf.regimes.setting import SUFFIX, Column, Setting, is_narrow, is_sparse, is_suffix
from advisor.perf.sizes import device

CONTEXT_COLUMN = "context_tokens"  # tokens that all slots of llama-server reserve
LENGTH_COLUMN = "max_model_len"  # tokens a slot of llama-server reserves
SHARE_COLUMN = "memory_fraction"  # of the device that the engine may take: 0 to 1
ONE_GIB = MemoryBill(weights_gib=0.0, available_gib=1.0)  # what is left of a device
MEMORY_COLUMNS = (CONTEXT_COLUMN, LENGTH_COLUMN, SHARE_COLUMN)


class Things(NamedTuple):
    """Machine, model, quantisation and words of N cases."""

    hardware: Column
    model: Column  # pairs of a model and the shape that stands for it
    quant: Column
    engine: Column
    method: Column
    workload: Column
    backend: Column
    narrow_kv: Mask
    suffix: Mask

    def take(self, rows: Ints | slice) -> Things:
        """Those of some of the cases (M,)."""
        some: Any = (one.take(rows) if isinstance(one, Column) else one[rows] for one in self)
        return Things(*some)


def setting(things: Things, full: P.Points) -> Setting:
    """The settings (N,) of N filled points."""
    hw, pair, quant = things.hardware, things.model, things.quant
    return Setting(
        engine=things.engine,
        method=things.method,
        hardware=hw.map(lambda one: one.id),
        vendor=hw.map(lambda one: one.vendor),
        hardware_class=hw.map(lambda one: one.hardware_class),
        arch=hw.map(lambda one: one.arch),
        model=pair.map(lambda one: one[0].id),
        family=pair.map(lambda one: one[0].family),
        model_arch=pair.map(lambda one: one[0].arch),
        quant=quant.map(lambda one: one.id),
        quant_family=quant.map(lambda one: one.family),
        workload=things.workload,
        backend=things.backend,
        known=hw.holds(lambda one: True),
        unified=hw.holds(lambda one: bool(one.unified_memory)),
        sparse=pair.holds(lambda one: is_sparse(*one)),
        dense=pair.holds(lambda one: not is_sparse(*one)),
        hybrid=pair.holds(lambda one: bool(one[0].is_hybrid)),
        latent=pair.holds(lambda one: (one[1] or one[0]).arch.startswith("mla")),
        wide_kv=~(things.narrow_kv | quant.holds(lambda one: bool(one.family == "nvfp4"))),
        suffix=things.suffix,
        total_params_b=pair.numbers(lambda one: one[0].total_params_b),
        streams=np.fmin(full.concurrency, full.max_num_seqs),
        ctx=full.input_tokens,
        output=np.where(full.output_tokens > 0, full.output_tokens, USUAL_OUTPUT),
        k=full.k,
    )


def of_cases(cases: Sequence[tuple[Facts, Plan]], full: P.Points) -> Setting:
    """The settings (N,) of N plans, with the filled points of each."""
    facts, plans = [facts for facts, _ in cases], [plan for _, plan in cases]

    models = [one.model and (one.model, one.shape) for one in facts]
    things = Things(
        hardware=_by_identity([one.hardware for one in facts]),
        model=group_same(models, [pair and (id(pair[0]), id(pair[1])) for pair in models]),
        quant=_by_identity([one.quant for one in facts]),
        engine=group_same([plan.engine for plan in plans]),
        method=group_same([plan.method for plan in plans]),
        workload=group_same([one.workload for one in facts]),
        backend=group_same([(plan.attention_backend or "").upper() or None for plan in plans]),
        narrow_kv=np.array([is_narrow(plan.kv_cache_dtype) for plan in plans], dtype=bool),
        suffix=np.array([plan.method == "ngram" and is_suffix(plan) for plan in plans], dtype=bool),
    )
    return setting(things, full)


def _by_identity(things: Sequence[Any]) -> Column:
    return group_same(things, [*map(id, things)])


def things_of_rows(columns: Columns, count: int) -> Things:
    """Machine, model, quantisation and words of a table's rows; each spelling is looked up once."""

    def words(name: str, read: Callable[[str], Any]) -> Column:
        return read_words(columns, name, count).map(lambda word: read(word) or None)

    method, cache = (read_words(columns, name, count) for name in ("spec_method", "kv_cache_dtype"))
    return Things(
        hardware=words("hardware", lambda word: find_hardware(word.strip())),
        model=words("model", lambda word: find_model(word.strip())),
        quant=words("quant", lambda word: find_quant(word.strip())),
        engine=words("engine", read_engine),
        method=words("spec_method", method_word),
        workload=words("workload", normal),
        backend=Column([None], np.zeros(count, dtype=np.int64)),
        narrow_kv=cache.each(lambda word: is_narrow(word.strip())),
        suffix=method.each(lambda word: normal(word) == SUFFIX),
    )


# ---------------------------------------------------------------- requests that memory holds


def count_held(points: P.Points, full: P.Points, things: Things, columns: Columns) -> P.Points:
    """The points with the requests that memory holds, where counted: `held_base`, `held_spec`."""
    count = len(points)
    shares = read_words(columns, SHARE_COLUMN, count).numbers(cells.fraction)
    counted = np.isnan(points.kv_pool_tokens) & np.isfinite(full.k)
    counted &= things.engine.each(lambda name: canonical(name or "") is not None)
    reserved = read_words(columns, LENGTH_COLUMN, count).numbers(cells.positive)
    slotted = things.engine.holds(gguf_engine) & ~np.isnan(reserved)
    lengths = np.where(slotted, reserved, full.input_tokens + full.output_tokens)
    kept = (points.held_base, points.held_spec, points.max_num_seqs)
    before, after, slots = (column.copy() for column in kept)
    stated = read_words(columns, "max_num_seqs", count).numbers(cells.positive)
    for rows, facts, plan in plans_of(points, full, things, columns, counted, shares):
        for requests, arm in ((before, memory.without_drafts(plan)), (after, plan)):
            fitting = memory.room(facts, arm, lengths[rows])
            if fitting is not None and (fitting >= 1).any():  # else it was run otherwise
                requests[rows] = np.where(fitting >= 1, np.floor(fitting), requests[rows])
        if traits(plan.engine).pool == "slots":  # reserved at the start: nobody waits for memory
            open_slots = rows[slots[rows] != after[rows]]
            before[open_slots] = after[open_slots] = SLOTS_HOLD
    full_slots = slots == after  # as many as the memory holds: it is the limit, not the option
    before = np.where(full_slots & (slots < stated), np.fmin(before, stated), before)
    graphs = things.engine.each(graphs_by_slots)
    most = np.where(graphs, np.fmax(after, np.fmin(before, full.concurrency)), SLOTS_HOLD)
    slots = np.where(full_slots, most, slots)
    return points.replace(held_base=before, held_spec=after, max_num_seqs=slots)


def shortfall(
    points: P.Points, full: P.Points, things: Things, columns: Columns
) -> tuple[Floats, Floats, Floats]:
    """GiB by which reserved slots are billed too large for a device with speculation, 0 where they
    fit or where a row does not say how long they are, one slot where it does not say how many; and
    the layers whose experts llama-server moves to the machine's memory for such slots, without
    speculation and with it. (N,) each.
    """
    count = len(points)
    short, before, after = (np.zeros(count) for _ in range(3))
    total = read_words(columns, CONTEXT_COLUMN, count).numbers(cells.positive)
    each = read_words(columns, LENGTH_COLUMN, count).numbers(cells.positive)
    slots = np.fmax(np.nan_to_num(points.max_num_seqs, nan=1.0), 1.0)
    length = np.where(np.isnan(total), each, total / slots)
    here = ~np.isnan(length) & (full.method > 0) & (full.k > 0) & np.isfinite(points.memory_bytes)
    here &= things.engine.holds(gguf_engine)
    for rows, facts, plan in plans_of(points, full, things, columns, here, np.full(count, np.nan)):
        short[rows] = _over(facts, plan, slots[rows], length[rows])
        if (short[rows] > 0).any() and device.moves_experts(facts, plan):
            for layers, arm in ((before, memory.without_drafts(plan)), (after, plan)):
                gib = _over(facts, arm, slots[rows], length[rows])
                alone = (facts.replace(gpus=n) for n in full.gpus[rows].tolist())
                layers[rows] = [*map(host_memory.host_layers, alone, repeat(arm), gib.tolist())]
    return short, before, after


def _over(facts: Facts, plan: Plan, slots: Floats, length: Floats) -> Floats:
    """GiB by which slots of so many tokens each are too large, as `memory.bill` rounds them, 0
    where they fit (N,).
    """
    free = memory.free_gib(facts, plan)
    by_one_gib = memory.room(facts, plan, length, ONE_GIB)
    if free is None or by_one_gib is None:
        return np.zeros(len(slots))
    return np.asarray(np.round(np.fmax(slots / by_one_gib - free, 0.0), 2), dtype=np.float64)


def plans_of(
    points: P.Points,
    full: P.Points,
    things: Things,
    columns: Columns,
    counted: Mask,
    shares: Floats,
) -> Iterator[tuple[Ints, Facts, Plan]]:
    """The counted rows, together where all but GPUs, tp and k agree, with their facts and their
    plan, in which these three are arrays.
    """
    version = read_words(columns, "engine_version", len(points))
    cache = read_words(columns, "kv_cache_dtype", len(points))
    caching, budget = points.prefix_caching, points.max_num_batched_tokens
    plain = points.plain_caching
    ranks, drafts = np.floor(full.tp), np.floor(np.where(full.method > 0, full.k, 0.0))
    kinds = (things.hardware, things.model, things.quant, things.engine, things.method)
    numbers = (caching, plain, budget, shares)
    columns_of = [*(kind.codes for kind in (*kinds, version, cache)), *numbers]
    rows = np.flatnonzero(counted)
    if not len(rows):
        return
    which = cells.distinct_rows([column[rows] for column in columns_of])[1]
    order = np.argsort(which, kind="stable")
    for group in np.split(rows[order], np.flatnonzero(np.diff(which[order], prepend=-1))[1:]):
        i = int(group[0])
        hardware, pair, quant, engine, method = (kind.of(i) for kind in kinds)
        model, shape = pair or (None, None)
        facts = Facts.model_construct(
            hardware=hardware,
            model=model,
            shape=shape,
            quant=quant,
            gpus=full.gpus[group],
            engine=engine,
            engine_version=version.of(i).strip() or None,
            drafters=knowledge.drafters(model) if model is not None else (),
        )
        drafter = knowledge_drafters.pick(facts, method or "none", model.id if model else None)
        plan = Plan.model_construct(
            engine=cast(Engine, canonical(engine or "")),
            engine_version=facts.engine_version,
            method=method or "none",
            k=drafts[group],
            draft_model=drafter.address if drafter is not None else None,
            prefix_caching=bool(caching[i] == 1.0),
            plain_caching=None if np.isnan(plain[i]) else bool(plain[i] == 1.0),
            kv_cache_dtype=cache.of(i).strip() or None,
            max_num_batched_tokens=None if np.isnan(budget[i]) else int(budget[i]),
            memory_fraction=None if np.isnan(shares[i]) or shares[i] == 0 else float(shares[i]),
            tp=ranks[group],
        )
        yield group, facts, plan
