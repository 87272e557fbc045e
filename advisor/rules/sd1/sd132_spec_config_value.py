from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.flags import catalogue, spec_choices, spec_config
from advisor.rules.kit.values import not_a_choice

# "method" is SD111's, the sampling methods are SD122's
KEYS = ("attention_backend", "quantization", "kv_cache_dtype", "moe_backend")


@rule(
    severity="error",
    engines=("vllm",),
    versioned=True,
    sources=("vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run",),
)
def spec_config_value(case: Case) -> Iterator[Hit]:
    """A backend, quantisation or KV type in --speculative-config that the release does not have.

    Why: the configuration class refuses it and the server does not start.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8
        --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"attention_backend":"FLASHINFR"}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8
        --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"attention_backend":"FLASHINFER"}'
    """
    read = spec_config(case)
    if read is None or read.data is None:
        return
    for key in KEYS:
        given, choices = read.data.get(key), spec_choices(case, key)
        if not isinstance(given, str) or not choices:
            continue
        if given.lower() in {choice.lower() for choice in choices}:
            continue
        yield not_a_choice(
            case,
            read.flag,
            key,
            given,
            choices,
            where=" in --speculative-config",
            versions=f"the newest catalogued release ({catalogue(case).newest})",
            everywhere=given.lower() not in ever(case, key),
        )


def ever(case: Case, key: str) -> frozenset[str]:
    """What any catalogued release takes, in lower case."""
    known = catalogue(case)
    rows = [known.json_field("SpeculativeConfig", key, version) for version in known.versions]
    return frozenset(
        str(choice).lower() for row in rows if row for choice in row.get("choices") or ()
    )
