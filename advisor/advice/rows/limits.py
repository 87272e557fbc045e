"""The limits of the servers that rows ask about, as the plan of their question has them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from advisor import engines
from advisor.advice.plans import cache_types, limits, methods, propose
from advisor.domain.nouns import Facts, Plan
from advisor.engines.traits import engines_with, traits
from advisor.knowledge import imputed
from advisor.perf import arrays, memory
from advisor.perf.arrays import Floats, Ints, Mask
from advisor.perf.encoding import cells
from advisor.perf.encoding.cells import group_same, read_words
from advisor.perf.encoding.things import (
    CONTEXT_COLUMN,
    LENGTH_COLUMN,
    SHARE_COLUMN,
    Things,
    count_held,
    plans_of,
)
from advisor.perf.load import page_tokens
from advisor.perf.regimes.setting import Column, is_narrow
from advisor.perf.sizes.pools import SHARED_CONTEXT, shares_context
from advisor.prediction import predict_table
from advisor.prediction.model import prepare
from advisor.prediction.switches import USUAL_STREAMS

WRITTEN = engines_with("writable")  # launches are written for them


class _Asked(NamedTuple):
    """Rows that ask, (N,) each: as imputed, as things with names, and the requests at once."""

    full: arrays.Points
    things: Things
    load: Floats

    @property
    def tokens(self) -> Floats:
        """Of one request (N,)."""
        return self.full.input_tokens + self.full.output_tokens

    def groups(
        self, points: arrays.Points, table: Mapping[str, Column], known: Mask, fraction: Floats
    ) -> Iterator[tuple[Ints, Facts, Plan]]:
        """`plans_of` with catalogued releases, and one context for lone llama-server requests."""
        lone = self.full.is_engine(*engines_with("gguf")) & (self.load == 1)
        lone &= np.isnan(points.max_num_seqs)
        for extra, here in (((), known & ~lone), ((SHARED_CONTEXT,), known & lone)):
            plans = plans_of(points, self.full, self.things, table, here, fraction)
            for rows, facts, plan in plans:
                asked = facts.engine_version
                listed = asked if asked in engines.get(plan.engine).versions else None
                server = plan.replace(extra=extra, engine_version=listed)
                yield rows, facts.replace(engine_version=listed), server


@np.errstate(all="ignore")
def with_limits(
    row: predict_table.Encoded, asks: Mask, refused: dict[int, str]
) -> predict_table.Encoded:
    """The rows with the limits of their question's plan, from tokens of a step to caching; those
    that nothing serves are written into `refused`.
    """
    points, things, table = row
    count, full = len(points), prepare(points)[1]
    known = asks & things.engine.among(WRITTEN) & things.model.holds(lambda _: True)
    load = np.where(np.isnan(points.concurrency), USUAL_STREAMS[1], points.concurrency)
    asked = _Asked(full, things, load)
    points = _with_caching(asked, points, table, known)
    slots, budget = points.max_num_seqs.copy(), points.max_num_batched_tokens.copy()
    fraction = read_words(table, SHARE_COLUMN, count).numbers(cells.fraction).copy()
    fraction[known & ~things.engine.among(engines_with("memory_share"))] = np.nan  # takes none
    length = read_words(table, LENGTH_COLUMN, count).numbers(cells.positive).copy()
    reserved = read_words(table, CONTEXT_COLUMN, count).numbers(cells.positive)
    each = reserved / np.fmax(np.nan_to_num(slots, nan=1.0), 1)
    length = np.where(np.isnan(length), each, length)
    cache = read_words(table, "kv_cache_dtype", count)
    kind = np.array(cache.distinct, dtype=object)[cache.codes]
    for rows, facts, read in asked.groups(points, table, known, fraction):
        tokens = asked.tokens[rows]
        plan = _server_plan(facts, read, load[rows], tokens, slots[rows], length[rows])
        if plan.kv_cache_dtype is None and not kind[rows[0]].strip():
            kind[rows] = _cache_types(facts, plan, load[rows], tokens)
        if plan.max_num_batched_tokens is not None:
            budget[rows] = plan.max_num_batched_tokens
        if plan.memory_fraction is not None:
            fraction[rows] = plan.memory_fraction
    types, kinds = imputed.table("kv_cache_types"), group_same(kind.tolist())
    kv_bytes = kinds.numbers(lambda word: types.get(cells.normal(word), np.nan))
    points = points.replace(max_num_batched_tokens=budget, kv_bytes=kv_bytes)
    columns = {**table, "kv_cache_dtype": kinds, SHARE_COLUMN: _words(fraction)}
    graphs = points.graph_tokens.copy()
    for rows, facts, read in asked.groups(points, columns, known, fraction):
        tokens = asked.tokens[rows]
        plan = _server_plan(facts, read, load[rows], tokens, slots[rows], length[rows])
        open_slots, open_length = np.isnan(slots[rows]), np.isnan(length[rows])
        base = memory.without_drafts(plan)
        base = base if shares_context(base) else limits.cap_slots(facts, base, tokens)
        for wrong, why in _misfits(facts, base, tokens):
            refused |= dict.fromkeys(rows[wrong].tolist(), why)
        plan = _fit_slots(facts, plan, base, tokens, open_slots, open_length)
        slots[rows] = plan.max_num_seqs
        prompts = full.input_tokens[rows] * (1 - full.prefix_share[rows])
        k = max((arm.k for arm in _with_k(facts, plan, max)), default=0)
        size = limits.graph_size(facts, prompts, load[rows], base.max_num_seqs, k)
        graphs[rows] = np.where(size > 0, size, np.nan)
        if traits(plan.engine).pool == "slots":
            length[rows] = plan.max_model_len
    narrow = kinds.each(lambda word: is_narrow(word.strip()))
    columns[LENGTH_COLUMN] = _words(length)
    limited = points.replace(max_num_seqs=slots, graph_tokens=graphs)
    return predict_table.Encoded(limited, things._replace(narrow_kv=narrow), columns)


def _misfits(facts: Facts, base: Plan, tokens: Floats) -> Iterator[tuple[Mask, str]]:
    """The rows (N,) that no plan serves, and why: files of other engines, requests beyond the
    model, weights beyond the memory.
    """
    needs = facts.quant.engines if facts.quant is not None else ()
    if facts.quant is not None and needs and base.engine not in needs:
        why = f"{facts.quant.id} does not run on {base.engine}: it needs {' or '.join(needs)}"
        yield np.full(tokens.shape, True), why
    if top := facts.llm.max_context_tokens:
        yield tokens > top, f"the request does not fit the model's context of {top} tokens"
    free = memory.free_gib(facts, base)
    if free is not None and traits(base.engine).memory_share:
        why = f"{facts.llm.id} does not fit on this hardware with {base.engine}"
        over = np.broadcast_to(np.asarray(free) <= 0, tokens.shape)
        yield over, f"{why}: `advisor recommend` says what does"


def _words(values: Floats) -> Column:
    """Numbers as the words of a column, NaN as an empty one."""
    distinct, codes = np.unique(values, return_inverse=True)
    return Column(["" if np.isnan(one) else f"{one:.12g}" for one in distinct.tolist()], codes)


def _server_plan(
    facts: Facts, plan: Plan, load: Floats, tokens: Floats, slots: Floats, length: Floats
) -> Plan:
    """The plan of some rows with limits as `propose.base_plan` has them; arrays (N,)."""
    step, fraction = propose.step_and_share(facts)
    enough = limits.enough_slots(facts, load, shares_context(plan))
    given: Any = {
        "max_num_seqs": np.where(np.isnan(slots), enough, slots),
        "max_model_len": np.where(np.isnan(length), limits.least_context(facts, tokens), length),
    }
    if traits(plan.engine).memory_share:
        given["max_num_batched_tokens"] = plan.max_num_batched_tokens or step
        given["memory_fraction"] = plan.memory_fraction or fraction
    server = plan.replace(**given)
    if not traits(plan.engine).outside_share or plan.memory_fraction is not None:
        return server
    base = memory.without_drafts(server)
    base = limits.with_share(facts, base, (base, *_with_k(facts, server, max)), tokens, load)
    same = ("memory_fraction", "max_num_batched_tokens")
    return server.replace(**{name: getattr(base, name) for name in same})


def _with_k(facts: Facts, plan: Plan, pick: Callable[[Sequence[int]], int]) -> list[Plan]:
    """The plan with one of the draft tokens that the question tries; none where it has no draft."""
    if plan.method == "none":
        return []
    return [plan.replace(k=pick(methods.k_values(_of_one(facts), plan.method)))]


def _of_one(facts: Facts) -> Facts:
    """The facts of the first of some rows, where these differ in their GPUs alone."""
    return facts.replace(gpus=int(np.ravel(facts.gpus)[0]))


def _cache_types(facts: Facts, plan: Plan, load: Floats, tokens: Floats) -> Any:
    """The KV cache type of each row, "" for 16 bits (N,)."""
    if needed := limits.only_type(facts, plan):
        return needed
    kinds = traits(plan.engine).cache_types
    if not kinds or not cache_types.reads_8_bits(facts, plan):
        return ""
    arms, base = _with_k(facts, plan, propose.middle_of), memory.without_drafts(plan)
    slots: Any = plan.max_num_seqs
    eight = cache_types.needs_8_bits(facts, base, arms, np.fmin(load, slots), tokens)
    return np.where(eight, kinds[0], "")


def _fit_slots(
    facts: Facts, plan: Plan, base: Plan, tokens: Floats, open_: Mask, open_length: Mask
) -> Plan:
    """The plan with no more slots and context than memory holds, as far as rows (N,) leave open."""
    if shares_context(plan):
        return plan.replace(max_num_seqs=1)  # the others come after it
    fitted = plan.replace(max_num_seqs=base.max_num_seqs)
    if traits(plan.engine).pool == "slots":
        arms = [limits.cap_slots(facts, arm, tokens) for arm in _with_k(facts, fitted, max)]
        stated: Any = plan.max_model_len
        longest = np.where(open_length, limits.free_length(facts, base, [base, *arms]), stated)
        fitted = fitted.replace(max_model_len=longest)
    return limits.cap_slots(facts, fitted, tokens, open_ | (traits(plan.engine).pool == "slots"))


def _with_caching(
    asked: _Asked, points: arrays.Points, table: Mapping[str, Column], known: Mask
) -> arrays.Points:
    """The points with the prefix cache of either arm where a row does not say it (N,)."""
    full = asked.full
    here = known & np.isnan(points.prefix_caching) & ~full.is_engine(*engines_with("gguf"))
    if not here.any():
        return points
    shares, pays = full.prefix_share > 0, _caching_pays(asked, points, table, here)
    caching, plain = points.prefix_caching.copy(), points.plain_caching.copy()
    fraction = read_words(table, SHARE_COLUMN, len(points)).numbers(cells.fraction)
    for rows, facts, plan in asked.groups(points, table, here, fraction):
        step, share_of_memory = propose.step_and_share(facts)
        given = {
            "max_num_batched_tokens": plan.max_num_batched_tokens or step,
            "memory_fraction": plan.memory_fraction or share_of_memory,
        }
        base = memory.without_drafts(plan).replace(**given)
        alone = methods.usual_caching(facts, base, asked.tokens[rows], asked.load[rows])
        if facts.llm.is_hybrid:
            alone = np.where(shares[rows], pays[rows], alone)
        caching[rows] = alone & methods.cache_beside(_of_one(facts), plan.method, shares[rows])
        plain[rows] = np.where(shares[rows] & (alone != caching[rows]), alone, np.nan)
    return points.replace(prefix_caching=caching, plain_caching=plain)


def _caching_pays(
    asked: _Asked, points: arrays.Points, table: Mapping[str, Column], known: Mask
) -> Mask:
    """Where a hybrid's prompts share a page whose hits are worth what they cost, with the slots and
    tokens a step that the plan has before memory is asked (N,).
    """
    full = asked.full
    hybrid = asked.things.model.holds(lambda one: bool(one[0].is_hybrid))
    pays = known & hybrid & (full.prefix_share * full.input_tokens >= page_tokens(full))
    rows = np.flatnonzero(pays)
    if not len(rows):
        return pays
    slots, budget = points.max_num_seqs.copy(), points.max_num_batched_tokens.copy()
    fraction = read_words(table, SHARE_COLUMN, len(points)).numbers(cells.fraction).copy()
    for group, facts, plan in asked.groups(points, table, pays, fraction):
        prompts = full.input_tokens[group]
        given = _server_plan(facts, plan, asked.load[group], prompts, slots[group], budget[group])
        slots[group] = given.max_num_seqs
        budget[group] = given.max_num_batched_tokens
        fraction[group] = given.memory_fraction
    table = {**table, SHARE_COLUMN: _words(fraction)}
    words = {name: column.take(rows) for name, column in table.items()}
    part = points.replace(max_num_seqs=slots, max_num_batched_tokens=budget).take(rows)
    rates = []
    for state in (1.0, 0.0):
        arm = part.replace(prefix_caching=state)
        whole = prepare(arm)[1]
        counted = count_held(arm, whole, asked.things.take(rows), words)
        rates.append(methods.output_rates(whole.replace(held_base=counted.held_base)))
    pays[rows] = rates[0] >= rates[1]
    return pays
