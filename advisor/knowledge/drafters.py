"""Which published drafters of a model an engine release loads, which is taken, or why none."""

from collections.abc import Iterator

from advisor.domain.nouns import FORMS, Drafter, DrafterFile, Facts, Method, Plan
from advisor.domain.patterns import lazy_re
from advisor.domain.records import NamedTuple
from advisor.domain.versions import before, release

_REPOSITORY = lazy_re(r"[\w.-]+/[\w.-]+")
TITLES = {
    "mtp": "MTP", "eagle": "EAGLE", "eagle3": "EAGLE-3", "dflash": "DFlash", "dspark": "DSpark",
    "ngram": "n-gram", "draft_model": "a draft model",
}  # fmt: skip
# layers of their own with a KV cache
DRAFT_LAYERS = {"mtp": 1, "eagle": 1, "eagle3": 1, "dflash": 5, "dspark": 5}


def usable(facts: Facts, method: str | None = None) -> tuple[Drafter, ...]:
    """Drafters that this release loads, for this answering and quantisation, best first."""
    return tuple(
        d
        for d in _of_form(facts, method)
        if d.thinking in (None, facts.thinking)
        and _loads(d, facts.engine, facts.engine_version)
        and holders(facts, d) != ()
    )


def asked_method(facts: Facts) -> Method | None:
    """The speculative method that was asked for by its name or by that of one of its forms."""
    word = facts.request.method if facts.request is not None else None
    return word and FORMS.get(word, word)  # type: ignore[return-value]


def _of_form(facts: Facts, method: str | None) -> list[Drafter]:
    """The drafters of a method; where a form of it was asked for, those of that form."""
    word = (facts.request.method if facts.request is not None else None) or ""
    form = word if word in FORMS else ""
    known = [d for d in facts.drafters if method in (None, d.method)]
    return [d for d in known if d.architecture.lower().startswith(form)]


def holders(facts: Facts, drafter: Drafter) -> tuple[str, ...] | None:
    """The checkpoints that hold a drafter of the inside kind; None for one of its own."""
    if not drafter.inside:
        return None
    rows = facts.model.checkpoints if facts.model is not None else ()
    quant = facts.quant.id if facts.quant is not None else None
    return tuple(
        c.repository
        for c in rows
        if c.quant == quant and facts.engine in c.engines and c.repository in drafter.inside
    )


def methods(facts: Facts) -> tuple[Method, ...]:
    """Methods of the usable drafters; one with which nobody saw a gain only if no other is there,
    or asked for.
    """
    asked, found = asked_method(facts), usable(facts)
    tried = [d for d in found if not d.asked_only or d.method == asked]
    return tuple(dict.fromkeys(d.method for d in tried or found))


def pick(facts: Facts, method: str, model: str | None) -> Drafter | None:
    """The drafter of a method whose target `model` (a repository) names most exactly."""
    found = usable(facts, method)
    name = (model or "").lower()
    fit = [len(d.target) if d.target.rpartition("/")[2].lower() in name else 0 for d in found]
    return found[fit.index(max(fit))] if found else None


def of_plan(facts: Facts, plan: Plan) -> Drafter | None:
    """The known drafter of a plan: by its repository, or inside the checkpoint; else None."""
    if plan.draft_model is not None:
        return next((d for d in facts.drafters if d.address == plan.draft_model), None)
    return next((d for d in facts.drafters if d.inside and d.method == plan.method), None)


def size_bytes(drafter: Drafter) -> float | None:
    """Weights as published, else two bytes a parameter: an upper bound, as parts are shared."""
    if drafter.size_gb is not None:
        return drafter.size_gb * 1e9
    return drafter.params_b * 2e9 if drafter.params_b is not None else None


def layers(facts: Facts, plan: Plan) -> int:
    """Layers of the drafter that keep keys and values, about as wide as the target's."""
    known = of_plan(facts, plan)
    return (known.layers if known is not None else None) or DRAFT_LAYERS.get(plan.method, 0)


