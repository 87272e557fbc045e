"""Settings of many cases at once: of planned ones, and of the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from advisor.domain.nouns import (
    LLM,
    AdvisorError,
    Engine,
    Facts,
    Hardware,
    Method,
    Plan,
    Quant,
    UnknownFact,
)
from advisor.domain.question import USUAL_OUTPUT
from advisor.engines import canonical
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge import drafters as knowledge_drafters
from advisor.knowledge import store as knowledge
from advisor.perf import arrays as P
from advisor.perf import cells, memory
from advisor.perf.cells import Columns, Words, read_words
from advisor.perf.encode_rows import method_word, read_engine
from advisor.perf.load import SLOTS_HOLD
from advisor.perf.regimes.setting import Column, Setting, of_regime

Ints = npt.NDArray[np.int64]
SUFFIX = "suffix"  # how a row names n-gram lookup by a suffix tree


class Known(NamedTuple):
    """What is known of some cases: the distinct things (None: not known), and which of them each
    case has (N,).
    """

    distinct: Sequence[Any]
    codes: Ints

    def column(self, say: Callable[[Any], str | None]) -> Column:
        """A word of each thing."""
        return Column([None if one is None else say(one) for one in self.distinct], self.codes)

    def mask(self, say: Callable[[Any], bool]) -> npt.NDArray[np.bool_]:
        """Whether something holds of each case's thing; of what is not known it does not (N,)."""
        held = [one is not None and say(one) for one in self.distinct]
        return np.array(held, dtype=bool)[self.codes]


class Things(NamedTuple):
    """Machine, model, quantisation and words of N cases."""

    hardware: Known
    model: Known  # pairs of a model and the shape that stands for it
    quant: Known
    engine: Column
    method: Column
    workload: Column
    backend: Column
    narrow_kv: npt.NDArray[np.bool_]
    suffix: npt.NDArray[np.bool_]

    def take(self, rows: Ints) -> Things:
        """Those of some of the cases (M,)."""

        def some(one: Any) -> Any:
            if isinstance(one, np.ndarray):
                return one[rows]
            return one._replace(codes=one.codes[rows])

        return Things(*map(some, self))


def group_same(things: Sequence[Any], key: Callable[[Any], Hashable] = id) -> Known:
    """Things of which many are the same."""
    distinct: dict[Hashable, int] = {}
    found: list[Any] = []
    codes = np.empty(len(things), dtype=np.int64)
    for i, thing in enumerate(things):
        mark = key(thing)
        if mark not in distinct:
            distinct[mark] = len(found)
            found.append(thing)
        codes[i] = distinct[mark]
    return Known(found, codes)


def is_sparse(model: LLM, shape: LLM | None) -> bool:
    """A mixture of experts with few active parameters (the A3B class)."""
    active = model.active_params_b or (shape or model).active_params_b
    few = active is not None and active <= of_regime("sparse_moe_active_params_b")
    return bool(model.is_moe and few)


def setting(things: Things, full: P.Points) -> Setting:
    """The settings (N,) of N filled points."""
    hw, pair, quant = things.hardware, things.model, things.quant
    sparse = pair.mask(lambda one: is_sparse(*one))
    return Setting(
        engine=things.engine,
        method=things.method,
        hardware=hw.column(lambda one: one.id),
        vendor=hw.column(lambda one: one.vendor),
        hardware_class=hw.column(lambda one: one.hardware_class),
        arch=hw.column(lambda one: one.arch),
        model=pair.column(lambda one: one[0].id),
        family=pair.column(lambda one: one[0].family),
        model_arch=pair.column(lambda one: one[0].arch),
        quant=quant.column(lambda one: one.id),
        quant_family=quant.column(lambda one: one.family),
        workload=things.workload,
        backend=things.backend,
        known=hw.mask(lambda one: True),
        unified=hw.mask(lambda one: bool(one.unified_memory)),
        sparse=sparse,
        dense=pair.mask(lambda one: not is_sparse(*one)),
        hybrid=pair.mask(lambda one: bool(one[0].is_hybrid)),
        latent=pair.mask(lambda one: (one[1] or one[0]).arch.startswith("mla")),
        wide_kv=~(things.narrow_kv | quant.mask(lambda one: bool(one.family == "nvfp4"))),
        suffix=things.suffix,
        total_params_b=_each(pair, lambda one: one[0].total_params_b),
        streams=full.concurrency,
        ctx=full.input_tokens,
        output=np.where(full.output_tokens > 0, full.output_tokens, USUAL_OUTPUT),
        k=full.k,
    )


def _each(things: Known, say: Callable[[Any], float | None]) -> npt.NDArray[np.float64]:
    values = [None if one is None else say(one) for one in things.distinct]
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)[things.codes]


def of_cases(cases: Sequence[tuple[Facts, Plan]], full: P.Points) -> Setting:
    """The settings (N,) of N plans, with the filled points of each."""
    facts, plans = [facts for facts, _ in cases], [plan for _, plan in cases]

    def words(values: Sequence[str | None]) -> Column:
        return Column(*group_same(values, lambda word: word))

    things = Things(
        hardware=group_same([one.hardware for one in facts]),
        model=group_same(
            [None if one.model is None else (one.model, one.shape) for one in facts],
            lambda pair: None if pair is None else (id(pair[0]), id(pair[1])),
        ),
        quant=group_same([one.quant for one in facts]),
        engine=words([plan.engine for plan in plans]),
        method=words([plan.method for plan in plans]),
        workload=words([one.workload for one in facts]),
        backend=words([(plan.attention_backend or "").upper() or None for plan in plans]),
        narrow_kv=np.array([is_narrow(plan.kv_cache_dtype) for plan in plans], dtype=bool),
        suffix=np.array([plan.method == "ngram" and is_suffix(plan) for plan in plans], dtype=bool),
    )
    return setting(things, full)


