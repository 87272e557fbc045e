from collections.abc import Iterator

from advisor.domain.nouns import LLM, Case, Fix, Severity
from advisor.domain.patterns import lazy_re
from advisor.knowledge import store as knowledge
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import flag, model_name, spec_flag
from advisor.rules.kit.fixes import json_fix, set_fix
from advisor.rules.kit.models import target_of

_SIZE = lazy_re(r"(?<![a-z\d.])\d+(?:\.\d+)?b(?![a-z\d])")
EAGLES = {"eagle", "eagle3"}  # SGLang takes either for the other's checkpoint
_REPOSITORY = lazy_re(r"[\w.-]+/[\w.-]+")  # and no path


@rule("SD269", "warning", "vllm sglang", decides=True)
@when(methods="eagle eagle3 dflash dspark", parts="plan.draft_model", needs="model")
def drafter_of_another_model(case: Case) -> Hits:
    """A published EAGLE or DFlash drafter beside a model that it was not trained for.

    Why: it reads the hidden states of its own model. Where the widths differ the server stops;
    where they agree (Qwen3-14B and 32B) next to nothing is accepted.
    Bad: vllm serve Qwen/Qwen3-14B --speculative-config
        '{"method":"eagle3","num_speculative_tokens":3,
        "model":"RedHatAI/Qwen3-32B-speculator.eagle3"}'
    Good: with Qwen/Qwen3-32B for Qwen/Qwen3-14B
    Sources: knowledge/drafters
    """
    draft, model = case.plan.draft_model, case.facts.model
    if not draft or model is None:
        return
    for one in judge(case, draft, model):
        sure = _REPOSITORY.fullmatch(draft) is not None and draft[0] not in "./~"
        yield one if sure else one._replace(severity="warning")  # a folder may have any name


def judge(case: Case, draft: str, model: LLM) -> Iterator[Hit]:
    """What the drafter's file, or else its name, says."""
    home = knowledge.drafter_home(draft)
    if case.plan.method in ("eagle3", "dflash") and draft == case.launch.model:
        text = f"{draft} is the model itself, and no drafter: the server stops while it loads it"
        yield reject(case, model, "", "error")._replace(message=text)
    elif (kind := other_kind(case, draft)) is not None:
        yield kind
    elif home is None:
        yield from by_name(case, draft, model)
    elif home[0] != model.id:
        drafter = home[1]
        weight = severity(model, knowledge.llm_from_text(drafter.target or ""))
        what = f"{drafter.repository} was trained for {drafter.target}, not for {model_name(case)}"
        yield reject(case, model, what, weight)._replace(sources=drafter.sources)


def reject(case: Case, model: LLM, what: str, weight: Severity | None) -> Hit:
    """The hit of a drafter of another model; its fix is a drafter of this very model."""
    fits = [d for d in knowledge.drafters(model) if case.plan.engine in d.engines]
    fits.sort(key=lambda drafter: drafter.method != case.plan.method)
    place = flag(case, "--speculative-draft-model-path")
    fix = Fix(text="Use a drafter of this very model, or no speculation.")
    if fits:
        use, text = fits[0].repository, f"Use {fits[0].repository}."
        config = json_fix(case, spec_flag(case), "model", f'"{use}"', text)
        fix = set_fix(case, place, use, text) if place is not None else config
    return Hit(
        f"{what}: its drafts will be rejected",
        flag=place or spec_flag(case),
        severity=weight,
        fix=fix,
    )


def other_kind(case: Case, draft: str) -> Hit | None:
    """The hit of a drafter that was trained for another method, by its file or by its name."""
    found = knowledge.drafter_home(draft)
    named = {one for one in ("eagle", "eagle3", "dflash", "dspark") if one in draft.lower()}
    named.discard("eagle" if len(named) > 1 else "")  # within eagle3
    by_name = named.pop() if len(named) == 1 else None
    method = found[1].method if found is not None else by_name
    if method is None or method == case.plan.method or {method, case.plan.method} == EAGLES:
        return None
    place = spec_flag(case)
    algorithm = flag(case, "--speculative-algorithm")
    what = f"Use {method.upper() if algorithm is not None else method}."
    return Hit(
        f"{draft} is a drafter for {method}, not for {case.plan.method}",
        flag=algorithm or place,
        severity="error",
        fix=set_fix(case, algorithm, method.upper(), what)
        if algorithm is not None
        else json_fix(case, place, "method", f'"{method}"', what),
        sources=("vllm 0.33.0 vllm/transformers_utils/configs/eagle.py (EAGLEConfig)",),
    )


def by_name(case: Case, draft: str, model: LLM) -> Iterator[Hit]:
    """A drafter that no file lists, whose own name says another model, or another size."""
    target = target_of(draft)
    if target is not None:
        if target.id != model.id and severity(model, target) is not None:
            name = target.name or target.id
            what = f"the drafter {draft} is named for {name}, not for {model_name(case)}"
            yield reject(case, model, what, "error")
        return
    sizes = [set(_SIZE.findall(name.lower())) for name in (draft, model_name(case))]
    if all(len(one) == 1 for one in sizes) and sizes[0] != sizes[1] and "eagle" in draft.lower():
        theirs, own = (one.pop().upper() for one in sizes)
        what = f"the drafter {draft} is named for a model of {theirs}, and {model_name(case)}"
        yield reject(case, model, f"{what} has {own}", "error")


def severity(model: LLM, target: LLM | None) -> Severity | None:
    """An error where another width or vocabulary shows while loading."""
    if target is None:
        return None
    pairs = ((target.hidden, model.hidden), (target.vocab, model.vocab))
    return "error" if any(one and other and one != other for one, other in pairs) else None
