"""The model card, models/speedup.md, from an evaluation. Numbers come from evaluate_metrics and
evaluate_scores; the table of targets from report_targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from advisor.knowledge import store as knowledge
from advisor.lab.evaluation import card_words as words
from advisor.lab.evaluation import metrics as em
from advisor.lab.evaluation import scores
from advisor.lab.evaluation.baselines import fixed_k
from advisor.lab.evaluation.card_owners import owners
from advisor.lab.evaluation.card_targets import percent, table, targets
from advisor.lab.training.dataset import Examples
from advisor.prediction.model import prepare

if TYPE_CHECKING:
    from advisor.lab.evaluation.evaluate import Evaluation

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def _regret(
    e: Examples, mean: Floats, rows: Flags, rule: Callable[[Floats, Floats], int] | None = None
) -> em.Regret:
    return em.sweep_regret(e.log_speedup[rows], mean[rows], e.points.k[rows], e.sweep[rows], rule)


def compared(found: Evaluation) -> str:
    """Baselines and candidates, one line each."""
    e = found.examples
    rows = scores.scored_rows(e)
    known = rows & e.acceptance_known
    weight = em.group_weight(e.rig[rows])
    y = e.log_speedup
    lines: list[list[object]] = []

    def line(name: str, mean: Floats, hidden: Floats | None, chance: Floats | None) -> None:
        hid = mean if hidden is None else hidden
        cells: list[object] = [name]
        for pick, guess in ((known, mean), (rows, hid)):
            error = em.ape(y, guess)[pick]
            cells += [
                percent(em.averaged(error, e.fold[pick], np.median).value),
                percent(em.averaged(error, e.fold[pick]).value),
            ]
        cells.append(f"{em.averaged((hid - y)[rows], e.fold[rows]).value:+.3f}")
        rank = (mean if chance is None else chance)[rows]
        confused = em.confusion(y[rows], (rank > (0.0 if chance is None else 0.5)), weight)
        cells += [
            percent(confused["balanced"], 0),
            f"{confused['mcc']:.2f}",
            percent(em.recall_at(y[rows], rank, weight)[0], 0),
        ]
        regret = _regret(e, mean, rows)
        cells += [percent(regret.mean), percent(regret.p90)]
        lines.append(cells)

    for name, guess in found.baselines.items():
        line(name, guess, None, None)
    for name, fit in found.candidates.items():
        line(name, fit.mean, fit.mean_hidden, fit.p_gain)
    two = _regret(e, found.shipped.mean, rows, fixed_k(2))
    errors = ["median known", "MAPE known", "median unknown", "MAPE unknown", "log bias"]
    header = ["model", *errors, "bal. acc.", "MCC", "loss recall", "k regret", "p90"]
    note = f"Always on: balanced accuracy 50 %, no loss called. k = 2 fixed: regret {percent(two.mean)} / {percent(two.p90)}."
    return table(header, lines) + "\n\n" + note


def split_lines(found: Evaluation) -> str:
    """The other splits, and the weak rows."""
    lines = []
    e = found.examples
    rows = scores.scored_rows(e)
    known = rows & e.acceptance_known
    items = [
        ("primary: one source (community table by rig)", e, e.fold, found.shipped, rows, known)
    ]
    items += [(name, e, folds, fit, rows, known) for name, (folds, fit) in found.splits.items()]
    if found.weak:
        w, fit = found.weak
        every = np.ones(len(w), dtype=bool)
        items.append(
            (
                "weak rows (use=eval), sources never trained on where possible",
                w,
                w.source,
                fit,
                every,
                w.acceptance_known,
            )
        )
    for name, ex, folds, fit, all_rows, told in items:
        cells: list[object] = [name, len(set(folds[all_rows].tolist()))]
        for pick, mean, low, high in (
            (told, fit.mean, fit.low, fit.high),
            (all_rows, fit.mean_hidden, fit.low_hidden, fit.high_hidden),
        ):
            error = em.ape(ex.log_speedup, mean)[pick]
            cover, width, _ = em.coverage(ex.log_speedup[pick], low[pick], high[pick], folds[pick])
            cells += [percent(em.averaged(error, folds[pick], np.median).value), percent(em.averaged(error, folds[pick]).value),
                      percent(cover.value, 0), f"x{np.exp(width.value):.2f}"]  # fmt: skip
        lines.append(cells)
    header = [
        "split",
        "groups",
        "median known",
        "MAPE known",
        "coverage",
        "width",
        "median unknown",
        "MAPE unknown",
        "coverage",
        "width",
    ]
    return table(header, lines)


def breakdown(found: Evaluation, name: str, labels: npt.NDArray[np.str_]) -> str:
    """Errors of the primary split by one label."""
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
        for mean, chosen in ((o.mean, known), (o.mean_hidden, pick)):
            if chosen.any():
                error = em.ape(e.log_speedup, mean)[chosen]
                cells += [
                    percent(em.averaged(error, e.fold[chosen], np.median).value),
                    percent(em.averaged(error, e.fold[chosen]).value),
                ]
            else:
                cells += ["-", "-"]
        cells.append(
            f"{em.averaged((o.mean_hidden - e.log_speedup)[pick], e.fold[pick]).value:+.2f}"
        )
        lines.append(cells)
    return f"By {name}:\n\n" + table(
        [
            name,
            "rows",
            "folds",
            "losses",
            "median known",
            "MAPE known",
            "median unknown",
            "MAPE unknown",
            "log bias",
        ],
        lines,
    )


def bands(values: Floats, edges: Sequence[float], names: Sequence[str]) -> npt.NDArray[np.str_]:
    return np.array(names)[np.digitize(np.nan_to_num(values, nan=edges[0] - 1), edges)]


def derived_metrics(found: Evaluation) -> str:
    """TPOT and TTFT pairs that follow from both arms' columns."""
    e, o = found.examples, found.shipped
    lines = []
    for metric in ("output_tok_s", "request_tok_s", "tpot", "ttft"):
        pick = e.metric == metric
        error = em.ape(e.log_speedup, o.mean)[pick]
        alone = em.ape(e.log_speedup, o.log_physics)[pick]
        lines.append([metric, int(pick.sum()), len(set(e.fold[pick].tolist())), percent(float(np.median(error))),
                      percent(em.averaged(error, e.fold[pick]).value), percent(float(np.median(alone)))])  # fmt: skip
    return table(
        ["metric", "pairs", "folds", "pooled median APE", "MAPE", "physics alone, pooled median"],
        lines,
    )


