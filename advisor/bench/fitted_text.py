"""The parts of models/h200.md that fit something: step time as a sum, constants of the core, cells kept out, prompts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from advisor.bench import fit
from advisor.bench.markdown import table
from advisor.bench.rows import Measured
from advisor.bench.text import LAW, PREFILL, RULE
from advisor.constants import Constants

Floats = npt.NDArray[np.float64]
NAMES = {"decode_step_ms": "decode step", "output_tok_s": "output tok/s", "tpot_ms": "TPOT", "ttft_ms": "TTFT"}
TARGETS = {"output_tok_s": 4.0, "tpot_ms": 6.0, "decode_step_ms": 3.0}


def law_text(alone: Sequence[Measured]) -> str:
    law = fit.step_law(alone)
    lines = [[name, f"{value:.4f}"] for name, value in law.coefficients.items()]
    error = ", ".join(f"{value:.1f} % at k = {k}" for k, value in law.error.items())
    return LAW + "\n\n" + table(("per", "ms"), lines) + f"\n\nMean absolute error: {error}."


def constants_text(sweep: fit.Sweep, found: fit.Fit) -> str:
    """Default, value on this machine, and what is left of the doubt; with the errors before and after."""
    moved = found.constants()
    lines = []
    for name, shift in found.shifts.items():
        bare = name.split("[")[0]
        old, new = (_value(c, bare) for c in (Constants(), moved))
        known = "identified" if found.left[name] < 0.5 else "partly" if found.left[name] < 0.8 else "no"
        lines.append([f"`{name}`", f"{old:.3g}", f"{new:.3g}", f"{shift:+.2f}", f"{found.left[name]:.2f}", known])
    head = ("constant", "default", "this machine", "log shift", "doubt left", "identified")
    before, after = sweep.predict(fit.random_routing()), sweep.predict(moved)
    return "\n\n".join([
        "All moved at once towards decode step, output tok/s, TPOT and TTFT of all points of the four runs above (of k = 1, 3, 6 "
        "and 8 of the first the decode step alone), shrunk to their defaults; `rho` = `skew` = 0 (random weights). Doubt left: "
        "sd after over sd before.",
        table(head, lines),
        "Errors in percent, before and after, and of the speed-ups:",
        table(("quantity", "before", "after", "speed-up before", "speed-up after"), [
            [NAMES[q], fit.mape(fit.log_errors(sweep, before, q)), fit.mape(fit.log_errors(sweep, after, q)),
             _all(fit.speedup_errors(sweep, before, q)), _all(fit.speedup_errors(sweep, after, q))]
            for q in fit.QUANTITIES
        ]),
    ])  # fmt: skip


def _value(constants: Constants, name: str) -> float:
    from advisor.points import PATHS

    value = getattr(constants, name)
    return float(value[PATHS.index(fit.PATH)] if isinstance(value, tuple) else value)


def _all(errors: dict[int, Floats]) -> float:
    return fit.mape(np.concatenate(list(errors.values())))


def held_out_text(alone: Sequence[Measured], sound_alone: Sequence[Measured], sound: Sequence[Measured]) -> str:
    """Errors on kept-out cells, both halves: the first machine with every point, without those set apart, and all machines."""
    lines = []
    for which, kept in (("alone, all", alone), ("alone, without the outlier", sound_alone), ("all machines", sound)):
        for name, swap in (("even cells fitted, odd predicted", False), ("the other way round", True)):
            outside, said = fit.held_out(kept, swap)
            for quantity in ("output_tok_s", "tpot_ms", "decode_step_ms"):
                each = fit.speedup_errors(outside, said, quantity)
                error = np.abs(np.concatenate(list(each.values())))
                own = fit.mape(fit.log_errors(outside, said, quantity))
                middle = float(100 * np.nanmedian(error))
                worst = float(100 * np.nanmax(error))
                means = fit.cell_errors(outside, said, quantity)
                mean = f"{fit.mape(means):.1f} ({len(means)})" if len(means) else ""
                lines.append([which, name, NAMES[quantity], _all(each), middle, worst, mean, TARGETS[quantity], own])
    head = (
        "points", "half", "quantity", "speed-up MAPE, %", "median", "worst", "of cell means (cells)", "target",
        "quantity itself, %",
    )  # fmt: skip
    return f"{RULE.strip()}\n\n{table(head, lines)}"


def interference_text(alone: Sequence[Measured]) -> str:
    found = {(row["key"], row["k"]): ms for row, ms in fit.interference(alone)}
    keys = list(dict.fromkeys(key for key, _ in found))
    lines = [[f"{k.split(':')[1]} x {k.split(':')[0]}", *(found[k, n] for n in (0, 2, 4))] for k in keys]
    return (
        "Time per request beyond its share of decode steps, ms: what one prompt adds to the run.\n\n"
        + table(("prompt x requests", "k = 0", "k = 2", "k = 4"), lines)
        + "\n\n"
        + PREFILL
    )