def is_narrow(kv_cache_dtype: str | None) -> bool:
    """Whether keys and values are stored in FP8."""
    return (kv_cache_dtype or "").lower().startswith("fp8")


def is_suffix(plan: Plan) -> bool:
    """Whether n-gram stands for vLLM's suffix decoding in a plan that was read from a launch."""
    return any(SUFFIX in (value or "").lower() for _, value in plan.extra)


def things_of_rows(columns: Columns, count: int) -> Things:
    """Machine, model, quantisation and words of a table's rows; each spelling is looked up once."""

    def words(name: str) -> Words:
        return read_words(columns, name, count)

    engine, method = words("engine"), words("spec_method")
    workload, cache = words("workload"), words("kv_cache_dtype")
    return Things(
        hardware=_look_up(words("hardware"), _hardware),
        model=_look_up(words("model"), _model),
        quant=_look_up(words("quant"), _quant),
        engine=Column([read_engine(word) or None for word in engine.distinct], engine.codes),
        method=Column([method_word(word) or None for word in method.distinct], method.codes),
        workload=Column(
            [word.strip().lower() or None for word in workload.distinct], workload.codes
        ),
        backend=Column([None], np.zeros(count, dtype=np.int64)),
        narrow_kv=cache.each(lambda word: float(is_narrow(word.strip()))) > 0,
        suffix=method.each(lambda word: float(word.strip().lower() == SUFFIX)) > 0,
    )


def _look_up(words: Words, find: Callable[[str], Any]) -> Known:
    return Known([find(word.strip()) for word in words.distinct], words.codes)


def _hardware(name: str) -> Hardware | None:
    try:
        return knowledge.hardware(name) if name else None
    except AdvisorError:
        return None


def _model(name: str) -> tuple[LLM, LLM | None] | None:
    try:
        found = knowledge.llm(name) if name else None
    except UnknownFact:
        return None
    if found is None:
        return None
    try:
        return found, knowledge.shape_of(found)
    except AdvisorError:
        return found, None


def _quant(name: str) -> Quant | None:
    if not name:
        return None
    try:
        return knowledge.quant(name)
    except UnknownFact:
        return knowledge.quant_from_text(name)


Floats = npt.NDArray[np.float64]
LENGTH_COLUMN = "max_model_len"  # tokens a slot of llama-server reserves
SHARE_COLUMN = "memory_fraction"  # of the device that the engine may take: 0 to 1
# What tells plans apart beside words, as a row says it and as the filled points have it
_NUMBERS = ("gpus", "tp", "k", "prefix_caching", "max_num_batched_tokens")


def count_held(points: P.Points, full: P.Points, things: Things, columns: Columns) -> P.Points:
    """The points with the requests that memory holds where that can be counted: `held_base` and
    `held_spec` (N,).

    Parameters
    ----------
    points : Points
        N points as they were stated.
    full : Points
        The same, filled.
    things : Things
        Hardware, models and quantisations of the rows. (N,)
    columns : mapping of str to sequence
        Of the rows. (N,) each

    Returns
    -------
    Points
        N points.
    """
    count = len(points)
    shares = read_words(columns, SHARE_COLUMN, count).each(cells.fraction)
    version = read_words(columns, "engine_version", count)
    cache = read_words(columns, "kv_cache_dtype", count)
    drafts = np.where(full.method > 0, full.k, 0.0)
    numbers = {name: getattr(full, name) for name in ("gpus", "tp")} | {"k": drafts}
    numbers |= {name: getattr(points, name) for name in _NUMBERS[3:]} | {SHARE_COLUMN: shares}
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
        plan = _plan(facts, things, i, cache.of(i).strip(), {n: v[i] for n, v in numbers.items()})
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


def _groups(
    columns: Sequence[npt.NDArray[Any]], counted: npt.NDArray[np.bool_]
) -> list[npt.NDArray[np.int64]]:
    """The counted rows, together where all the columns agree."""
    rows = np.flatnonzero(counted)
    if not len(rows):
        return []
    joined = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        values = column[rows]
        if (values == values[0]).all() or (values.dtype.kind == "f" and np.isnan(values).all()):
            continue
        own = np.unique(values, return_inverse=True, equal_nan=True)[1]
        joined = joined * (int(own.max()) + 1) + own
        joined = np.unique(joined, return_inverse=True)[1]
    order = np.argsort(joined, kind="stable")
    starts = np.flatnonzero(np.diff(joined[order], prepend=-1))
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


def _plan(facts: Facts, things: Things, i: int, cache: str, numbers: Mapping[str, float]) -> Plan:
    method = cast(Method, things.method.distinct[int(things.method.codes[i])] or "none")
    known = knowledge_drafters.pick(facts, method, facts.model.id if facts.model else None)
    batched, share = numbers["max_num_batched_tokens"], numbers[SHARE_COLUMN]
    return Plan.model_construct(
        engine=cast(Engine, canonical(facts.engine or "")),
        engine_version=facts.engine_version,
        method=method,
        k=int(numbers["k"]),
        draft_model=known.repository if known is not None else None,
        prefix_caching=bool(numbers["prefix_caching"] == 1.0),
        kv_cache_dtype=cache or None,
        max_num_batched_tokens=None if np.isnan(batched) else int(batched),
        memory_fraction=None if np.isnan(share) or share == 0 else float(share),
        tp=int(numbers["tp"]),
    )
