"""The measured pairs as arrays: what training fits and what evaluation is scored on.

One example is one speculative arm and one metric for which a speed-up was published or follows from
both arms (TPOT and TTFT pairs are derived so). A rig is (source, hardware, GPU count), and the
machine where a source tells several apart. A fold is a source; a community table of many machines
is split by rig.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.domain.nouns import AdvisorError
from advisor.lab.measurements.columns import Run
from advisor.lab.measurements.schema import (
    COLUMN_OF_METRIC,
    Row,
    by_group,
    measured_value,
    measurements_dir,
    ratio,
    read_acceptance,
    read_runs,
)
from advisor.lab.training.acceptance_fit import ROW_SD, Observations
from advisor.perf import arrays
from advisor.perf.encoding import encode_rows
from advisor.perf.encoding.cells import row_text

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.str_]

KERNEL_PATH_SD = 0.15  # own spread of rows whose source blames one kernel path
# One table, many contributors, in two transcriptions: a fold is a rig, not the table
COMMUNITY_TABLES = {"sudo38": "sudo38", "sudo38c": "sudo38"}


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
    primary: npt.NDArray[np.bool_]  # the metric that the source published as the speed-up
    acceptance_known: npt.NDArray[np.bool_]
    # the harness or a text that repeats itself set the acceptance: nobody can be asked to know it
    forced: npt.NDArray[np.bool_]
    sd: Floats  # expected replicate sd of the log ratio
    log_base: Floats  # log of the measured off arm, tok/s or ms; NaN where it was not published

    def __len__(self) -> int:
        return len(self.log_speedup)

    def take(self, index: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Examples:
        """Return the examples at these positions (T,) or where the mask (M,) is true."""
        picked = {name: value[index] for name, value in vars(self).items() if name != "points"}
        return Examples(points=self.points.take(index), **picked)


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


def _base(off: Run | None, metric: str) -> float:
    return (measured_value(off, metric) or math.nan) if off else math.nan


def _pairs(group: list[Row]) -> list[Pair]:
    off = next((row.run for row in group if row.run.spec_method == "none"), None)
    out: list[Pair] = []
    for row in group:
        run = row.run
        if run.spec_method == "none":
            continue
        if run.speedup and run.speedup_metric:
            out.append(
                Pair(row, run.speedup_metric, run.speedup, True, _base(off, run.speedup_metric))
            )
        for metric in COLUMN_OF_METRIC if off else ():
            value = ratio(run, off, metric) if off else None
            if value and metric != run.speedup_metric and 0.02 < value < 30:
                out.append(Pair(row, metric, value, False, _base(off, metric)))
    return out


def examples(folder: Path | None = None, uses: tuple[str, ...] = ("train", "eval")) -> Examples:
    """All pairs of the measurement files. Raises AdvisorError where a file has bad rows.

    Parameters
    ----------
    folder : Path | None
        Of the measurements; None: the repository's.
    uses : tuple[str, ...]
        Values of `use` that are read.

    Returns
    -------
    pairs : Examples
        M measured pairs.

    Raises
    ------
    AdvisorError
        Where a file has bad rows.
    """
    rows, problems = read_runs(folder or measurements_dir())
    if problems:
        raise AdvisorError(
            f"{len(problems)} bad measured rows, the first: {problems[0]}; see `advisor "
            f"data check`."
        )
    pairs = [
        pair
        for group in by_group(rows).values()
        for pair in _pairs(group)
        if pair[0].run.use in uses
    ]
    return _assemble(pairs)


def _assemble(pairs: list[Pair]) -> Examples:
    texts = [row_text(row.raw | {"speedup_metric": metric}) for row, metric, *_ in pairs]
    points, errors = encode_rows.from_rows(texts)
    keep = [i for i, error in enumerate(errors) if error is None]
    index = np.array(keep, dtype=np.int64)
    runs = [pairs[i][0].run for i in keep]
    rigs = [_rig(r) for r in runs]
    sweeps = [
        "|".join(map(str, (pairs[i][0].run.group_id, pairs[i][0].run.spec_method, pairs[i][1])))
        for i in keep
    ]
    primary = np.array([pairs[i][3] for i in keep])
    return Examples(
        points=points.take(index),
        log_speedup=np.array([math.log(pairs[i][2]) for i in keep]),
        weight=rig_weight(np.array(rigs), primary),
        source=np.array([r.source_id for r in runs]),
        rig=np.array(rigs),
        fold=np.array([fold_of(r.source_id, rig) for r, rig in zip(runs, rigs, strict=True)]),
        hardware=np.array([r.hardware for r in runs]),
        engine=np.array([r.engine for r in runs]),
        model=np.array([r.model for r in runs]),
        method=np.array([r.spec_method for r in runs]),
        metric=np.array([pairs[i][1] for i in keep]),
        run_id=np.array([r.run_id for r in runs]),
        group=np.array([r.group_id for r in runs]),
        sweep=np.array(sweeps),
        use=np.array([r.use for r in runs]),
        primary=primary,
        acceptance_known=np.array(
            [r.acceptance_rate is not None or r.acceptance_length is not None for r in runs]
        ),
        forced=np.array([bool(r.acceptance_forced) for r in runs]),
        sd=np.array([_replicate_sd(r) for r in runs]),
        log_base=np.log(np.array([pairs[i].base for i in keep])),
    )


def _rig(run: Run) -> str:
    """One witness: a source's machine. Several machines of one kind are several, where the source
    tells them apart.
    """
    rig = f"{run.source_id}|{run.hardware}|{run.gpu_count or '?'}"
    return f"{rig}|{run.machine}" if run.machine else rig


def _replicate_sd(run: Run) -> float:
    """Spread that the row has by itself; rows whose source blames one kernel path teach little
    about anything else.
    """
    if "one kernel path" in run.use_why:
        return KERNEL_PATH_SD
    return 0.029 if (run.n_trials or 1) >= 3 else 0.045


def rig_weight(rigs: Words, primary: npt.NDArray[np.bool_]) -> Floats:
    """1 / rows of the rig, derived pairs at half weight; sums to 1 per rig.

    Parameters
    ----------
    rigs : Words
        Machine of each row. (M,)
    primary : NDArray[bool_]
        Whether the pair was measured and not derived. (M,)

    Returns
    -------
    Floats
        Sums to 1 over a rig. (M,)
    """
    each = np.where(primary, 1.0, 0.5)
    names, which = np.unique(rigs, return_inverse=True)
    total = np.bincount(which, weights=each, minlength=len(names))
    weight: Floats = each / total[which]
    return weight


def observations(folder: Path | None = None) -> Observations:
    """Stated acceptances of clean arms and of the per-position tables, as observations of
    log(tokens per step).
    """
    where = folder or measurements_dir()
    rows, _ = read_runs(where)
    texts: list[dict[str, str]] = []
    for row in rows:
        run = row.run
        rate = (
            None if run.spec_method == "ngram" else run.acceptance_rate
        )  # of the few steps in which a lookup drafts
        stated = rate is not None or run.acceptance_length is not None
        if run.use == "train" and stated and run.k and not run.acceptance_forced:
            texts.append(row_text(row.raw) | {"speedup_metric": "request_tok_s"})
    made = [(text, *_parse_stated(text)) for text in texts] + _position_tables(where)
    points, errors = encode_rows.from_rows([text for text, _, _ in made])
    good = np.array([e is None for e in errors]) & np.array([1.0 < t < k + 1 for _, k, t in made])
    k = np.array([k for _, k, _ in made])
    tau = np.array([t for _, _, t in made])
    source = np.array([text["source_id"] for text, _, _ in made])
    return Observations(
        points.take(good),
        k[good],
        np.log(tau[good]),
        source[good],
        np.full(int(good.sum()), ROW_SD),
    )


def _parse_stated(text: dict[str, str]) -> tuple[float, float]:
    k = float(text["k"])
    if text.get("acceptance_length"):
        return k, float(text["acceptance_length"])
    return k, 1 + k * float(text["acceptance_rate"])


def _position_tables(folder: Path) -> list[tuple[dict[str, str], float, float]]:
    """Prefixes of per-position tables: (row, k, tokens per step at k). Means of whole drafts are in
    the runs already, unless the source has no clean arm.
    """
    accepted, _ = read_acceptance(folder)
    tables: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for row in accepted:
        key = (
            row.source_id,
            row.model,
            row.quant,
            row.engine,
            row.spec_method,
            row.workload.split("-c")[0],
        )
        if row.position == "mean":
            if (
                row.source_id in ("infxgold", "l4", "luka", "gb10yuyu")
                and row.k
                and row.acceptance_rate is not None
            ):
                tables[(*key, str(row.k))] = [(row.k, 1 + row.k * row.acceptance_rate)]
            continue
        tables.setdefault((*key, "positions"), []).append(
            (row.position + 1, row.acceptance_rate or 0.0)
        )
    out = []
    for where_, cells in tables.items():
        total, prefix = 1.0, []
        for k, value in sorted(cells):
            total = total + value if where_[-1] == "positions" else value
            prefix.append((k, total))
        for k, tau in prefix:
            text = dict(
                zip(
                    ("source_id", "model", "quant", "engine", "spec_method", "workload"),
                    where_,
                    strict=False,
                )
            )
            out.append((text | {"k": str(k), "speedup_metric": "request_tok_s"}, float(k), tau))
    return out
