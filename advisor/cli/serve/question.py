"""A question as a page, the API or an agent asks it; its schema is that of URL, form and tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TypeVar, get_args, get_type_hints
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from advisor.advice.explore import within
from advisor.advice.explore.values import Rate
from advisor.cli.options import RANGE, written_count, written_tokens
from advisor.domain import nouns
from advisor.domain.nouns import LIMITS, MAX_POSITIONS, AdvisorError, UnknownFact
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import excerpt
from advisor.domain.spelling import nearest_word

DEFAULT_MODEL = "qwen3.6-35b-a3b"
Name = Annotated[str, Field(max_length=200)]
Machine = Annotated[str, Field(max_length=40)]


def about(text: str, default: Any = None, **more: Any) -> Any:
    """A field with its description."""
    return Field(default, description=text, **more)


def limit_field(name: str, text: str, default: Any = None, alias: str | None = None) -> Any:
    """A field with the limits that Request has; infinity and NaN are beyond each of them."""
    low, high = LIMITS[name]
    return about(text, default, ge=low, le=high, alias=alias)


def _rates(value: Any) -> Any:
    """0.82,0.63 as the option has it."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_RATES = Field(min_length=1, max_length=MAX_POSITIONS)
Rates = Annotated[tuple[Share, ...], _RATES, BeforeValidator(_rates)]


class FieldError(AdvisorError):
    """A value that a field cannot have."""

    def __init__(self, text: str, field: str) -> None:
        self.field = field
        super().__init__(text)


def field_of(error: AdvisorError) -> str:
    """The field of a question that an error speaks of, "" where it is none."""
    if isinstance(error, FieldError):
        return error.field
    return _FACTS.get(error.kind, "") if isinstance(error, UnknownFact) else ""


_FACTS = {
    "hardware": "hw",
    "model": "model",
    "quantisation": "quant",
    "engine": "engine",
    "engine version": "engine_version",
}
_HINTS = get_type_hints(nouns.Request)
_REAL = {name for name in LIMITS if float in (_HINTS[name], *get_args(_HINTS[name]))}
_TOKENS = {  # fields of forms, and the limits that they have
    **dict.fromkeys(("ctx", "ctx_tokens", "prompt"), "ctx_tokens"),
    **dict.fromkeys(("output", "output_tokens"), "output_tokens"),
}
_COUNTS = {*LIMITS, "k"} - {*_REAL, *_TOKENS}


_ALSO = {  # names that people and agents give to fields
    "hardware": "hw",
    "users": "concurrency",
    "requests": "concurrency",
    "prompt_tokens": "ctx",
    "context": "ctx",
    "quantization": "quant",
    "num_gpus": "gpus",
    "within": "users_within",
    "mix": "text",
}


def read_written(name: str, value: Any) -> Any:
    """A value of a form as the command line takes it: "16 users", "32k"."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if name in _TOKENS:
        return written_tokens(written_count(text))
    return written_count(text) if name in _COUNTS else text


def fields_of(kind: type[BaseModel]) -> dict[str, Any]:
    """The fields of a form under the names that it gives them."""
    return {field.alias or name: field for name, field in kind.model_fields.items()}


class FormFields(BaseModel):
    """Fields of a form: an empty one is one that is not given; an unknown one is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        names = set(fields_of(cls))
        named = {
            _ALSO[key] if key not in names and _ALSO.get(key) in names - set(given) else key: value
            for key, value in given.items()
        }
        load = named.get("concurrency")
        if "concurrency_from" in names and isinstance(load, str | tuple):
            found = RANGE.fullmatch(load.strip()) if isinstance(load, str) else None
            ends = found.groups() if found else load if isinstance(load, tuple) else ()
            named |= dict(zip(("concurrency_from", "concurrency"), ends, strict=False))
        written = {key: read_written(key, value) for key, value in named.items()}
        return {key: value for key, value in written.items() if value is not None and value != ""}


