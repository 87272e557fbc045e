"""The controls of the question: every option of `advisor recommend` with what can be chosen."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from advisor.advice.own_runs.machine import names as machine_names
from advisor.cli.serve.launch import LaunchQuestion
from advisor.cli.serve.question import Question, fields_of
from advisor.domain.nouns import Engine
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge

Options = list[tuple[str, str]]
FIRST = ("hw", "gpus", "model", "engine", "quant", "concurrency", "ctx", "output_tokens")
NEXT = ("goal", "max_tpot_ms", "max_ttft_ms")
# label, what an empty field stands for, width
LABELS: dict[str, tuple[str, str, str]] = {
    "hw": ("Hardware", "2x 3090, dgx spark, h200 x8", "most"),
    "gpus": ("GPUs", "1", "least"),
    "model": ("Model", "a name or a repository", "wide"),
    "engine": ("Engine", "by hardware", ""),
    "quant": ("Quantisation", "best that fits", ""),
    "concurrency": ("Requests", "1, or 1..64", "small"),
    "ctx": ("Prompt", "2048", "small"),
    "output_tokens": ("Answer", "512", "small"),
    "goal": ("Goal", "balanced", "small"),
    "max_tpot_ms": ("Max TPOT", "ms", "small"),
    "max_ttft_ms": ("Max TTFT", "ms", "small"),
    "workload": ("Text", "mixed", ""),
    "thinking": ("Reasoning", "the model's default", ""),
    "method": ("Draft method", "chosen", ""),
    "engine_version": ("Engine release", "newest with an image", ""),
    "tp": ("Tensor parallel", "by the layout", ""),
    "interconnect": ("GPU link", "by hardware", ""),
    "prefix_share": ("Shared prefix, 0 to 1", "0", ""),
    "output_spread": ("Answer lengths vary by", "0 or 0.5", ""),
    "temperature": ("Temperature", "model card", ""),
    "acceptance_length": ("Measured tokens/step", "none", ""),
    "acceptance_k": ("measured at k", "none", ""),
    "acceptance": ("Acceptance by position", "0.82,0.63", ""),
    "machine": ("Your machine", "none", ""),
    "k": ("k", "the answer's", ""),
    "name": ("Name", "chat", ""),
    "prompt": ("Prompt", "2048", "small"),
    "output": ("Answer", "512", "small"),
    "tpot": ("TPOT at most", "50ms", "small"),
    "ttft": ("TTFT at most", "2s", "small"),
    "speculation": ("Speculation", "as answered", ""),
    "parsers": ("Parsers", "by the model", ""),
    "key": ("API key", "none", ""),
    "host": ("Listens on", "127.0.0.1", ""),
    "port": ("Port", "8000", ""),
    "image": ("Container image", "of the release", "wide"),
    "price": ("Price an hour", "2.10", ""),
    "watts": ("Power in watts", "700", ""),
}
LAUNCH = ("speculation", "k", "parsers", "key", "host", "port", "image", "price", "watts")
TITLES = {name: f"\u201c{words[0]}\u201d" for name, words in LABELS.items()}
_GOALS = {"balanced": "Balanced", "throughput": "Throughput", "tpot": "Time per token",
          "ttft": "First token"}  # fmt: skip


def controls(given: Mapping[str, str], wrong: str = "") -> dict[str, Any]:
    """The fields with what the address gives them; `wrong` names the one that is refused."""
    beside = (*FIRST, *NEXT, *LAUNCH, "machine")
    more = [x for x in LABELS if x in fields_of(LaunchQuestion) and x not in beside]
    more += ["machine"] * bool(machine_names())
    return {
        "first": fields(given, FIRST, wrong=wrong),
        "next": fields(given, NEXT, wrong=wrong),
        "more": fields(given, more, LaunchQuestion, wrong=wrong),
        "more_open": wrong in more or any(given.get(name) for name in more),
        "launch": fields(given, LAUNCH, LaunchQuestion, wrong=wrong),
        "launch_open": wrong in LAUNCH or any(given.get(name) for name in LAUNCH),
    }


def fields(
    given: Mapping[str, str],
    names: Sequence[str],
    kind: type[BaseModel] = Question,
    wrong: str = "",
    sheet: str | None = None,
) -> list[dict[str, Any]]:
    """Fields of a form. `sheet`: what an empty field stands for there; "": as in the question."""
    model = fields_of(Question) | fields_of(kind)
    made = []
    for name in names:
        label, hint, size = LABELS[name]
        field = model[name]
        given_none = sheet or field.is_required() or field.default in (None, 0.0)
        default = "" if given_none else str(field.default)
        options = _CHOICES[name]() if name in _CHOICES else _words(field.annotation)
        value = given.get(name, default)
        if options is not None and name not in _SUGGESTED:
            options = options if default else [("", sheet or hint), *options]
            if value not in dict(options):  # as typed: "vllm@0.25.1"
                options = [(value, value), *options]
        type_name = str(field.annotation)
        mode = (
            "decimal" if "float" in type_name else "numeric" if _WHOLE.search(type_name) else "text"
        )
        made.append(
            {
                "name": name,
                "label": label,
                "value": value,
                "default": default,
                "hint": sheet or hint,
                "help": field.description or "",
                "options": options,
                "list": name in _SUGGESTED,
                "size": size if sheet is None else "half" if name in _SUGGESTED else "",
                "mode": mode,
                "wrong": name == wrong,
            }
        )
    return made


@cache
def _hardware() -> Options:
    known = [knowledge.hardware(ident) for ident in knowledge.hardware_ids()]
    named = [(one.id, one.name or one.id) for one in known if one.hardware_class]
    return [("auto", "this machine"), *sorted(named, key=lambda option: option[1].lower())]


@cache
def _models() -> Options:
    named = [(ident, knowledge.llm(ident).name or ident) for ident in knowledge.llm_ids()]
    return sorted(named, key=lambda option: (option[0].startswith("unknown"), option[1].lower()))


@cache
def _engines() -> Options:
    return _same(engine for engine in get_args(Engine) if traits(engine).writable)


_WHOLE = re.compile(r"\bint\b")
_KINDS = {"hardware": "hw", "models": "model", "engines": "engine", "quantisations": "quant"}
KNOWN = tuple(_KINDS)


def known_names(kind: str, match: str = "") -> list[dict[str, str]]:
    """Ids and names of one of KNOWN, of those that hold all words of `match`."""
    words = match.lower().split()
    return [
        {"id": ident, "name": name}
        for ident, name in _CHOICES[_KINDS[kind]]()
        if all(word in f"{ident} {name}".lower() for word in words)
    ]


def _words(annotation: Any) -> Options | None:
    """The words that a field takes; None where it takes others."""
    parts = (annotation, *get_args(annotation))
    return next((_same(get_args(x)) for x in parts if get_origin(x) is Literal), None)


def _same(words: Iterable[str]) -> Options:
    return [(word, word) for word in words]


_SUGGESTED = ("hw", "model")  # typed as on the command line; the known names are suggestions
_CHOICES: dict[str, Callable[[], Options]] = {
    "hw": _hardware,
    "model": _models,
    "engine": _engines,
    "quant": lambda: _same(knowledge.quant_ids()),
    "goal": lambda: list(_GOALS.items()),
    "thinking": lambda: [("true", "on"), ("false", "off")],
    "machine": lambda: _same(machine_names()),
}
