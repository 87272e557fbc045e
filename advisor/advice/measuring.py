"""How to measure an answer: the commands of the A/B, for every answer that knows a way to draft."""

from __future__ import annotations

import shlex

from advisor import engines
from advisor.domain.nouns import Facts, Plan, Request

_NAMES = {"hardware": "hw", "ctx_tokens": "ctx"}  # fields whose option is called otherwise
FOLDER = "ab"


def commands(request: Request, facts: Facts, plan: Plan) -> tuple[str, ...]:
    """Plan the A/B and run it; last, the engine's own benchmark for a server that is already up.

    Parameters
    ----------
    request : Request
        The question, which the plan repeats.
    facts : Facts
        What is known for it: the load of the benchmark.
    plan : Plan
        What runs without speculation.
    """
    return (
        " ".join(("advisor bench plan", *options(request), "--out", FOLDER)),
        f"advisor bench run {FOLDER}",
        engines.get(plan.engine).benchmark_command(plan, facts),
    )


def options(request: Request) -> list[str]:
    """What differs from the defaults, as the command line's options."""
    words = ["--hw", shlex.quote(request.hardware)]
    for name, default in _defaults().items():
        value = getattr(request, name)
        if name == "hardware" or value is None or value == default:
            continue
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{name}")
            continue
        text = ",".join(f"{part:g}" for part in value) if isinstance(value, tuple) else f"{value}"
        words += [f"--{_NAMES.get(name, name).replace('_', '-')}", shlex.quote(text)]
    return words


def _defaults() -> dict[str, object]:
    plain = Request(hardware="any")
    return {name: getattr(plain, name) for name in type(plain).model_fields}
