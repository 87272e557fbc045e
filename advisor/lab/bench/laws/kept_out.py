"""How far the core and the step laws are from the half of the own GPU cells that is kept out.

`python -m advisor.lab.bench.laws.kept_out` prices every raw point of the folder of measurements
and prints, by engine and card, the median error of plain steps and of cycles and how often the sign
of the gain in decode speed is right, on one half of the cells. Which half is fixed by the hash of
what a cell measures: engine, model, quantisation, card, requests and prompt. So it can neither be
chosen nor move when points are added, both arms of a load fall into one half, and a load that was
measured on several machines does not stand on both sides. Constants of the core and forms of the
laws may be found on the other half (`--other`), never on this one.

Three tables, the first two with uniform routing (random weights route so): the core with the two
sets of constants of the shipped model, as users get it; the core with published constants; and the
step law (`step_law`) fitted to the other half alone, where that half has enough points of one
model, quantisation and card. "All" counts cells alike, so most of it is vLLM on one card; "alike"
is the mean over engines and cards.
"""

from __future__ import annotations

import hashlib
import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from advisor.domain.sourced import sourced
from advisor.lab.bench.laws.held_against import Account, Cell, account
from advisor.lab.bench.laws.step_law import Point, llama_terms, server_terms, step_ms
from advisor.lab.bench.row_files import read_about, read_rows
from advisor.lab.bench.rows import is_decode_biased, reason_of, runs_columns
from advisor.lab.bench.served_rows import few_steps
from advisor.lab.measurements.schema import measurements_dir
from advisor.perf import imputation, physics
from advisor.perf.constants import Constants
from advisor.perf.encoding import encode_rows
from advisor.prediction.artefact import load

LEAST_POINTS = sourced(9, "points", "own choice: a law has up to seven coefficients", "chosen")
TARGETS = sourced(
    (0.08, 0.08, 0.95), "share", "own aim: plain step, cycle, signs of the gain", "chosen"
)

ARMS = ("plain step", "cycle")


def points() -> list[Point]:
    """Every raw point whose decode step counts, with `hardware` and the folder it stands in."""
    found: list[Point] = []
    # a folder of other forms than these (llama-batched-bench, copies) has them one level deeper
    every = (measurements_dir() / "raw").iterdir()
    for folder in sorted(path for path in every if any(path.glob("*.jsonl"))):
        about = read_about(folder, {})
        for point in read_rows(folder):
            weak = reason_of(point, about)
            if weak is not None and weak.decode_from is None:
                continue
            if point.get("kind") != "decode" and is_decode_biased(point):
                continue
            if point.get("decode_steps") and not few_steps(point) and step_ms(point):
                found.append(point | {"hardware": about["hardware"], "folder": folder.name})
    return found


def kept_out(point: Point) -> bool:
    """Whether a cell is one of the half that nothing may be fitted to."""
    load = (point.get("engine", "vllm"), point["model"], point["quant"], point["hardware"])
    named = "/".join(map(str, (*load, point["concurrency"], point["input_tokens"])))
    return hashlib.sha256(named.encode()).digest()[0] % 2 == 0


def core_steps(
    found: Sequence[Point], constants: Constants, speeds: Constants | None = None
) -> list[float]:
    """Steps and cycles by the core, ms.

    Parameters
    ----------
    found : Sequence[Point]
        Points as `points` gives them.
    constants : Constants
        Of the core.
    speeds : Constants, optional
        Of plain steps, which a cycle is a multiple of; default the same. A model has two sets, and
        users get the first one's ratio beside the second one's speed.

    Returns
    -------
    list[float]
        One for each point.

    Raises
    ------
    ValueError
        A point's columns are not understood.
    """
    plain = {"spec_method": "mtp", "k": "1"}
    rows = [
        runs_columns(point, point["hardware"])
        | {"engine": point.get("engine", "vllm"), "speedup_metric": "request_tok_s"}
        | ({} if point["k"] else plain)
        for point in found
    ]
    table, errors = encode_rows.from_rows(rows)
    if any(errors):
        raise ValueError(next(error for error in errors if error))
    full = imputation.impute(table)
    context = full.input_tokens + full.output_tokens / 2
    drafts = np.array([bool(point["k"]) for point in found])

    def seconds(of: Constants, spec: bool) -> npt.NDArray[np.float64]:
        return physics.decode_seconds(full, of, full.concurrency, context, spec)

    step = seconds(speeds or constants, False)
    cycle = step * seconds(constants, True) / seconds(constants, False)
    return [float(1e3 * value) for value in np.where(drafts, cycle, step)]


