"""The controls of the question: every option of `advisor recommend` with what can be chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, get_args

from advisor.advice.own_runs.machine import names as machine_names
from advisor.cli.serve.question import Question
from advisor.domain.nouns import Advice, DraftMethod, Engine, Interconnect, Workload
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge

Options = list[tuple[str, str]]
Groups = list[tuple[str, Options]]
_CLASSES = {
    "datacenter": "Data center",
    "workstation": "Workstation",
    "consumer": "Consumer",
    "laptop": "Laptop",
    "unified": "Unified memory",
    "igpu": "Integrated",
}
_VENDORS = {
    "nvidia": "NVIDIA",
    "amd": "AMD",
    "apple": "Apple",
    "intel": "Intel",
    "huawei": "Huawei",
}
_GOALS = {
    "balanced": "Balanced",
    "throughput": "Throughput",
    "tpot": "Time per output token",
    "ttft": "Time to first token",
}
_MAIN = ("hw", "model", "concurrency", "ctx", "output_tokens", "goal", "workload")


def controls(question: Question, advice: Advice | None = None) -> dict[str, Any]:
    """The fields, those of the first sight apart; names as written become those of the answer."""
    facts = advice.facts if advice is not None else None
    hardware = facts.hardware.id if facts and facts.hardware else question.hw or ""
    model = facts.model.id if facts and facts.model else question.model
    main = [
        _select("hw", "Hardware", _with(hardware_groups(), hardware), hardware, "wide"),
        _select("model", "Model", _with(model_groups(), model), model, "wide", _default("model")),
        _number("concurrency", "Requests at once", question),
        _number("ctx", "Prompt tokens", question),
        _number("output_tokens", "Answer tokens", question),
        _select("goal", "Goal", [("", list(_GOALS.items()))], question.goal, "mid", "balanced"),
        _select(
            "workload", "Text", [("", _same(get_args(Workload)))], question.workload, "mid", "mixed"
        ),
    ]
    more = [_further(name, question) for name in _MORE]
    machines = machine_names()
    if machines:
        list_ = [("", "none"), *_same(machines)]
        more.append(_select("machine", "Your machine", [("", list_)], question.machine))
    told = question.non_defaults()
    return {"main": main, "more": more, "more_open": any(f["name"] in told for f in more)}


def _further(name: str, question: Question) -> dict[str, Any]:
    label, unset = _MORE[name]
    words = _CHOICES.get(name)
    if words is None:
        mode = {"mode": "text"} if name in ("engine_version", "acceptance") else {}
        return _number(name, label, question, unset) | mode
    value = getattr(question, name)
    value = str(value).lower() if isinstance(value, bool) else value or ""
    return _select(name, label, _with([("", [("", unset), *words()])], value), value)


def _default(name: str) -> str:
    default = Question.model_fields[name].default
    return "" if default is None else str(default)


def _with(groups: Groups, chosen: str) -> Groups:
    """The groups with what was chosen, if it is none of theirs (an alias, an own file)."""
    known = {value for _, options in groups for value, _ in options}
    return groups if chosen in known else [("", [(chosen, chosen)]), *groups]


def _select(
    name: str, label: str, groups: Groups, value: str | None, size: str = "", default: str = ""
) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "groups": groups,
        "value": value or "",
        "size": size,
        "default": default,
    }


def _number(name: str, label: str, question: Question, hint: str = "") -> dict[str, Any]:
    """A field for a number; empty where it is not told and has no default."""
    field = {"ctx": "ctx_tokens"}.get(name, name)
    default = Question.model_fields[field].default
    plain = "" if default in (None, 0.0) else str(default)
    whole = "int" in str(Question.model_fields[field].annotation)
    return {
        "name": name,
        "label": label,
        "value": question.non_defaults().get(name, plain),
        "default": plain,
        "hint": hint,
        "groups": None,
        "size": "small" if name in _MAIN else "",
        "mode": "numeric" if whole else "decimal",
    }


def _same(words: Iterable[str]) -> Options:
    return [(word, word) for word in words]


@cache
def hardware_groups() -> Groups:
    """All hardware by class and vendor, the usual name first."""
    groups: dict[str, Options] = {}
    for ident in knowledge.hardware_ids():
        one = knowledge.hardware(ident)
        if not one.hardware_class:
            continue
        vendor = _VENDORS.get(one.vendor, one.vendor)
        title = f"{vendor} {_CLASSES.get(one.hardware_class, one.hardware_class).lower()}"
        groups.setdefault(title, []).append((ident, one.name or ident))
    order = {title: n for n, title in enumerate(sorted(groups, key=_rank))}
    named = [(title, sorted(found, key=lambda o: o[1])) for title, found in groups.items()]
    choose = [("", "choose"), ("auto", "this machine")]
    return [("", choose), *sorted(named, key=lambda group: order[group[0]])]


def _rank(title: str) -> tuple[int, str]:
    vendor = title.split(" ", maxsplit=1)[0]
    return list(_VENDORS.values()).index(vendor) if vendor in _VENDORS.values() else 9, title


@cache
def model_groups() -> Groups:
    """All models by family, those that stand for a class last."""
    groups: dict[str, Options] = {}
    for ident in knowledge.llm_ids():
        one = knowledge.llm(ident)
        family = "Shapes" if ident.startswith("unknown") else _family(ident)
        groups.setdefault(family, []).append((ident, one.name or ident))
    several = {name: found for name, found in groups.items() if len(found) > 1}
    single = [found[0] for name, found in groups.items() if len(found) == 1]
    named = sorted(several.items(), key=lambda group: (group[0] == "Shapes", group[0].lower()))
    return [*named, ("Other", sorted(single, key=lambda o: o[1].lower()))]


def _family(ident: str) -> str:
    word = ident.split("-", maxsplit=1)[0].rstrip("0123456789.")
    return {
        "qwen": "Qwen",
        "qwq": "Qwen",
        "deepseek": "DeepSeek",
        "glm": "GLM",
        "gpt": "gpt-oss",
    }.get(word, word.capitalize())


@cache
def _engines() -> Options:
    return _same(engine for engine in get_args(Engine) if traits(engine).writable)


# the fields behind the first sight: label, and what an empty one stands for
_MORE = {
    "engine": ("Engine", "by hardware"),
    "engine_version": ("Release", "newest known"),
    "quant": ("Quantisation", "the best that fits"),
    "method": ("Draft method", "chosen"),
    "gpus": ("GPUs", "1"),
    "tp": ("Tensor parallel", ""),
    "interconnect": ("GPU link", "by hardware"),
    "thinking": ("Reasoning", "the model's default"),
    "prefix_share": ("Shared prefix, 0 to 1", ""),
    "output_spread": ("Answer lengths vary by", "0 or 0.5"),
    "temperature": ("Temperature", "model card"),
    "max_ttft_ms": ("TTFT at most, ms", ""),
    "max_tpot_ms": ("TPOT at most, ms", ""),
    "acceptance_length": ("Measured tokens/step", ""),
    "acceptance_k": ("measured at k", ""),
    "acceptance": ("Acceptance by position", "0.82,0.63"),
}
_CHOICES: dict[str, Callable[[], Options]] = {
    "engine": _engines,
    "quant": lambda: _same(knowledge.quant_ids()),
    "method": lambda: _same(get_args(DraftMethod)),
    "interconnect": lambda: _same(get_args(Interconnect)),
    "thinking": lambda: [("true", "on"), ("false", "off")],
}
