"""Rows of a table -> predicted speed-ups and decisions, one result a row, in order.

A table is handed over by column: many rows repeat their words, and what is read once is read fast.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from advisor.domain.nouns import LLM, AdvisorError
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine
from advisor.perf import arrays
from advisor.perf.arrays import Codes, Ints, Mask
from advisor.perf.encoding import encode_rows
from advisor.perf.encoding.cells import READ, read_words, row_text
from advisor.perf.encoding.things import (
    MEMORY_COLUMNS,
    Things,
    count_held,
    setting,
    shortfall,
    things_of_rows,
)
from advisor.perf.load import clients
from advisor.perf.regimes.setting import Column
from advisor.perf.sizes import device
from advisor.perf.sizes.pools import LINKS
from advisor.prediction import documented, predict
from advisor.prediction.artefact import load
from advisor.prediction.decision import DECISIONS, ESTIMATED, decide
from advisor.prediction.intervals import Predicted, pick, within_tokens
from advisor.prediction.model import Model, prepare
from advisor.prediction.switches import USUAL_GPUS, widen, with_overflow

T = TypeVar("T")
READ_HERE = (*encode_rows.COLUMNS, *MEMORY_COLUMNS)
NUMBERS = ("speedup_p10", "speedup_p50", "speedup_p90", "p_gain")
FIELDS = (*NUMBERS, "decision", "basis", "error")
DIGITS, SMALL = 4, 0.1  # of a number; a ratio below this has as many more
LEAST_BITS = sourced(2.0, "bits a weight", "of the smallest GGUF files that are served", "assumed")
SAME = {"hw": "hardware", "quantization": "quant", "method": "spec_method", "gpus": "gpu_count",
        "ctx": "input_tokens", "ctx_tokens": "input_tokens"}  # fmt: skip
_ENDLESS = "the row's numbers lead to no finite prediction"
_MTP = arrays.METHOD_CODE["mtp"]
_TTFT, _REQUEST = arrays.METRICS.index("ttft"), arrays.METRICS.index("request_tok_s")


def decisions(found: Predicted, metric: Codes) -> npt.NDArray[np.int8]:
    """On, off or measure for each prediction, by the rule of every command (N,)."""
    first = (metric == _TTFT) & (found.p10 <= 1.0) & (found.p90 >= 1.0)
    return decide(found.p50, found.p_gain, first, found.measured_gain)


def with_same(columns: Mapping[str, T]) -> dict[str, T]:
    """The columns, each also under the table's name for it where it has the question's own."""
    return {**{SAME[name]: cell for name, cell in columns.items() if name in SAME}, **columns}


class Encoded(NamedTuple):
    """A table's rows as points, as things with names, and as the columns that are read of it."""

    points: arrays.Points
    things: Things
    table: Mapping[str, Column]


Complete = Callable[[Encoded], Encoded]
Columns = Mapping[str, Sequence[Any]]
PredictColumns = Callable[[Columns, int], dict[str, list[Any]]]


def predict_columns(
    columns: Columns, count: int, model: Model | None = None, complete: Complete | None = None
) -> dict[str, list[Any]]:
    """The FIELDS as columns, for a table's columns of `count` cells; None where there is no value.
    Never raises for a row. `complete` fills in what a row leaves blank of a server's limits.
    """
    found, points, errors, open_ = compute(columns, count, model, complete)
    numbers = [np.asarray(getattr(found, name.removeprefix("speedup_"))) for name in NUMBERS]
    for i in np.flatnonzero(~np.isfinite(np.stack(numbers)).all(axis=0)).tolist():
        errors[i] = errors[i] or _ENDLESS
    made: dict[str, list[Any]] = {
        name: np.where(
            (np.abs(values) < SMALL) & (name != "p_gain"),
            np.round(values, 2 * DIGITS),
            np.round(values, DIGITS),
        ).tolist()
        for name, values in zip(NUMBERS, numbers, strict=True)
    }
    decided = decisions(found, points.metric)
    # a machine of which no bandwidth is known: there is nothing to price a step with
    open_ |= np.isnan(points.bw) | (overflow(points) & (decided == DECISIONS.index("on")))
    decided = np.where(open_, DECISIONS.index("measure"), decided)
    made["decision"] = np.array(DECISIONS)[decided].tolist()
    made["basis"] = np.array(predict.BASES)[found.basis].tolist()
    for i, error in enumerate(errors):
        if error is not None:
            for values in made.values():
                values[i] = None
    return {**made, "error": errors}


def overflow(points: arrays.Points) -> Mask:
    """Rows whose weights exceed the memory of all their GPUs: what moves the rest to and fro was
    hardly measured, and `recommend` plans no such run as a gain (N,).
    """
    bits = np.where(np.isnan(points.quant_bits), LEAST_BITS, points.quant_bits)
    gpus = np.where(np.isnan(points.gpus), np.fmax(points.tp, USUAL_GPUS[1]), points.gpus)
    with np.errstate(invalid="ignore"):  # NaN: not known, so not too large
        return np.asarray(points.total_params * bits / 8 > points.memory_bytes * gpus)


