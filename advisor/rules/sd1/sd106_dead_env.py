import re
from collections.abc import Iterator
from typing import Any

from advisor.domain.nouns import Case, Fix
from advisor.domain.versions import parse_release
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import env_line
from advisor.rules.kit.fixes import add_fix, drop_env_fix, env_var, is_release_pinned
from advisor.rules.kit.releases import release

DEAD = table("compatibility")["dead_env"]


@rule(severity="warning", engines="vllm sglang", versioned=True)
def dead_env(case: Case) -> Iterator[Hit]:
    """An environment variable that the release no longer reads.

    Why: the setting is silently ignored; a benchmark then compares two equal servers.
    Bad (version=0.25.1):
        export VLLM_ATTENTION_BACKEND=FLASH_ATTN
        vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --attention-backend FLASH_ATTN
    Sources: vllm 0.19.1 vllm/envs.py; sglang 0.5.14 to 0.5.23 environ.py
    """
    if case.launch.emitted:
        return
    at = release(case)
    for name, row in DEAD[case.plan.engine].items():
        since = parse_release(row["since"])
        if case.launch.env_value(name) is None or (
            at is not None and since is not None and at < since
        ):
            continue
        yield Hit(
            f"{name} has no effect from {case.plan.engine} {row['since']} on; {instead(row)}",
            flag=name,
            line=env_line(case.launch, name),
            fix=dead_fix(case, name, row),
            severity="info"
            if case.plan.engine == "sglang"
            else None,  # it changes nothing, as nothing is lost
            sources=tuple(row["sources"]),
            versions=f"{row['since']} and later",
        )


def instead(row: dict[str, Any]) -> str:
    """What takes its place, or why nothing does."""
    return f"use {row['use']}" if "flag" in row else str(row["use"]).removeprefix("nothing: ")


def dead_fix(case: Case, name: str, row: dict[str, Any]) -> Fix:
    """Safe where nothing takes its place: a flag has an effect that it has not."""
    use = row.get("flag")
    if release(case) is None:
        return Fix(text=f"Remove {name}; {instead(row)}.")
    if use is None:
        return drop_env_fix(case, name, f"Remove {name}.", safe=is_release_pinned(case))
    var = env_var(case, name)
    value = var.value if var is not None and not var.unresolved else None
    what = f"Remove {name}; write {use} {value or '...'}."
    present = not case.launch.emitted and case.launch.flag(use) is not None
    if present:
        return drop_env_fix(
            case, name, f"Remove {name}: {use} is set.", safe=is_release_pinned(case)
        )
    given = case.launch.flags
    beside = next(
        (
            one
            for one in given
            if one.span and one.raw and one.origin == "cli" and not one.unresolved
        ),
        None,
    )
    if value is None or not re.fullmatch(r"[\w.-]+", value):
        return Fix(text=what)
    return drop_env_fix(
        case, name, what, safe=False, instead=add_fix(case, beside, use, value, what)
    )
