"""What a person wants of a launch whatever the answer says: k, speculation, parsers, a key, and
the settings of its file; and what a million tokens cost and draw.

The answer and its estimate stay; `plan` and the launches are as wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from advisor.advice.plans import topology
from advisor.advice.recommend import launch_text as launch_of
from advisor.cli.serve import answers
from advisor.cli.serve.question import (
    FieldError,
    PricedQuestion,
    Question,
    about,
    check_fields,
)
from advisor.domain.nouns import Advice, AdvisorError, LaunchText, Plan
from advisor.domain.shell import shell_word
from advisor.engines.traits import traits
from advisor.render.deploy.settings import KEYS, read_settings
from advisor.render.forms import FORMS
from advisor.render.json_out import advice_json
from advisor.render.layout import pack_launch

WIDTH = 92  # of the command, characters


def _set(key: str) -> Any:
    return about(f"Of the launch: {KEYS[key][1]}", max_length=300)


class LaunchQuestion(PricedQuestion):
    """A question, and what is wanted of its launch."""

    k: int | None = about("Of the launch: draft tokens a step; default: the answer's", ge=1, le=31)
    speculation: Literal["on", "off"] | None = about("Of the launch; default: as answered")
    parsers: Literal["off"] | None = about("Of the launch: off is without tool and text parsers")
    key: Literal["on"] | None = about("Of the launch: on takes requests with an API key only")
    host: str | None = _set("host")
    port: str | None = _set("port")
    image: str | None = _set("image")
    claim: str | None = _set("claim")
    namespace: str | None = _set("namespace")
    monitor: str | None = _set("monitor")

    def settings(self) -> tuple[tuple[str, str], ...]:
        """What is set of the file, as `--set` takes it. Raises FieldError."""
        pairs = [(key, value) for key in KEYS if (value := getattr(self, key)) is not None]
        for key, value in pairs:
            try:
                read_settings((f"{key}={value}",))
            except AdvisorError as error:
                raise FieldError(str(error).removeprefix("--set "), key) from None
        return tuple(pairs)

    def plain(self) -> Question:
        """The question alone, with the limits that it has in one text."""
        return check_fields(Question, self.as_options() | self.limits())

    def wanted(self) -> dict[str, str]:
        """What differs from the answer's own launch, as text."""
        asked = self.non_defaults()
        return {name: asked[name] for name in ("k", "speculation", "parsers", "key", *KEYS)
                if name in asked}  # fmt: skip

    def command(self, program: str = "advisor recommend", form: str = "compose") -> str:
        """The same question on the command line, with what is set of its file."""
        words = [self.plain().command(program)]
        per_hour = self.rate().per_hour
        words += [f"--price {per_hour:.15g}/h"] if per_hour is not None else []
        pairs = [f"--set {shell_word(f'{key}={value}')}" for key, value in self.settings()]
        return " ".join([*words, *([f"--format {form}", *pairs] if pairs else ())])


def launch_question(given: Mapping[str, Any]) -> LaunchQuestion:
    """Raises AdvisorError with one sentence for the first value that cannot be right."""
    return check_fields(LaunchQuestion, given)


