"""The model card's tables by kind of row: errors, losses, chances, sources."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from advisor.knowledge import store as knowledge
from advisor.lab.evaluation import card_words, metrics, scores
from advisor.lab.evaluation.card_targets import errors_of, percent, table
from advisor.lab.evaluation.result import Evaluation
from advisor.prediction.model import prepare
from advisor.prediction.predict import FAR
from advisor.prediction.spread import count_imputed

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def breakdown(found: Evaluation, name: str, labels: npt.NDArray[np.str_]) -> str:
    """Errors of the primary split by one label.

    Parameters
    ----------
    found : Evaluation
        With M examples.
    name : str
        Heading of the labels.
    labels : array of str
        A label for each example. (M,)

    Returns
    -------
    str
        A table of Markdown.
    """
    e, o = found.examples, found.shipped
    lines = []
    for label in sorted(set(labels.tolist())):
        pick = (labels == label) & e.primary
        if not pick.any():
            continue
        known = pick & e.acceptance_known
        cells: list[object] = [
            label,
            int(pick.sum()),
            len(set(e.fold[pick].tolist())),
            int((e.log_speedup[pick] < 0).sum()),
        ]
        for mean, chosen in ((o.median, known), (o.median_hidden, scores.unknown_rows(e, pick))):
            cells += errors_of(e.log_speedup, mean, chosen, e.fold)
        cells.append(
            f"{metrics.group_average((o.median_hidden - e.log_speedup)[pick], e.fold[pick]).value:+.2f}"
        )
        lines.append(cells)
    errors = "median known | MAPE known | median unknown | MAPE unknown"
    header = f"{name} | rows | folds | losses | {errors} | log bias"
    return f"By {name}:\n\n{table(header, lines)}"


def bands(values: Floats, edges: Sequence[float], names: Sequence[str]) -> npt.NDArray[np.str_]:
    """The name of the band between `edges` in which each value lies; NaN in the first (N,).

    Parameters
    ----------
    values : Floats
        (N,)
    edges : sequence of float
        B - 1 of them, rising.
    names : sequence of str
        B of them.

    Returns
    -------
    array of str
        (N,)
    """
    return np.array(names)[np.digitize(np.nan_to_num(values, nan=edges[0] - 1), edges)]


def derived_metrics(found: Evaluation) -> str:
    """TPOT and TTFT pairs that follow from both arms' columns."""
    e, o = found.examples, found.shipped
    lines = []
    for metric in ("output_tok_s", "request_tok_s", "tpot", "ttft"):
        pick = e.metric == metric
        error = metrics.ape(e.log_speedup, o.median)[pick]
        lines.append(
            [
                metric,
                int(pick.sum()),
                len(set(e.fold[pick].tolist())),
                percent(float(np.median(error))),
                percent(metrics.group_average(error, e.fold[pick]).value),
            ]
        )
    return table(["metric", "pairs", "sources", "pooled median APE", "MAPE"], lines)


def losses(found: Evaluation) -> str:
    """What goes with losses, and how many of them were seen coming."""
    e, o = found.examples, found.shipped
    _, full = prepare(e.points)
    rows = scores.scored_rows(e)
    weight = metrics.group_weight(e.rig)
    off = knowledge.threshold("decision_off_p_gain").value
    small = full.is_path(
        "llamacpp-cuda", "llamacpp-metal", "llamacpp-vulkan", "llamacpp-rocm", "mlx"
    )
    length = np.where(np.isnan(full.given_length), 1 + full.k * full.given_rate, full.given_length)
    marks: list[tuple[str, Flags]] = [
        ("all", np.ones(len(e), dtype=bool)),
        ("MTP", e.method == "mtp"),
        ("separate draft model or n-gram", np.isin(e.method, ["draft_model", "ngram"])),
        ("DFlash", e.method == "dflash"),
        (
            "llama.cpp or MLX, more than 8 verified tokens a step",
            small & (full.concurrency * full.verify_tokens > 8),
        ),
        ("llama.cpp or MLX, more than one stream", small & (full.concurrency > 1)),
        ("vLLM or SGLang, 8 streams or more", ~small & (full.concurrency >= 8)),
        ("stated acceptance below 50 %", (length - 1) / np.maximum(full.k, 1) < 0.5),
        ("creative or chat", np.isin(full.workload, [1, 7])),
        ("context of 32k tokens or more", full.depth_tokens >= 32768),
        (
            "prefix caching on, hybrid model, vLLM or SGLang",
            (e.points.prefix_caching > 0) & (full.is_hybrid > 0) & ~small,
        ),
        ("Apple GPU", np.array(["apple" in h for h in e.hardware])),
    ]
    lines = []
    for name, mark in marks:
        pick = rows & mark
        lost = pick & (e.log_speedup < 0)
        if pick.any():
            share = weight[lost].sum() / weight[pick].sum()
            seen = (
                weight[lost & (o.p_gain <= off)].sum() / weight[lost].sum()
                if lost.any()
                else np.nan
            )
            doubt = weight[lost & (o.low < 0)].sum() / weight[lost].sum() if lost.any() else np.nan
            lines.append(
                [
                    name,
                    int(pick.sum()),
                    int(lost.sum()),
                    percent(float(share), 0),
                    percent(float(seen), 0),
                    percent(float(doubt), 0),
                ]
            )
    header = "where | rows | losses | share lost (by rig) | called off | interval reaches below 1"
    return table(header, lines)


