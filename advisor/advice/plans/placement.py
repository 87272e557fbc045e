"""Orders the ways to split a model over GPUs and machines by the estimate."""

from collections.abc import Sequence

import numpy as np

from advisor.advice.plans import propose
from advisor.advice.plans.topology import TENSOR, Split, board_gpus, split_mode
from advisor.advice.wording import reason, whole_percent
from advisor.domain.nouns import Facts, Plan, Reason
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.perf import memory
from advisor.perf.sizes.pools import attention_groups, expert_ranks
from advisor.perf.steps import batches, busy, in_steps
from advisor.prediction import estimates, utility
from advisor.prediction.decision import ESTIMATED, goal_weights, token_wait

ALIKE = sourced(
    0.02, "share", "layouts this near the fastest count alike: the fewest ranks a server", "chosen"
)


Asked = tuple[Facts, Sequence[Plan]]  # a question, and its plans without speculation


class Layout(NamedTuple):
    """One way to split the GPUs: its plan without speculation, whether its expected run keeps all
    objectives, its speed for the goal with and without speculation (larger is faster, 0: nothing to
    compare).
    """

    plan: Plan
    met: bool = True
    speed: float = 0.0
    plain: float = 0.0


def is_priced(facts: Facts) -> bool:
    """Whether a step can be priced here, so that speeds are predicted and not ratios alone."""
    return facts.device.memory_bandwidth_gb_s is not None


def order_layouts(asked: Sequence[Asked]) -> list[tuple[Layout, ...]]:
    """For each question the plans without speculation, one of each layout, the best one first:
    objectives, then the goal's speed with what speculation is worth there. As given where no step
    can be priced. All are priced in one batch.
    """
    is_open = [len(bases) > 1 and is_priced(facts) for facts, bases in asked]
    priced = iter(
        price_layouts([one for one, priced in zip(asked, is_open, strict=True) if priced])
    )
    return [
        _in_order(facts, next(priced)) if several else tuple(Layout(base) for base in bases)
        for (facts, bases), several in zip(asked, is_open, strict=True)
    ]


def _in_order(facts: Facts, layouts: Sequence[Layout]) -> tuple[Layout, ...]:
    drafts = facts.question.method not in (None, "ngram")
    met = max(layout.met for layout in layouts)
    top = max(layout.speed for layout in layouts if layout.met == met) * (1 - ALIKE)

    def rank(layout: Layout) -> tuple[float, ...]:
        idle = batches(layout.plan) > facts.load
        lacks = drafts and split_mode(layout.plan) == TENSOR  # who names a method asks for it
        return (lacks, -layout.met, -min(layout.speed, top), layout.plan.tp * layout.plan.pp, idle)

    return tuple(sorted(layouts, key=rank))


def choice(layouts: Sequence[Layout]) -> Reason | None:
    """Which layout is taken and which comes next, of those in their order; None of a single one."""
    if not (following := runner_up(layouts)):
        return None
    text = f"Layout: {layout_words(layouts[0].plan)} by the estimate; next {following}"
    return reason(text, "physics core", weight=1.3)


def runner_up(layouts: Sequence[Layout]) -> str:
    """The layout that comes next and what it costs; "" where there is none."""
    if len(layouts) < 2 or not layouts[0].speed:
        return ""
    first, met, top, plain = layouts[0]
    same = [(row.plan.tp, row.plan.pp, attention_groups(row.plan)) for row in layouts]
    differs = (i for i, sizes in enumerate(same) if sizes != same[0] or split_mode(first))
    # not the same split with whole experts
    other, other_met, speed, other_plain = layouts[next((i for i in differs if i), 1)]
    drafts = " without drafts (SD208)" if split_mode(other) == TENSOR and top > plain else ""
    drafts = " with drafts" if split_mode(first) == TENSOR and speed > other_plain else drafts
    misses = ", which misses the objective" if other_met < met else ""
    alike = ", which counts alike" if speed > top and not misses else ""
    return f"{layout_words(other)}{drafts}, {whole_percent(speed / top)}{misses or alike}"


