"""Why an A/B came out as it did: tokens and time of a step, short drafts, metrics that differ."""

from collections.abc import Iterator, Sequence

from advisor.domain.nouns import Goal, Plan
from advisor.domain.sourced import sourced
from advisor.readers.results import arms
from advisor.readers.results.run import BenchmarkRun, ResultModel

_GRAPHS = "CUDA graphs cover the drafted batch (no --enforce-eager, capture sizes)"
_SLOW = {  # what usually makes a step with drafts slow, by engine
    "sglang": "CUDA graphs cover the drafted batch (no --disable-cuda-graph, --cuda-graph-max-bs)",
    "llama-server": "the draft runs on the GPU as well (--spec-draft-ngl)",
    "ik_llama.cpp": "the draft runs on the GPU as well (--gpu-layers-draft)",
}
SLOW = sourced(
    1.25, "ratio", "own choice: above what left-out sources scatter by (model card)", "chosen"
)
FAST = sourced(0.8, "ratio", "the inverse of SLOW", "chosen")
CUT_SHORT = sourced(0.9, "share of k", "own choice: drafts that end early for a reason", "chosen")


class Step(ResultModel):
    """What a step emits and costs, measured and expected."""

    tokens_per_step: float | None = None
    expected_tokens: tuple[float, float, float] | None = None  # 10th, 50th, 90th percentile
    cycle_ratio: float | None = None  # time of a step with drafts over one without
    expected_cycle_ratio: float | None = None
    expected_gain: tuple[float, float, float] | None = None  # of TPOT: 10th, 50th, 90th percentile


def why(
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
    gains: Sequence[arms.Gain],
    step: Step | None,
    plan: Plan | None,
    goal: Goal,
) -> Iterator[str]:
    """What explains the gains of one load, by `step` and `plan` as far as they are known."""
    if step and step.tokens_per_step and step.expected_tokens:
        low, _, high = step.expected_tokens
        words = f"{step.tokens_per_step:.2f} tokens per step; normal here is {low:.2f} to "
        words += f"{high:.2f}"
        if step.tokens_per_step < low:
            words += (
                ": low. Check the prompts (random or repetitive text), the sampling temperature, "
                "the chat template and that the drafter belongs to this model"
            )
        elif step.tokens_per_step > high:
            words += ": high. Check that answers are not repetitive or truncated"
        yield words
    yield from why_cycle(step, plan)
    known_k = plan.k if plan else None
    drafts = ((run.acceptance.mean_draft(), run.k or known_k) for run in on if run.acceptance)
    for drafted, k in [(n, k) for n, k in drafts if n and k and n < CUT_SHORT * k][:1]:
        yield (
            f"drafts are cut short: {drafted:.1f} of {k} tokens drafted a step (p-min, request "
            "ends or limits)"
        )
    rate = max((run.request_rate or 0.0 for run in (*off, *on)), default=0.0)
    if rate and goal == "balanced":
        yield (
            f"the load was offered at {rate:.4g} requests/s, not closed: that rate sets the "
            "throughput, so the verdict is by TPOT"
        )
    verdicts = {gain.metric: gain.verdict for gain in gains}
    whole = verdicts.get("output_tok_s")
    if whole == "slower" and verdicts.get("ttft") == "faster":
        yield (
            "TTFT improved while throughput fell: fewer requests were in decode at once; judge by "
            "throughput"
        )
    # where it was offered, throughput tells nothing
    if not rate and whole and whole != "faster" and verdicts.get("tpot") == "faster":
        yield (
            "tokens came faster but throughput did not: the prompts' time or waiting requests "
            "dominate"
        )
    sides = [[g for run in arm if (g := run.goodput_rps) is not None] for arm in (off, on)]
    if all(sides):
        before, after = (sum(side) / len(side) for side in sides)
        yield f"goodput {before:.3g} -> {after:.3g} requests/s within the objectives"


def why_cycle(step: Step | None, plan: Plan | None) -> Iterator[str]:
    """The time of a step with drafts over that of one without, beside the prediction."""
    if step is None or not step.cycle_ratio or not step.expected_cycle_ratio:
        return
    ratio = step.cycle_ratio / step.expected_cycle_ratio
    words = (
        f"a step with drafts takes {step.cycle_ratio:.2f} times one without; expected "
        f"{step.expected_cycle_ratio:.2f}"
    )
    if ratio > SLOW:
        words += f": slow. Check that {_SLOW.get(plan.engine if plan else '', _GRAPHS)}, "
        words += "and that speculation did not take KV memory or request slots away"
    elif ratio < FAST:
        words += ": faster than expected. Check that both runs used the same build and power limit"
    yield words


def tokens_per_step(on: Sequence[BenchmarkRun], k: int | None) -> float | None:
    """Mean tokens per step over repeats, bonus token included."""
    lengths = (run.acceptance.tokens_per_step(run.k or k) for run in on if run.acceptance)
    known = [length for length in lengths if length]
    return sum(known) / len(known) if known else None