def answer(asked: LaunchQuestion, what_if: bool = True) -> Advice:
    """The answer with the launch as wanted, and with what tokens cost. Raises AdvisorError."""
    settings, rate = asked.settings(), asked.rate()
    advice = answers.advice(asked.plain(), what_if)
    if advice.estimate is not None and rate.per_hour is not None:
        speeds = advice.estimate.output_tok_s
        costs = tuple(rate.cost(x) if x else None for x in (speeds.baseline, speeds.value))
        advice = advice.model_copy(update={"cost_per_million": costs})
    if not asked.wanted():
        return advice
    changes: dict[str, Any] = dict.fromkeys(("reasoning_parser", "tool_call_parser"))
    changes = {} if asked.parsers is None else changes
    changes |= {"host": asked.host} if asked.host else {}
    changes |= {"port": int(asked.port)} if asked.port else {}
    update: dict[str, Any] = {"settings": settings}
    plans = {"plan": _plan(advice, asked), "plan_off": advice.plan_off}
    launches = {"plan": "launch", "plan_off": "launch_off", "candidate": "launch_on"}
    plans["candidate"] = advice.candidate if advice.launch_on is not None else None
    for name, plan in plans.items():
        if plan is not None:
            update[name] = plan.model_copy(update=changes)
            run = launch_of(topology.on_each(advice.facts, update[name]))
            text = "\n".join(command_lines(run, update[name], True)) if asked.key else run.text
            update[launches[name]] = run.model_copy(update={"text": text})
    return advice.model_copy(update=update)


def _plan(advice: Advice, asked: LaunchQuestion) -> Plan:
    """The plan to run: the answer's, or the one that is wanted. Raises FieldError."""
    plan, k = advice.candidate, asked.k
    if k is not None and asked.speculation == "off":
        raise FieldError("k: there is none where speculation is off", "k")
    if k is not None and (plan is None or plan.k != k or plan.k_schedule):
        load = answers.with_k(asked.plain(), advice, k)
        point = load.point(k, plan.method if plan is not None else None)
        if point is None:
            why = next((why for _, why in load.lacking), "no way to draft is known here")
            raise FieldError(f"k: {why}", "k")
        if point.forbidden_by:
            raise FieldError(f"k: {k} is forbidden here by {', '.join(point.forbidden_by)}", "k")
        return point.plan
    if plan is None and (k is not None or asked.speculation == "on"):
        raise FieldError("speculation: no way to draft is known here", "speculation")
    if plan is not None and (k is not None or asked.speculation == "on"):
        return plan
    return advice.plan_off or advice.plan if asked.speculation == "off" else advice.plan


def key_name(plan: Plan) -> str:
    """The variable that holds the key of requests."""
    return traits(plan.engine).api_key_env or "SGLANG_API_KEY"


def command_lines(run: LaunchText, plan: Plan, key: bool) -> list[str]:
    """The launch as it is pasted; with a key it ends where its variable is not set."""
    command = pack_launch(run.model_copy(update={"files": {}}), WIDTH, "")
    files = pack_launch(run, WIDTH, "")[: -len(command)]
    if key:
        name = key_name(plan)
        value = f'"${{{name}:?set it first}}"'
        if traits(plan.engine).api_key_env:
            command.insert(0, f"{name}={value} \\")
        else:
            command[-1:] = [f"{command[-1]} \\", f"  --api-key {value}"]
    return [*files, *command]


def file_text(advice: Advice, form: str, asked: LaunchQuestion) -> str:
    """The launch in one of FORMS. Raises AdvisorError where that form cannot hold it."""
    if asked.key and form != "json" and not (FORMS[form].file and _takes_key(advice)):
        raise FieldError(
            f"key: this form has no place for one: use the command, or give {key_name(advice.plan)}"
            " to the server yourself",
            "key",
        )
    return FORMS[form].write(advice)


def _takes_key(advice: Advice) -> bool:
    return traits(advice.plan.engine).api_key_env is not None


def energy(advice: Advice, asked: LaunchQuestion) -> tuple[float | None, ...] | None:
    """Kilowatt hours of a million output tokens, without speculation and with it."""
    if advice.estimate is None or asked.watts is None:
        return None
    speeds = advice.estimate.output_tok_s
    return tuple(asked.rate().energy_kwh(x or 0.0) for x in (speeds.baseline, speeds.value))


def answer_json(asked: LaunchQuestion) -> dict[str, Any]:
    """What `advisor recommend --format json` prints; energy beside it where watts are told."""
    advice = answer(asked)
    told = energy(advice, asked)
    return advice_json(advice) | ({"kwh_per_million": told} if told is not None else {})
