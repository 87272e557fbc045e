from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule, when
from advisor.rules.kit.fixes import json_swap_fix
from advisor.rules.kit.flags import catalogue, catalogued_version, spec_choices, spec_config
from advisor.rules.kit.values import not_a_choice
from advisor.rules.sd1.sd131_json_option import check_type

# "method" is SD111's; the sampling methods changed their words between releases
JUDGED_ELSEWHERE = (
    "method",
    "num_speculative_tokens",
    "rejection_sample_method",
    "draft_sample_method",
)
KEYS = ("attention_backend", "quantization", "kv_cache_dtype", "moe_backend")


@rule(severity="error", engines="vllm", versioned=True)
@when(options="--speculative-config")
def spec_config_value(case: Case) -> Iterator[Hit]:
    """A backend, quantisation or KV type in --speculative-config that the release does not have.

    Why: the configuration class refuses it and the server does not start.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"attention_backend":"FLASHINFR"}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"attention_backend":"FLASHINFER"}'
    Sources: vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run
    """
    read = spec_config(case)
    if read is None or read.data is None:
        return
    for key, value in read.data.items():
        if key not in JUDGED_ELSEWHERE and key not in KEYS:
            row = catalogue(case).json_field("SpeculativeConfig", key, catalogued_version(case))
            yield from check_type(
                case, read.flag, key, row or {}, value, " in --speculative-config"
            )
    low, high = (read.data.get(f"prompt_lookup_{end}") for end in ("min", "max"))
    if isinstance(low, int) and isinstance(high, int) and low > high:
        yield Hit(
            f"prompt_lookup_min {low} is above prompt_lookup_max {high}: the server refuses both",
            flag=read.flag,
            fix=json_swap_fix(case, read.flag, ("prompt_lookup_min", "prompt_lookup_max")),
            everywhere=True,
        )
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
