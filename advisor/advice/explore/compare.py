"""Choices side by side, each its own answer: for one load and why they differ, or over a range."""

from collections.abc import Callable, Sequence
from itertools import groupby
from math import log
from typing import Any, Literal, get_args

from advisor import engines
from advisor.advice import judge
from advisor.advice.explain.reasons import loss_words
from advisor.advice.explore.k_ranges import AXIS
from advisor.advice.explore.policy import doublings
from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import Point, Within
from advisor.advice.explore.within import users_within
from advisor.advice.recommend import answer
from advisor.advice.spoken import split_count
from advisor.domain.frozen import Frozen
from advisor.domain.nouns import Advice, AdvisorError, Estimate, MemoryBill, Request, UnknownFact
from advisor.domain.printable import printable
from advisor.domain.sourced import sourced
from advisor.domain.versions import Release, parse_release
from advisor.domain.vocabulary import DraftMethod
from advisor.knowledge import store as knowledge
from advisor.knowledge.rule_data import table
from advisor.perf import memory
from advisor.rules.kit.releases import between

Kind = Literal["engine", "hardware", "model", "quant", "method"]
MOST, MOST_OVER_LOADS = 3, 6
ALIKE_STEP = sourced(0.03, "log ratio", "own choice: steps that are called equal", "chosen")
ALIKE = sourced(0.1, "log ratio", "own choice: other figures that are called equal", "chosen")


class ComparedArm(Frozen):
    """One side; None for the `estimate`, of which `baseline` is off, where nothing is known."""

    label: str
    kind: Kind
    advice: Advice
    estimate: Estimate | None
    memory: MemoryBill  # of what it runs
    within: tuple[Within, ...] = ()


class Comparison(Frozen):
    """Arms and, in sentences, what makes the difference, the strongest first."""

    arms: tuple[ComparedArm, ...]
    differences: tuple[str, ...]


class ArmOverLoads(Frozen):
    """One choice's best point with drafts at each load, else without; None where none can."""

    label: str
    kind: Kind
    points: tuple[Point | None, ...]

    def score(self, i: int) -> float:
        """What the i-th load is compared by: methods by the goal's median gain, others by tok/s."""
        point = self.points[i]
        if point is None:
            return 0.0
        if self.kind == "method":
            return point.gain.p50 if point.k else 0.0
        metric = point.output_tok_s
        return (metric.value if point.k else metric.baseline) or 0.0


class LoadComparison(Frozen):
    """Choices over loads, requests at once in doublings."""

    request: Request
    loads: tuple[int, ...]
    arms: tuple[ArmOverLoads, ...]

    def ahead(self) -> list[tuple[int, int, str]]:
        """(first load, last load, label) of the highest median, joined; `off` where none gains."""

        def label(i: int) -> str:
            best = max(self.arms, key=lambda arm: arm.score(i))
            return "off" if best.kind == "method" and best.score(i) < 1 else best.label

        spans = ([*same] for _, same in groupby(range(len(self.loads)), label))
        return [(self.loads[same[0]], self.loads[same[-1]], label(same[0])) for same in spans]


def compare_over(request: Request, names: Sequence[str], least: int) -> LoadComparison:
    """The choices from `least` requests at once to those of the request. Raises AdvisorError."""
    loads = doublings(least, request.concurrency)
    arms = []
    for name, kind, question in _questions(request, names, MOST_OVER_LOADS):
        try:
            swept = sweep(question, {AXIS: loads}).loads
        except AdvisorError as error:
            raise AdvisorError(f"{name}: {error}") from None
        best = tuple(load.best or load.point(0) for load in swept)
        arms.append(ArmOverLoads(label=name, kind=kind, points=best))
    return LoadComparison(request=request, loads=loads, arms=tuple(arms))


def compare(
    request: Request, names: Sequence[str], limits: dict[str, float] | None = None
) -> Comparison:
    """Compare choices by their names, e.g. `gb10 h100` or `vllm@0.25.1 vllm@0.32.0`. `limits` asks
    for the largest load within latency objectives as well. Raises AdvisorError.
    """
    arms = tuple(_arm(*question, limits) for question in _questions(request, names, MOST))
    return Comparison(arms=arms, differences=tuple(differences(arms)))


