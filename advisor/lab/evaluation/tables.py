"""The model card's tables: lists of lines of cells, which the template sets."""

import numpy as np

from advisor.lab.arrays import Flags, Floats, Words
from advisor.lab.evaluation import metrics, scores
from advisor.lab.evaluation.calibrated import Scores
from advisor.lab.evaluation.scores import Evaluation
from advisor.lab.evaluation.targets import errors_of, percent
from advisor.lab.training.left_out import row_weight
from advisor.prediction.model import prepare
from advisor.prediction.predict import FAR
from advisor.prediction.spread import count_imputed

Table = list[list[object]]
CLASS_WORDS = (
    "unknown class", "datacenter", "workstation", "consumer", "laptop", "unified memory",
    "integrated",
)  # fmt: skip
COVERAGE, LEAST_SOURCES = 0.8, 8  # what intervals promise, and sources that can say otherwise
STATED = {"known": "used where stated", "unknown": "ignored"}


def _percents(shares: tuple[float, ...]) -> list[str]:
    return [percent(share, 0) for share in shares]


def regret(found: Evaluation, mean: Floats, rule: metrics.Rule | None = None) -> list[str]:
    """Mean and 90th percentile of the regret of k by these medians, or by a rule."""
    e, rows = found.examples, scores.scored_rows(found.examples)
    each = metrics.regrets(e.log_speedup[rows], mean[rows], e.points.k[rows], e.sweep[rows], rule)
    return [percent(value) for value in metrics.mean_and_tail(each)]


def two_regret(found: Evaluation) -> str:
    """Regret of always two draft tokens."""
    return " / ".join(regret(found, found.shipped.median, lambda _, k: int(np.abs(k - 2).argmin())))


def models(found: Evaluation) -> Table:
    """Baselines and candidates, one line each."""
    e, rows = found.examples, scores.scored_rows(found.examples)
    weight, y, folds = row_weight(e.rig[rows]), e.log_speedup, e.fold
    medians = {name: (guess, guess) for name, guess in found.baselines.items()}
    medians |= {name: (fit.median, fit.median_hidden) for name, fit in found.candidates.items()}
    lines: Table = []
    for name, (mean, hidden) in medians.items():
        bias = metrics.group_average((hidden - y)[rows], folds[rows]).value
        balanced, mcc = metrics.confusion(y[rows], hidden[rows] > 0, weight)
        known = errors_of(y, mean, rows & e.acceptance_known, folds)
        unknown = errors_of(y, hidden, rows & ~e.forced, folds)
        tail = [f"{bias:+.3f}", percent(balanced, 0), f"{mcc:.2f}", *regret(found, mean)]
        lines.append([name, *known, *unknown, *tail])
    return lines


def splits(found: Evaluation) -> Table:
    """The other splits, and the weak rows."""
    e, rows = found.examples, scores.scored_rows(found.examples)
    items = [("primary: sources (community table by rig)", e, e.fold, found.shipped, rows)]
    items += [(name, e, folds, fit, rows) for name, (folds, fit) in found.splits.items()]
    if found.weak:
        weak, fit = found.weak
        name = "weak rows (use=eval), sources never trained on where possible"
        items.append((name, weak, weak.source, fit, np.ones(len(weak), dtype=bool)))
    lines: Table = []
    for name, part, folds, fit, use in items:
        cells: list[object] = [name, len(np.unique(folds[use]))]
        for side in scores.sides(part, fit, use):
            pick, y = use if side.tail else side.stated, part.log_speedup
            cover, width, _ = metrics.coverage(
                y[pick], side.low[pick], side.high[pick], folds[pick]
            )
            cells += errors_of(y, side.median, pick, folds)
            cells += [percent(cover.value, 0), f"x{np.exp(width.value):.2f}"]
        lines.append(cells)
    return lines


