"""The measured pairs as arrays: an example is one speculative arm and one metric.

A rig is (source, hardware, GPU count), and the machine where a source tells several apart. A fold
is a source; a community table of many machines is split by rig.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from advisor.domain.nouns import AdvisorError
from advisor.lab.arrays import Flags, Floats, Index, Words
from advisor.lab.measurements import schema
from advisor.lab.measurements.columns import Run
from advisor.lab.measurements.schema import COLUMN_OF_METRIC, Row
from advisor.lab.training.acceptance_fit import ROW_SD, AcceptanceObservations
from advisor.perf import arrays
from advisor.perf.encoding import encode_rows
from advisor.perf.encoding.cells import row_text

KERNEL_PATH_SD = 0.15  # own spread of rows whose source blames one kernel path
# One table, many contributors, in two transcriptions: a fold is a rig, not the table
COMMUNITY_TABLES = {"sudo38": "sudo38", "sudo38c": "sudo38"}
MEANS_ALONE = ("infxgold", "l4", "luka", "gb10yuyu")  # sources of acceptance with no clean arm
TABLE = ("source_id", "model", "quant", "engine", "spec_method", "workload")  # of positions
Stated = tuple[dict[str, str], float, float]  # row, k, tokens per step at k


@dataclass(frozen=True, eq=False)
class Examples:
    """M examples. `log_speedup` = log of the measured ratio; `weight` sums to 1 per rig."""

    points: arrays.Points
    log_speedup: Floats
    weight: Floats
    source: Words
    rig: Words
    fold: Words
    hardware: Words
    engine: Words
    model: Words
    method: Words
    metric: Words
    run_id: Words
    group: Words
    sweep: Words
    use: Words
    primary: Flags  # the metric that the source published as the speed-up
    acceptance_known: Flags
    # the harness or a text that repeats itself set the acceptance: nobody can be asked to know it
    forced: Flags
    sd: Floats  # expected replicate sd of the log ratio
    log_base: Floats  # log of the measured off arm, tok/s or ms; NaN where it was not published

    def __len__(self) -> int:
        return len(self.log_speedup)

    def take(self, index: Index | Flags) -> Self:
        """Return the examples at these positions (T,) or where the mask (M,) is true."""
        picked = {name: value[index] for name, value in vars(self).items() if name != "points"}
        return type(self)(points=self.points.take(index), **picked)


def fold_of(source: str, rig: str) -> str:
    """The unit that is left out together."""
    table = COMMUNITY_TABLES.get(source)
    return source if table is None else table + rig.removeprefix(source)


class Pair(NamedTuple):
    """A measured row with speculation beside its baseline."""

    row: Row
    metric: str
    speedup: float
    primary: bool
    base: float  # the off arm's value, NaN if not published


def _pairs(group: list[Row]) -> Iterator[Pair]:
    off = next((row.run for row in group if row.run.spec_method == "none"), None)
    for row in (row for row in group if row.run.spec_method != "none"):
        run, published = row.run, row.run.speedup_metric
        bases = {
            name: getattr(off, column, None) or math.nan
            for name, column in COLUMN_OF_METRIC.items()
        }
        if run.speedup and published:
            yield Pair(row, published, run.speedup, True, bases[published])
        for metric in COLUMN_OF_METRIC if off else ():
            value = schema.ratio(run, off, metric) if off else None
            if value and metric != published and 0.02 < value < 30:
                yield Pair(row, metric, value, False, bases[metric])


def examples(folder: Path | None = None, uses: tuple[str, ...] = ("train", "eval")) -> Examples:
    """All pairs of the measurement files of these uses. Raises AdvisorError on bad rows."""
    rows, problems = schema.read_runs(folder or schema.measurements_dir())
    if problems:
        raise AdvisorError(
            f"{len(problems)} bad measured rows, the first: {problems[0]}; see `advisor data check`"
        )
    pairs = [pair for group in schema.by_group(rows).values() for pair in _pairs(group)]
    return _assemble([pair for pair in pairs if pair.row.run.use in uses])


def _assemble(pairs: list[Pair]) -> Examples:
    texts = [row_text(pair.row.raw | {"speedup_metric": pair.metric}) for pair in pairs]
    points, errors = encode_rows.from_rows(texts)
    good = np.array([error is None for error in errors], dtype=bool)
    pairs = [pair for pair, fine in zip(pairs, good, strict=True) if fine]
    runs = [pair.row.run for pair in pairs]
    # one witness: a source's machine, or each of several that the source tells apart
    witnesses = [f"{run.source_id}|{run.hardware}|{run.gpu_count or '?'}" for run in runs]
    rigs = [
        f"{r}|{run.machine}" if run.machine else r for r, run in zip(witnesses, runs, strict=True)
    ]
    metrics = [pair.metric for pair in pairs]
    primary = np.array([pair.primary for pair in pairs])

    def column(name: str) -> Words:
        return np.array([getattr(run, name) for run in runs])

    labels = {"source": "source_id", "group": "group_id", "method": "spec_method"}
    sweeps = zip(column("group_id"), column("spec_method"), metrics, strict=True)
    stated = (run.acceptance_rate is not None or run.acceptance_length is not None for run in runs)
    return Examples(
        points=points.take(np.flatnonzero(good)),
        log_speedup=np.array([math.log(pair.speedup) for pair in pairs]),
        weight=rig_weight(np.array(rigs), primary),
        rig=np.array(rigs),
        fold=np.array([fold_of(run.source_id, rig) for run, rig in zip(runs, rigs, strict=True)]),
        metric=np.array(metrics),
        sweep=np.array(["|".join(each) for each in sweeps]),
        primary=primary,
        acceptance_known=np.array(list(stated)),
        forced=np.array([bool(run.acceptance_forced) for run in runs]),
        sd=np.array([_replicate_sd(run) for run in runs]),
        log_base=np.log(np.array([pair.base for pair in pairs])),
        **{name: column(name) for name in ("hardware", "engine", "model", "run_id", "use")},
        **{name: column(field) for name, field in labels.items()},
    )


def _replicate_sd(run: Run) -> float:
    """Spread of the row itself; rows that blame one kernel path teach little else."""
    if "one kernel path" in run.use_why:
        return KERNEL_PATH_SD
    return 0.029 if (run.n_trials or 1) >= 3 else 0.045


def rig_weight(rigs: Words, primary: Flags) -> Floats:
    """1 / rows of the rig, derived pairs at half weight; sums to 1 for each rig."""
    each = np.where(primary, 1.0, 0.5)
    _, which = np.unique(rigs, return_inverse=True)
    return np.asarray(each / np.bincount(which, weights=each)[which], dtype=np.float64)


def observations(folder: Path | None = None) -> AcceptanceObservations:
    """Stated acceptances of clean arms and of the per-position tables: log(tokens per step)."""
    where = folder or schema.measurements_dir()
    stated: list[Stated] = []
    for row in schema.read_runs(where)[0]:
        run = row.run
        # a lookup's rate is of the few steps in which it drafts
        rate = None if run.spec_method == "ngram" else run.acceptance_rate
        length = run.acceptance_length
        if run.use != "train" or run.acceptance_forced or not run.k:
            continue
        if rate is not None or length is not None:
            text = row_text(row.raw) | {"speedup_metric": "request_tok_s"}
            stated.append((text, float(run.k), length or 1 + run.k * (rate or 0.0)))
    stated += _position_tables(where)
    texts = [text for text, _, _ in stated]
    points, errors = encode_rows.from_rows(texts)
    k, tau = (np.array([each[i] for each in stated]) for i in (1, 2))
    good = np.array([error is None for error in errors]) & (tau > 1.0) & (tau < k + 1)
    source = np.array([text["source_id"] for text in texts])
    sd = np.full(int(good.sum()), ROW_SD)
    return AcceptanceObservations(points.take(good), k[good], np.log(tau[good]), source[good], sd)


def _position_tables(folder: Path) -> list[Stated]:
    """Prefixes of per-position tables, and means of whole drafts of sources without a clean arm."""
    tables: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for row in schema.read_acceptance(folder)[0]:
        key = tuple(str(getattr(row, name)) for name in TABLE[:-1]) + (row.workload.split("-c")[0],)
        if row.position != "mean":
            rates = tables.setdefault((*key, "positions"), [])
            rates.append((row.position + 1, row.acceptance_rate))
        elif row.source_id in MEANS_ALONE and row.k:
            tables[(*key, str(row.k))] = [(row.k, row.k * row.acceptance_rate)]
    out: list[Stated] = []
    for key, rates in tables.items():
        tau = 1.0
        text = dict(zip(TABLE, key, strict=False)) | {"speedup_metric": "request_tok_s"}
        for k, rate in sorted(rates):
            tau += rate
            out.append((text | {"k": str(k)}, float(k), tau))
    return out
