from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag
from advisor.rules import Hit, rule
from advisor.rules.kit.fixes import json_fix, set_fix
from advisor.rules.kit.flags import spec_choices
from advisor.rules.sd1.sd111_spec_method_unknown import method_flag


@rule(
    severity="info",
    engines=("vllm",),
    sources=("vllm 0.33.0 vllm/config/speculative.py", "vllm-project/vllm-ascend#8623"),
)
def method_alias(case: Case) -> Iterator[Hit]:
    """An old name of the method `mtp`.

    Why: every *_mtp name is rewritten to `mtp` with a deprecation warning; a later release may
    refuse it.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-config '{"method":"qwen3_next_mtp","num_speculative_tokens":2}'
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    """
    place, method = method_flag(case)
    if method is not None and method.endswith("_mtp") and method in spec_choices(case, "method"):
        yield Hit(
            f"'{method}' is an old name of 'mtp': accepted, with a deprecation warning",
            flag=place,
            fix=alias_fix(case, place),
        )


def alias_fix(case: Case, place: Flag | None) -> Fix:
    """Safe: every release that takes the old name rewrites it to the new one itself."""
    what = 'Write "method":"mtp".'
    safe = (
        "mtp" in spec_choices(case, "method")
        and not case.launch.emitted
        and case.launch.fork is None
    )
    if place is not None and place.name == "--spec-method":
        return set_fix(case, place, "mtp", what, safe=safe)
    return json_fix(case, place, "method", '"mtp"', what, safe=safe)