def decisions(found: Evaluation) -> Table:
    """The rule on left-out rows, beside published-constant physics, always on and always off."""
    e, rows = found.examples, scores.scored_rows(found.examples)
    lines: Table = []
    rivals = {n: fit for n, fit in found.candidates.items() if fit is not found.shipped}
    for name, fit in ({"this model": found.shipped} | rivals).items():
        for side in scores.sides(e, fit):
            pick = side.rows
            codes, y = scores.codes_of(side, fit)[pick], e.log_speedup[pick]
            for unit, weight in (("rows", None), ("sources", row_weight(e.fold[pick]))):
                shares = scores.decision_shares(y, codes, weight)
                lines.append([name, STATED[side.name], unit, *_percents(shares)])
    for name, code in (("always on", 2), ("always off", 0)):
        codes = np.full(rows.sum(), code, dtype=np.int8)
        shares = scores.decision_shares(e.log_speedup[rows], codes)
        lines.append([name, "-", "rows", *_percents(shares)])
    return lines


def own_runs(exams: list[Scores]) -> Table:
    """What own runs tell, beside simpler ways to use them."""
    return [
        [
            f"{one.runs}, {'as `advisor calibrate` chooses' if one.chosen else 'at random'}",
            percent(one.calibrated),
            percent(1 - one.calibrated / one.without, 0),
            percent(one.coverage, 0),
            f"{percent(one.wrong_without)} to {percent(one.wrong_calibrated)}",
        ]
        for one in exams
    ]


def kinds(found: Evaluation) -> dict[str, Table]:
    """Errors and coverage of the left-out rows by class, and those of the first token's time."""
    e = found.examples
    full = prepare(e.points)[1]
    rows = scores.scored_rows(e)
    bands = {
        "streams": (full.concurrency, ("1", "2 to 8", "9 to 32", "33 and more"), (1.5, 8.5, 32.5)),
        "tokens in the context": (
            np.fmax(full.input_tokens, full.depth_tokens),
            ("to 4,096", "to 16,384", "to 65,536", "beyond"),
            (4096.5, 16384.5, 65536.5),
        ),
        "GPUs": (full.gpus, ("1", "2", "3 and more"), (1.5, 2.5)),
    }
    labels = {
        "hardware class": np.array(CLASS_WORDS)[full.hw_class],
        "engine": e.engine,
        "method": e.method,
        "metric": e.metric,
    } | {
        name: np.array(words)[np.digitize(values, edges)]
        for name, (values, words, edges) in bands.items()
    }
    lines = {name: _breakdown(found, values, rows) for name, values in labels.items()}
    lines["engine, time to first token"] = _breakdown(found, e.engine, e.metric == "ttft")
    return lines


def _breakdown(found: Evaluation, labels: Words, rows: Flags) -> Table:
    """A line for each label; a class fails if the 90 % interval of its coverage, by source, leaves
    80 % out, which fewer than 8 sources do not say.
    """
    e, y = found.examples, found.examples.log_speedup
    lines: Table = []
    for label in np.unique(labels[rows]):
        line: list[object] = [label]
        for side in scores.sides(e, found.shipped, rows & (labels == label)):
            pick, folds = side.stated, len(np.unique(e.fold[side.stated]))
            if not folds:
                line += [0, 0, *["-"] * 4]
                continue
            covered = metrics.coverage(y[pick], side.low[pick], side.high[pick], e.fold[pick])[0]
            fails = folds >= LEAST_SOURCES and not covered.low <= COVERAGE <= covered.high
            bias = metrics.group_average((side.median - y)[pick], e.fold[pick]).value
            line += [pick.sum(), folds, errors_of(y, side.median, pick, e.fold)[0], f"{bias:+.2f}"]
            line += [covered.text(), "-" if folds < LEAST_SOURCES else "no" if fails else "yes"]
        lines.append(line)
    return lines


def regrets(found: Evaluation) -> Table:
    """Mean loss of speed against a perfect choice of on or off, by row and by source: of the rule
    that users get, with "measure" run without speculation or as the median says, and of rivals.
    """
    e, lines = found.examples, Table()
    for side in scores.sides(e, found.shipped):
        y, folds = e.log_speedup[side.rows], e.fold[side.rows]
        codes, gains = scores.codes_of(side, found.shipped)[side.rows], side.median[side.rows] > 0
        for name, on in {
            "this model, measure first run without": codes == 2,
            "this model, measure first as its median": np.where(codes == 1, gains, codes == 2),
            "on where the median is above 1": gains,
            "always on": np.ones(len(y), dtype=bool),
            "always off": np.zeros(len(y), dtype=bool),
        }.items():
            lost = 1 - np.exp(np.where(on, y, 0.0) - np.fmax(y, 0.0))
            by_source = metrics.group_average(lost, folds).text()
            lines.append([name, STATED[side.name], percent(float(lost.mean())), by_source])
    return lines


