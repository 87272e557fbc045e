"""Settings of many cases at once: of planned ones, and of the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from advisor.domain.nouns import Facts, Plan
from advisor.domain.question import USUAL_OUTPUT
from advisor.domain.records import NamedTuple
from advisor.perf import arrays as P
from advisor.perf.arrays import Ints, Mask
from advisor.perf.encoding.cells import Columns, group_same, normal, read_words
from advisor.perf.encoding.encode_names import find_hardware, find_model, find_quant
from advisor.perf.encoding.encode_rows import method_word, read_engine
from advisor.perf.regimes.setting import (
    SUFFIX,
    Column,
    Setting,
    is_narrow,
    is_sparse,
    is_suffix,
)


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