def uniform(constants: Constants) -> Constants:
    """The same with uniform routing, where neighbours share no experts: random weights."""
    return replace(constants, rho=0.0, skew=0.0)


def law_steps(found: Sequence[Point]) -> list[float]:
    """Cycles by the step law of each engine, model, quantisation and card, fitted to the points
    that are not kept out; NaN where there are too few.
    """
    made = np.full(len(found), np.nan)
    groups = [_group(point) for point in found]
    for group in set(groups):
        rows = np.array([i for i, other in enumerate(groups) if other == group])
        terms = llama_terms if group[0] == "llama-server" else server_terms
        x = np.array([terms(found[i]) for i in rows], dtype=float)
        y = np.array([step_ms(found[i]) for i in rows])
        known = np.array([not kept_out(found[i]) for i in rows])
        if known.sum() >= LEAST_POINTS:
            made[rows] = x @ nnls(x[known] / y[known, None], np.ones(known.sum()))[0]
    return made.tolist()


def _group(point: Point) -> tuple[str, ...]:
    """Points of one law."""
    method = point.get("method", "mtp") if point["k"] else "mtp"
    lookup = "lookup" if method == "ngram" else ""
    names = (point.get("engine", "vllm"), point["model"], point["quant"], point["hardware"])
    return (*map(str, names), str(point.get("kv_cache_dtype", "")), lookup)


def judge(
    found: Sequence[Point], predicted: Iterable[float], out: bool = True
) -> dict[str, list[Account]]:
    """Errors on the half that is kept out: by engine and card, of all cells, and with engines and
    cards alike.

    Parameters
    ----------
    found : Sequence[Point]
        Points as `points` gives them.
    predicted : Iterable[float]
        Their steps, ms; NaN is left out.
    out : bool
        The half that is kept out; False for the other one.

    Returns
    -------
    dict of str to list[Account]
        Plain steps and cycles of each.
    """
    told: dict[str, list[Cell]] = {}
    for point, value in zip(found, predicted, strict=True):
        if kept_out(point) == out and not math.isnan(value):
            named = f"{point['folder']}/{point['label']}"  # campaigns of two folders never pair
            cell = Cell(point | {"label": named}, step_ms(point), value)
            told.setdefault(f"{point.get('engine', 'vllm')}, {point['hardware']}", []).append(cell)
    apart = {name: account(name, cells) for name, cells in sorted(told.items())}
    arms = [[one for part in apart.values() for one in part if title in one.name] for title in ARMS]
    alike = [_mean(f"alike, {title}", part) for title, part in zip(ARMS, arms, strict=True) if part]
    return apart | {
        "all": account("all", [cell for cells in told.values() for cell in cells]),
        "alike": alike,
    }


def _mean(name: str, parts: Sequence[Account]) -> Account:
    """The mean of medians and biases, and all signs."""
    return Account(
        name,
        sum(one.cells for one in parts),
        statistics.mean(one.median for one in parts),
        statistics.mean(one.bias for one in parts),
        sum(one.signs_right for one in parts),
        sum(one.signs for one in parts),
    )


def main(argv: Sequence[str]) -> int:
    """Print the accounts of the core and of the laws."""
    found, out = points(), "--other" not in argv
    model, published = load(), uniform(Constants())
    fitted, speeds = uniform(model.constants), uniform(model.speeds)
    print(f"{len(found)} cells, {sum(map(kept_out, found))} of them kept out")
    print("aims: plain step {:.0%}, cycle {:.0%}, signs {:.0%}".format(*TARGETS))
    for title, steps in (
        ("core", core_steps(found, fitted, speeds)),
        ("core, published constants", core_steps(found, published)),
        ("step law of the other half", law_steps(found)),
    ):
        print(f"\n{title}")
        for one in (one for part in judge(found, steps, out).values() for one in part):
            right = one.signs_right / max(one.signs, 1)
            signs = f"  signs {one.signs_right} of {one.signs} ({right:.0%})" if one.signs else ""
            print(
                f"  {one.name:42} {one.cells:4} cells  median {one.median:5.1%}  "
                f"bias {one.bias:+6.1%}{signs}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