def which_method(found: Evaluation) -> Table:
    """Where one owner measured several methods on one server: how often the better one is named."""
    e, lines = found.examples, Table()
    for side in scores.sides(e, found.shipped):
        pick = side.stated
        columns = (e.fold[pick], e.group[pick], e.metric[pick])
        setting = np.array(["|".join(each) for each in zip(*columns, strict=True)])
        for name, first in (("highest median", ""), ("the model's head first", "mtp")):
            picks = metrics.method_picks(
                e.log_speedup[pick], side.median[pick], setting, e.method[pick], first
            )
            folds = np.array([each.split("|")[0] for each in picks.settings])
            each = metrics.group_average(picks.named.astype(float), folds)
            right = percent(float(picks.named.mean()))
            figures = [percent(float(np.median(picks.error))), percent(float(picks.lost.mean()))]
            counts = (len(folds), len(np.unique(folds)))
            lines.append([name, STATED[side.name], *counts, right, each.text(), *figures])
    return lines


def by_source(found: Evaluation) -> Table:
    """Each left-out source: how many rows, the means, the errors and the coverage."""
    e, o, rows = found.examples, found.shipped, scores.scored_rows(found.examples)
    lines: Table = []
    for fold in np.unique(e.fold[rows]):
        pick = (e.fold == fold) & rows
        y, median, hidden = (v[pick] for v in (e.log_speedup, o.median, o.median_hidden))
        inside = np.mean((y >= o.low[pick]) & (y <= o.high[pick]))
        means = [f"{np.exp(values.mean()):.2f}" for values in (y, median)]
        errors = [percent(float(metrics.ape(y, guess).mean())) for guess in (median, hidden)]
        counts = (pick.sum(), e.acceptance_known[pick].sum())
        lines.append([fold, *counts, *means, *errors, percent(float(inside), 0)])
    return lines


def acceptance(found: Evaluation) -> Table:
    """Errors of the tokens per step on sources that were left out."""
    every, lines = found.acceptance, Table()
    for name, part in (("all sources", every), ("MTP only", [x for x in every if x["mtp"]])):
        error, fixed, bias = (np.mean([x[key] for x in part]) for key in ("error", "fixed", "bias"))
        spread = np.sqrt(np.mean([x["z"] ** 2 for x in part]))
        figures = [percent(float(error)), percent(float(fixed)), f"{bias:+.3f}", f"{spread:.2f}"]
        lines.append([name, len(part), *figures])
    return lines


def chances(found: Evaluation) -> Table:
    """Stated chance of a gain against the share that gained, acceptance known and unknown."""
    e, lines = found.examples, Table()
    for side, name in zip(scores.sides(e, found.shipped), ("stated", "ignored"), strict=True):
        pick = side.rows
        y, weight = e.log_speedup[pick], row_weight(e.fold[pick])
        for *shares, count in metrics.calibration(y, side.p_gain[pick], weight):
            lines.append([name, *_percents(tuple(shares)), count])
    return lines


def bases(found: Evaluation) -> Table:
    """Errors by what a prediction rests on: what another source measured there."""
    e, o, rows = found.examples, found.shipped, scores.scored_rows(found.examples)
    imputed = count_imputed(e.points) >= FAR
    names = ["measured", "interpolated", "extrapolated"]
    basis = np.select([o.closeness >= 1, o.near & ~imputed], names[:2], names[2])
    right = (o.median_hidden > 0) == (e.log_speedup > 0)
    lines: Table = []
    for name in names:
        pick = rows & (basis == name)
        if pick.any():
            error, folds = metrics.ape(e.log_speedup, o.median_hidden)[pick], e.fold[pick]
            figures = [
                percent(float(np.median(error))),
                percent(metrics.group_average(error, folds).value),
                percent(float(right[pick].mean()), 0),
            ]
            lines.append([name, pick.sum(), len(np.unique(folds)), *figures])
    return lines
