"""Choices side by side, and why the answer has another: the questions, and what the sheet shows."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from advisor.advice.explore.compare import Comparison, compare, kind_of
from advisor.advice.explore.values import Rate
from advisor.advice.explore.why_not import WhyNot, why_not
from advisor.advice.explore.within import objectives
from advisor.advice.explore.within import price as per_hour_of
from advisor.advice.questions import question as request_of
from advisor.advice.questions import request_from
from advisor.cli.serve.question import Question
from advisor.domain.nouns import AdvisorError
from advisor.render.explore.compare import comparison_rows


def _names(value: Any) -> Any:
    """`gb10, h100` in one text, or several texts."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(one, str) for one in texts):
        return value
    return [name for one in texts for name in re.split(r"[,\s]+", one[:2000]) if name]


class Sides(Question):
    """The options of `compare`."""

    names: Annotated[
        tuple[Annotated[str, Field(max_length=200)], ...],
        BeforeValidator(_names),
        Field(
            min_length=2,
            max_length=3,
            description="Two or three of one kind: gb10,h100 or vllm@0.25.1,vllm@0.32.0",
        ),
    ]
    users_within: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="The most requests at once within tpot=50ms,ttft=2s"
    )
    price: Annotated[str, Field(max_length=40)] | None = Field(
        None, description="Price of the whole machine, 2.10/h: cost per million tokens"
    )
    watts: float | None = Field(
        None, gt=0, le=1e6, allow_inf_nan=False, description="Power of the whole machine"
    )


class Doubt(Question):
    """The options of `why-not`."""

    what: str = Field(
        max_length=200, description="k=4, engine=sglang, quant=bf16, model=NAME or hw=NAME"
    )


def compare_choices(asked: Sides) -> tuple[Comparison, Rate]:
    """What `advisor compare` answers. Raises AdvisorError in one sentence."""
    told = _question(asked)
    if not asked.hw and kind_of(asked.names[0]) == "hardware":
        told["hw"] = asked.names[0]  # each name is its own
    limits = objectives(asked.users_within) if asked.users_within else None
    per_hour = per_hour_of(asked.price) if asked.price else None
    found = compare(request_from(told), asked.names, limits)
    return found, Rate(per_hour=per_hour, watts=asked.watts)


def explain_why_not(asked: Doubt) -> WhyNot:
    """What `advisor why-not` answers. Raises AdvisorError in one sentence."""
    if not asked.hw and not asked.machine:
        raise AdvisorError("which hardware? choose one, or give hw")
    return why_not(request_of(_question(asked))[0], asked.what)


def _question(asked: Question) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in Question.model_fields}


def sides_view(found: Comparison, rate: Rate) -> dict[str, Any]:
    """What the sheet shows of choices: a table, and what makes the difference."""
    head, *rows = comparison_rows(found, rate)
    return {"names": head[1:], "rows": rows, "differences": found.differences}
