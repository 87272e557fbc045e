"""Mechanisms that depend on a build, and blank cells: priced in both states.

A row seldom says whether a build splits verify attention, has a small-batch kernel for its chip or
replays recurrent states. The same step is priced without the mechanism too: the median lies between
the two, and the doubt is a reason for the spread. The probabilities are shares of owners
(knowledge/thresholds.yaml, `switch_*`). A blank cell is spread over the two ends of what is usual.
"""

from collections.abc import Callable, Mapping

import numpy as np

from advisor.domain.normal import Z10
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf import arrays, drafting, kernels, reads
from advisor.perf.arrays import Floats, Ints, Mask, Points
from advisor.perf.constants import Constants
from advisor.prediction import spread
from advisor.prediction.intervals import SURE, Predicted

ROW_SD = sourced(
    0.21, "log ratio", "Root of the row's variance in the fitted spread (speedup.json)", "derived"
)
SPILL = sourced(
    -0.70,
    "log ratio",
    "a drafter overflows an RX 9070 XT: 0.71x for 1.57x (corral9070xt)",
    "measured",
)
SPILLS_FROM = sourced(0.02, "probability", "below it an overflow moves no second digit", "derived")
HALVINGS = 20  # of a median: to 1e-6 of the gap  # pragma: no mutate
LEAST_GAP = 0.005  # log ratio below which two states are one


class Switch(NamedTuple):
    """One mechanism: its probability, the constants without it, where it counts, and whether it
    changes the steps with drafts alone: neither the run without speculation nor what prompts take.
    """

    threshold: str
    without: Mapping[str, float]
    where: Callable[[Points, Constants], Mask]
    drafts_only: bool = False


def _tokens(p: Points) -> Floats:
    return np.fmin(p.concurrency, p.max_num_seqs) * p.verify_tokens


SWITCHES = (
    Switch(
        "switch_serial_verify",
        {"verify_serial_s": 0.0},
        lambda p, c: np.asarray(reads.serial_attention_seconds(p, c, p.depth_tokens) > 0),
        True,
    ),
    Switch(
        "switch_metal_apple9",
        {"metal_apple9": 1.0},
        lambda p, _: kernels.slow_small_batch(p, _tokens(p)),
    ),
    Switch(
        "switch_metal_repeat", {"metal_repeat": 1.0}, lambda p, _: kernels.repeats(p, _tokens(p))
    ),
    Switch(
        "switch_state_replay",
        {"state_checkpoint_s": 0.0},
        lambda p, _: drafting.replays_states(p),
        True,
    ),
    # no mechanism of a build, but as unknown: whether the machine's memory is DDR4 or DDR5
    Switch(
        "switch_host_memory", {"host_memory_speed": 2.0}, lambda p, _: np.asarray(p.host_spec > 0)
    ),
)


def mix_states(
    full: Points,
    constants: Constants,
    log: Floats,
    price: Callable[[Points, Constants, Mask, bool], Floats],
) -> tuple[Floats, Floats]:
    """Median log speed-up over both states of every mechanism that is uncertain here, and the
    variance between them, (N,) or (M, N) each. `log`: log
    speed-up of each point's metric (N,), or of M metrics (M, N), with every mechanism at work.
    `price` gives the same for some of the points with other constants: (points, constants, which,
    whether the run without speculation is the same) -> log.
    """
    median, between = log.copy(), np.zeros(log.shape)
    for switch in SWITCHES:
        here = switch.where(full, constants) & (full.k > 0) & (full.method > 0)
        if not here.any():
            continue
        part = full.take(np.flatnonzero(here))
        gap = price(part, _without(constants, switch), here, switch.drafts_only) - log[..., here]
        share = knowledge.threshold(switch.threshold).value
        median[..., here] += _median(gap, share)
        between[..., here] += share * (1 - share) * gap**2
    return median, between


def with_overflow(found: Predicted, chance: Floats) -> Predicted:
    """Predictions of which the drafter does not fit the device with a chance (N,), so that a part
    of what each step reads lies in the system's memory: both states, each with its probability.
    """
    here = (chance >= SPILLS_FROM) & (found.sd > 0)
    if not here.any():
        return found
    share = np.where(here, chance, 0.0)
    owner_sd = knowledge.threshold("owner_sd_any").value
    between = share * (1 - share) * SPILL**2 + share * owner_sd**2
    mean = found.mean + share * SPILL
    below, above = (np.sqrt(side**2 + Z10**2 * between) for side in (found.below, found.above))
    sd = np.sqrt(found.sd**2 + between)
    spilled = spread.cdf((found.mean + SPILL) / np.where(sd > 0, sd, 1.0))
    p_gain = np.clip((1 - share) * found.p_gain + share * spilled, SURE, 1 - SURE)
    seen = found.measured_gain * (1 - share)
    return found.restate(
        here, mean=mean, sd=sd, below=below, above=above, p_gain=p_gain, measured_gain=seen
    )


