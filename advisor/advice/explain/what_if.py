"""What would change the answer: the nearest load or acceptance that is answered otherwise; why
nothing can speculate here, and what to ask for then.
"""

import math
from collections.abc import Iterator, Sequence

from advisor.advice import judge, resolve
from advisor.advice.choices import engine_default
from advisor.advice.decide import GOAL_METRICS, Verdict, allowed_candidates, goal_interval, vetoes
from advisor.advice.judge import PlanQuestion
from advisor.advice.own_runs.cells import measured_here
from advisor.advice.plans import cache_types, methods, propose
from advisor.advice.plans.memory_relief import shortfall
from advisor.advice.wording import name_of, whole_percent
from advisor.domain.nouns import AdvisorError, Candidate, Decision, Facts, Method, Plan, Request
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine, traits
from advisor.engines.vllm import verifies_adaptively
from advisor.knowledge import drafters
from advisor.knowledge.drafters import asked_method
from advisor.perf import memory

_LOADS = {"concurrency": (1, 4, 16, 64, 256), "ctx_tokens": (512, 2048, 8192, 32768, 131072)}
_LOAD_NAMES = {"concurrency": "concurrent requests", "ctx_tokens": "prompt tokens per request"}
_WORDS: dict[Decision, str] = {"on": "on", "off": "off", "measure": "measure first"}
# Acceptances tried, as parts of the way from the expected one to none or all: the expected one
# itself, once measured, is surer.
_PARTS = {"less": (0.25, 0.5, 0.75), "more": (0.0, 0.25, 0.5, 0.75)}
CACHE_PART = sourced(
    0.3, "part of cache and weights", "that a step reads: half of it gone gives 1.18x", "derived"
)
CACHE_GAIN = sourced(1.15, "ratio", "Policy: less is not worth another precision", "chosen")
MUCH = sourced(1.05, "ratio", "Policy: less is not worth an idle card, or an A/B", "chosen")

# questions that lie ever further from the one asked, each with how its condition is said
Way = Sequence[tuple[str, PlanQuestion]]


def would_change(facts: Facts, verdict: Verdict, cache: str = "") -> tuple[str, ...]:
    """Sentences that name the nearest change of load or acceptance that flips the answer; `cache`:
    what `smaller_cache` gave.
    """
    if verdict.best is None:
        return _without_method(facts, verdict)
    if verdict.rule == "one_token":
        return ("answers of more than one token",)
    best, fixed = verdict.candidates[verdict.best], verdict.rule == "rule"
    ways = [] if fixed else list(_acceptances(facts, verdict, best))
    lines = list(_flips(verdict, [*ways, *_loads(facts)]))
    if fixed:  # no acceptance lifts what is forbidden
        codes = sorted({finding.code for finding in vetoes(best.findings)})
        apply = "does not apply" if len(codes) == 1 else "do not apply"
        lines.append(
            f"a release or setting to which {' and '.join(codes)} {apply} (`advisor explain "
            f"{codes[0]}`)"
        )
    if verdict.decision == "measure":
        lines.insert(0, "an A/B benchmark on this machine")
    if cache:
        lines.append(f"{cache} in speed, since each step reads half: compare answers first")
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


def smaller_cache(facts: Facts, verdict: Verdict) -> str:
    """What the answer's run gains with a KV cache of 8 bits that was not asked for, where reading
    the cache is much of a step; "" elsewhere.
    """
    now = verdict.best_candidate or verdict.candidates[0]
    plan, bill = now.plan, now.estimate.memory if now.estimate else None
    apart = traits(plan.engine).pool != "slots"  # llama.cpp reads such caches slower
    able = apart and plan.kv_cache_dtype is None and cache_types.reads_8_bits(facts, plan)
    if not able or bill is None or not bill.kv_tokens:
        return ""
    tokens = min(bill.requests or 0, facts.load / plan.dp) * (bill.request_tokens or 0)
    read = (bill.kv_gib or 0.0) * tokens / bill.kv_tokens
    if read < CACHE_PART * (read + bill.weights_gib):
        return ""
    then, gain = _otherwise(facts, verdict, kv_cache_dtype="8bit")
    option = f"--kv-cache-dtype {then.kv_cache_dtype}" if then else ""
    return f"{option}: {whole_percent(gain)}" if gain >= CACHE_GAIN else ""


def quicker(facts: Facts, verdict: Verdict, cache: str) -> str:
    """What another k than the one of the user's own run, an 8-bit cache (`cache`), or one GPU less
    of a number over which a model splits badly, is expected to give; "" where not much.
    """
    best, won = verdict.best_candidate, measured_here(facts, GOAL_METRICS[facts.aim])
    if verdict.decision == "on" and best and won.get((best.plan.method, best.plan.k)):
        every = (verdict.candidates[i] for i in allowed_candidates(verdict.candidates))
        alike = (one for one in every if one.plan.method == best.plan.method)
        gains = {one.plan.k: goal_interval(one.estimate, facts.aim).p50 for one in alike}
        ran = {k for method, k in won if method == best.plan.method} - {best.plan.k}
        gain, k = max((gain / gains[best.plan.k], k) for k, gain in gains.items() if k not in ran)
        if gain >= MUCH:
            return f"k = {k}, not run here: {whole_percent(gain)}"
    gpus, asked = facts.gpus, facts.question
    if cache or gpus & (gpus - 1) == 0 or asked.tp or asked.pp or asked.gpus_per_machine:
        return cache
    _, gain = _otherwise(facts, verdict, gpus=gpus - 1)
    return f"--gpus {gpus - 1}: {whole_percent(gain)}" if gain >= MUCH else ""


