from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.policy import for_advice, hardware_name, model_name, sources


@rule(
    severity="info",
    speculative=True,
    needs=("hardware", "model", "concurrency"),
    sources=sources("claims", "no_pair"),
)
def no_measured_pair(case: Case) -> Iterator[Hit]:
    """No published A/B benchmark matches this configuration, though the hardware was measured.

    Why: the estimate then rests on similar configurations and on the cost model; an A/B benchmark
    on the machine itself outweighs both.
    Bad (goal=balanced, hw=gb10, concurrency=200, ctx=512): vllm serve Qwen/Qwen3.6-27B-FP8
    --max-num-seqs 256
        --gpu-memory-utilization 0.75
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=gb10, concurrency=200, ctx=512): vllm serve Qwen/Qwen3.6-27B-FP8
    --max-num-seqs 256
        --gpu-memory-utilization 0.75
    """
    if not for_advice(case):
        return
    facts = case.facts
    hw = facts.hardware
    if hw is None or any(e.covers for e in facts.evidence):
        return
    here = [e for e in facts.evidence if e.hardware == hw.id]
    if not here:
        return  # sd506 says it
    near, asked = here[0], facts.concurrency or 1
    same = near.model == (facts.model.id if facts.model else "") and near.engine == case.plan.engine
    if same and 0.5 <= (near.concurrency or 1) / asked <= 2:
        return  # only the length of its prompts is not published
    yield Hit(
        f"no published A/B benchmark of {model_name(case)} at concurrency {asked} on "
        f"{hardware_name(case)}; the nearest is {near.model} {near.quant} on {near.engine} at "
        f"concurrency {near.concurrency or 1:g}: benchmark first if the difference matters",
        sources=(near.source,),
    )
