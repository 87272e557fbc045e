"""The step times behind an estimate, and the gains where speculation leaves room for fewer."""

from collections.abc import Mapping

import numpy as np

from advisor.domain.sourced import sourced
from advisor.perf import arrays, drafting, physics, prompt_cost
from advisor.perf.arrays import Floats, Mask, Tokens
from advisor.perf.load import clients
from advisor.prediction.intervals import Predicted
from advisor.prediction.model import Model

HELD_SD = sourced(
    0.18,
    "log ratio",
    "Requests that ran at once by total over single speed of an RTX 5090 (f68893312211: 4.3 and "
    "6.5 with drafts, 15.7 without) against those that the memory bill lets run (5, 5 and 18)",
    "measured",
)


def terms(full: arrays.Points, model: Model) -> dict[str, Floats]:
    """Parts of the step times in ms at the requests that run at once in each arm: asked, slots and
    KV pool permitting.

    A plain step is priced with the constants of absolute speeds, verifying and drafting relative to
    it with those of speed-ups.
    """
    batch, fewer = clients(full, False), clients(full, True)
    context = full.input_tokens + full.output_tokens / 2
    one, c = np.ones(len(batch)), model.constants
    plain = physics.step_seconds(full, model.speeds, batch, one, False, context)
    own = physics.step_seconds(full, c, batch, one, False, context).total
    verify, experts = physics.verify_seconds(full, c, fewer, context)
    draft = drafting.draft_seconds(full, c, fewer, context)
    # with what lost graphs add
    cycle = verify + draft
    cycle = cycle + prompt_cost.eager_seconds(full, c, fewer, cycle)
    scale = plain.total / own
    seconds = {
        "base_step_ms": plain.total,
        "verify_step_ms": scale * (cycle - draft),
        "draft_ms": scale * draft,
        "cycle_ms": scale * cycle,
        "weights_ms": plain.dense + plain.experts,
        "launch_ms": plain.launch + plain.host,
        "prefill_ms": prompt_cost.prefill_seconds(
            full, model.speeds, full.input_tokens, np.zeros(len(batch)), False
        ),
    }
    terms = {name: 1e3 * value for name, value in seconds.items()}
    terms["experts_base"], terms["experts_verify"] = plain.distinct_experts, experts
    terms["requests_base"], terms["requests_verify"] = batch, fewer
    return terms


def crowded_gains(
    found: Mapping[str, Predicted],
    baselines: Mapping[str, Floats],
    full: arrays.Points,
    terms: Mapping[str, Floats],
    tau: Tokens,
    model: Model,
) -> dict[str, Predicted]:
    """The three gains where the KV pool holds fewer requests with speculation than without, as one
    story.

    No row was measured there, and what the plain arm loses to the prompts of more requests is told
    to the ratios as a gain. So TPOT is not below a cycle shared by its tokens, the requests that
    run give no more tokens than that, and the others wait: TTFT is not below what the two leave of
    the time that all tokens take. Fitted gains of TTFT end at a tenth, a queue does not. How many
    run is known as well as memory is: that widens what all of them give together. `baselines`: log
    values without speculation by metric; `terms`: milliseconds by term. (N,) each
    """
    crowded = terms["requests_verify"] < terms["requests_base"]
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = _cap(found["tpot"], crowded, baselines["tpot"] * tau / terms["cycle_ms"], model)
        step = baselines["tpot"] / tpot.p50
        most = 1e3 * terms["requests_verify"] / step
        speed = _cap(found["output_tok_s"], crowded, most / baselines["output_tok_s"], model)
        speed = _widen(speed, crowded, model)
        waiting = (
            1e3 * full.concurrency * full.output_tokens / (baselines["output_tok_s"] * speed.p50)
        ) - np.fmax(full.output_tokens - 1, 0) * step
        ttft = _cap(found["ttft"], crowded & (waiting > 0), baselines["ttft"] / waiting, model)
    return {"tpot": tpot, "output_tok_s": speed, "ttft": ttft}


def _widen(found: Predicted, where: Mask, model: Model) -> Predicted:
    """The gain of all requests with the doubt about how many run."""
    here = where & (found.sd > 0)
    if not here.any():
        return found
    wider = np.hypot(1.0, HELD_SD / np.where(here, found.sd, 1.0))
    sides = {name: getattr(found, name) * wider for name in ("sd", "below", "above")}
    new = found.restate(here, model.p_gain, **sides)
    return new._replace(p50=np.fmin(new.p50, found.p50))  # doubt lets no more run


def _cap(found: Predicted, where: Mask, most: Floats, model: Model) -> Predicted:
    """The gain with a median of at most `most` at these points; the rest moves along."""
    down = np.where(where, np.log(np.fmin(most / found.p50, 1.0)), 0.0)
    if not down.any():
        return found
    new = found.restate(down < 0, model.p_gain, mean=found.mean + down)
    most = np.where(down < 0, most, np.inf)
    return new._replace(p10=np.fmin(new.p10, most), p50=np.fmin(new.p50, most))
