from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.releases import between, release

KEY = "num_speculative_tokens_per_batch_size"
SINCE = table("compatibility")["spec_config_since"]


@rule(
    severity="error",
    engines=("vllm",),
    speculative=True,
    versioned=True,
    sources=(*SINCE["sources"], "vllm 0.33.0 vllm/config/vllm.py"),
)
def k_schedule_unsupported(case: Case) -> Iterator[Hit]:
    """A schedule of draft tokens by batch size where the release or the layout does not take one.

    Why: before 0.24.0 the key is refused and the server does not start; with data parallelism the
    schedule is switched off and k stays fixed.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --data-parallel-size 2
        --speculative-config '{"method":"mtp","num_speculative_tokens":2,
        "num_speculative_tokens_per_batch_size":[[1,8,2],[9,64,0]]}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2,
        "num_speculative_tokens_per_batch_size":[[1,8,2],[9,64,0]]}'
    """
    if not case.plan.k_schedule or between(release(case), SINCE[KEY], None) is False:
        return  # of the key that a release does not know SD110 speaks
    place = flag(case, "--speculative-config")
    if case.plan.dp > 1:
        yield Hit(
            f"the k schedule is switched off with data parallelism (size {case.plan.dp}); k stays "
            f"{case.plan.k}",
            flag=place,
            severity="warning",
            fix=Fix(text="Run one server per GPU behind a router, or give up the schedule."),
        )