def _otherwise(facts: Facts, verdict: Verdict, **changed: object) -> tuple[Plan | None, float]:
    """The plan where so much of the question is changed, and how many times as fast it runs."""
    try:
        asked = resolve.bare_facts(facts.question.replace(**changed))
        question = judge.candidate_plans(asked.replace(own_runs=facts.own_runs), judge.weigh)
    except AdvisorError:
        return None, 0.0
    (later,) = judge.verdicts([question])
    then = later()
    on = verdict.decision == then.decision == "on"
    return then.candidates[0].plan, _speed(asked, then, on) / _speed(facts, verdict, on)


def _speed(facts: Facts, verdict: Verdict, on: bool) -> float:
    """Tokens per second of all requests, or of one for its TPOT, with or without speculation."""
    chosen = verdict.best_candidate or verdict.candidates[0]
    estimate = chosen.estimate or judge.estimate_plans(facts, [chosen.plan])[0]
    if facts.aim == "tpot":
        return 1e3 / ((estimate.tpot_ms.value if on else estimate.tpot_ms.baseline) or math.nan)
    rate = estimate.output_tok_s
    return (rate.value if on else rate.baseline) or math.nan


def no_method(facts: Facts, base: Plan) -> str:
    """Return why no method of speculation can run here."""
    for method in methods.methods(facts)[:1]:
        if refusal := propose.no_path(facts, base, method):
            return refusal
        plan = propose.with_method(facts, base, method, 1)  # not even one draft token fits
        return f"with {drafters.TITLES[method]}, {shortfall(facts, plan, memory.bill(facts, plan))}"
    model, asked = facts.model, asked_method(facts)
    if model is None:
        return "the model is not known here, so nothing is known that could draft for it"
    apart = f"{name_of(model, '')} drafts with a separate assistant model"
    if asked in (None, "mtp"):
        if since := methods.assistant_since(model, facts.engine):
            return f"{apart}, which {facts.engine} takes from {since} on"
        if gguf_engine(facts.engine) and model.assistant:
            return (
                f"{apart}, and whether a GGUF of it lies "
                f"beside this model is not known: name one with --spec-draft-model and --spec-type "
                f"draft-mtp (llama.cpp#23398)"
            )
        if model.assistant_params_b and not (asked is None and drafters.refusal(facts)):
            return f"{apart}, for which no launch on {facts.engine} is known here"
    return methods.unlisted_words(facts, model)


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
            if _speculates(facts.request.replace(engine=way.engine, engine_version=None)):
                yield f"{way.ask}, {way.why}"


def _speculates(request: Request) -> bool:
    """Whether something may speculate in answer to a request."""
    asked = judge.attempt(lambda: judge.candidate_plans(resolve.bare_facts(request), judge.weigh))
    if isinstance(asked, AdvisorError):
        return False
    return any(not vetoes(judge.weigh(asked.facts, plan, None).findings) for plan in asked.plans)


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
    for field, name in _LOAD_NAMES.items():
        now = getattr(facts, field) or _LOADS[field][0]
        above = [value for value in _LOADS[field] if value > now]
        below = [value for value in reversed(_LOADS[field]) if value < now]
        for values, word in ((above, "more"), (below, "fewer")):
            way = []
            for value in values:
                try:
                    bare = resolve.bare_facts(facts.question.replace(**{field: value}))
                    same = bare.replace(own_runs=facts.own_runs)
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
    base, *others = (c for c in verdict.candidates if not verifies_adaptively(c.plan))
    plans = tuple(c.plan for c in others)
    bills = tuple(c.estimate.memory for c in others if c.estimate and c.estimate.memory)
    # an acceptance changes no launch
    same = PlanQuestion(facts, base, plans, bills if len(bills) == len(plans) else ())
    ends = {"less": 1.0, "more": k + 1.0}
    for word in {"on": ("less",), "off": ("more",), "measure": ("less", "more")}[verdict.decision]:
        way = []
        for part in _PARTS[word]:
            length = round(now + (ends[word] - now) * part, 2)
            stated = {"acceptance": None, "acceptance_k": k, "acceptance_length": length}
            request = facts.request.replace(**stated)
            at = f"a measured acceptance length of {length:.2f} at k={k}"
            expected = f"expected {now:.2f}" if f"{now:.2f}" != f"{length:.2f}" else "as expected"
            label = f"{at} or {word} ({expected})"
            way.append((label, same._replace(facts=facts.replace(request=request))))
        yield way
