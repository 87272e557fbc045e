"""The nouns of a sweep. Speed-ups above 1 are faster; k = 0 is no speculation; None: unknown."""

import itertools
from collections.abc import Iterator, Sequence
from math import log
from typing import Literal

from advisor.advice.wording import k_text
from advisor.domain.frozen import Frozen
from advisor.domain.nouns import (
    Basis,
    Decision,
    Evidence,
    Facts,
    Finding,
    Interval,
    LaunchText,
    MemoryBill,
    Method,
    MetricEstimate,
    Plan,
    Request,
)

Value = int | float
Arm = tuple[Method, int, bool]  # method, k, whether it is verified adaptively
Setting = tuple[tuple[str, Value], ...]  # (field of the request, value) of what is varied
Quantile = Literal["p10", "p50", "p90"]
QUANTILES: tuple[Quantile, ...] = ("p10", "p50", "p90")


class Point(Frozen):
    """One k at one load: `gain` of the goal's metric, and absolute speeds without (`baseline`) and
    with speculation (`value`). For k = 0 every gain is 1 and `p_gain` is None.
    """

    plan: Plan
    method: Method
    k: int
    adaptive: bool = False  # the engine chooses how many of the drafts it verifies
    gain: Interval
    p_gain: float | None
    utility: float  # expected log gain in which a loss weighs double: what the k is chosen by
    decision: Decision  # of this k alone against no speculation, by the rule of `recommend`
    output_tok_s: MetricEstimate
    tpot_ms: MetricEstimate
    ttft_ms: MetricEstimate
    accepted_length: Interval | None = None
    memory: MemoryBill | None = None
    basis: Basis = "physics"
    forbidden_by: tuple[str, ...] = ()  # codes of rules that forbid this plan
    documented: tuple[str, ...] = ()  # codes of rules whose documented losses are in the gain
    running: int | None = None  # requests that run at once in all replicas, the others wait
    graphs_end: int | None = None  # requests at once up to which verify steps run in CUDA graphs
    predictable: bool = True  # False: neither sign nor size of the goal's change is known
    p_objective: float | None = None  # of keeping the latency limits of the question
    cost_per_million: float | None = None  # money for a million output tokens, where priced
    kwh_per_million: float | None = None

    @property
    def arm(self) -> Arm:
        """What runs there."""
        return self.method, self.k, self.adaptive

    @property
    def words(self) -> str:
        """Its k, in a table or a list."""
        return k_text(self.k, self.adaptive)


class LoadPoint(Frozen):
    """One load with its points, the smallest k first and adaptive verification last, and what
    `recommend` answers there. `best_k`: of the best speculative plan (None: none runs); `run_k`:
    what the answer runs. A load that cannot be served has a `refusal` and no points.
    """

    setting: Setting
    request: Request
    decision: Decision | None = None
    rule: str = ""  # the deciding step: estimate, unsure, objective, rule, no_method, one_token
    best_method: Method | None = None
    best_k: int | None = None
    best_adaptive: bool = False
    k_rules: tuple[str, ...] = ()  # codes of rules that name this k, or limit others
    run_k: int = 0
    points: tuple[Point, ...] = ()
    lacking: tuple[tuple[int, str], ...] = ()  # (k, why) of an asked k that cannot run here
    refusal: str | None = None

    def point(self, k: int, method: Method | None = None, adaptive: bool = False) -> Point | None:
        """The point of one k, fixed or verified adaptively; None where there is none."""
        same = (p for p in self.points if p.k == k and (k == 0 or method in (None, p.method)))
        return next((p for p in same if p.adaptive == adaptive), None)

    @property
    def best(self) -> Point | None:
        """The point of the best speculative plan, None where none runs."""
        return self.point(self.best_k or -1, self.best_method, self.best_adaptive)


class BreakEven(Frozen):
    """Where a k's curve crosses no gain along the first axis (log-interpolated), by `quantile`."""

    axis: str
    setting: Setting  # the other varied fields
    method: Method
    k: int
    adaptive: bool = False
    quantile: Quantile
    at: float
    direction: Literal["falls", "rises"]  # below 1, or above it, as the axis grows


class RangeLoad(Frozen):
    """One load under the ranges, or under the one k: its median gain, and that of the answer."""

    requests: int
    k: int
    gain: float
    best_k: int  # 0: no speculation
    best_gain: float
    best_adaptive: bool = False