def by_source(found: Evaluation) -> str:
    """Each left-out source: how many rows, the means, the errors and the coverage."""
    e, o = found.examples, found.shipped
    lines = []
    for fold in np.unique(e.fold):
        pick = (e.fold == fold) & scores.scored_rows(e)
        if pick.any():
            y = e.log_speedup[pick]
            inside = np.mean((y >= o.low[pick]) & (y <= o.high[pick]))
            lines.append(
                [
                    fold,
                    int(pick.sum()),
                    int(e.acceptance_known[pick].sum()),
                    f"{np.exp(y.mean()):.2f}",
                    f"{np.exp(o.median[pick].mean()):.2f}",
                    percent(float(metrics.ape(y, o.median[pick]).mean())),
                    percent(float(metrics.ape(y, o.median_hidden[pick]).mean())),
                    percent(float(inside), 0),
                ]
            )
    header = (
        "left out | rows | acceptance stated | measured (mean) | predicted | MAPE | MAPE, "
        "acceptance ignored | in the interval"
    )
    return table(header, lines)


def seeds(found: Evaluation) -> str:
    """The user's own documents, predicted without them."""
    e, o = found.examples, found.shipped
    lines = []
    for i in np.flatnonzero(
        np.isin(e.source, ["seed000", "seed001", "seed004", "repo2x3090"]) & e.primary
    ):
        inside = "yes" if o.low[i] <= e.log_speedup[i] <= o.high[i] else "no"
        low, middle, high = (f"{np.exp(value[i]):.2f}" for value in (o.low, o.median, o.high))
        case = [
            e.run_id[i],
            e.hardware[i],
            e.engine[i],
            e.method[i],
            f"{e.points.k[i]:.0f}",
            f"{e.points.concurrency[i]:.0f}",
        ]
        measured = f"{np.exp(e.log_speedup[i]):.2f}"
        lines.append(
            [
                *case,
                e.metric[i],
                measured,
                f"{low} to {middle} to {high}",
                f"{o.p_gain[i]:.2f}",
                inside,
            ]
        )
    header = (
        "run | hardware | engine | method | k | c | metric | measured | 10, 50, 90 % | p_gain"
        " | inside"
    )
    return table(header, lines)


def acceptance(found: Evaluation) -> str:
    """Errors of the tokens per step on sources that were left out."""
    errors = found.acceptance
    rows = []
    for name, part in (("all sources", errors), ("MTP only", [x for x in errors if x["mtp"]])):
        mean = {key: float(np.mean([x[key] for x in part])) for key in ("error", "fixed", "bias")}
        spread = float(np.sqrt(np.mean([x["z"] ** 2 for x in part])))
        cells = [
            percent(mean["error"]),
            percent(mean["fixed"]),
            f"{mean['bias']:+.3f}",
            f"{spread:.2f}",
        ]
        rows.append([name, len(part), *cells])
    header = (
        "tokens per step | sources | mean absolute log error | fixed curve .82 .78 .75 ... | "
        "log bias | error / stated sd"
    )
    return table(header, rows)


def kinds(found: Evaluation) -> list[str]:
    """The primary split by engine, method, metric, streams and hardware class."""
    e = found.examples
    _, full = prepare(e.points)
    streams = bands(
        e.points.concurrency, [1.5, 8.5, 32.5], ["1 stream", "2 to 8", "9 to 32", "33 and more"]
    )
    classes = np.array(card_words.CLASS_WORDS)[full.hw_class]
    labels = {
        "engine": e.engine,
        "method": e.method,
        "metric": e.metric,
        "streams": streams,
        "hardware class": classes,
    }
    return [breakdown(found, name, values) for name, values in labels.items()]


def chances(found: Evaluation) -> str:
    """Stated chance of a gain against the share that gained, acceptance known and unknown."""
    e, o = found.examples, found.shipped
    rows = scores.scored_rows(e)
    lines = []
    for name, pick, chance in (
        ("stated", rows, o.p_gain),
        ("ignored", scores.unknown_rows(e, rows), o.p_gain_hidden),
    ):
        weight = metrics.group_weight(e.fold[pick])
        for stated, gained, count in metrics.calibration(e.log_speedup[pick], chance[pick], weight):
            lines.append([name, percent(stated, 0), percent(gained, 0), count])
    return table(["acceptance", "chance stated", "gained", "rows"], lines)


def bases(found: Evaluation) -> str:
    """Errors by what a prediction rests on: what another source measured there."""
    e, o = found.examples, found.shipped
    rows = scores.scored_rows(e)
    far = count_imputed(e.points) >= FAR
    labels = np.select(
        [o.closeness >= 1, o.near & ~far], ["measured", "interpolated"], "extrapolated"
    )
    lines = []
    for label in ("measured", "interpolated", "extrapolated"):
        pick = rows & (labels == label)
        if pick.any():
            error = metrics.ape(e.log_speedup, o.median_hidden)[pick]
            right = ((o.median_hidden > 0) == (e.log_speedup > 0))[pick].astype(float)
            folds = e.fold[pick]
            lines.append(
                [
                    label,
                    int(pick.sum()),
                    len(set(folds.tolist())),
                    percent(float(np.median(error))),
                    percent(metrics.group_average(error, folds).value),
                    percent(float(right.mean()), 0),
                ]
            )
    return table(["basis", "rows", "sources", "median APE", "MAPE", "right side of 1"], lines)
