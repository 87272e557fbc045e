"""What `recommend` would do with a launch that was read, and by how much it should change.

The speeds themselves are compared, not the speed-ups: these are against a plan without speculation
that differs in whatever else the two plans differ (prefix caching, CUDA graphs, batch sizes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from advisor.advice.decide import UNLISTED, UNPRICED
from advisor.advice.plans import methods
from advisor.advice.plans.methods import MOST_K
from advisor.domain.nouns import AdvisorError, Estimate, Plan, Request
from advisor.lint.report import Change, CheckedLaunch, speed_text
from advisor.perf.host_memory import host_layers
from advisor.perf.sizes import device
from advisor.perf.sizes.device import without_graphs

if TYPE_CHECKING:
    from advisor.advice.judge import Written
    from advisor.advice.recommend import Answered

    Prices = Mapping[tuple[Request, Plan], Answered]

_FIELDS = (
    *("tp", "pp", "dp", "method", "k", "k_schedule", "prefix_caching", "max_num_seqs"),
    *("max_num_batched_tokens", "kv_cache_dtype"),
)

_RANKS = ("parallel-size", "tp-size", "pp-size", "dp-size")


def price(launches: Iterable[CheckedLaunch], drafter: str | None = None) -> Prices:
    """The questions of many launches in one batch, each once: many differ in ports alone."""
    from advisor.advice.recommend import recommend_beside  # start-up: only with a load given

    asked = dict.fromkeys(
        _question(one, drafter) for one in launches if one.facts.hardware and one.facts.model
    )
    return {key: cache(turn) for key, turn in zip(asked, recommend_beside([*asked]), strict=True)}


def change_for(one: CheckedLaunch, prices: Prices) -> Change | None:
    """Ask `recommend` about the launch's own model, quantisation and engine. None where the model
    is not known. Another drafter than the file's is advised only where it is priced faster, than
    the file as it stands and than its drafter set as `recommend` would set it.
    """
    if one.facts.hardware is None or one.facts.model is None:
        return None
    change, method = _ask(one, prices or price([one]))
    own = one.plan.method
    if own == "none" or method in (own, "none") or not change.ratios:
        return change
    speed = dict(change.ratios).get("output_tok_s", 1.0)
    kept, kept_method = _ask(one, price([one], own), own)
    if kept_method == own and dict(kept.ratios).get("output_tok_s", 0.0) >= speed:
        return kept
    if speed > 1:
        return change
    return Change("keep", why=f"{method} is priced at {speed_text('output_tok_s', speed)}")


def _ask(one: CheckedLaunch, prices: Prices, drafter: str | None = None) -> tuple[Change, str]:
    """What `recommend` would change, of all methods or of one, and the method that it chooses."""
    try:
        advice, beside = prices[_question(one, drafter)]()
        present, off = beside or (None, None)
    except AdvisorError as error:
        return Change("none", problem=str(error)), "none"
    if advice.candidate is None and (gain := _own_drafter(one)):
        return Change("keep", why=gain), one.plan.method
    if advice.decided_by == UNLISTED and one.facts.model:  # what the file drafts with may be there
        return Change("none", problem=methods.unlisted_words(advice.facts, one.facts.model)), "none"
    wanted = advice.candidate if advice.decision == "measure" and advice.candidate else advice.plan
    new = advice.estimate if wanted is not advice.plan_off else off
    ratios = _ratios(one, present, new)
    against = advice.decision != "measure" and any(
        name == "output_tok_s" and ratio < 1 for name, ratio in ratios
    )
    told = against or advice.decided_by == UNPRICED
    why = advice.reasons[0].text if told and advice.reasons else ""
    fields = _fields(one.plan, wanted)
    # the layers whose experts stand in the host's memory
    old, layers = (round(host_layers(one.facts, plan)) for plan in (one.plan, wanted))
    fields += (("layers in host memory", old, layers),) if old != layers else ()
    return Change(advice.decision, fields, ratios, why=why), wanted.method


def drafting_estimate(one: CheckedLaunch, later: Written | None = None) -> Estimate | None:
    """What a launch with a drafter is expected to do; None where that cannot be said."""
    try:
        written = later or estimate_together([one]).get(0)
        return written()[0] if written else None
    except AdvisorError:
        return None


def estimate_together(launches: Sequence[CheckedLaunch]) -> dict[int, Written]:
    """The estimates of many launches by their numbers, each written out when it is its turn."""
    asked = {
        number: (facts, [plan], ())
        for number, (launch, plan, facts, not_taken, _) in enumerate(launches)
        # a longer draft than any that was measured is not priced
        if plan.method != "none" and plan.k <= MOST_K and not not_taken
        if facts.hardware and facts.concurrency is not None and facts.shape
        # a variable may say over how many devices the launch is spread
        if not any(flag.unresolved and flag.name.endswith(_RANKS) for flag in launch.flags)
    }
    if not asked:
        return {}
    from advisor.advice.judge import estimate_questions  # start-up: only with a load given

    return dict(zip(asked, estimate_questions([*asked.values()])[0], strict=True))


def _own_drafter(one: CheckedLaunch) -> str:
    """What the file's own drafter gains where `recommend` has none; nothing where it loses."""
    if one.plan.method in ("none", "mtp"):
        return ""
    expected = drafting_estimate(one)
    if expected is None or (told := expected.output_tok_s.speedup).p50 <= 1:
        return ""
    return (
        f"no other is known for this model, and {one.plan.method} is expected to give "
        f"x{told.p50:.2f} ({told.p10:.2f} to {told.p90:.2f}) output tok/s against none"
    )


