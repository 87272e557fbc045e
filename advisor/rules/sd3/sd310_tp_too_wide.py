from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.policy import model_name, sources


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    needs=("model",),
    sources=sources("memory", "wasteful_tp"),
)
def tp_too_wide(case: Case) -> Iterator[Hit]:
    """Tensor parallelism over eight devices for a model with few active parameters.

    Why: a 3B-active model with 2 KV heads reads so little per device and step that the all-reduce
    dominates, and the KV cache is copied instead of split. Launch recipes print TP 8 because they
    were written for whole nodes.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B --tensor-parallel-size 8 --max-num-seqs 32
    Good: vllm serve Qwen/Qwen3.6-35B-A3B --tensor-parallel-size 2 --max-num-seqs 32
    """
    model = case.facts.model
    shape = case.facts.shape or model
    active = (model.active_params_b if model else None) or (
        shape.active_params_b if shape else None
    )
    small = active is not None and active <= number("memory", "small_active_params_b")
    if case.plan.tp < number("memory", "wasteful_tp") or not small or not (model and model.is_moe):
        return
    heads = shape.kv_heads if shape else None
    copies = (
        f", and its {heads} KV heads are copied {case.plan.tp // heads} times"
        if heads and heads < case.plan.tp
        else ""
    )
    yield Hit(
        f"TP {case.plan.tp} for {model_name(case)}: with {active:.1f} B active parameters the "
        f"all-reduce outweighs the "
        f"shared work{copies}",
        flag=flag(case, "--tensor-parallel-size", "--tp-size"),
        fix=Fix(text="Use TP 1 or 2 (4 for long contexts), and replicas for throughput."),
    )
