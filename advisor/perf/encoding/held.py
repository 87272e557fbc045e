"""Requests that memory holds, counted for the rows of a table as they are for a plan."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any, cast

import numpy as np

from advisor.domain.nouns import Engine, Facts, Plan
from advisor.engines import canonical
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge import drafters as knowledge_drafters
from advisor.knowledge import store as knowledge
from advisor.perf import arrays as P
from advisor.perf import host_memory, memory
from advisor.perf.arrays import Floats, Ints, Mask
from advisor.perf.encoding import cells
from advisor.perf.encoding.cells import Columns, read_words
from advisor.perf.encoding.encode_settings import Things
from advisor.perf.load import SLOTS_HOLD, graphs_by_slots
from advisor.perf.sizes import device

CONTEXT_COLUMN = "context_tokens"  # tokens that all slots of llama-server reserve
LENGTH_COLUMN = "max_model_len"  # tokens a slot of llama-server reserves
SHARE_COLUMN = "memory_fraction"  # of the device that the engine may take: 0 to 1
MEMORY_COLUMNS = (CONTEXT_COLUMN, LENGTH_COLUMN, SHARE_COLUMN)


def count_held(points: P.Points, full: P.Points, things: Things, columns: Columns) -> P.Points:
    """The points with the requests that memory holds, where counted: `held_base`, `held_spec`."""
    count = len(points)
    shares = read_words(columns, SHARE_COLUMN, count).numbers(cells.fraction)
    counted = np.isnan(points.kv_pool_tokens) & np.isfinite(full.k)
    counted &= things.engine.each(lambda name: canonical(name or "") is not None)
    reserved = read_words(columns, LENGTH_COLUMN, count).numbers(cells.positive)
    slotted = things.engine.holds(gguf_engine)
    lengths = full.input_tokens + full.output_tokens
    lengths = np.where(slotted & ~np.isnan(reserved), reserved, lengths)
    before, after = points.held_base.copy(), points.held_spec.copy()
    slots = points.max_num_seqs.copy()
    for rows, facts, plan in plans_of(points, full, things, columns, counted, shares):
        for requests, arm in ((before, memory.without_drafts(plan)), (after, plan)):
            fitting = memory.room(facts, arm, lengths[rows])
            if fitting is not None and (fitting >= 1).any():  # else it was run otherwise
                requests[rows] = np.where(fitting >= 1, np.floor(fitting), requests[rows])
        if traits(plan.engine).pool == "slots":  # reserved at the start: nobody waits for memory
            open_slots = rows[slots[rows] != after[rows]]
            before[open_slots] = after[open_slots] = SLOTS_HOLD
    full_slots = slots == after  # as many as the memory holds: it is the limit, not the option
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
    reserved = np.where(np.isnan(total), each * slots, total)
    here = ~np.isnan(reserved) & (full.method > 0) & (full.k > 0) & np.isfinite(points.memory_bytes)
    here &= things.engine.holds(gguf_engine)
    unstated = np.full(count, np.nan)
    for rows, facts, plan in plans_of(points, full, things, columns, here, unstated):
        short[rows] = _over(facts, plan, reserved[rows])
        if (short[rows] > 0).any() and device.moves_experts(facts, plan):
            for layers, arm in ((before, memory.without_drafts(plan)), (after, plan)):
                gib = _over(facts, arm, reserved[rows])
                alone = (facts.model_copy(update={"gpus": n}) for n in full.gpus[rows].tolist())
                layers[rows] = [*map(host_memory.host_layers, alone, repeat(arm), gib.tolist())]
    return short, before, after


def _over(facts: Facts, plan: Plan, reserved: Floats) -> Floats:
    """GiB by which slots of so many tokens in all are too large, 0 where they fit (N,)."""
    free, held = memory.free_gib(facts, plan), memory.room(facts, plan, reserved)
    if free is None or held is None:
        return np.zeros(len(reserved))
    return np.fmax(np.where(free > 0, free / np.fmax(held, 1e-9) - free, -free), 0.0)


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
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    for group in np.split(rows[order], starts[1:]):
        i = int(group[0])
        of_row: list[Any] = [kind.of(i) for kind in kinds]
        hardware, (model, shape), quant, engine, method = (
            of_row[0],
            of_row[1] or (None, None),
            *of_row[2:],
        )
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