def _question(one: CheckedLaunch, drafter: str | None = None) -> tuple[Request, Plan]:
    facts = one.facts
    fits = one.plan.tp * one.plan.pp <= facts.gpus and not device.reserves(one.plan)
    asked: dict[str, Any] = {
        "hardware": facts.hardware.id if facts.hardware else "",
        "model": facts.model.id if facts.model else "",
        "gpus": facts.gpus,
        "engine": one.plan.engine,
        "method": drafter,
        "interconnect": facts.interconnect,
        "tp": one.plan.tp if fits else None,
        "pp": one.plan.pp if fits and one.plan.pp > 1 else None,
        "quant": facts.quant.id if facts.quant else None,
        "engine_version": one.plan.engine_version,
        "concurrency": facts.concurrency,
        "ctx_tokens": facts.ctx_tokens,
        "output_tokens": facts.output_tokens,
        "workload": facts.workload,
    }
    known = {name: value for name, value in asked.items() if value is not None}
    return Request(**known), one.plan.replace(port=None)


def _fields(present: Plan, wanted: Plan) -> tuple[tuple[str, Any, Any], ...]:
    """What differs in what matters; a field that is left to the engine is no change."""
    found: list[tuple[str, Any, Any]] = [
        (name, old, new)
        for name in _FIELDS
        if (old := getattr(present, name)) != (new := getattr(wanted, name))
        if name in ("method", "k") or new not in (None, ())
        if name != "k" or wanted.method != "none"
    ]
    if without_graphs(present) and not without_graphs(wanted):
        found.append(("cuda_graphs", False, True))
    return tuple(found)


def _ratios(
    one: CheckedLaunch, old: Estimate | None, new: Estimate | None
) -> tuple[tuple[str, float], ...]:
    """New over present speed of each metric; empty where the load or shape is not known."""
    facts, gpus = one.facts, one.plan.tp * one.plan.pp  # more than there are cannot start
    known = old is not None and facts.concurrency is not None and facts.shape is not None
    if not known or new is None or one.plan.k > MOST_K or gpus > facts.gpus:
        return ()
    ratios = []
    for name in ("output_tok_s", "tpot_ms", "ttft_ms"):
        present, wanted = getattr(old, name), getattr(new, name)
        before, after = present.value, wanted.value
        if before and after and present.predictable and wanted.predictable:
            faster = after / before if name == "output_tok_s" else before / after
            ratios.append((name.removesuffix("_ms"), round(faster, 3)))
    return tuple(ratios)
