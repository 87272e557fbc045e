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
    """No clean measured pair covers this cell, though the hardware was measured.

    Why: the estimate then rests on neighbours and on the cost model; a pair of runs on the machine
    itself outweighs both.
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
        f"no clean pair covers {model_name(case)} at {asked} streams on {hardware_name(case)}; "
        f"the nearest one there "
        f"is {near.model} {near.quant} on {near.engine} at {near.concurrency or 1:g} streams: "
        f"measure first where it matters",
        sources=(near.source,),
    )
