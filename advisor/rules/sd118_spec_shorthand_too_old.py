from collections.abc import Iterator

from advisor.rules import Hit, rule
from advisor.rules.asking import between, flag, flags, release, version_label
from advisor.types import Case, Fix

NAMES = ("--spec-method", "--spec-model", "--spec-tokens")


@rule(
    severity="error",
    engines=("vllm",),
    needs=("launch",),
    versioned=True,
    sources=("vllm 0.22.1 parser (first with the shorthand)",),
)
def spec_shorthand_too_old(case: Case) -> Iterator[Hit]:
    """--spec-method, --spec-model or --spec-tokens with a vLLM before 0.22.1.

    Why: the shorthand is unknown there and the server refuses to start; --speculative-config works in every release.
    Bad (version=0.21.0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --spec-method mtp --spec-tokens 2
    Good (version=0.22.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --spec-method mtp --spec-tokens 2
    """
    if between(release(case), "0.22.0", None) is not False:
        return
    for found in flags(case):
        if found.name in NAMES:
            k = flag(case, "--spec-tokens")
            tokens = k.value if k is not None and k.value and not k.unresolved else "2"
            yield Hit(
                f"vLLM {version_label(case)} has no {found.raw}: the shorthand came with 0.22.1",
                flag=found,
                fix=Fix(text=f"""Use --speculative-config '{{"method":"mtp","num_speculative_tokens":{tokens}}}'."""),
            )
