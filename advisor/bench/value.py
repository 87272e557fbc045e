"""What a source is worth: the model's error on all other sources, trained with and without it (protocol of `advisor evaluate`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
PRIMARY = ("output_tok_s", "request_tok_s", "tpot")


class Line(NamedTuple):
    """Mean absolute log error of the primary speed-ups in percent, averaged over what was left out."""

    trained: str  # with, without
    others: float  # all other sources, each left out
    same_engine: float  # those of them with the source's engine
    itself: float  # the source's own pairs, left out as a whole (the same in both lines)


class Own(NamedTuple):
    """The source's own pairs, predicted by a model that has seen none of them. Errors of the log speed-up, percent."""

    metric: str
    k: int
    pairs: int
    error: float
    bias: float


def with_and_without(
    source: str, progress: Callable[[Iterable[str]], Iterable[str]] = iter
) -> tuple[list[Line], list[Own]]:
    """The two lines, and the source's own errors by metric and k. Raises AdvisorError where the source has no pair to train on."""
    from advisor import fitting, training_data
    from advisor.types import AdvisorError

    everything = training_data.examples(uses=("train",))
    observed = training_data.observations()
    inside = everything.source == source
    if not inside.any():
        raise AdvisorError(f"source '{source}' has no pair to train on; see `advisor data check`.")

    def left_out(examples: Any, observations: Any) -> Any:
        chords = fitting.slopes(examples, observations)
        return fitting.cross_predict(examples, observations, examples.fold, chords, progress=progress)

    whole = left_out(everything, observed)
    rest = everything.take(~inside)
    bare = left_out(rest, observed.without({source}))
    same, same_rest = (np.isin(e.engine, everything.engine[inside]) for e in (everything, rest))
    own = _mean_error(everything, whole, inside)
    lines = [
        Line("with", _mean_error(everything, whole, ~inside), _mean_error(everything, whole, ~inside & same), own),
        Line("without", _mean_error(rest, bare, np.ones(len(rest), bool)), _mean_error(rest, bare, same_rest), own),
    ]
    return lines, _own(everything, whole, inside)


def _own(examples: Any, found: Any, inside: npt.NDArray[np.bool_]) -> list[Own]:
    error: Floats = 100 * (found.mean - examples.log_speedup)
    out = []
    for metric in np.unique(examples.metric[inside]):
        for k in np.unique(examples.points.k[inside]):
            rows = inside & (examples.metric == metric) & (examples.points.k == k)
            if rows.any():
                size = float(np.abs(error[rows]).mean())
                out.append(
                    Own(str(metric), int(k), int(rows.sum()), round(size, 2), round(float(error[rows].mean()), 2))
                )
    return out


def _mean_error(examples: Any, found: Any, rows: npt.NDArray[np.bool_]) -> float:
    """Per fold, then over folds, of the primary pairs among `rows`; percent."""
    kept = np.flatnonzero(rows & examples.primary & np.isin(examples.metric, PRIMARY))
    error: Floats = np.abs(found.mean - examples.log_speedup)[kept]
    folds = examples.fold[kept]
    return round(float(100 * np.mean([error[folds == fold].mean() for fold in np.unique(folds)])), 2)


def half_kept_out(source: str) -> list[dict[str, object]]:
    """Errors on every other cell of the source by a model trained on everything else, the cells between included.

    Cells in the order of (prompt, requests), as in `fit.even_cells`; all arms of a cell stay together. Both halves in turn.
    """
    from advisor import fitting, training_data

    everything = training_data.examples(uses=("train",))
    points, inside = everything.points, everything.source == source
    at = list(zip(points.input_tokens.tolist(), points.concurrency.tolist(), strict=True))
    cells = sorted({at[i] for i in np.flatnonzero(inside & (everything.metric == "output_tok_s"))})
    half = {cell: ("even", "odd")[i % 2] for i, cell in enumerate(cells)}
    tested = inside & np.array([cell in half for cell in at])
    halves = np.array([half[at[i]] if tested[i] else "" for i in range(len(at))])
    folds = np.where(tested, np.char.add("half ", halves), everything.fold)
    rows = everything.take(np.flatnonzero(tested))
    chords = fitting.slopes(everything, training_data.observations())
    found = fitting.cross_predict(everything, training_data.observations(), folds, chords, extra=(rows, folds[tested]))
    error = found.mean - rows.log_speedup
    out: list[dict[str, object]] = []
    for name in ("odd", "even"):
        for metric in PRIMARY:
            here = np.flatnonzero((folds[tested] == f"half {name}") & (rows.metric == metric))
            out.append({"kept_out": name, "metric": metric, "against": "each run"} | _summary(error[here]))
            means = _means(error[here], [_place(rows, i) for i in here.tolist()])
            if len(means):
                out.append({"kept_out": name, "metric": metric, "against": "cell means"} | _summary(means))
    return out


def _place(rows: Any, i: int) -> tuple[object, ...]:
    """What makes two pairs the same cell: all that was set, whichever machine ran it."""
    p = rows.points
    load = (p.k, p.concurrency, p.input_tokens, p.prefix_caching, p.prefix_share, p.max_num_batched_tokens, p.quant_family)
    return (rows.model[i], *(float(np.nan_to_num(column[i], nan=-1.0)) for column in load), round(float(p.output_tokens[i]) / 256))


def _means(error: Floats, places: list[tuple[object, ...]]) -> Floats:
    """Mean error of each cell that more than one machine measured."""
    by_place: dict[tuple[object, ...], list[float]] = {}
    for place, value in zip(places, error.tolist(), strict=True):
        by_place.setdefault(place, []).append(value)
    return np.array([np.mean(values) for values in by_place.values() if len(values) > 1])


def _summary(error: Floats) -> dict[str, object]:
    size = 100 * np.abs(np.expm1(error))
    return {
        "pairs": len(size),
        "mape": round(float(size.mean()), 2),
        "median": round(float(np.median(size)), 2),
        "worst": round(float(size.max()), 2),
    }
