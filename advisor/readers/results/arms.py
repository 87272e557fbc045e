"""Two arms of an A/B: are they comparable, what did the second gain, and how far do such runs
scatter, by repeats, by the requests of each run, and by what single runs scatter at least.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Self

from advisor.knowledge import store as knowledge
from advisor.readers.results.document import Unreadable
from advisor.readers.results.run import MAX_MS, BenchmarkRun, Latency

Metric = Literal["output_tok_s", "tpot", "ttft"]
METRICS: tuple[Metric, ...] = ("output_tok_s", "tpot", "ttft")
# what runs scatter by (threshold replicate_noise) weighs as much as these beside own repeats
PRIOR_RUNS = 4.0
WIDTH = 1.96  # of the 95 % interval outside which arms differ
TOLERANCE = 0.05  # relative difference in load or lengths above which arms are not comparable
SAME_LENGTH = 0.1  # the same of lengths up to which two runs of one arm are repeats
FEW_REQUESTS = 8
IMPLAUSIBLE = 1.5  # own choice: of a bound; means over requests and ends of a run miss it by less
# a step with drafts takes at least one without: 5 of 3,843 published gains are larger (2026-11-30)
FASTER_STEP = 1.25
MOST_K = 32  # where no file says k; as many times slower is none of speculation's losses either
_LOAD_LABELS = {
    "concurrency": "concurrency", "request_rate": "request rate", "input_tokens": "prompt tokens",
    "depth_tokens": "cached tokens", "output_tokens": "output tokens",
}  # fmt: skip
_LABELS = {
    "model": "model", "engine": "engine", "engine_version": "engine version", "client": "client",
    "client_version": "client version", "dataset": "prompts", "hardware": "hardware",
    "slots": "slots", "temperature": "temperature", "kind": "kind of result",
}  # fmt: skip


class NothingMeasured(Unreadable):
    """A file that can be read and holds no measurement."""

    status = 1


class Gain(NamedTuple):
    """One metric of an A/B: the log of a ratio above 1 for faster, its sd and where it is from."""

    metric: Metric
    off: float
    on: float
    log: float
    sd: float
    noise: str

    @property
    def ratio(self) -> float:
        """The gain as a ratio; above 1 is faster."""
        return math.exp(self.log)

    def interval(self, width: float = WIDTH) -> tuple[float, float]:
        """Ratio at the ends of the interval of `width` standard deviations each side."""
        low, high = (self.log + side * width * self.sd for side in (-1, 1))
        return math.exp(low), math.exp(min(high, math.log(MAX_MS)))

    @property
    def verdict(self) -> Literal["faster", "slower", "no difference"]:
        """Faster or slower where the difference is larger than its noise."""
        if abs(self.log) <= WIDTH * self.sd:
            return "no difference"
        return "faster" if self.log > 0 else "slower"


class RunLoad(NamedTuple):
    """What tells the loads of one arm apart: repeats share it."""

    concurrency: int
    request_rate: float
    lengths: tuple[float, float, float]  # prompt, cached and output tokens; 0 where not stated

    def is_same(self, other: Self) -> bool:
        """Whether two loads are one but for what other prompts of the same kind differ by."""
        return self[:2] == other[:2] and all(
            a == b or (bool(a and b) and abs(math.log(a / b)) <= SAME_LENGTH)
            for a, b in zip(self.lengths, other.lengths, strict=True)
        )


def by_load(runs: Iterable[BenchmarkRun]) -> dict[RunLoad, list[BenchmarkRun]]:
    """Runs that state a throughput or a TPOT, by load, a file that is given twice once. Raises
    Unreadable for an empty file.
    """
    out: dict[RunLoad, list[BenchmarkRun]] = {}
    for run in {(run.sha256 or i, run.part): run for i, run in enumerate(runs)}.values():
        if (why := no_run(run)) and not run.part:
            raise NothingMeasured(f"{run.file}: {why}: nothing was measured")
        speed, token, users = run.output_tok_s, run.value("tpot"), run.concurrency
        if speed and token and users and speed * token > 1e3 * users * IMPLAUSIBLE:
            raise Unreadable(
                f"{run.file}: {speed:.4g} output tok/s, where {users:g} requests of {token:.3g} ms "
                f"a token make {1e3 * users / token:.4g}: look at the units and the concurrency"
            )
        if not why and (speed or token):
            lengths = (run.input_tokens or 0.0, run.depth_tokens or 0.0, run.output_tokens or 0.0)
            load = RunLoad(round(run.concurrency or 0), run.request_rate or 0.0, lengths)
            out.setdefault(_first_alike(load, out), []).append(run)
    return out


def no_run(run: BenchmarkRun) -> str:
    """Why a run measured nothing, else ""; one time of 0 alone could not be measured."""
    if run.requests == 0:
        failed = run.failed or 0
        return f"{failed} of {failed} requests failed" if failed else "no request finished"
    if run.value("ttft") == 0 and run.value("tpot") == 0:
        return "its TTFT and TPOT are 0"
    if run.output_tok_s == 0:
        return "the output throughput is 0"
    return "the duration is 0" if run.duration_s == 0 else ""


def _first_alike(load: RunLoad, loads: Iterable[RunLoad]) -> RunLoad:
    return next((one for one in loads if one.is_same(load)), load)


def pairs(
    off: Sequence[BenchmarkRun], on: Sequence[BenchmarkRun]
) -> list[tuple[list[BenchmarkRun], list[BenchmarkRun]]]:
    """The arms at each load that both have; the two of one load each, whatever they are."""
    left, right = by_load(off), by_load(on)
    if not left or not right:
        empty, runs = ("first", off) if not left else ("second", on)
        notes = [note for run in runs[:1] for note in (no_run(run), *run.notes) if note]
        why = "".join(f" ({note})" for note in notes[:1])
        lacks = "no output throughput or time per token to compare"
        raise Unreadable(f"the {empty} side has {lacks}{why}")
    if len(left) == 1 and len(right) == 1:
        return [(next(iter(left.values())), next(iter(right.values())))]
    both = [(runs, right.get(_first_alike(load, right))) for load, runs in left.items()]
    if not any(other for _, other in both):
        raise Unreadable("the two runs have no load in common")
    return [(runs, other) for runs, other in both if other]


def both_in_one(
    runs: Sequence[BenchmarkRun],
) -> tuple[list[BenchmarkRun], dict[int | None, list[BenchmarkRun]]]:
    """The runs of one file without speculation, and by k with it. Raises Unreadable."""
    off = [run for run in runs if run.speculates is False]
    on: dict[int | None, list[BenchmarkRun]] = {}
    for run in runs:
        if run.speculates:
            on.setdefault(run.k, []).append(run)
    if not off or not on:
        lacks = "without speculation" if not off else "with speculation"
        raise Unreadable(f"{runs[0].file}: holds no run that says it is {lacks}: give OFF, then ON")
    return off, on


def check_order(off: Sequence[BenchmarkRun], on: Sequence[BenchmarkRun]) -> None:
    """Raise Unreadable where the arms are swapped, or one file stands for both."""
    here, there = ({(run.sha256, run.part) for run in arm if run.sha256} for arm in (off, on))
    if here & there:
        raise Unreadable("the same file is given for both runs")
    if drafted := [run for run in off if run.speculates]:
        if any(run.speculates for run in on):
            why = "the first must be the run without speculation, and its server speculated"
            raise Unreadable(f"both runs draft, {drafted[0].file} too: {why}")
        raise Unreadable(
            "the first run drafts and the second does not: swapped? Give OFF first, then ON"
        )
    if on and all(run.speculates is False for run in on):
        raise Unreadable("the second run drafted nothing: give the run with speculation as ON")


def differences(off: BenchmarkRun, on: BenchmarkRun) -> list[str]:
    """Why two runs are no A/B of speculation alone, one part of a sentence each."""
    out = []
    for name, label in _LOAD_LABELS.items():
        a, b = getattr(off, name), getattr(on, name)
        if (a or b) and (a is None) != (b is None) and name in ("concurrency", "request_rate"):
            out.append(f"{label} is stated for one run only")
        elif a and b and abs(math.log(a / b)) > TOLERANCE:
            out.append(f"{label} {a:g} and {b:g}")
    for name, label in _LABELS.items():
        a, b = getattr(off, name), getattr(on, name)
        if a is not None and b is not None and a != b:
            out.append(f"{label} {a} and {b}")
    for run, which in ((off, "first"), (on, "second")):
        total = (run.failed or 0) + (run.requests or 0)
        if run.failed and run.requests is not None and run.failed / total > TOLERANCE:
            out.append(f"{run.failed} of {total} requests failed in the {which} run")
    return out


def unlike(off: Sequence[BenchmarkRun], on: Sequence[BenchmarkRun]) -> list[str]:
    """Why two arms are no A/B: runs of one seed are compared, another seed is other prompts."""
    both = [(a, b) for a in off for b in on]
    paired = [(a, b) for a, b in both if a.seed is not None and a.seed == b.seed]
    out = [text for a, b in paired or both for text in differences(a, b)]
    left, right = ({run.seed for run in arm if run.seed is not None} for arm in (off, on))
    if left and right and left != right:
        out.append(f"seeds {sorted(left)} and {sorted(right)}")
    return list(dict.fromkeys(out))


def gain(off: Sequence[BenchmarkRun], on: Sequence[BenchmarkRun], metric: Metric) -> Gain | None:
    """The gain of one metric at one load; None where an arm does not state it."""
    left = [v for run in off if (v := run.value(metric))]
    right = [v for run in on if (v := run.value(metric))]
    if not left or not right:
        return None
    a, b = _middle(left), _middle(right)
    log = math.log(b / a) if metric == "output_tok_s" else math.log(a / b)
    variance = _between(left, right) ** 2 * (1 / len(left) + 1 / len(right))
    within = [_within(run, metric) for run in (*off, *on)]
    if len(left) > 1 or len(right) > 1:
        noise = f"{len(left)} and {len(right)} repeats"
    elif all(value is not None for value in within):
        noise = "the requests of each run, and what such runs scatter by"
        variance = max(variance, sum(v for v in within if v is not None))
    else:
        noise = "what such runs scatter by"
    made = Gain(metric, a, b, log, math.sqrt(variance), noise)
    tokens = max(
        (run.acceptance and run.acceptance.tokens_per_step(run.k)) or 1 + (run.k or MOST_K)
        for run in on
    )
    most = math.log(FASTER_STEP * tokens) + 2 * made.sd
    if metric != "ttft" and not -math.log(MOST_K) <= made.log <= most:
        raise Unreadable(
            f"{metric} {a:.4g} -> {b:.4g} is {made.ratio:.3g} times as fast, as no step of "
            f"{tokens:.3g} tokens makes: look at the units (seconds or ms) and the builds in "
            f"{off[0].file} and {on[0].file}"
        )
    return made


class ArmLevel(NamedTuple):
    """A metric of one arm over its repeats: geometric mean, and the sd of its log."""

    value: float
    sd: float


def level(runs: Sequence[BenchmarkRun], metric: Metric) -> ArmLevel | None:
    """The level of one arm in a metric; None where no run states it."""
    values = [v for run in runs if (v := run.value(metric))]
    if not values:
        return None
    variance = _between(values) ** 2 / len(values)
    within = _within(runs[0], metric) if len(values) == 1 else None
    return ArmLevel(_middle(values), math.sqrt(max(variance, within or 0.0)))


def _middle(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def replicate_sd() -> float:
    """Relative sd of repeated runs of one setting (threshold `replicate_noise`)."""
    return float(knowledge.threshold("replicate_noise").value)


def _between(*arms: Sequence[float]) -> float:
    """Relative sd between repeats, shrunk towards what runs scatter by where there are few."""
    squares, free = 0.0, 0
    for arm in arms:
        middle = sum(map(math.log, arm)) / len(arm)
        squares += sum((math.log(v) - middle) ** 2 for v in arm)
        free += len(arm) - 1
    return math.sqrt((PRIOR_RUNS * replicate_sd() ** 2 + squares) / (PRIOR_RUNS + free))


def _within(run: BenchmarkRun, metric: Metric) -> float | None:
    """Squared relative standard error of a mean; requests share steps by `concurrency`."""
    latency: Latency | None = run.tpot_ms if metric != "ttft" else run.ttft_ms
    if latency is None or latency.mean is None or not latency.mean or latency.sd is None:
        return None
    count = len(latency.values) or run.requests or 0
    groups = count / max(run.concurrency or 1.0, 1.0)
    return (latency.sd / latency.mean) ** 2 / max(groups, 1.0) if count >= 2 else None


def gains(off: Sequence[BenchmarkRun], on: Sequence[BenchmarkRun]) -> list[Gain]:
    """The gains of all metrics that both arms state."""
    return [made for metric in METRICS if (made := gain(off, on, metric)) is not None]


def weak_points(off: Sequence[BenchmarkRun], on: Sequence[BenchmarkRun]) -> list[str]:
    """What keeps a comparable A/B from saying more."""
    runs = (*off, *on)
    points = [f"only {r.requests} requests" for r in runs if (r.requests or 99) < FEW_REQUESTS]
    for run in runs:
        users = run.concurrency or 0
        if run.requests and run.requests < users:
            never = f"there never were {users:g} at once"
            points.append(f"{run.requests} requests at concurrency {users:g}: {never}")
    if any("random" in (run.dataset or "") for run in runs):
        points.append(
            "random prompts draft unlike text: accepted length and gain are those of noise"
        )
    for run in runs:
        if run.slots and (run.concurrency or 0) > run.slots:
            asked = f"{run.concurrency:g} concurrent requests"
            points.append(f"{run.slots} slots for {asked}: the rest waited")
    return list(dict.fromkeys(points))