class KRanges(Frozen):
    """The best k per batch size along one curve, and whether it pays to change it. `rows`: (batch
    from, to, k) over all loads: the engine's where they pay, else the answers' (0: off); `gain`:
    mean speed-up against `static_k`, the one k that serves all best; `regrets`: (k, mean loss of
    expected log gain), least first.
    """

    setting: Setting  # the other varied fields
    method: Method
    rows: tuple[tuple[int, int, int], ...]
    static_k: int
    gain: float
    pays: bool
    why: str  # one sentence
    arguments: tuple[str, ...] = ()  # of the engine; empty where it takes one k only
    file_name: str | None = None
    file_text: str | None = None
    loads: tuple[RangeLoad, ...] = ()
    regrets: tuple[tuple[int, float], ...] = ()


Bound = Literal["objectives", "slots", "search"]


class Within(Frozen):
    """The largest load of one k that keeps the objectives more likely than not, and with 90 %. Only
    served users count: without an objective for TTFT no more than the `slots`. None with
    "objectives": not even one request keeps them, with "search": every load tried does.
    """

    method: Method
    k: int
    adaptive: bool = False
    likely: int | None
    likely_bound: Bound = "objectives"
    p: float | None  # at `likely`, or at the largest load tried
    sure: int | None
    sure_bound: Bound = "objectives"
    slots: int | None = None  # requests that run at once, where that bounds a count

    @property
    def words(self) -> str:
        """Its k, in a table or a list."""
        return k_text(self.k, self.adaptive)


class Rate(Frozen):
    """What the whole machine costs or draws: money an hour, watts, or both."""

    per_hour: float | None = None
    watts: float | None = None

    def cost(self, output_tok_s: float) -> float | None:
        """Money for a million output tokens."""
        if self.per_hour is None or output_tok_s <= 0:
            return None
        return self.per_hour / 3600 / output_tok_s * 1e6

    def energy_kwh(self, output_tok_s: float) -> float | None:
        """Kilowatt hours for a million output tokens."""
        if self.watts is None or output_tok_s <= 0:
            return None
        return self.watts / 3.6e6 / output_tok_s * 1e6


class Sweep(Frozen):
    """Curves over loads; `request` has engine, release and quantisation of all, `axes` no k."""

    request: Request
    facts: Facts  # of the request itself
    axes: tuple[tuple[str, tuple[Value, ...]], ...]
    ks: tuple[int, ...]
    loads: tuple[LoadPoint, ...]
    break_even: tuple[BreakEven, ...] = ()
    pairs: tuple[Evidence, ...] = ()  # measured pairs that cover a load, of the goal's metrics
    k_ranges: tuple[KRanges, ...] = ()
    within: tuple[Within, ...] = ()  # where latency objectives were asked about


class Policy(Frozen):
    """One launch for every load of a range. "measure": the chance of a gain is not clear at each
    (`unsure`); `findings` are of `plan`, the server at the largest load.
    """

    decision: Decision
    ranges: KRanges
    unsure: tuple[int, ...]  # requests
    plan: Plan
    launch: LaunchText
    launch_off: LaunchText
    findings: tuple[Finding, ...]
    sweep: Sweep


def break_evens(loads: Sequence[LoadPoint], axis: str | None) -> tuple[BreakEven, ...]:
    """Every crossing of a gain of 1 along `axis`, for each k and each other setting."""
    if axis is None:
        return ()
    return tuple(
        BreakEven(
            axis=axis,
            setting=setting,
            method=method,
            k=k,
            adaptive=adaptive,
            quantile=quantile,
            at=at,
            direction=way,
        )
        for (setting, (method, k, adaptive)), points in curves(loads, axis).items()
        for quantile in QUANTILES
        for at, way in _crossings(quantile, points)
    )


def curves(
    loads: Sequence[LoadPoint], axis: str
) -> dict[tuple[Setting, Arm], list[tuple[float, Point]]]:
    """The speculative points of each arm and other setting along the axis, (value, point)."""
    out: dict[tuple[Setting, Arm], list[tuple[float, Point]]] = {}
    for load in loads:
        at = float(dict(load.setting)[axis])
        others = tuple((name, value) for name, value in load.setting if name != axis)
        for point in load.points:
            if point.k > 0:
                out.setdefault((others, point.arm), []).append((at, point))
    return {key: sorted(points, key=lambda pair: pair[0]) for key, points in out.items()}


def _crossings(
    quantile: Quantile, points: Sequence[tuple[float, Point]]
) -> Iterator[tuple[float, Literal["falls", "rises"]]]:
    """Where a percentile of the gain crosses 1, and which way."""
    values = [(at, log(max(getattr(point.gain, quantile), 1e-6))) for at, point in points]
    for (left, before), (right, after) in itertools.pairwise(values):
        if (before > 0) == (after > 0):
            continue
        part = before / (before - after)
        at = left * (right / left) ** part if left > 0 else left + part * (right - left)
        yield at, "falls" if before > after else "rises"
