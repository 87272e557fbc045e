"""The fitted model: acceptance, constants of physics, spread, nearby measurements. numpy only.

Believe an acceptance, let physics and the closed loop turn it into a speed-up per metric, lean a
little towards measured pairs of the same cell, and give it the spread that left-out sources showed,
in log speed-up. No residual is learned: none predicts left-out sources better (notes.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from advisor.domain.normal import Z10
from advisor.domain.records import NamedTuple, Record, field
from advisor.domain.sourced import sourced
from advisor.perf import arrays, drafting, imputation, physics, schedule
from advisor.perf.arrays import Codes, Floats, Mask, Tokens
from advisor.perf.constants import Constants, shift_constants
from advisor.prediction import acceptance as acc
from advisor.prediction import spread, switches
from advisor.prediction.neighbours import Nearby
from advisor.prediction.spread import Spread

TTFT = arrays.METRICS.index("ttft")
MAX_LOG = sourced(
    2.3, "log ratio", "The largest published speed-up is 4.8; beyond 10 none is believed", "chosen"
)

EARLY_STOP_K = sourced(
    8.0, "tokens", "llama.cpp ends an unsure separate draft: a larger k is a limit", "assumed"
)
LOOKUP_K = sourced(
    3.0, "tokens", "A lookup drafts in some steps: over all it verifies about this many", "assumed"
)

_METRICS = ("output_tok_s", "request_tok_s", "tpot", "ttft")

Curve = tuple[tuple[float, float], ...]  # knots: (mean / sd, probability of a gain)
_CURVE: Curve = ((-2.0, 0.05), (0.0, 0.5), (2.0, 0.95))  # until one is fitted


class Calibration(NamedTuple):
    """How model spreads become 80 % intervals and chances of a gain, from sources that were left
    out.

    Each for a stated and for a guessed acceptance. `low` and `high`: half-widths in model sd.
    `gain`: the probability of a gain over mean / sd, as knots of a rising line (isotonic
    regression).
    """

    low: tuple[float, float] = (Z10, Z10)
    high: tuple[float, float] = (Z10, Z10)
    gain: tuple[Curve, Curve] = (_CURVE, _CURVE)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain numbers."""
        curves = [[list(knot) for knot in curve] for curve in self.gain]
        return {"low": list(self.low), "high": list(self.high), "gain": curves}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Calibration:
        """Return the calibration of a saved state. Raises KeyError where a part is missing."""
        low, high = (tuple(map(float, state[key])) for key in ("low", "high"))
        stated, guessed = (tuple((float(z), float(p)) for z, p in curve) for curve in state["gain"])
        return cls((low[0], low[1]), (high[0], high[1]), (stated, guessed))


class Raw(NamedTuple):
    """Model output before the neighbours and the calibration, of N points in one metric each or in
    M, one below the other: `mean` and `sd` (M * N,) in log speed-up, `reasons` (M * N, 6) what the
    sd is made of; what is believed of their acceptance, and the filled points.
    """

    mean: Floats
    sd: Floats
    reasons: Floats
    belief: acc.AcceptanceBelief
    full: arrays.Points


@arrays.memoize
def prepare(points: arrays.Points) -> tuple[arrays.Points, arrays.Points]:
    """N points with a k everywhere, and the same with every unknown filled in."""
    given_k = np.where(np.isnan(points.given_k), points.k, points.given_k)
    k = acc.draft_k(points)
    guessed = np.isnan(points.given_rate) & np.isnan(points.given_length)
    early = points.is_method("draft_model") & points.is_path(*arrays.LLAMACPP) & guessed
    k = np.where(early, np.fmin(k, EARLY_STOP_K), k)
    k = np.where(points.is_method("ngram") & guessed, np.fmin(k, LOOKUP_K), k)
    raw = points.replace(k=k, given_k=given_k)
    return raw, imputation.impute(raw)


