from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.policy import sources


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    speculative=True,
    sources=sources("memory", "discrete_memory_fraction_max")
    + ("vllm-project/vllm#44209", "seed002"),
    versioned=True,
)
def memory_share_too_high(case: Case) -> Iterator[Hit]:
    """Nearly all memory is given to the engine while it speculates.

    Why: the profile run does not see every buffer of the verify step, larger graphs and the GDN
    prefill peak; the server starts healthy and runs out of memory under load.
    Bad: vllm serve Qwen/Qwen3.6-27B-AWQ --gpu-memory-utilization 0.98 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good: vllm serve Qwen/Qwen3.6-27B-AWQ --gpu-memory-utilization 0.92 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    """
    share, limit = case.plan.memory_fraction, number("memory", "discrete_memory_fraction_max")
    if (
        share is None
        or not limit < share <= 1
        or (case.facts.hardware is not None and case.facts.hardware.unified_memory)
    ):
        return
    place = flag(case, "--gpu-memory-utilization", "--mem-fraction-static")
    yield Hit(
        f"a memory share of {share:g} leaves no room for buffers of speculation that the profile "
        "run does not include",
        flag=place,
        fix=set_fix(case, place, "0.92", "Set it to 0.90 to 0.94."),
        conflicts=("a published server with two RTX 3090 runs at 0.98",),
    )
