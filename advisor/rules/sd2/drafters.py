"""Drafters, the models that they were made for, and how many tokens they draft."""

import json
import re
from collections.abc import Iterator

from advisor.domain.nouns import LLM, Case, Fix, Flag, Severity
from advisor.domain.patterns import lazy_re
from advisor.knowledge import store as knowledge
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import decimal
from advisor.rules.kit.fixes import AddedOption, json_fix, k_fix, set_fix
from advisor.rules.kit.models import headless, target_of

_THIRD = lazy_re(r"eagle[-_]?3(?![\d.])", re.I)
NEED = ("eagle3", "draft_model", "dflash", "dspark")
_SIZE = lazy_re(r"(?<![a-z\d.])\d+(?:\.\d+)?b(?![a-z\d])")
EAGLES = {"eagle", "eagle3"}  # SGLang takes either for the other's checkpoint
_REPOSITORY = lazy_re(r"[\w.-]+/[\w.-]+")  # and no path


def default_temperature(case: Case) -> tuple[Flag | None, float | None]:
    """The server's default temperature and where it stands; else the one that was asked for."""
    place = case.flag("--temp")
    if place is not None:
        return place, None if place.unresolved else decimal(place.value)
    place = case.flag("--override-generation-config")
    try:
        data = json.loads(case.value("--override-generation-config") or "{}")
    except (ValueError, RecursionError):
        return place, None
    own = data.get("temperature") if isinstance(data, dict) else None
    if isinstance(own, int | float):
        return place, float(own)
    return place, case.facts.temperature if case.launch.emitted else None


@rule("SD275", "error", "sglang")
@when(speculative=True)
def sglang_drafter_missing(case: Case) -> Hits:
    """EAGLE3, STANDALONE, DFLASH, or EAGLE on a model without an MTP head, without a draft model.

    Why: the server stops, or loads the target a second time as its own drafter.
    Bad: sglang serve --model-path meta-llama/Llama-3.1-8B-Instruct --speculative-algorithm EAGLE3
    Good: with --speculative-draft-model-path jamesliu1/sglang-EAGLE3-Llama-3.1-Instruct-8B added
    Sources: sglang 0.5.9 to 0.5.23 server_args.py (speculative_draft_model_path)
    """
    given = case.flag("--speculative-draft-model-path")
    algorithm = case.flag("--speculative-algorithm")
    if given is not None and algorithm is not None and algorithm.value == "EAGLE":
        if _THIRD.search(given.value or "") and not given.unresolved:
            yield Hit(
                f"{given.value} is an EAGLE-3 head: under EAGLE it gets other states than it was "
                "trained on, and nearly nothing is accepted",
                flag=algorithm,
                severity="warning",
                fix=set_fix(case, algorithm, "EAGLE3", "Write EAGLE3."),
                sources=("sgl-project/sglang#21272",),
            )
        return
    alone = case.plan.method == "eagle" and headless(case)  # EAGLE may name the model's own head
    if given is not None or (case.plan.method not in NEED and not alone):
        return
    own = knowledge.drafters(case.facts.model) if case.facts.model is not None else ()
    own = tuple(d for d in own if d.method == case.plan.method and "sglang" in d.engines)
    if any(case.plan.model in d.inside for d in own):
        return
    named = next((d.repository for d in own if not d.inside), "with its name")
    inside = case.plan.method == "dspark" and case.facts.model is None  # a checkpoint may bundle it
    yield Hit(
        f"{case.plan.method} drafts with a checkpoint of its own, and none is named",
        flag=case.spec_flag(),
        severity="warning" if case.unread() or inside else None,
        fix=AddedOption(text=f"Add --speculative-draft-model-path {named}."),
    )


@rule("SD269", "warning", "vllm sglang", decides=True)
@when(methods="eagle eagle3 dflash dspark", parts="plan.draft_model", needs="model")
def drafter_of_another_model(case: Case) -> Hits:
    """A published EAGLE or DFlash drafter beside a model that it was not trained for.

    Why: it reads the hidden states of its own model: another width stops the server.
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


@rule("SD270", "warning", "vllm sglang", at="k")
@when(speculative=True, parts="plan.draft_model")
def drafter_k_too_high(case: Case) -> Hits:
    """More draft tokens than the published drafter was made for.

    Why: with 3 draft tokens a head for one cost 45 % of the speed at 32 requests.
    Bad: vllm serve openai/gpt-oss-120b --speculative-config
        '{"method":"eagle3","num_speculative_tokens":3,
        "model":"nvidia/gpt-oss-120b-Eagle3-throughput"}'
    Good: with "num_speculative_tokens":1 for "num_speculative_tokens":3
    Sources: knowledge/drafters
    """
    _, own = knowledge.drafter_home(case.plan.draft_model or "") or (None, None)
    most = (own.k_max or (own.block or 0) - 1) if own is not None else 0
    if own is not None and 0 < most < case.plan.k:
        yield Hit(
            f"{own.repository} was made for {most} draft tokens at most, not {case.plan.k}",
            fix=k_fix(case, most, f"Draft {most}."),
            sources=own.sources,
            conflicts=own.conflicts,
        )


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
        what = f"{drafter.repository} was trained for {drafter.target}, not for {case.model_name}"
        yield reject(case, model, what, weight)._replace(sources=drafter.sources)


def reject(case: Case, model: LLM, what: str, weight: Severity | None) -> Hit:
    """The hit of a drafter of another model; its fix is a drafter of this very model."""
    fits = [d for d in knowledge.drafters(model) if case.plan.engine in d.engines]
    fits.sort(key=lambda drafter: drafter.method != case.plan.method)
    place = case.flag("--speculative-draft-model-path")
    fix = Fix(text="Use a drafter of this very model, or no speculation.")
    if fits:
        use, text = fits[0].repository, f"Use {fits[0].repository}."
        config = json_fix(case, case.spec_flag(), "model", f'"{use}"', text)
        fix = set_fix(case, place, use, text) if place is not None else config
    return Hit(
        f"{what}: its drafts will be rejected",
        flag=place or case.spec_flag(),
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
    place, algorithm = case.spec_flag(), case.flag("--speculative-algorithm")
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
            what = f"the drafter {draft} is named for {name}, not for {case.model_name}"
            yield reject(case, model, what, "error")
        return
    sizes = [set(_SIZE.findall(name.lower())) for name in (draft, case.model_name)]
    if all(len(one) == 1 for one in sizes) and sizes[0] != sizes[1] and "eagle" in draft.lower():
        theirs, own = (one.pop().upper() for one in sizes)
        what = f"the drafter {draft} is named for a model of {theirs}, and {case.model_name}"
        yield reject(case, model, f"{what} has {own}", "error")


def severity(model: LLM, target: LLM | None) -> Severity | None:
    """An error where another width or vocabulary shows while loading."""
    if target is None:
        return None
    pairs = ((target.hidden, model.hidden), (target.vocab, model.vocab))
    return "error" if any(one and other and one != other for one, other in pairs) else None
