"""A question as a page, the API or an agent asks it; its schema is that of URL, form and tools."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

import click
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)

from advisor.advice.explore import within
from advisor.advice.explore.values import Rate
from advisor.cli.options import LIMITS_AND_COST, QUESTION, RANGE, Number, OptionRow, Rates
from advisor.domain.nouns import MAX_POSITIONS, AdvisorError, UnknownFact
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import excerpt
from advisor.domain.spelling import nearest_word

Name = Annotated[str, Field(max_length=200)]
NeededName = Annotated[str, Field(max_length=200, pattern="^[^,]*[0-9A-Za-z][^,]*$")]


def about(text: str, default: Any = None, **more: Any) -> Any:
    """A field with its description."""
    return Field(default, description=text, **more)


class FieldError(AdvisorError):
    """A value that a field cannot have."""

    def __init__(self, text: str, field: str) -> None:
        self.field = field
        super().__init__(text)


class InvalidField(FieldError):
    """A value that the field's description already excludes."""


def once(told: Iterable[tuple[str, Any]], lists: Iterable[str] = ()) -> dict[str, Any]:
    """Names with their values. Raises InvalidField for one that is told twice and is no list."""
    seen: dict[str, Any] = {}
    for name, value in told:
        if name in seen and name not in lists:
            raise InvalidField(f"{name[:40]} is given twice: give it once", name)
        seen[name] = value
    return seen


def field_of(error: AdvisorError) -> str:
    """The field of a question that an error speaks of, "" where it is none."""
    if isinstance(error, FieldError):
        return error.field
    return _FACTS.get(error.kind, "") if isinstance(error, UnknownFact) else ""


_FACTS = {"hardware": "hw", "model": "model", "quantisation": "quant", "engine": "engine",
          "engine version": "engine_version"}  # fmt: skip
# names that people and agents give to fields
_ALSO = {"hardware": "hw", "users": "concurrency", "requests": "concurrency", "context": "ctx",
         "prompt_tokens": "ctx", "quantization": "quant", "num_gpus": "gpus"}  # fmt: skip


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
        bare = {k: v.strip() if isinstance(v, str) else v for k, v in named.items()}
        told = {k: v for k, v in bare.items() if v is not None and v != ""}
        return told | {k: named[k] for k in told if k == "text"}  # its lines are counted


def form_base(rows: Iterable[OptionRow], *, defaults: bool = False, base: Any = FormFields) -> Any:
    """A form of these options. Without `defaults` what is left out is None; `...` is required."""
    fields: dict[str, Any] = {}
    for row in rows:
        default = row.default if defaults or row.default is ... else None
        said, _, chosen = row.text.partition("  [")
        said = said.rstrip(".") + (f"; {chosen.rstrip(']')}" if defaults and chosen else "")
        said = re.sub("--([a-z-]+)", lambda found: found[1].replace("-", "_"), said)
        flag = row.flag.replace("-", "_")
        more: dict[str, Any] = {} if flag == row.name else {"alias": flag}
        more |= {"examples": ["gb10"]} if flag == "hw" else {}
        kind = _annotation(row)
        kind = kind if default is not None else kind | None
        fields[row.name] = (kind, about(said, default, **more))
    return create_model("Declared", __base__=base, **fields)


def _annotation(row: OptionRow) -> Any:
    """The type of an option's values: what click reads of a text, within the same limits."""
    kind = row.kind
    if isinstance(kind, Number):
        plain: Any = int if kind.whole else float
        limits = Field(ge=kind.low, le=kind.high, allow_inf_nan=None if kind.whole else False)
        return Annotated[plain, limits, BeforeValidator(partial(_read, kind))]
    if isinstance(kind, Rates):
        share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
        many = Field(min_length=1, max_length=MAX_POSITIONS)
        return Annotated[tuple[share, ...], many, BeforeValidator(partial(_read, kind))]
    if isinstance(kind, click.Choice):
        return Literal[tuple(kind.choices)]
    return bool if kind is bool else NeededName if row.default is ... else Name


def _read(kind: Any, value: Any) -> Any:
    """A value as the command line reads it: "32k"; JSON's 16.0 is 16, a list one text of parts."""
    if isinstance(value, list) and isinstance(kind, Rates):
        value = ",".join(map(str, value))
    if not isinstance(value, str | int | float):
        return value
    try:
        return kind.convert(re.sub(r"\.0$", "", str(value)), None, None)
    except click.UsageError as error:
        raise ValueError(error.message) from None


_ASKED = [
    *QUESTION.values(),
    OptionRow("machine", "machine", "Your machine, from `advisor calibrate`"),
    QUESTION["concurrency"]._replace(
        flag="concurrency_from",
        name="concurrency_from",
        text="The least of a range of requests at once that one launch serves",
        default=None,
    ),
]


class Question(form_base(_ASKED, defaults=True)):  # type: ignore[misc]
    """The options of `advisor recommend`."""

    def as_options(self) -> dict[str, Any]:
        """The options of the question as the command line parses them."""
        options = {name: getattr(self, name) for name in Question.model_fields}
        if least := options.pop("concurrency_from"):
            options["concurrency"] = (least, self.concurrency)
        return options

    def plain(self) -> "Question":
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


class PricedQuestion(form_base(LIMITS_AND_COST.values(), base=Question)):  # type: ignore[misc]
    """A question with its limits in one text, and what the machine costs and draws."""

    def limits(self) -> dict[str, float]:
        """The fields of a request that `users_within` stands for. Raises FieldError."""
        with _name_field("users_within"):
            return within.objectives(self.within) if self.within else {}

    def rate(self) -> Rate:
        """What the machine costs and draws. Raises FieldError."""
        with _name_field("price"):
            told = self.price and (self.price if "/" in self.price else f"{self.price}/h")
            return within.rate_of(told or None, self.watts)


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
    """The model of what is given. Raises InvalidField with one sentence."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise field_error(error.errors(), kind) from None


def field_error(errors: Sequence[Any], kind: type[BaseModel] | None) -> InvalidField:
    """The first of pydantic's problems as a sentence: the name, what was given, and what can be."""
    first = min(errors, key=lambda one: one["type"] == "missing")  # a word too many may be meant
    place = [
        str(part) for part in first["loc"] if not str(part).startswith(("function-", "tuple["))
    ]
    name = place[0] if place else "the question"
    got = excerpt(first.get("input"), 40)
    text = f"{name}: '{got}': {first['msg'][:1].lower()}{first['msg'][1:]}"
    if first["type"] == "extra_forbidden":
        text = f"there is no field '{excerpt(name, 40)}'{_nearest(name, kind)}"
    elif first["type"] == "missing":
        text = f"the field '{name}' is missing"
    elif first["type"] == "value_error":
        text = f"{name}: {first['msg'].removeprefix('Value error, ')}"
    elif first["type"] == "string_pattern_mismatch" and kind is not None:
        text = f"{name}: '{got}' does not fit: {fields_of(kind)[name].description}"
    elif first["type"] in ("too_short", "too_long"):
        most, least, given = (first["ctx"].get(f"{x}_length") for x in ("max", "min", "actual"))
        text = f"{name}: give {f'at least {least}' if least else f'at most {most}'}, not {given}"
    elif first["type"] == "literal_error":
        text = f"{name}: '{got}' is none of {first['ctx']['expected']}"
    return InvalidField(text, name)


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
