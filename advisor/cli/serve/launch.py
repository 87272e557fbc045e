"""What a person wants of a launch whatever the answer says: k, speculation, parsers, a key, the
settings of its file; and what a million tokens cost. The answer and its estimate stay.
"""

from typing import Any, Literal

from advisor.advice.explore.within import with_costs
from advisor.advice.plans import topology
from advisor.advice.recommend import launch_text as launch_of
from advisor.cli.options import SETTING, OptionRow
from advisor.cli.serve import answers
from advisor.cli.serve.question import (
    FieldError,
    PricedQuestion,
    Question,
    about,
    check_fields,
    form_base,
)
from advisor.domain.nouns import Advice, AdvisorError, LaunchText, Plan
from advisor.domain.shell import shell_word
from advisor.engines.traits import traits
from advisor.render.deploy.settings import KEYS, read_settings
from advisor.render.explore.json_out import POLICY
from advisor.render.forms import FORMS
from advisor.render.json_out import advice_json
from advisor.render.layout import pack_launch

WIDTH = 92  # of the command, characters
_PLANS, _LAUNCHES = ("plan", "plan_off", "candidate"), ("launch", "launch_off", "launch_on")

_WANTED = [
    OptionRow(
        "k", "k", "Of the launch: draft tokens a step; default: the answer's", SETTING["k"].kind
    ),
    *(OptionRow(key, key, f"Of the launch: {meaning}") for key, (_, meaning) in KEYS.items()),
]


class LaunchQuestion(form_base(_WANTED, base=PricedQuestion)):  # type: ignore[misc]
    """A question, and what is wanted of its launch."""

    speculation: Literal["on", "off"] | None = about("Of the launch; default: as answered")
    parsers: Literal["off"] | None = about("Of the launch: off is without tool and text parsers")
    key: Literal["on"] | None = about("Of the launch: on takes requests with an API key only")

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

    def launch_values(self) -> dict[str, str]:
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


def answer(asked: LaunchQuestion, what_if: bool = True) -> Advice:
    """The answer with the launch as wanted, and with what tokens cost. Raises AdvisorError."""
    settings, rate = asked.settings(), asked.rate()
    advice = with_costs(answers.advice(asked.plain(), what_if), rate)
    if not asked.launch_values():
        return advice
    told = {"host": asked.host, "port": int(asked.port) if asked.port else None}
    changes: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
    if asked.parsers is not None:
        changes |= dict.fromkeys(("reasoning_parser", "tool_call_parser"))
    update: dict[str, Any] = {"settings": settings}
    plans = (_plan(advice, asked), advice.plan_off, advice.candidate)
    for name, launch, plan in zip(_PLANS, _LAUNCHES, plans, strict=True):
        if plan is not None and getattr(advice, launch) is not None:
            update[name] = plan.replace(**changes)
            run = launch_of(topology.on_each(advice.facts, update[name]))
            text = "\n".join(command_lines(run, plan, True)) if asked.key else run.text
            update[launch] = run.replace(text=text)
    return advice.replace(**update)


def _plan(advice: Advice, asked: LaunchQuestion) -> Plan:
    """The plan to run: the answer's, or the one that is wanted. Raises FieldError."""
    plan, k, wanted = advice.candidate, asked.k, asked.speculation
    if k is None and wanted != "on":
        return advice.plan_off or advice.plan if wanted == "off" else advice.plan
    field = "speculation" if k is None else "k"
    if wanted == "off":
        raise FieldError("k: there is none where speculation is off", field)
    if plan is None:
        raise FieldError(f"{field}: no way to draft is known here", field)
    if k is None or (k == plan.k and not plan.k_schedule):
        return plan
    load = answers.with_k(asked.plain(), advice, k)
    point = load.point(k, plan.method)
    if point is None:
        raise FieldError(f"k: {next((why for _, why in load.lacking), 'it cannot run here')}", "k")
    if point.forbidden_by:
        raise FieldError(f"k: {k} is forbidden here by {', '.join(point.forbidden_by)}", "k")
    return point.plan


def key_name(plan: Plan) -> str:
    """The variable that holds the key of requests."""
    return traits(plan.engine).api_key_env or "SGLANG_API_KEY"


def command_lines(run: LaunchText, plan: Plan, key: bool) -> list[str]:
    """The launch as it is pasted; with a key it ends where its variable is not set."""
    command = pack_launch(run.replace(files={}), WIDTH, "")
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
    takes_key = form == "json" or (FORMS[form].file and traits(advice.plan.engine).api_key_env)
    if asked.key and not takes_key:
        raise FieldError("key: this form has no place for one: use the whole command", "key")
    return FORMS[form].write(advice)


def energy(advice: Advice, asked: LaunchQuestion) -> tuple[float | None, ...] | None:
    """Kilowatt hours of a million output tokens, without speculation and with it."""
    if advice.estimate is None or asked.watts is None:
        return None
    speeds = advice.estimate.output_tok_s
    return tuple(asked.rate().energy_kwh(x or 0.0) for x in (speeds.baseline, speeds.value))


def answer_json(asked: LaunchQuestion) -> dict[str, Any]:
    """What `advisor recommend --format json` prints; energy beside it where watts are told."""
    if (policy := answers.policy(asked.plain())) is not None:
        return POLICY.json(policy)
    advice = answer(asked)
    told = energy(advice, asked)
    return advice_json(advice) | ({"kwh_per_million": told} if told is not None else {})
