from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.fixes import json_fix
from advisor.rules.kit.flags import catalogue, spec_choices, spec_config
from advisor.rules.kit.releases import version_label

KEYS = ("rejection_sample_method", "draft_sample_method")


@rule(
    severity="error",
    engines=("vllm",),
    versioned=True,
    sources=("vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run",),
)
def rejection_method_by_version(case: Case) -> Iterator[Hit]:
    """A sampling method in --speculative-config that the release does not take.

    Why: `strict` and `probabilistic` became `standard` in 0.21.0; the old words stop the server.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"rejection_sample_method":"strict"}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"rejection_sample_method":"standard"}'
    """
    read = spec_config(case)
    if read is None or read.data is None:
        return
    for key in KEYS:
        given, choices = read.data.get(key), spec_choices(case, key)
        if isinstance(given, str) and choices and given not in choices:
            yield Hit(
                f"'{key}' does not take '{given}' in vLLM {version_label(case)}; it takes "
                f"{', '.join(choices)}",
                flag=read.flag,
                fix=json_fix(case, read.flag, key, f'"{choices[0]}"', f"Use '{choices[0]}'."),
                versions=f"0.21.0 to {catalogue(case).newest}",
            )
