from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.flags import spec_config


@rule(
    severity="error",
    engines=("vllm",),
    speculative=True,
    sources=("vllm 0.19.1 and 0.33.0 vllm/config/vllm.py",),
)
def async_padded_drafter(case: Case) -> Iterator[Hit]:
    """Asynchronous scheduling together with disable_padded_drafter_batch.

    Why: the two exclude each other and the server refuses to start; without the explicit flag it
    falls back by itself.
    Bad: vllm serve Qwen/Qwen3.6-27B --async-scheduling --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"disable_padded_drafter_batch":true}'
    Good: vllm serve Qwen/Qwen3.6-27B --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"disable_padded_drafter_batch":true}'
    """
    read = spec_config(case)
    if (
        read is None
        or read.data is None
        or read.data.get("disable_padded_drafter_batch") is not True
    ):
        return
    if case.plan.async_scheduling is True:
        yield Hit(
            "--async-scheduling and disable_padded_drafter_batch exclude each other",
            flag=flag(case, "--async-scheduling") or read.flag,
            fix=Fix(text="Remove one of them."),
        )
