"""Settings of many cases at once: of planned ones, and of the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from advisor.domain.nouns import Facts, Plan
from advisor.domain.question import USUAL_OUTPUT
from advisor.perf import arrays as P
from advisor.perf.arrays import Floats, Ints, Mask
from advisor.perf.encoding.cells import Columns, Words, read_words
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


class Known(NamedTuple):
    """Some cases' distinct things (None: not known), and which of them each case has (N,)."""

    distinct: Sequence[Any]
    codes: Ints

    def column(self, say: Callable[[Any], str | None]) -> Column:
        """A word of each thing."""
        return Column([None if one is None else say(one) for one in self.distinct], self.codes)

    def mask(self, say: Callable[[Any], bool]) -> Mask:
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
    narrow_kv: Mask
    suffix: Mask

    def take(self, rows: Ints | slice) -> Things:
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
        streams=np.fmin(full.concurrency, full.max_num_seqs),
        ctx=full.input_tokens,
        output=np.where(full.output_tokens > 0, full.output_tokens, USUAL_OUTPUT),
        k=full.k,
    )


def _each(things: Known, say: Callable[[Any], float | None]) -> Floats:
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


def things_of_rows(columns: Columns, count: int) -> Things:
    """Machine, model, quantisation and words of a table's rows; each spelling is looked up once."""

    def words(name: str) -> Words:
        return read_words(columns, name, count)

    engine, method = words("engine"), words("spec_method")
    workload, cache = words("workload"), words("kv_cache_dtype")
    return Things(
        hardware=_look_up(words("hardware"), find_hardware),
        model=_look_up(words("model"), find_model),
        quant=_look_up(words("quant"), find_quant),
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