def compute(
    columns: Columns, count: int, model: Model | None = None, complete: Complete | None = None
) -> tuple[Predicted, arrays.Points, list[str | None], Mask]:
    """The same in full precision: predictions, the points as read, an error or None a row, and the
    rows that depend on what is not predicted: layers of llama.cpp behind a network link, slots that
    only an error of their bill lets fit, and an MTP head that the model is not known to have (N,).
    """
    read = _with_text(columns, count)
    table: Mapping[str, Column] = {
        name: read_words(read, name, count) for name in READ_HERE if name in read
    }
    points, errors = encode_rows.from_columns(table, count)
    things = things_of_rows(table, count)
    if complete is not None:
        points, things, table = complete(Encoded(points, things, table))
    with np.errstate(all="ignore"):
        learned = model or load()

        def again(rows: Ints, column: str, end: float) -> Predicted:
            inside, part = things.take(rows), held.take(rows).replace(**{column: end})
            if column != "prefix_caching" or end:  # the bill takes a blank for none
                cells = {name: words.take(rows) for name, words in table.items()}
                moved = {"host_base": part.host_base, "host_spec": part.host_spec}
                part = points.take(rows).replace(**{column: end})
                part = count_held(part, prepare(part)[1], inside, cells).replace(**moved)
            return predict_own_metric(part, inside, learned)

        full = prepare(points)[1]
        short, base, spec = shortfall(points, full, things, table)
        held = count_held(points, full, things, table).replace(host_base=base, host_spec=spec)
        counted = full.replace(held_base=held.held_base, held_spec=held.held_spec)
        found = widen(points, counted, predict_own_metric(held, things, learned), again)
        found = within_tokens(found, points.metric == _TTFT, full)
        whole = (points.metric != _TTFT) & (spec == 0)
        found = with_overflow(found, np.where(whole, device.overflow_chance(short), 0.0))
    links = read_words(table, "interconnect", count).among(LINKS)
    across = links & things.engine.holds(gguf_engine) & (full.gpus > 1) & (full.method > 0)
    nearly = (short > 0) & (short <= device.BILL_ERROR_GIB)
    headless = (full.method == _MTP) & things.model.holds(_has_no_head)
    return found, points, errors, across | nearly | headless


def _has_no_head(pair: tuple[LLM, LLM]) -> bool:
    """Whether a listed model has neither an MTP head nor an assistant that stands in for one: the
    acceptance of other heads says nothing of it.
    """
    model, shape = pair
    known = model.mtp_layers if model.mtp_layers is not None or shape is None else shape.mtp_layers
    return not (known or model.assistant or model.is_class)


def predict_own_metric(points: arrays.Points, things: Things, model: Model) -> Predicted:
    """Each row's own metric, with the queue where memory holds fewer requests with speculation and
    with what is documented of its regime: what a question is told (predict.as_one_story).
    """

    def one(rows: slice) -> Predicted:
        with np.errstate(all="ignore"):  # of this thread
            return _own_metric(points.take(rows), things.take(rows), model)

    return predict.in_pieces(one, len(points))


def _own_metric(points: arrays.Points, things: Things, model: Model) -> Predicted:
    """The same for one piece of the table (N,)."""
    full = prepare(points)[1]
    waits = clients(full, True) < clients(full, False)
    queued = waits & (points.metric != _REQUEST)
    if not queued.any():
        return _without_queue(points, full, things, waits, model)
    alone, together = np.flatnonzero(~queued), np.flatnonzero(queued)
    made = _in_queue(points.take(together), things.take(together), model)
    if not len(alone):
        return made
    others = _without_queue(
        points.take(alone), full.take(alone), things.take(alone), waits[alone], model
    )
    # one below the other, and back into the order of the rows
    rest, place = [*others], np.argsort(np.concatenate([alone, together]))
    pairs: Any = zip(rest, [*made], strict=True)
    return Predicted._make(np.concatenate(pair)[place] for pair in pairs)


def _without_queue(
    points: arrays.Points, full: arrays.Points, things: Things, waits: Mask, model: Model
) -> Predicted:
    """Each row's own metric, with what is documented where no requests wait (N,)."""
    found = predict.predict_points(points, model, exact=True)
    seen = documented.observe(setting(things, full), full)
    steps = points.metric != _TTFT
    found = pick(steps & ~waits, documented.move(found, seen, model), found)
    return within_tokens(found, ~steps, full)


def _in_queue(points: arrays.Points, things: Things, model: Model) -> Predicted:
    """Each row's own metric where requests wait, from the story of all three (N,)."""
    story = predict.as_one_story(points, model, lambda full: setting(things, full)).found
    found = story[ESTIMATED[0]]
    for name in ESTIMATED[1:]:
        found = pick(points.metric == arrays.METRICS.index(name), story[name], found)
    return found


def _with_text(columns: Columns, count: int) -> Columns:
    """The columns with what the free text of a row says put where it is read."""
    if not {"notes", "output_tok_s"} & set(columns):
        return columns
    names = [name for name in READ if name in columns]
    cells = [["" if cell is None else str(cell) for cell in columns[name]] for name in names]
    rows = [row_text(dict(zip(names, row, strict=True))) for row in zip(*cells, strict=True)]
    return {**columns, **{name: [row.get(name) for row in rows] for name in READ}}


def predict_dicts(
    rows: Sequence[Mapping[str, Any]], predict: PredictColumns = predict_columns
) -> list[dict[str, Any]]:
    """The FIELDS for rows with the columns of measured runs, in order, as `predict` makes them of
    columns; a row that names no metric is about output_tok_s. Never raises for a row, but
    AdvisorError where `rows` is no list of mappings.
    """
    table = [] if isinstance(rows, Mapping | str) else list(rows)
    if isinstance(rows, Mapping | str) or not all(isinstance(row, Mapping) for row in table):
        raise AdvisorError(
            "predict takes a list of rows, each a mapping from column to value: predict([row])"
        )
    if not table:
        return []
    names = {str(name) for row in table for name in row}
    columns = with_same({name: [_cell(row.get(name)) for row in table] for name in names})
    found = predict(columns, len(table))
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def _cell(value: Any) -> str:
    return "" if value is None or str(value) == "nan" else str(value)
