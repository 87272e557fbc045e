"""What is documented of a regime, as an observation of the posterior: one of the log speed-up,
with the scatter that owners of one and the same setting show. It moves the estimate and narrows it,
and switches no decision. Where a source gives no number, the median of the published losses does.
"""

from collections.abc import Mapping

import numpy as np

from advisor.domain.normal import Z10
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.knowledge import store as knowledge
from advisor.perf import arrays
from advisor.perf.arrays import Floats, Mask
from advisor.perf.regimes.losses import Strength, strongest
from advisor.perf.regimes.setting import Setting
from advisor.prediction.intervals import Predicted, pick
from advisor.prediction.model import Model

LEAST_STRENGTH = sourced(
    0.02, "share", "Below it, an observation would not move the second digit", "derived"
)
# A documented loss is one of output tok/s and of the steps; what comes before them it leaves alone.
STEPS = ("output_tok_s", "tpot")


class Observed(NamedTuple):
    """One documented log speed-up for each of N cases, and the standard deviation with which it
    holds there: infinite where nothing is documented. `own`: the share of it that is of the case
    itself and not of a neighbour, 0 to 1.
    """

    log: Floats
    sd: Floats
    own: Floats

    @property
    def here(self) -> Mask:
        """Where something is documented (N,)."""
        return np.isfinite(self.sd)


def observe(setting: Setting, full: arrays.Points) -> Observed:
    """At most one observation a case, since several regimes often rest on the same reports: the
    strongest loss, and the strongest caution as far as no loss is documented. A case near the
    border of what was documented has a wider scatter. What is accepted is no regime: the price of
    the cycle has it (N,).
    """
    drafts = (full.method > 0) & (full.k > 0) & (full.output_tokens > 1)
    found = strongest(setting)
    made = observation(Strength(found.loss * drafts, found.caution * drafts, found.size))
    return Observed._make(np.broadcast_to(column, (len(full),)) for column in made)


def observation(strength: Strength) -> Observed:
    """Loss and caution as one, weighed by precision, so that nothing jumps between them."""
    typical = knowledge.threshold("documented_loss").value
    size = np.where(np.isnan(strength.size), typical, strength.size)
    caution = knowledge.threshold("documented_caution").value
    held = (strength.loss, strength.caution * (1 - strength.loss))
    spreads = ("owner_sd_same_regime", "owner_sd_any")
    loss, near = (
        np.where(part >= LEAST_STRENGTH, part, 0.0) / knowledge.threshold(name).value ** 2
        for part, name in zip(held, spreads, strict=True)
    )
    total = loss + near
    here = total > 0
    all_of_it = np.where(here, total, 1.0)
    return Observed(
        log=(loss * np.log(size) + near * np.log(caution)) / all_of_it,
        sd=np.where(here, 1 / np.sqrt(all_of_it), np.inf),
        own=loss / all_of_it,
    )


def take_in(
    found: Mapping[str, Predicted],
    seen: Observed,
    baselines: Mapping[str, Floats],
    full: arrays.Points,
    waiting: Floats,
    model: Model,
) -> dict[str, Predicted]:
    """The three gains with what is documented.

    As far as requests wait for those that run (`waiting`, their share), a documented loss is one of
    the whole: the memory says how many run, so a loss elsewhere does not raise what so few of them
    give, and leaves the step of those that run as it is. The others wait longer: TTFT is what the
    answers of all leave beside their own. `baselines`: values without speculation by metric. (N,)
    """
    if not seen.here.any():
        return dict(found)
    crowded = waiting > 0
    with np.errstate(divide="ignore"):
        alone = seen._replace(sd=seen.sd / np.sqrt(1 - waiting))
    out = {name: move(one, alone if name == "tpot" else seen, model) if name in STEPS else one
           for name, one in found.items()}  # fmt: skip
    whole, raised = found["output_tok_s"], out["output_tok_s"]
    keep = crowded & (raised.p50 >= whole.p50)
    out["output_tok_s"] = pick(keep, whole, raised)
    longer = crowded & seen.here & ~keep
    if longer.any():
        first = found["ttft"]
        own = np.fmax(full.output_tokens - 1, 0) * baselines["tpot"] / found["tpot"].p50
        now, step = baselines["ttft"] / first.p50, found["tpot"].p50 / out["tpot"].p50
        waited = (now + own) * whole.p50 / out["output_tok_s"].p50 - own * step
        waited = now + waiting * np.fmax(waited - now, 0.0)
        out["ttft"] = pick(longer, scale(first, np.where(longer, now / waited, 1.0)), first)
    return out


def move(found: Predicted, seen: Observed, model: Model) -> Predicted:
    """Predictions of one metric with the observations taken in: the mean is weighted by precision,
    the sides narrow alike, and the chance of a gain follows from both. A documented loss moves no
    estimate that expects a larger one. A caution moves the mean and narrows nothing: what happened
    to a neighbour leaves as much open here as before.
    """
    # it says nothing against a larger loss
    here = seen.here & (found.sd > 0) & (found.mean > seen.log)
    if not here.any():
        return found
    sd = np.fmax((found.below + found.above) / (2 * Z10), 1e-3)
    share = 1 / (1 + (seen.sd / sd) ** 2)  # of the observation
    narrow = np.sqrt(1 - share * seen.own)
    # documented losses rest on measured pairs: their side of 1 does not count once more
    evidence = np.where(found.evidence < 0, (1 - share) * found.evidence, found.evidence)
    return found.restate(
        here,
        model.p_gain,
        mean=found.mean + share * (seen.log - found.mean),
        sd=found.sd * narrow,
        below=found.below * narrow,
        above=found.above * narrow,
        evidence=evidence,
    )


def scale(found: Predicted, factor: Floats) -> Predicted:
    """The same with every speed-up times a factor (N,); the chance of a gain stays."""
    quantiles = {name: getattr(found, name) * factor for name in ("p10", "p50", "p90")}
    return found._replace(mean=found.mean + np.log(factor), **quantiles)