def _questions(
    request: Request, names: Sequence[str], most: int
) -> list[tuple[str, Kind, Request]]:
    """The names with their kind, which is one, and their questions. Raises AdvisorError."""
    if not 2 <= len(names) <= most:
        raise AdvisorError(
            f"compare takes 2 to {most} names here, not {len(names)} (up to {MOST_OVER_LOADS} "
            f"with a range of loads, --concurrency 1..64)"
        )
    if len({name.strip().lower() for name in names}) < len(names):
        raise AdvisorError("two of the names are the same: there is nothing to compare")
    asked = [(name, *_question_with(request, name)) for name in names]
    kinds = {kind for _, kind, _ in asked}
    if len(kinds) > 1:
        raise AdvisorError(
            f"these are {' and '.join(sorted(kinds))}: compare names of one kind, and give the "
            f"other as an option"
        )
    if request.machine is not None and all(one.machine is None for _, _, one in asked):
        raise AdvisorError(f"none of these is a {request.machine.hardware}, as the machine is")
    return asked


_FINDERS: tuple[tuple[Kind, Callable[[str], object]], ...] = (
    ("hardware", knowledge.hardware),
    ("model", knowledge.llm),
    ("quant", knowledge.quant),
)


def kind_of(name: str) -> Kind:
    """What kind of name it is. Raises UnknownFact for none of ours."""
    if name.strip().lower() in get_args(DraftMethod):
        return "method"
    plain, at, _ = split_count(name)[0].strip().partition("@")
    if engines.canonical(plain) is not None:
        return "engine"
    if at:
        raise UnknownFact("engine", plain, ("vllm", "sglang", "llama-server"))
    for kind, find in _FINDERS:
        try:
            find(plain)
        except UnknownFact:
            continue
        return kind
    raise knowledge.NotCovered(
        f"'{printable(name, 40)}' is not a known hardware, model, engine, quantisation or method "
        f"('advisor hardware list', 'advisor models list')"
    )


def _question_with(request: Request, name: str) -> tuple[Kind, Request]:
    """What kind of name it is, and the question with it. Raises UnknownFact."""
    kind = kind_of(name)
    bare, count = split_count(name) if kind == "hardware" else (name, None)
    plain, _, version = bare.strip().partition("@")
    plain = plain.lower() if kind == "method" else plain
    change: dict[str, Any] = {kind: plain} | ({"gpus": count} if count else {})
    change |= {"engine_version": version or None} if kind == "engine" else {}
    own = getattr(request.machine, "hardware", None)
    if kind == "hardware" and knowledge.hardware(plain).id != own:
        change["machine"] = None  # own runs are of their hardware alone
    return kind, request.replace(**change)


def _arm(name: str, kind: Kind, request: Request, limits: dict[str, float] | None) -> ComparedArm:
    try:
        advice, question = answer(request)
    except UnknownFact:
        raise
    except AdvisorError as error:
        raise AdvisorError(f"{name}: {error}") from None
    return ComparedArm(
        label=name,
        kind=kind,
        advice=advice,
        estimate=advice.estimate or judge.estimate_plans(question.facts, [question.base.plan])[0],
        memory=memory.bill(memory.replica(advice.facts, advice.plan), advice.plan),
        within=users_within(request, limits) if limits else (),
    )


# ---------------------------------------------------------------- differences


def differences(arms: Sequence[ComparedArm]) -> list[str]:
    """What differs between the first arm and each other one, in sentences."""
    tellers = (_speed, _gain, _memory, _release)
    return [text for arm in arms[1:] for tell in tellers for text in tell(arms[0], arm)]


_PARTS = {"weights_ms": "reading weights", "launch_ms": "launching kernels"}


