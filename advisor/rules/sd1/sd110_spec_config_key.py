from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.domain.patterns import is_only_near
from advisor.rules import Hit, rule
from advisor.rules.kit.fixes import json_rename_fix
from advisor.rules.kit.flags import catalogue, catalogued_version, spec_config, spec_keys
from advisor.rules.kit.values import nearest, slip

# A key of another release or another world, and what stands in its place.
INSTEAD = {
    "disable_by_batch_size": "num_speculative_tokens_per_batch_size",
    "synthetic_acceptance_rate": "synthetic_acceptance_length",
    "speculative_model": "model",
    "draft_model": "model",
    "draft_model_path": "model",
    "draft": "model",
    "drafter": "model",
    "k": "num_speculative_tokens",
    "num_draft_tokens": "num_speculative_tokens",
    "num_spec_tokens": "num_speculative_tokens",
    "draft_tokens": "num_speculative_tokens",
    "draft_tp": "draft_tensor_parallel_size",
    "tensor_parallel_size": "draft_tensor_parallel_size",
    "spec_method": "method",
    "num_tokens": "num_speculative_tokens",
    "algorithm": "method",
    "type": "method",
}

OTHER_KIND = ("disable_by_batch_size",)  # the successor takes another kind of value


@rule(
    severity="error",
    engines=("vllm",),
    versioned=True,
    sources=("vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run",),
)
def spec_config_key(case: Case) -> Iterator[Hit]:
    """A key in --speculative-config that this release does not know.

    Why: unknown keys are refused by every catalogued release, so the server does not start.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2,"disable_by_batch_size":8}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-config
        '{"method":"mtp","num_speculative_tokens_per_batch_size":[[1,8,2],[9,64,0]],
        "num_speculative_tokens":2}'
    """
    read = spec_config(case)
    keys = spec_keys(case) if read is not None and read.data is not None else ()
    given = read.data if read is not None and read.data is not None else {}
    for key in given:
        if key in keys:
            continue
        near = INSTEAD.get(key)
        if near not in keys:
            near = nearest(key, keys)
        ever = catalogue(case).json_field("SpeculativeConfig", key, None)
        span = ever.get("span") if ever else None
        gone = f" (only {' to '.join(dict.fromkeys(span))} had it)" if span else ""
        yield Hit(
            f"--speculative-config does not take '{key}'{gone}"
            + (f"; the nearest key is '{near}'" if near else ""),
            flag=read.flag if read else None,
            fix=json_rename_fix(case, read.flag if read else None, key, near, f"Use '{near}'.")
            if near and near not in given and key not in OTHER_KIND
            else Fix(text=f"Use '{near}'." if near else f"Remove '{key}'."),
            everywhere=ever is None,
            slip=ever is None and slip(key, near),
            sole=ever is None and is_only_near(key, near, keys),
            versions="the catalogued releases 0.19.1 to " + catalogue(case).newest
            if catalogued_version(case) is None
            else "",
        )
