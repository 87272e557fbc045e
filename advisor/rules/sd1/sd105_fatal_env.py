from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.domain.versions import parse_release
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import env_line
from advisor.rules.kit.fixes import is_release_pinned, rename_env_fix
from advisor.rules.kit.releases import release

FATAL = table("compatibility")["fatal_env"]["llama-server"]


@rule(
    severity="error",
    engines=("llama-server",),
    versioned=True,
    sources=tuple(FATAL["sources"]),
)
def fatal_env(case: Case) -> Iterator[Hit]:
    """An environment variable that stops the server because its option was removed.

    Why: llama-server reads LLAMA_ARG_* as if they were flags and exits on a removed one, though no
    flag shows it.
    Bad (version=0.5.0): LLAMA_ARG_DRAFT_MAX=8 llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf
    Good (version=0.5.0): LLAMA_ARG_SPEC_DRAFT_N_MAX=8 llama-server -m
        /models/Qwen3.6-27B-MTP-Q4_K_M.gguf
    """
    if case.launch.emitted:
        return
    names = {var.name for var in case.launch.env} | {
        flag.raw for flag in case.launch.flags if flag.origin == "env"
    }
    lines = {flag.raw: flag.line for flag in case.launch.flags}
    at = release(case)
    for name in sorted(names & (FATAL.keys() - {"sources"})):
        since = parse_release(FATAL[name]["since"])
        if at is not None and since is not None and at < since:
            continue
        yield Hit(
            f"{name} stops llama-server: the option that it sets was removed; set "
            f"{FATAL[name]['use']}",
            flag=name,
            line=lines.get(name) or env_line(case.launch, name),
            fix=rename_env_fix(
                case,
                name,
                FATAL[name]["use"],
                f"Rename {name} to {FATAL[name]['use']}.",
                safe=is_release_pinned(case),
            ),
            versions=f"{FATAL[name]['since']} and later",
        )
