from collections.abc import Iterator

from advisor.rules import Hit, rule
from advisor.rules.asking import env_line, parse_release, release, table
from advisor.types import Case, Fix

DEAD = table("compatibility")["dead_env"]


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    needs=("launch",),
    versioned=True,
    sources=("vllm 0.19.1 vllm/envs.py", "sglang 0.5.14 to 0.5.23 environ.py"),
)
def dead_env(case: Case) -> Iterator[Hit]:
    """An environment variable that the release no longer reads.

    Why: the setting has no effect, and nothing says so; a benchmark then compares two equal servers.
    Bad (version=0.25.1):
        export VLLM_ATTENTION_BACKEND=FLASH_ATTN
        vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --attention-backend FLASH_ATTN
    """
    if case.launch is None:
        return
    at = release(case)
    for name, row in DEAD[case.plan.engine].items():
        since = parse_release(row["since"])
        if case.launch.env_value(name) is None or (at is not None and since is not None and at < since):
            continue
        yield Hit(
            f"{name} has no effect from {case.plan.engine} {row['since']} on; use {row['use']}",
            flag=name,
            line=env_line(case.launch, name),
            fix=Fix(text=f"Remove {name}; use {row['use']}."),
            severity="info" if case.plan.engine == "sglang" else None,  # it changes nothing, as nothing is lost
            sources=tuple(row["sources"]),
            versions=f"{row['since']} and later",
        )
