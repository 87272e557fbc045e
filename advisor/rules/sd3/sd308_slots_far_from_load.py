from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, speculates
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.policy import is_gguf, sources, streams


@rule(
    severity="info",
    needs=("concurrency",),
    sources=sources("memory", "seqs_over_concurrency") + ("seed000",),
)
def slots_far_from_load(case: Case) -> Iterator[Hit]:
    """The number of request slots does not fit the load.

    Why: with fewer slots than concurrent requests the rest queues and TTFT grows; with many times
    more, graphs, state slots (one more per draft token) and, in llama-server, context are reserved
    in vain.
    Bad (concurrency=16): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4
    Good (concurrency=16): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 32
    """
    slots, running = case.plan.max_num_seqs, streams(case)
    if slots is None or running is None:
        return
    place = flag(case, "--max-num-seqs", "--max-running-requests", "--parallel")
    if slots < running:
        yield Hit(
            f"{slots} slot{'s' if slots != 1 else ''} for {running} concurrent requests: "
            f"{running - slots} {'is' if running - slots == 1 else 'are'} always queued",
            flag=place,
            severity="warning",
            fix=set_fix(
                case, place, str(running), f"Set at least {running} slots, as far as memory allows."
            ),
        )
    elif slots > running * number("memory", "seqs_over_concurrency") and (
        speculates(case.plan) or is_gguf(case)
    ):
        yield Hit(
            f"{slots} slots for {running} concurrent request{'s' if running != 1 else ''} reserve "
            "memory that is never used",
            flag=place,
            fix=set_fix(
                case, place, str(max(4, 2 * running)), f"Set about {max(4, 2 * running)} slots."
            ),
        )