def _speed(a: ComparedArm, b: ComparedArm) -> list[str]:
    """The plain step and its largest differing part, and the prompt's cost."""
    left, right = (arm.estimate.terms if arm.estimate is not None else {} for arm in (a, b))
    if not left or not right:
        return []
    ratio = left["base_step_ms"] / right["base_step_ms"]
    if abs(log(ratio)) < ALIKE_STEP:
        out = [f"a step without speculation takes as long with {b.label} as with {a.label}"]
    else:
        word = "shorter" if ratio > 1 else "longer"
        size = max(ratio, 1 / ratio)
        out = [
            f"a step without speculation is {size:.1f} times {word} with {b.label}: "
            f"{right['base_step_ms']:.1f} against {left['base_step_ms']:.1f} ms"
        ]
        part = max(_PARTS, key=lambda name: abs(left[name] - right[name]))
        out[0] += f", {_PARTS[part]} takes {right[part]:.1f} against {left[part]:.1f} ms of it"
    prompt = left["prefill_ms"] / max(right["prefill_ms"], 1e-9)
    if abs(log(prompt)) > ALIKE:
        word = "faster" if prompt > 1 else "slower"
        out.append(
            f"{b.label} computes the prompt {max(prompt, 1 / prompt):.1f} times {word}: "
            f"{right['prefill_ms']:,.0f} against {left['prefill_ms']:,.0f} ms"
        )
    return out


def _gain(a: ComparedArm, b: ComparedArm) -> list[str]:
    """Tokens a step and what verifying costs."""
    if a.advice.candidate is None or b.advice.candidate is None:
        without = [one.label for one in (a, b) if one.advice.candidate is None]
        return [f"{' and '.join(without)} cannot speculate here"]
    assert a.estimate is not None and b.estimate is not None
    both = a.estimate, b.estimate
    left, right = (estimate.accepted_length.p50 for estimate in both)
    cost = [one.terms["cycle_ms"] / one.terms["base_step_ms"] for one in both]
    same = a.advice.candidate.k == b.advice.candidate.k and abs(log(cost[1] / cost[0])) < ALIKE_STEP
    if same and abs(log(right / left)) < ALIKE_STEP:
        return [f"speculation is expected to gain as much with {b.label} as with {a.label}"]
    lost = [(arm.label, loss_words(arm.advice.findings)) for arm in (a, b)]
    words = "".join(f"; {label}: {own}" for label, own in lost if own)
    return [
        f"with speculation a cycle yields {right:.2f} tokens and costs {cost[1]:.2f} baseline "
        f"steps with {b.label} (k={b.advice.candidate.k}), {left:.2f} for {cost[0]:.2f} with "
        f"{a.label} (k={a.advice.candidate.k}){words}"
    ]


def _memory(a: ComparedArm, b: ComparedArm) -> list[str]:
    left, right = a.memory.kv_tokens, b.memory.kv_tokens
    if not left or not right or abs(log(left / right)) < ALIKE:
        return []
    own, other = (f"{arm.memory.weights_gib + arm.memory.spec_gib:.1f}" for arm in (b, a))
    weights = f" (weights {own} against {other} GiB per GPU)" if own != other else ""
    return [
        f"the KV cache of {b.label} holds {right:,} tokens, that of {a.label} {left:,}{weights}"
    ]


def _release(a: ComparedArm, b: ComparedArm) -> list[str]:
    """Between releases of one engine: defects that were or are reported of one, and options."""
    engine = a.advice.plan.engine
    old, new = (arm.advice.plan.engine_version for arm in (a, b))
    if engine != b.advice.plan.engine or old == new or old is None or new is None:
        return []
    out = []
    before, after = parse_release(old), parse_release(new)
    for name, row in table("defects").items():
        had, has = (bool(between(at, row.get("since"), row.get("until"))) for at in (before, after))
        if name.startswith(engine.split("-")[0] + "-") and had != has:
            out.append(_defect(row, after, b.label, ended=had))
    return out


def _defect(row: dict[str, Any], after: Release | None, label: str, *, ended: bool) -> str:
    """What became of a defect: fixed only where a source says so, else not reported."""
    note, source = str(row.get("note", "")).rstrip("."), row["sources"][0]
    if not ended:
        return f"present in {label}: {note} [{source}]"
    fix = row.get("fixed_in")
    if fix is not None and between(after, fix["release"], None):
        return f"fixed in {fix['release']}: {note} [{fix['source']}]"
    if row.get("since") and between(after, None, row["since"]):
        return f"reported from {row['since']} on: {note} [{source}]"
    return f"no report after {row['until']}, and no fix is known: {note} [{source}]"