def loop(
    full: arrays.Points,
    constants: Constants,
    tau: Tokens,
    plain_run: schedule.ServedLoad | None = None,
    queued: schedule.Queue | None = None,
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """(log speed-up, log value without speculation) by metric; in tok/s, TPOT and TTFT in ms."""
    spec = schedule.replay(full, constants, tau, "spec", queued)
    base = plain_run or schedule.replay(full, constants, tau, "base")
    late = serial_drafting(full, constants)
    gain, plain = {}, {}
    for name in _METRICS:
        times = name in ("tpot", "ttft")
        served = f"{name}_s" if times else name
        on, off = (np.maximum(getattr(run, served), 1e-9) for run in (spec, base))
        log = (np.log(off / on) if times else np.log(on / off)) - (0.0 if name == "ttft" else late)
        gain[name] = log.clip(-MAX_LOG, MAX_LOG)
        plain[name] = np.log(off * (1e3 if times else 1.0))
    return gain, plain


def serial_drafting(full: arrays.Points, constants: Constants) -> Floats:
    """log of the cycle's stretch because llama.cpp drafts slot after slot: B streams pay B times
    one stream's drafting (N,).

    Source: two published machines with several slots (RTX 3090 DFlash and draft model, Strix Halo
    MTP). 0 elsewhere.
    """
    out = np.zeros(len(full))
    rows = np.flatnonzero(full.is_path(*arrays.LLAMACPP) & (full.concurrency > 1) & (full.k > 0))
    if len(rows):
        p = full.take(rows)
        batch, context = (
            np.fmin(p.concurrency, p.max_num_seqs),
            p.depth_tokens + p.output_tokens / 2,
        )
        together = drafting.draft_seconds(p, constants, batch, context)
        serial = batch * drafting.draft_seconds(p, constants, np.ones(len(rows)), context)
        verify = physics.step_seconds(p, constants, batch, p.verify_tokens, True, context).total
        out[rows] = np.log((verify + np.fmax(serial, together)) / (verify + together))
    return out


def of_metric(by_metric: Mapping[str, Floats], metric: Codes) -> Floats:
    """The value of each point's own metric (N,)."""
    out = np.array(by_metric["output_tok_s"])
    for name in _METRICS[1:]:
        out = np.where(metric == arrays.METRICS.index(name), by_metric[name], out)
    return out


class Model(Record):
    """Everything that is learned; the same only as itself, so that work on it can be kept."""

    acceptance: acc.AcceptanceModel
    shifts: Mapping[str, float]
    spread: Spread
    calibration: Calibration
    nearby: Nearby | None = None
    paths_seen: tuple[int, ...] = ()
    methods_seen: tuple[int, ...] = ()
    absolute: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_calibration(cls, spread: Spread, calibration: Calibration) -> Model:
        """A model that only makes intervals and chances of means and spreads at hand."""
        return cls(acc.AcceptanceModel(np.zeros(1), np.zeros((1, 1)), 1.0), {}, spread, calibration)

    @cached_property
    def constants(self) -> Constants:
        """Constants of the speed-ups."""
        return shift_constants(Constants(), self.shifts)

    @cached_property
    def speeds(self) -> Constants:
        """Constants of absolute speeds: fitted to the off arms as well."""
        return shift_constants(Constants(), self.absolute)

    def raw(self, points: arrays.Points, hide: bool = False) -> Raw:
        """Mean and sd of each point's log speed-up (N,), nearby measurements not yet used."""
        ready, full = prepare(points)
        return self.price(points, full, acc.believe(self.acceptance, ready, hide), [full.metric])

    def price(
        self,
        points: arrays.Points,
        full: arrays.Points,
        belief: acc.AcceptanceBelief,
        metrics: Sequence[arrays.Codes],
    ) -> Raw:
        """Physics of M metrics, every known reason for doubt as its sd: (M * N,) each."""

        def price(part: arrays.Points, constants: Constants, here: Mask, same: bool) -> Floats:
            base = schedule.ServedLoad(*(served[here] for served in plain)) if same else None
            prompts = queued.take(here) if same else None
            by_metric = loop(part, constants, belief.tau[here], base, prompts)[0]
            return np.stack([of_metric(by_metric, metric[here]) for metric in metrics])

        plain = schedule.replay(full, self.constants, belief.tau, "base")
        queued = schedule.queue(full, self.constants, belief.tau, True)
        by_metric = loop(full, self.constants, belief.tau, plain, queued)[0]
        physics = np.stack([of_metric(by_metric, metric) for metric in metrics])
        median, between = switches.mix_states(full, self.constants, physics, price)
        reasons = spread.reasons(points, full, belief, self.constants, between, metrics)
        return Raw(median.ravel(), self.spread.sd(reasons), reasons, belief, full)

    def interval(self, mean: Floats, sd: Floats, known: Mask) -> tuple[Floats, Floats]:
        """The 80 % interval of the log speed-up. `known`: whether an acceptance is stated."""
        low, high = (
            np.where(known, *side) for side in (self.calibration.low, self.calibration.high)
        )
        return mean - low * sd, mean + high * sd

    def p_gain(self, mean: Floats, sd: Floats, known: Mask) -> Floats:
        """Calibrated probability of a speed-up above 1. `known`: an acceptance is stated."""
        stated, guessed = (
            np.interp(mean / sd, *np.array(curve).T) for curve in self.calibration.gain
        )
        return np.asarray(np.where(known, stated, guessed), dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Return the state of all parts as plain numbers."""
        return {
            "acceptance": self.acceptance.to_dict(),
            "constants": dict(sorted(self.shifts.items())),
            "constants_absolute": dict(sorted(self.absolute.items())),
            "spread": self.spread.to_dict(),
            "calibration": self.calibration.to_dict(),
            "nearby": self.nearby.to_dict() if self.nearby else None,
            "paths_seen": list(self.paths_seen),
            "methods_seen": list(self.methods_seen),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Model:
        """Return the model of a saved state. Raises KeyError where a part is missing."""
        return cls(
            acceptance=acc.AcceptanceModel.from_dict(state["acceptance"]),
            shifts=state["constants"],
            absolute=state["constants_absolute"],
            spread=Spread.from_dict(state["spread"]),
            calibration=Calibration.from_dict(state["calibration"]),
            nearby=Nearby.from_dict(state["nearby"]) if state["nearby"] else None,
            paths_seen=tuple(state["paths_seen"]),
            methods_seen=tuple(state["methods_seen"]),
        )
