"""What would change the answer: the nearest load, acceptance or goal at which it is another one.

What it does: asks those other questions by the very steps that answer this one, nearest first, and
names the first along each way that is answered otherwise. All their plans are estimated in one
call; the rules of a question are asked when its turn comes, and only those that can change a
decision. What it does not know: loads between and beyond those tried (`_LOADS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from advisor import engines
from advisor.advice import decide, judge, resolve
from advisor.advice.choices import engine_default
from advisor.advice.decide import Verdict, goal_interval, vetoes
from advisor.advice.explain.measured import whole_percent
from advisor.advice.judge import Question
from advisor.advice.plans import memory_relief, methods, propose
from advisor.domain.nouns import (
    AdvisorError,
    Candidate,
    Decision,
    DraftMethod,
    Facts,
    Goal,
    Method,
    Plan,
    Request,
)
from advisor.engines.traits import gguf_engine
from advisor.knowledge import drafters

_LOADS = {"concurrency": (1, 4, 16, 64, 256), "ctx_tokens": (512, 2048, 8192, 32768, 131072)}
_LOAD_NAMES = {"concurrency": "concurrent requests", "ctx_tokens": "prompt tokens per request"}
_WORDS: dict[Decision, str] = {"on": "on", "off": "off", "measure": "measure first"}
# Acceptances tried, as parts of the way from the expected one to none or all: the expected one
# itself, once measured, is surer.
_PARTS = {"less": (0.25, 0.5, 0.75), "more": (0.0, 0.25, 0.5, 0.75)}


class _Way(NamedTuple):
    """Questions that lie ever further from the one asked, each with how its condition is said."""

    labels: tuple[str, ...]
    questions: tuple[Question, ...]
    goal: Goal | None = None  # where another goal is what is asked


def would_change(facts: Facts, verdict: Verdict) -> tuple[str, ...]:
    """Sentences that name the nearest change of load, acceptance or goal that flips the answer."""
    if verdict.best is None:
        return _without_method(facts, verdict)
    if verdict.rule == "one_token":
        return ("answers of more than one token",)
    best = verdict.candidates[verdict.best]
    fixed = verdict.rule == "rule"  # no acceptance lifts what is forbidden
    ways = [] if fixed else list(_acceptances(facts, verdict, best))
    lines = list(_flips(verdict, [*ways, *_loads(facts), *_goals(facts, verdict)]))
    if verdict.rule == "rule":
        codes = sorted({finding.code for finding in vetoes(best.findings)})
        apply = "does not apply" if len(codes) == 1 else "do not apply"
        lines.append(
            f"a release or setting to which {' and '.join(codes)} {apply} (`advisor explain "
            f"{codes[0]}`)"
        )
    if verdict.decision == "measure":
        lines.insert(0, "an A/B benchmark on this machine")
    return tuple(lines)


def _without_method(facts: Facts, verdict: Verdict) -> tuple[str, ...]:
    """What to ask for where nothing can speculate."""
    base = verdict.candidates[0].plan
    found = methods.methods(facts)
    if found:
        if found[0] == "mtp" and propose.headless(facts):
            return ("a checkpoint that keeps the MTP head, such as another --quant may have",)
        if propose.no_path(facts, base, found[0]) is not None:
            return (_newer(facts, base, found[0]),)
        return (*_flips(verdict, list(_loads(facts))), *_more_memory(facts)) or (
            "more memory: see the reason",
        )
    asked = facts.request.method if facts.request is not None else None
    other = (
        f"another --method than {asked}"
        if asked
        else "a checkpoint with an MTP head, or a drafter for this model"
    )
    since = methods.assistant_since(facts.model, facts.engine) if asked in (None, "mtp") else None
    own = (f"{facts.engine} {since} or newer, which takes the model's assistant",) if since else ()
    return (*own, *_other_engines(facts, asked), other)


def _newer(facts: Facts, base: Plan, method: Method) -> str:
    """The first release of the engine that has a path for the method."""
    known = engines.get(base.engine).versions  # oldest first
    for version in (
        known[known.index(base.engine_version) + 1 :] if base.engine_version in known else ()
    ):
        changed = {"engine_version": version}
        if (
            propose.no_path(
                facts.model_copy(update=changed), base.model_copy(update=changed), method
            )
            is None
        ):
            return f"{base.engine} {version} or newer, which has a path for {method}"
    return "an engine with a path for it: see the reason"


def _more_memory(facts: Facts) -> tuple[str, ...]:
    more = memory_relief.more_counts(facts.hardware, facts.gpus)
    gpus = _fewest_gpus(facts.request, more) if facts.request is not None else None
    return (f"--gpus {gpus}, on which a drafter has room",) if gpus else ()


def _other_engines(facts: Facts, method: DraftMethod | None) -> Iterator[str]:
    """Other ways of asking under which a drafter is known, with as many GPUs as that takes where
    these do not hold it.
    """
    names = [
        name
        for name in ("vllm", "sglang")
        if name != facts.engine and methods.assistant_since(facts.model, name)
    ]
    lines = (
        [f"--engine {name}, which takes the model's assistant" for name in names]
        if method in (None, "mtp")
        else []
    )
    seen: set[str] = set()
    for line in (*lines, *drafters.would_help(facts, method)):
        engine, _, why = line.removeprefix("--engine ").partition(",")
        if not line.startswith("--engine ") or facts.request is None:
            yield line
        elif engine not in seen and (gguf_engine(engine) or not _against_hardware(facts)):
            seen.add(engine)
            asked = facts.request.model_copy(update={"engine": engine, "engine_version": None})
            gpus = _fewest_gpus(asked, memory_relief.more_counts(facts.hardware, facts.gpus))
            if gpus is not None:
                yield f"--engine {engine}{f' --gpus {gpus}' if gpus > facts.gpus else ''},{why}"


def _against_hardware(facts: Facts) -> bool:
    """Where an engine of other files than GGUF can be asked for, but is not the one for this
    hardware.
    """
    return facts.hardware is not None and gguf_engine(engine_default(facts.hardware)[0])


def _fewest_gpus(request: Request, more: Sequence[int]) -> int | None:
    """The fewest GPUs, from as many as were asked about, on which something may speculate; None
    where `more` are too few, too.
    """
    for gpus in (request.gpus, *more):
        try:
            asked = request.model_copy(
                update={"gpus": gpus, "tp": request.tp if gpus == request.gpus else None}
            )
            question = judge.candidate_plans(resolve.bare_facts(asked), judge.weigh)
        except AdvisorError:
            continue
        if any(
            not vetoes(judge.weigh(question.facts, plan, None).findings) for plan in question.plans
        ):
            return gpus
    return None


def _flips(verdict: Verdict, ways: Sequence[_Way]) -> Iterator[str]:
    """The first condition of each way under which the decision is another one."""
    asked = [question for way in ways for question in way.questions]
    made = iter(
        judge.estimate_questions(
            [(question.facts, question.plans, question.bills) for question in asked]
        )
    )
    for way in ways:
        estimates = [next(made) for _ in way.questions]
        for label, question, own in zip(way.labels, way.questions, estimates, strict=True):
            found = decide.decide(question.facts, judge.judge_plans(question, own(), judge.weigh))
            if found.decision != verdict.decision:
                yield f"{label}{_gain(way, found)}: {_WORDS[found.decision]}"
                break


def _gain(way: _Way, found: Verdict) -> str:
    """What another goal would gain: the figure that it looks at is not on the first screen."""
    if way.goal is None or found.best is None:
        return ""
    return f" ({whole_percent(goal_interval(found.candidates[found.best].estimate, way.goal).p50)})"


# ---------------------------------------------------------------- the other questions


def _loads(facts: Facts) -> Iterator[_Way]:
    """More and fewer requests, longer and shorter prompts; a load that does not fit ends its
    way.
    """
    for field, label in _LOAD_NAMES.items():
        now = getattr(facts, field) or _LOADS[field][0]
        above = [value for value in _LOADS[field] if value > now]
        below = [value for value in reversed(_LOADS[field]) if value < now]
        yield _way(facts, field, above, f"about {{}} {label} or more")
        yield _way(facts, field, below, f"about {{}} {label} or fewer")


def _way(facts: Facts, field: str, values: Iterable[int], label: str) -> _Way:
    labels, questions = [], []
    for value in values:
        request = (facts.request or Request(hardware="auto")).model_copy(update={field: value})
        try:
            bare = resolve.bare_facts(request)
            same = bare.model_copy(update={"own_runs": facts.own_runs})
            questions.append(judge.candidate_plans(same, judge.weigh))
        except AdvisorError:
            break
        labels.append(
            "one request at a time" if (field, value) == ("concurrency", 1) else label.format(value)
        )
    return _Way(tuple(labels), tuple(questions))


def _acceptances(facts: Facts, verdict: Verdict, best: Candidate) -> Iterator[_Way]:
    """Lower acceptance of the chosen plan where the answer could become less, higher where it could
    become more.
    """
    if best.estimate is None or facts.request is None:
        return
    now, k = best.estimate.accepted_length.p50, best.plan.k
    ends = {"less": 1.0, "more": k + 1.0}
    wanted = {"on": ("less",), "off": ("more",), "measure": ("less", "more")}[verdict.decision]
    for word in wanted:
        lengths = [round(now + (ends[word] - now) * part, 2) for part in _PARTS[word]]
        asked = [
            facts.request.model_copy(
                update={"acceptance": None, "acceptance_length": length, "acceptance_k": k}
            )
            for length in lengths
        ]
        questions = [
            _same_plans(facts.model_copy(update={"request": request}), verdict) for request in asked
        ]
        labels = [
            f"a measured acceptance length of {x:.2f} at k={k} or {word} (expected {now:.2f})"
            for x in lengths
        ]
        yield _Way(tuple(labels), tuple(questions))


def _same_plans(facts: Facts, verdict: Verdict) -> Question:
    """A question that the plans of the one asked answer: neither acceptance nor goal changes a
    launch or its memory.
    """
    base, *others = verdict.candidates
    bills = tuple(
        c.estimate.memory
        for c in others
        if c.estimate is not None and c.estimate.memory is not None
    )
    return Question(
        facts, base, tuple(c.plan for c in others), bills if len(bills) == len(others) else ()
    )


def _goals(facts: Facts, verdict: Verdict) -> Iterator[_Way]:
    """The other goals: neither plans nor speeds change, only what is looked at."""
    goal: Goal = facts.goal or "balanced"
    others: tuple[Goal, ...] = ("throughput", "tpot", "ttft")
    for other in others:
        if other != goal:
            question = _same_plans(facts.model_copy(update={"goal": other}), verdict)
            yield _Way((f"the goal {other} instead of {goal}",), (question,), other)
