"""`advisor sweep`, `plan`, `compare` and `why-not`: many questions asked at once."""

from typing import Any

import click

from advisor.advice.explore.axes import parse_axis
from advisor.advice.explore.compare import compare as compare_choices
from advisor.advice.explore.compare import compare_over, kind_of
from advisor.advice.explore.mix import MOST_BYTES, read_mix
from advisor.advice.explore.mix_plan import plan_mix
from advisor.advice.explore.sweep import sweep as run_sweep
from advisor.advice.explore.values import Value
from advisor.advice.explore.why_not import why_not as explain_why_not
from advisor.advice.explore.within import complete, objectives, rate_of
from advisor.advice.questions import question
from advisor.advice.spoken import split_count
from advisor.cli.base import HELP, form_option, option
from advisor.cli.options import LIMITS_AND_COST, click_options, question_options
from advisor.cli.recommend import machine_option, paper, write
from advisor.domain.files import read_text_safely
from advisor.domain.nouns import AdvisorError
from advisor.render.explore import compare as comparison
from advisor.render.explore.json_out import sweep_json
from advisor.render.explore.plan import mix_plan_json, plan_compose, plan_text
from advisor.render.explore.text import sweep_text
from advisor.render.objects import text_of

objective_options = click_options(LIMITS_AND_COST)
text_or_json = form_option("text", "json", text="Output format.")
_VARY = "Field and its values, e.g. concurrency=1..128, k=0..4, ctx=512,8192; repeatable."


@click.command(context_settings=HELP)
@question_options
@machine_option
@option("vary varied", _VARY, multiple=True, default=("concurrency=1..128",), metavar="NAME=VALUES")
@text_or_json
@objective_options
def sweep(
    varied: tuple[str, ...],
    form: str,
    within: str | None,
    price: str | None,
    watts: float | None,
    **asked: Any,
) -> None:
    """Show the gain over the load, one curve per k.

    Includes where speculation stops paying off, published measurements, and the best k per load
    in the engine's own format.
    """
    vary: dict[str, tuple[Value, ...]] = {}
    for name, values in (parse_axis(text) for text in varied):
        vary[name] = (*vary.get(name, ()), *values)
    request = question(asked)
    limits = objectives(within) if within is not None else {}
    found = complete(run_sweep(request, vary), limits, rate_of(price, watts))
    write(text_of(sweep_json(found)) if form == "json" else sweep_text(found, paper()))


@click.command(context_settings=HELP)
@click.argument("mix", type=click.Path(allow_dash=True))
@form_option("text", "json", "compose", text="Output format.")
def plan(mix: str, form: str) -> None:
    """Plan one or two servers, with or without speculation, for several workloads on one machine.

    MIX is a YAML file of request classes (docs/explore.md); - reads standard input.
    """
    made = plan_mix(read_mix(read_text_safely("/dev/stdin" if mix == "-" else mix, MOST_BYTES)))
    if form == "compose":
        return write(plan_compose(made))
    write(text_of(mix_plan_json(made)) if form == "json" else plan_text(made, paper()))


@click.command(context_settings=HELP)
@click.argument("names", nargs=-1, required=True, metavar="A B [C...]")
@question_options
@machine_option
@objective_options
@text_or_json
def compare(
    names: tuple[str, ...],
    within: str | None,
    price: str | None,
    watts: float | None,
    form: str,
    **asked: Any,
) -> None:
    """Compare two or three choices and explain the difference: hardware, models, engines,
    releases (vllm@0.25.1 vllm@0.32.0), quantisations, draft methods.

    With a range of loads (--concurrency 1..64) it says which is ahead where.
    """
    if not asked.get("hw") and kind_of(names[0]) == "hardware":
        asked["hw"] = split_count(names[0])[0]  # each name is its own
    load = asked.get("concurrency")
    if isinstance(load, tuple) and load[0] < load[1]:
        if within is not None or price is not None or watts is not None:
            raise AdvisorError("--users-within, --price and --watts are for one load, not a range")
        over = compare_over(question(asked), names, load[0])
        written = comparison.loads_text(over, paper())
        return write(text_of(comparison.loads_json(over)) if form == "json" else written)
    limits = objectives(within) if within is not None else None
    found = compare_choices(question(asked), names, limits)
    rate = rate_of(price, watts)
    text = comparison.comparison_text(found, rate, paper())
    write(text_of(comparison.comparison_json(found, rate)) if form == "json" else text)


@click.command("why-not", context_settings=HELP)
@click.argument("what", metavar="WHAT")
@question_options
@machine_option
@text_or_json
def why_not(what: str, form: str, **asked: Any) -> None:
    """Explain why WHAT was not recommended.

    WHAT is on, off or k=4.
    """
    found = explain_why_not(question(asked), what)
    text = comparison.why_not_text(found, paper())
    write(text_of(comparison.why_not_json(found)) if form == "json" else text)