class Question(FormFields):
    """The options of `advisor recommend`."""

    hw: Name | None = about("Hardware: an id, an alias, or auto for this machine")
    gpus: int | None = limit_field("gpus", "Total number of GPUs; default: tp, else 1")
    tp: int | None = limit_field("tp", "Tensor-parallel ranks per replica")
    interconnect: nouns.Interconnect | None = about("Link between the GPUs")
    model: Name = about("Model: an id, an alias or a repository", DEFAULT_MODEL)
    quant: Name | None = about("Quantisation; default: the best that fits")
    engine: Name | None = about(
        f"One of {', '.join(get_args(nouns.Engine))}; with a version: vllm@0.25.1"
    )
    engine_version: Name | None = about("Release; default: the newest known")
    method: nouns.DraftMethod | None = about("How to draft; default: the model's head")
    concurrency: int = limit_field("concurrency", "Requests at once", 1)
    concurrency_from: int | None = limit_field(
        "concurrency", "The least of a range of requests at once that one launch serves"
    )
    ctx_tokens: int = limit_field("ctx_tokens", "Prompt tokens per request", 2048, "ctx")
    output_tokens: int = limit_field("output_tokens", "Answer tokens per request", 512)
    workload: nouns.Workload = about("Kind of text", "mixed")
    thinking: bool | None = about("Whether the model reasons first")
    temperature: float | None = limit_field("temperature", "Sampling temperature")
    prefix_share: float = limit_field(
        "prefix_share", "Part of the prompt that requests share, 0 to 1", 0.0
    )
    output_spread: float | None = limit_field(
        "output_spread", "How far answer lengths vary, 0 (one length) to 0.95"
    )
    acceptance: Rates | None = about(
        "Measured acceptance by draft position, each given the one before"
    )
    acceptance_length: float | None = limit_field(
        "acceptance_length", "Measured tokens per step, bonus token included"
    )
    acceptance_k: int | None = limit_field(
        "acceptance_k", "The k at which acceptance_length was measured"
    )
    goal: nouns.Goal = about("What counts", "balanced")
    max_ttft_ms: float | None = limit_field(
        "max_ttft_ms", "Objective: the longest time to the first token, in ms"
    )
    max_tpot_ms: float | None = limit_field(
        "max_tpot_ms", "Objective: the longest time per output token, in ms"
    )
    machine: Machine | None = about("Your machine, from `advisor calibrate`")

    def as_options(self) -> dict[str, Any]:
        """The options of the question as the command line parses them."""
        options = {name: getattr(self, name) for name in Question.model_fields}
        if least := options.pop("concurrency_from"):
            options["concurrency"] = (least, self.concurrency)
        return options

    def plain(self) -> Question:
        """The question alone, without what else a form has."""
        return check_fields(Question, self.as_options())

    def non_defaults(self) -> dict[str, str]:
        """What differs from the defaults, under the options' names, as text."""
        out = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value is not None and value != field.default:
                out[field.alias or name] = _option_text(value)
        if least := out.pop("concurrency_from", ""):
            out["concurrency"] = f"{least}..{self.concurrency}"
        return out

    def url(self, **more: str) -> str:
        """The query part of this question's address, without the question mark."""
        return urlencode(self.non_defaults() | {key: value for key, value in more.items() if value})

    def command(self, program: str = "advisor recommend") -> str:
        """The same question on the command line."""
        from shlex import quote

        words = [program]
        for name, value in self.non_defaults().items():
            if name == "thinking":
                words.append("--thinking" if value == "true" else "--no-thinking")
            else:
                words.append(f"--{name.replace('_', '-')} {quote(value)}")
        return " ".join(words)


class PricedQuestion(Question):
    """A question with its limits in one text, and what the machine costs and draws."""

    users_within: Name | None = about("The most requests at once within tpot=50ms,ttft=2s")
    price: str | None = about(
        "Price of the whole machine, 2.10/h or 2.10: cost per million tokens", max_length=40
    )
    watts: float | None = about("Power of the whole machine", gt=0, le=1e6, allow_inf_nan=False)

    def limits(self) -> dict[str, float]:
        """The fields of a request that `users_within` stands for. Raises FieldError."""
        with _name_field("users_within"):
            return within.objectives(self.users_within) if self.users_within else {}

    def rate(self) -> Rate:
        """What the machine costs and draws. Raises FieldError."""
        with _name_field("price"):
            told = self.price and (self.price if "/" in self.price else f"{self.price}/h")
            return Rate(per_hour=within.price(told) if told else None, watts=self.watts)


@contextmanager
def _name_field(field: str) -> Iterator[None]:
    """What is refused within is refused of this field."""
    try:
        yield
    except AdvisorError as error:
        raise FieldError(f"{field}: {error}", field) from None


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(f"{part:g}" for part in value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def question_from(given: Mapping[str, Any]) -> Question:
    """Raises AdvisorError with one sentence for the first value that cannot be right."""
    return check_fields(Question, given)


Model = TypeVar("Model", bound=BaseModel)


def check_fields(kind: type[Model], given: Mapping[str, Any]) -> Model:
    """The model of what is given. Raises FieldError with one sentence."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise field_error(error.errors(), kind) from None


def field_error(errors: Sequence[Any], kind: type[BaseModel] | None) -> FieldError:
    """The first of pydantic's problems as a sentence: the name, what was given, and what can be."""
    first = errors[0]
    place = [
        str(part) for part in first["loc"] if not str(part).startswith(("function-", "tuple["))
    ]
    name = place[0] if place else "the question"
    got = excerpt(first.get("input"), 40)
    field = _TOKENS.get(name, name)
    text = f"{name}: '{got}': {first['msg'][:1].lower()}{first['msg'][1:]}"
    if first["type"] == "extra_forbidden":
        text = f"there is no field '{excerpt(name, 40)}'{_nearest(name, kind)}"
    elif first["type"] == "missing":
        text = f"{name} is missing"
    elif field in LIMITS and first["type"] != "string_too_long":
        low, high = LIMITS[field]
        whole = "a number" if field in _REAL else "a whole number"
        text = f"{name}: '{got}' is not {whole} from {low:,} to {high:,}"
    elif first["type"] == "string_pattern_mismatch" and kind is not None:
        text = f"{name}: '{got}' does not fit: {fields_of(kind)[name].description}"
    elif first["type"] == "literal_error":
        text = f"{name}: '{got}' is none of {first['ctx']['expected']}"
    return FieldError(text, name)


def own_words(text: str, names: Mapping[str, str]) -> str:
    """A message in which the options of the command line have the names of another surface."""
    return _OPTION.sub(lambda found: names.get(found[1].replace("-", "_"), found[0]), text)


_OPTION = lazy_re(r"--([a-z][a-z-]*[a-z])\b")
NAMES = {name: name for name in fields_of(Question)}


def _nearest(name: str, kind: type[BaseModel] | None) -> str:
    names = list(fields_of(kind)) if kind is not None else []
    longer = [one for one in names if len(name) > 2 and one.startswith(name)]
    near = nearest_word(name, names, "field") or next(iter(longer), None)
    return f"; did you mean '{near}'?" if near else f"; there are {', '.join(names)}"
