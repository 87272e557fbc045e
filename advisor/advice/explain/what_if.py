"""What would change the answer: the nearest load or acceptance that is answered otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.advice import judge, resolve
from advisor.advice.choices import engine_default
from advisor.advice.decide import Verdict, vetoes
from advisor.advice.judge import PlanQuestion
from advisor.advice.plans import methods, propose
from advisor.domain.nouns import (
    AdvisorError,
    Candidate,
    Decision,
    Facts,
    Method,
    Request,
)
from advisor.engines.traits import gguf_engine
from advisor.knowledge import drafters
from advisor.knowledge.drafters import asked_method

_LOADS = {"concurrency": (1, 4, 16, 64, 256), "ctx_tokens": (512, 2048, 8192, 32768, 131072)}
_LOAD_NAMES = {"concurrency": "concurrent requests", "ctx_tokens": "prompt tokens per request"}
_WORDS: dict[Decision, str] = {"on": "on", "off": "off", "measure": "measure first"}
# Acceptances tried, as parts of the way from the expected one to none or all: the expected one
# itself, once measured, is surer.
_PARTS = {"less": (0.25, 0.5, 0.75), "more": (0.0, 0.25, 0.5, 0.75)}


# questions that lie ever further from the one asked, each with how its condition is said
Way = Sequence[tuple[str, PlanQuestion]]


def would_change(facts: Facts, verdict: Verdict) -> tuple[str, ...]:
    """Sentences that name the nearest change of load or acceptance that flips the answer."""
    if verdict.best is None:
        return _without_method(facts, verdict)
    if verdict.rule == "one_token":
        return ("answers of more than one token",)
    best = verdict.candidates[verdict.best]
    fixed = verdict.rule == "rule"  # no acceptance lifts what is forbidden
    ways = [] if fixed else list(_acceptances(facts, verdict, best))
    lines = list(_flips(verdict, [*ways, *_loads(facts)]))
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
    for method in methods.methods(facts)[:1]:
        if method == "mtp" and methods.headless(facts):
            return ("a checkpoint that keeps the MTP head, such as another --quant may have",)
        if propose.no_path(facts, base, method) is not None:
            return (f"a release or an engine with a path for {method}: see the reason",)
        return tuple(_flips(verdict, list(_loads(facts)))) or ("more memory: see the reason",)
    asked = asked_method(facts)
    other = f"another --method than {asked}"
    if not asked:
        other = "a checkpoint with an MTP head, or a drafter for this model"
    since = methods.assistant_since(facts.model, facts.engine) if asked in (None, "mtp") else None
    own = (f"{facts.engine} {since} or newer, which takes the model's assistant",) if since else ()
    return (*own, *_other_engines(facts, asked), other)


def _other_engines(facts: Facts, method: Method | None) -> Iterator[str]:
    """Other ways of asking under which a drafter is known, and runs on these GPUs."""
    ways = [
        drafters.Way(f"--engine {name}", "which takes the model's assistant", name)
        for name in ("vllm", "sglang")
        if method in (None, "mtp") and name != facts.engine
        if methods.assistant_since(facts.model, name)
    ]
    seen: set[str] = set()
    gguf_alone = facts.hardware is not None and gguf_engine(engine_default(facts.hardware)[0])
    for way in (*ways, *drafters.would_help(facts, method)):
        if way.engine is None or facts.request is None:
            yield f"{way.ask}, {way.why}"
        elif way.engine not in seen and (gguf_engine(way.engine) or not gguf_alone):
            seen.add(way.engine)
            asked = facts.request.model_copy(update={"engine": way.engine, "engine_version": None})
            if _speculates(asked):
                yield f"{way.ask}, {way.why}"


def _speculates(request: Request) -> bool:
    """Whether something may speculate in answer to a request."""
    try:
        facts = resolve.bare_facts(request)
        question = judge.candidate_plans(facts, judge.weigh)
    except AdvisorError:
        return False
    judged = (judge.weigh(question.facts, plan, None) for plan in question.plans)
    return any(not vetoes(candidate.findings) for candidate in judged)


def _flips(verdict: Verdict, ways: Sequence[Way]) -> Iterator[str]:
    """The first condition of each way under which the decision is another one."""
    judged = iter(list(judge.verdicts([question for way in ways for _, question in way])))
    for way in ways:
        for label, later in [(label, next(judged)) for label, _ in way]:
            if (decision := later().decision) != verdict.decision:
                yield f"{label}: {_WORDS[decision]}"
                break


# ---------------------------------------------------------------- the other questions


def _loads(facts: Facts) -> Iterator[Way]:
    """More and fewer requests, longer and shorter prompts; one that does not fit ends its way."""
    base = facts.request or Request(hardware="auto")
    for field, name in _LOAD_NAMES.items():
        now = getattr(facts, field) or _LOADS[field][0]
        above = [value for value in _LOADS[field] if value > now]
        below = [value for value in reversed(_LOADS[field]) if value < now]
        for values, word in ((above, "more"), (below, "fewer")):
            way = []
            for value in values:
                try:
                    bare = resolve.bare_facts(base.model_copy(update={field: value}))
                    same = bare.model_copy(update={"own_runs": facts.own_runs})
                    question = judge.candidate_plans(same, judge.weigh)
                except AdvisorError:
                    break
                alone = (field, value) == ("concurrency", 1)
                label = f"about {value} {name} or {word}"
                way.append(("one request at a time" if alone else label, question))
            yield way


def _acceptances(facts: Facts, verdict: Verdict, best: Candidate) -> Iterator[Way]:
    """Acceptance lower where the answer could become less, higher where it could become more."""
    if best.estimate is None or facts.request is None:
        return
    now, k = best.estimate.accepted_length.p50, best.plan.k
    ends = {"less": 1.0, "more": k + 1.0}
    wanted = {"on": ("less",), "off": ("more",), "measure": ("less", "more")}[verdict.decision]
    for word in wanted:
        way = []
        for part in _PARTS[word]:
            length = round(now + (ends[word] - now) * part, 2)
            stated = {"acceptance": None, "acceptance_k": k, "acceptance_length": length}
            request = facts.request.model_copy(update=stated)
            at = f"a measured acceptance length of {length:.2f} at k={k}"
            label = f"{at} or {word} (expected {now:.2f})"
            way.append((label, _same_plans(facts, verdict, request=request)))
        yield way


def _same_plans(facts: Facts, verdict: Verdict, **change: object) -> PlanQuestion:
    """A question with the same plans: an acceptance changes no launch."""
    base, *others = verdict.candidates
    bills = tuple(c.estimate.memory for c in others if c.estimate and c.estimate.memory)
    plans = tuple(c.plan for c in others)
    bills = bills if len(bills) == len(plans) else ()
    return PlanQuestion(facts.model_copy(update=change), base, plans, bills)