def losses(found: Evaluation) -> str:
    """What goes with losses, and how many of them were seen coming."""
    e, o = found.examples, found.shipped
    _, full = prepare(e.points)
    rows = scores.scored_rows(e)
    weight = em.group_weight(e.rig)
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
                weight[lost & (o.p_gain < 0.5)].sum() / weight[lost].sum() if lost.any() else np.nan
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
    header = [
        "where",
        "rows",
        "losses",
        "share lost (by rig)",
        "called off",
        "interval reaches below 1",
    ]
    return table(header, lines)


def by_source(found: Evaluation) -> str:
    e, o = found.examples, found.shipped
    lines = []
    for fold in np.unique(e.fold):
        pick = (e.fold == fold) & scores.scored_rows(e)
        if pick.any():
            y = e.log_speedup[pick]
            inside = np.mean((y >= o.low[pick]) & (y <= o.high[pick]))
            lines.append([fold, int(pick.sum()), int(e.acceptance_known[pick].sum()), f"{np.exp(y.mean()):.2f}",
                          f"{np.exp(o.mean[pick].mean()):.2f}", percent(float(em.ape(y, o.mean[pick]).mean())),
                          percent(float(em.ape(y, o.mean_hidden[pick]).mean())), percent(float(inside), 0)])  # fmt: skip
    header = [
        "left out",
        "rows",
        "acceptance stated",
        "measured (mean)",
        "predicted",
        "MAPE",
        "MAPE, acceptance ignored",
        "in the interval",
    ]
    return table(header, lines)


def seeds(found: Evaluation) -> str:
    """The user's own documents, predicted without them."""
    e, o = found.examples, found.shipped
    lines = []
    for i in np.flatnonzero(
        np.isin(e.source, ["seed000", "seed001", "seed004", "repo2x3090"]) & e.primary
    ):
        inside = "yes" if o.low[i] <= e.log_speedup[i] <= o.high[i] else "no"
        low, middle, high = (f"{np.exp(value[i]):.2f}" for value in (o.low, o.mean, o.high))
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
    header = [
        "run",
        "hardware",
        "engine",
        "method",
        "k",
        "c",
        "metric",
        "measured",
        "10, 50, 90 %",
        "p_gain",
        "inside",
    ]
    return table(header, lines)


def acceptance(found: Evaluation) -> str:
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
    header = [
        "tokens per step",
        "sources",
        "mean absolute log error",
        "fixed curve .82 .78 .75 ...",
        "log bias",
        "error / stated sd",
    ]
    return table(header, rows)


def kinds(found: Evaluation) -> list[str]:
    """The primary split by engine, method, metric, streams and hardware class."""
    e = found.examples
    _, full = prepare(e.points)
    streams = bands(
        e.points.concurrency, [1.5, 8.5, 32.5], ["1 stream", "2 to 8", "9 to 32", "33 and more"]
    )
    classes = np.array(words.CLASS_WORDS)[full.hw_class]
    labels = {
        "engine": e.engine,
        "method": e.method,
        "metric": e.metric,
        "streams": streams,
        "hardware class": classes,
    }
    return [breakdown(found, name, values) for name, values in labels.items()]


def chances(found: Evaluation) -> str:
    e = found.examples
    rows = scores.scored_rows(e)
    curve = em.calibration(
        e.log_speedup[rows], found.shipped.p_gain[rows], em.group_weight(e.rig)[rows]
    )
    return table(
        ["predicted", "gained", "weight"],
        [[percent(p, 0), percent(h, 0), f"{w:.1f}"] for p, h, w in curve],
    )


def card(found: Evaluation) -> str:
    """The whole card."""
    e = found.examples
    counts = {"folds": e.fold, "sources": e.source, "rigs": e.rig}
    head = words.HEAD.format(
        rows=len(e), **{name: len(set(values.tolist())) for name, values in counts.items()}
    )
    reached = table(["quantity", "target", "reached (90 % bootstrap)", "met"], targets(found))
    parts = [
        head,
        *(
            "## Targets",
            words.TARGETS.format(least=knowledge.threshold("least_certainty").value),
            reached,
            words.SHORTFALL,
        ),
        *("## Where several owners measured one setting", owners(found)),
        *("## Beside baselines and rivals", words.RIVALS, compared(found)),
        *("## Other splits", split_lines(found)),
        *("## By kind of row", *kinds(found)),
        *("## Metrics", words.METRICS, derived_metrics(found)),
        *("## Losses", words.LOSSES, losses(found)),
        *("## Chance of a gain", chances(found)),
        *("## Acceptance model", words.ACCEPTANCE, acceptance(found)),
        *("## The seeds, predicted without them", seeds(found)),
        *("## By source", by_source(found)),
        "## Figures",
        "`advisor evaluate --plots DIR` draws them.",
        words.LIMITS,
    ]
    return "\n\n".join(parts) + "\n"