def layout_words(plan: Plan) -> str:
    """A layout in the field's short names."""
    if mode := split_mode(plan):
        return f"{mode} split"
    spread = ("DP attention", plan.tp) if attention_groups(plan) > 1 else ("DP", plan.dp)
    sizes = (("TP", plan.tp), ("PP", plan.pp), spread, ("EP", expert_ranks(plan)))
    return " x ".join(f"{name} {size}" for name, size in sizes if size > 1 or name == "TP")


def price_layouts(asked: Sequence[Asked]) -> list[list[Layout]]:
    """What the run of each layout of each question gives for its goal, in one batch."""
    cases: list[tuple[Facts, Plan]] = []
    counts: list[list[tuple[int, bool]]] = []
    for facts, bases in asked:
        plans, each = [], []
        for base in bases:
            able = propose.speculative_plans(facts, base)
            billed = zip(able, memory.bills(facts, able), strict=True)
            arms = [plan for plan, bill in billed if bill.fits is not False]
            plans += arms or [propose.with_method(facts, base, "mtp", 1)]  # its baseline is read
            each.append((len(arms) or 1, bool(arms)))
        cases += in_steps(facts, plans, board_gpus(facts))
        counts.append(each)
    if not cases:
        return []
    batch, found, start = estimates.predict_batch(cases), [], 0
    for (facts, bases), each in zip(asked, counts, strict=True):
        rows = slice(start, start + sum(count for count, _ in each))
        found.append(_price(facts, bases, each, batch, rows))
        start = rows.stop
    return found


def _price(
    facts: Facts,
    bases: Sequence[Plan],
    counts: Sequence[tuple[int, bool]],
    batch: estimates.Batch,
    rows: slice,
) -> list[Layout]:
    """The layouts of one question, which has these rows of the batch."""
    story = batch.story
    wait = token_wait(story.queues[rows], story.found["ttft"].p50[rows])
    weights = [*zip(goal_weights(facts.aim, wait), ESTIMATED, strict=True)]
    low, middle, high = (
        sum(weight * np.log(getattr(story.found[name], part)[rows]) for weight, name in weights)
        for part in ("p10", "p50", "p90")
    )
    worth = utility.expected_utility(low, middle, high)  # to the goal, in log speed-up
    layouts, start = [], 0
    for base, (count, drafts) in zip(bases, counts, strict=True):
        best = start + int(np.argmax(worth[start : start + count]))
        gains = float(worth[best]) if drafts and worth[best] > 0 else 0.0
        layouts.append(_layout(facts, base, batch, rows.start + best, gains))
        start += count
    return layouts


def _layout(facts: Facts, base: Plan, batch: estimates.Batch, row: int, worth: float) -> Layout:
    """What a layout gives: with the speculation of `row` where that is worth anything."""

    def level(name: str) -> float:
        gain = float(batch.story.found[name].p50[row]) if worth else 1.0
        value = float(batch.story.baselines[name][row])
        return value * gain if name == "output_tok_s" else value / gain

    tpot, ttft = facts.question.max_tpot_ms, facts.question.max_ttft_ms
    running = batch.story.terms["requests_verify" if worth else "requests_base"][row]
    # the TPOT of those that run is no answer to those that wait for a slot
    waits = tpot is not None and ttft is None and round(running * batches(base)) < facts.load
    late = (x is not None and level(name) > x for name, x in (("tpot", tpot), ("ttft", ttft)))
    met = not (waits or any(late))
    name = facts.goal if facts.goal in ("tpot", "ttft") else "output_tok_s"
    plain = float(batch.story.baselines[name][row])
    speed = plain * busy(facts, base) if name == "output_tok_s" else 1e3 / plain
    return Layout(base, met, speed * float(np.exp(worth)), speed)


def speeds(facts: Facts, splits: Sequence[Split]) -> dict[Split, float]:
    """The expected speed of each split without speculation, for the goal: larger is faster."""
    (layouts,) = price_layouts([(facts, [propose.base_plan(facts, split) for split in splits])])
    return {split: layout.plain for split, layout in zip(splits, layouts, strict=True)}