def _without(constants: Constants, switch: Switch) -> Constants:
    changes = {
        name: (value,) * len(old) if isinstance(old := getattr(constants, name), tuple) else value
        for name, value in switch.without.items()
    }
    return constants.replace(**changes)


def _median(gap: Floats, share: float) -> Floats:
    """Median of a normal at 0 with probability `share`, else at `gap`; both with sd ROW_SD."""
    low, high = np.fmin(gap, 0.0), np.fmax(gap, 0.0)
    states = np.stack([np.zeros_like(gap), gap])
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        at, other = spread.cdf((middle - states) / ROW_SD)
        below = share * at + (1 - share) * other
        low, high = np.where(below < 0.5, middle, low), np.where(below < 0.5, high, middle)
    return np.where(np.abs(gap) < LEAST_GAP, 0.0, (low + high) / 2)


# ---------------------------------------------------------------- blank cells

USUAL_STREAMS = sourced(
    (1.0, 32.0),
    "requests",
    "10th and 90th percentile of the sources' medians in knowledge/measurements: 218 sources with "
    "vLLM or SGLang (2026-11-24); 156 of llama.cpp have one request at both",
    "measured",
)
NEAR_FULL = sourced(
    0.5, "share", "Load, of the requests that fit, from which on prefix caching counts", "chosen"
)
USUAL_GPUS = sourced(
    (1.0, 4.0), "GPUs", "10th and 90th percentile of 4,601 vLLM rows (2026-11-24)", "measured"
)
ONE_CHIP = ("unified", "igpu", "laptop")


class Blank(NamedTuple):
    """A column, the rows that leave it blank, and the two ends of what is usual."""

    column: str
    where: Mask
    ends: tuple[float, float]


def blanks(points: arrays.Points, full: arrays.Points) -> tuple[Blank, ...]:
    """The blank cells of N points as read; `full` are the filled ones, with requests held."""
    server = points.is_path(*arrays.SERVED)
    one = arrays.mask(points.hw_class, arrays.CLASSES, ONE_CHIP)
    tight = full.concurrency > NEAR_FULL * full.held_spec
    return (
        Blank("concurrency", np.isnan(points.concurrency) & server, USUAL_STREAMS),
        Blank("gpus", np.isnan(points.gpus) & np.isnan(points.tp) & ~one & server, USUAL_GPUS),
        Blank("prefix_caching", np.isnan(points.prefix_caching) & server & tight, (0.0, 1.0)),
    )


def widen(
    points: arrays.Points,
    full: arrays.Points,
    found: Predicted,
    again: Callable[[Ints, str, float], Predicted],
) -> Predicted:
    """The predictions of N points with those of rows with a blank cell spread over its ends.

    `full` are the filled points: where the number that stands in for a blank cell is one of the
    ends, the prediction at that end is at hand. `again` predicts some of the rows (their numbers)
    with an end in a column.
    """
    out = found
    for blank in blanks(points, full):
        rows = np.flatnonzero(blank.where & (points.method > 0))
        if not len(rows):
            continue
        mine = found.take(rows)
        low, high = (
            _at_end(mine, rows, getattr(full, blank.column)[rows] == end, again, blank, end)
            for end in blank.ends
        )
        out = out.put(rows, _mix(out.take(rows), low, high))
    return out


def _at_end(
    found: Predicted,
    rows: Ints,
    there: Mask,
    again: Callable[[Ints, str, float], Predicted],
    blank: Blank,
    end: float,
) -> Predicted:
    """The predictions of some rows at one end of a blank cell."""
    if there.all():
        return found
    return found.put(np.flatnonzero(~there), again(rows[~there], blank.column, end))


def _mix(found: Predicted, low: Predicted, high: Predicted) -> Predicted:
    """Half of the prediction at one end and half of that at the other."""
    apart = np.abs(low.mean - high.mean) / 2
    changes = {
        name: np.sqrt((getattr(low, name) ** 2 + getattr(high, name) ** 2) / 2 + (z * apart) ** 2)
        for name, z in (("sd", 1.0), ("below", Z10), ("above", Z10))
    } | {name: (getattr(low, name) + getattr(high, name)) / 2 for name in ("mean", "p_gain")}
    new = found.restate(np.ones(len(apart), dtype=bool), **changes)
    return new._replace(p10=np.fmin(new.p10, found.p10), p90=np.fmax(new.p90, found.p90))
