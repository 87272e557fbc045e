from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.fixes import json_add_fix
from advisor.rules.kit.flags import spec_config, spec_keys
from advisor.rules.kit.values import nearest

K = "num_speculative_tokens"
OWN_DEFAULT = ("ngram", "suffix")  # suffix decoding and n-gram have their own length
# drafters of their own, whose configuration holds no n_predict
NEED_K = ("eagle", "eagle3", "draft_model", "dflash")


@rule(
    severity="info",
    engines=("vllm",),
    sources=(
        "vllm 0.33.0 vllm/config/speculative.py (_verify_args)",
        "vllm-project/vllm#44566",
    ),
)
def spec_config_without_k(case: Case) -> Iterator[Hit]:
    """--speculative-config without num_speculative_tokens.

    Why: k then comes from the checkpoint (its number of MTP layers) or the server refuses to start;
    nobody sees which k runs.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config '{"method":"mtp"}'
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    """
    read = spec_config(case)
    if read is None or read.data is None or K in read.data:
        return
    if read.data.get("method") in OWN_DEFAULT or not read.data:
        return
    keys = spec_keys(case)
    if any(key not in keys and nearest(key, keys) == K for key in read.data):
        return  # misspelt: SD110 says so
    needed = read.data.get("method") in NEED_K and bool(read.data.get("model"))
    yield Hit(
        "no num_speculative_tokens: the server refuses a drafter without it"
        if needed
        else "no num_speculative_tokens: k is left to the checkpoint's number of MTP layers",
        flag=read.flag,
        severity="error" if needed else None,
        fix=json_add_fix(
            case,
            read.flag,
            K,
            "3" if needed else "2",
            'Add "num_speculative_tokens":3.'
            if needed
            else 'Add "num_speculative_tokens":2 (1 to 3 for one MTP layer).',
        ),
    )