def refusal(facts: Facts, method: str | None = None) -> str | None:
    """Why none of the known drafters (of this method) can be used, in one clause, else None."""
    known = _of_form(facts, method)
    if not known or usable(facts, method):
        return None
    engine = facts.engine or ""
    here = [d for d in known if engine in d.engines]
    if not here:
        plain = [d for d in known if d.thinking is None] or known
        first = {name: d for d in reversed(plain) for name in d.engines}
        where = " and ".join(
            f"{name} ({d.repository}, {TITLES[d.method]})" for name, d in first.items()
        )
        own = (
            "; llama.cpp needs a GGUF of one, and none is known" if engine == "llama-server" else ""
        )
        return f"its published drafters are for {where}, none for {engine}{own}"
    loaded = [d for d in here if _loads(d, engine, facts.engine_version)]
    if not loaded:
        since = min((d.engines[engine] for d in here), key=lambda since: release(since) or ())
        return f"{engine} is known to load {here[0].repository} from {since} on"
    apart = [d for d in loaded if holders(facts, d) != ()]
    if not apart:
        return (
            f"{TITLES[loaded[0].method]} is inside {' and '.join(loaded[0].inside)}, not in "
            f"{facts.quant.id if facts.quant is not None else 'other'} checkpoints"
        )
    way = "with" if apart[0].thinking else "without"
    flag = "--thinking" if apart[0].thinking else "--no-thinking"
    return f"{apart[0].repository} was trained for answers {way} thinking: say {flag} to use it"


class Way(NamedTuple):
    """An option or a release to ask for, what it brings, and another `engine` where it is one."""

    ask: str
    why: str
    engine: str | None = None


def would_help(facts: Facts, method: str | None = None) -> tuple[Way, ...]:
    """What to ask for so that a known drafter (of this method) can be used."""
    known = _of_form(facts, method)
    engine, version = facts.engine or "", facts.engine_version
    fit = [d for d in known if d.thinking in (None, facts.thinking)]
    other = next((d for d in known if d not in fit and _loads(d, engine, version)), None)
    ways = []
    if other is not None:
        option = "--thinking" if other.thinking else "--no-thinking"
        ways.append(Way(option, f"for which {other.repository} was trained"))
    late = [d.engines[engine] for d in known if engine in d.engines]
    late = [since for since in late if before(version, since)]
    if late:
        since = min(late, key=lambda since: release(since) or ())
        why = "which is known to load a drafter of this model"
        ways.append(Way(f"{engine} {since} or newer", why))
    inside = next((d for d in fit if holders(facts, d) == () and engine in d.engines), None)
    rows = facts.model.checkpoints if facts.model is not None and inside is not None else ()
    for quant in dict.fromkeys(c.quant for c in rows if c.repository in inside.inside):  # type: ignore[union-attr]
        ways.append(Way(f"--quant {quant}", f"which holds the model's own {TITLES[inside.method]}"))  # type: ignore[union-attr]
    why = "for which a drafter of this model is published"
    names = dict.fromkeys(name for d in fit for name in d.engines if name != engine)
    return (*ways, *(Way(f"--engine {name}", why, name) for name in names))


def _loads(drafter: Drafter, engine: str | None, version: str | None) -> bool:
    since = drafter.engines.get(engine or "")
    return since is not None and not before(version, since)


def odd(entry: DrafterFile) -> Iterator[tuple[str, str]]:
    """(field, reason) of what the types of a drafter file cannot say."""
    if not entry.drafters:
        yield "drafters", "is empty: leave the file out"
    seen: set[str] = set()
    for number, drafter in enumerate(entry.drafters):
        where = f"drafters.{number}"
        for name in ("repository", "target"):
            if not _REPOSITORY.fullmatch(getattr(drafter, name)):
                yield f"{where}.{name}", "is written owner/name"
        if drafter.repository in seen:
            yield f"{where}.repository", f"{drafter.repository} is listed twice"
        seen.add(drafter.repository)
        if not drafter.sources or not drafter.engines:
            yield where, "needs a source and an engine that loads it"
        for name in ("k", "k_min", "k_max", "block", "layers", "params_b", "size_gb"):
            value = getattr(drafter, name)
            if value is not None and value <= 0:
                yield f"{where}.{name}", "must be above 0; leave the field out if it is not known"
        if drafter.k and drafter.k > min(drafter.k_max or 64, (drafter.block or 65) - 1):
            yield f"{where}.k", "is more than the drafter was made for"
