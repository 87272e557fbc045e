"""Requests that memory holds, counted for the rows of a table as they are for a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from advisor.domain.nouns import Engine, Facts, Method, Plan
from advisor.domain.patterns import lazy_re
from advisor.domain.sourced import sourced
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
from advisor.perf.load import SLOTS_HOLD
from advisor.perf.sizes import device

CONTEXT_COLUMN = "context_tokens"  # tokens that all slots of llama-server reserve
LENGTH_COLUMN = "max_model_len"  # tokens a slot of llama-server reserves
SHARE_COLUMN = "memory_fraction"  # of the device that the engine may take: 0 to 1
MEMORY_COLUMNS = (CONTEXT_COLUMN, LENGTH_COLUMN, SHARE_COLUMN)
# n-cpu-moe 22 (off arm 20); without a number every layer
_CPU_MOE = lazy_re(
    r"\bn-cpu-moe (?P<layers>\d+)(?:[^;]*?\(off arm (?P<off>\d+)\))?|\bcpu-moe\b|\bexps=CPU\b"
)
EVERY_LAYER = sourced(1000, "layers", "own choice: more than any model has", "chosen")
# What tells plans apart beside words and beside tp and k, which the bill takes many of at once
_NUMBERS = ("prefix_caching", "max_num_batched_tokens")


def count_held(points: P.Points, full: P.Points, things: Things, columns: Columns) -> P.Points:
    """The points with the requests that memory holds, where counted: `held_base`, `held_spec`."""
    count = len(points)
    shares = read_words(columns, SHARE_COLUMN, count).each(cells.fraction)
    version = read_words(columns, "engine_version", count)
    cache = read_words(columns, "kv_cache_dtype", count)
    ranks, drafts = np.floor(full.tp), np.floor(np.where(full.method > 0, full.k, 0.0))
    numbers = {name: getattr(points, name) for name in _NUMBERS} | {SHARE_COLUMN: shares}
    codes = [things.hardware.codes, things.model.codes, things.quant.codes]
    codes += [things.engine.codes, things.method.codes, version.codes, cache.codes]
    counted = np.isnan(points.kv_pool_tokens) & np.isfinite(full.k)
    counted &= things.engine.each(lambda name: canonical(name or "") is not None)
    reserved = read_words(columns, LENGTH_COLUMN, count).each(cells.positive)
    slotted = things.engine.each(lambda name: name is not None and gguf_engine(name))
    lengths = full.input_tokens + full.output_tokens
    lengths = np.where(slotted & ~np.isnan(reserved), reserved, lengths)
    before, after = points.held_base.copy(), points.held_spec.copy()
    slots = points.max_num_seqs.copy()
    for rows in _groups([*codes, *numbers.values()], counted):
        i = int(rows[0])
        facts = _facts(things, i, version.of(i).strip())
        words = {name: float(column[i]) for name, column in numbers.items()}
        plan = _plan(facts, things, i, cache.of(i).strip(), words, (ranks[rows], drafts[rows]))
        plain = plan.model_copy(update={"method": "none", "k": 0})
        for held, one in ((before, plain), (after, plan)):
            found = memory.rooms(facts, one, lengths[rows])
            if found is not None and (found >= 1).any():  # else it was run otherwise than we think
                held[rows] = np.where(found >= 1, np.floor(found), held[rows])
        if traits(plan.engine).pool == "slots":  # reserved at the start: nobody waits for memory
            open_slots = rows[slots[rows] != after[rows]]
            before[open_slots] = after[open_slots] = SLOTS_HOLD
    full_slots = slots == after  # as many as the memory holds: it is the limit, not the option
    return points.replace(
        held_base=before,
        held_spec=after,
        max_num_seqs=np.where(full_slots, SLOTS_HOLD, slots),
    )


class Short(NamedTuple):
    """Reserved slots that are billed too large for a device, (N,) each."""

    gib: Floats  # with speculation
    # layers whose experts lie in the machine's memory, as the row says or as llama-server moves
    # them for such slots, without speculation and with it
    host_base: Floats
    host_spec: Floats


def shortfall(points: P.Points, full: P.Points, things: Things, columns: Columns) -> Short:
    """By how much reserved slots are billed too large for a device with speculation, and what
    llama-server does about it; 0 where they fit, or where a row does not say how long they are; one
    slot where it does not say how many.
    """
    count = len(points)
    short, before, after = (np.zeros(count) for _ in range(3))
    total = read_words(columns, CONTEXT_COLUMN, count).each(cells.positive)
    each = read_words(columns, LENGTH_COLUMN, count).each(cells.positive)
    slots = np.fmax(np.nan_to_num(points.max_num_seqs, nan=1.0), 1.0)
    reserved = np.where(np.isnan(total), each * slots, total)
    here = ~np.isnan(reserved) & (full.method > 0) & (full.k > 0) & np.isfinite(points.memory_bytes)
    here &= things.engine.each(lambda name: name is not None and gguf_engine(name))
    version = read_words(columns, "engine_version", count)
    cache = read_words(columns, "kv_cache_dtype", count)
    numbers = {name: getattr(points, name) for name in _NUMBERS}
    numbers |= {SHARE_COLUMN: np.full(count, np.nan)}
    codes = [things.hardware.codes, things.model.codes, things.quant.codes]
    codes += [things.engine.codes, things.method.codes, version.codes, cache.codes]
    for rows in _groups([*codes, *numbers.values()], here):
        i = int(rows[0])
        facts = _facts(things, i, version.of(i).strip())
        words = {name: float(column[i]) for name, column in numbers.items()}
        ranks, drafts = np.floor(full.tp[rows]), np.floor(full.k[rows])
        plan = _plan(facts, things, i, cache.of(i).strip(), words, (ranks, drafts))
        short[rows] = _over(facts, plan, reserved[rows])
        if (short[rows] > 0).any() and device.moves_experts(facts, plan):
            plain = plan.model_copy(update={"method": "none", "k": 0})
            for layers, one in ((before, plain), (after, plan)):
                gib = _over(facts, one, reserved[rows])
                layers[rows] = [host_memory.host_layers(facts, one, float(part)) for part in gib]
    base, spec = told_layers(columns, count)
    return Short(
        short, np.where(np.isnan(base), before, base), np.where(np.isnan(spec), after, spec)
    )


def told_layers(columns: Columns, count: int) -> tuple[Floats, Floats]:
    """Layers whose experts lie in the machine's memory as rows say it, without speculation and with
    it; NaN where they do not. Training does not read this: it prices its five such rows as if all
    lay on the card.
    """
    words = read_words(columns, "spec_extra", count)
    return words.each(lambda text: _read_layers(text)[0]), words.each(
        lambda text: _read_layers(text)[1]
    )


def _read_layers(text: str) -> tuple[float, float]:
    found = _CPU_MOE.search(text)
    if not found:
        return cells.NAN, cells.NAN
    layers = float(found.group("layers") or EVERY_LAYER)
    return float(found.group("off") or layers), layers


def _over(facts: Facts, plan: Plan, reserved: Floats) -> Floats:
    """GiB by which slots of so many tokens in all are too large, 0 where they fit (N,)."""
    free, held = memory.free_gib(facts, plan), memory.rooms(facts, plan, reserved)
    if free is None or held is None:
        return np.zeros(len(reserved))
    return np.fmax(np.where(free > 0, free / np.fmax(held, 1e-9) - free, -free), 0.0)


def _groups(columns: Sequence[npt.NDArray[Any]], counted: Mask) -> list[Ints]:
    """The counted rows, together where all the columns agree."""
    rows = np.flatnonzero(counted)
    if not len(rows):
        return []
    which = cells.distinct_rows([column[rows] for column in columns])[1]
    order = np.argsort(which, kind="stable")
    starts = np.flatnonzero(np.diff(which[order], prepend=-1))
    return np.split(rows[order], starts[1:])


def _facts(things: Things, i: int, version: str) -> Facts:
    pair = things.model.distinct[int(things.model.codes[i])]
    model, shape = pair if pair is not None else (None, None)
    return Facts.model_construct(
        hardware=things.hardware.distinct[int(things.hardware.codes[i])],
        model=model,
        shape=shape,
        quant=things.quant.distinct[int(things.quant.codes[i])],
        engine=things.engine.distinct[int(things.engine.codes[i])],
        engine_version=version or None,
        drafters=knowledge.drafters(model) if model is not None else (),
    )


def _plan(
    facts: Facts,
    things: Things,
    i: int,
    cache: str,
    numbers: Mapping[str, float],
    ranks_k: tuple[Floats, Floats],
) -> Plan:
    """The plan of rows that differ in tp and k only, which are arrays in it (N,)."""
    ranks, k = cast("tuple[int, int]", ranks_k)
    method = cast(Method, things.method.distinct[int(things.method.codes[i])] or "none")
    known = knowledge_drafters.pick(facts, method, facts.model.id if facts.model else None)
    batched, share = numbers["max_num_batched_tokens"], numbers[SHARE_COLUMN]
    return Plan.model_construct(
        engine=cast(Engine, canonical(facts.engine or "")),
        engine_version=facts.engine_version,
        method=method,
        k=k,
        draft_model=known.repository if known is not None else None,
        prefix_caching=bool(numbers["prefix_caching"] == 1.0),
        kv_cache_dtype=cache or None,
        max_num_batched_tokens=None if np.isnan(batched) else int(batched),
        memory_fraction=None if np.isnan(share) or share == 0 else float(share),
        tp=ranks,
    )
