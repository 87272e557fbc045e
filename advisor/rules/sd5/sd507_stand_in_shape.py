from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.policy import for_advice, model_name, sources


@rule(
    severity="info",
    speculative=True,
    needs=("model", "shape", "hardware"),
    sources=sources("claims", "proxy_shape"),
)
def stand_in_shape(case: Case) -> Iterator[Hit]:
    """The model's own shape is unknown; another model's is used.

    Why: layer, expert and head sizes enter each cost of the step and the memory bill.
    Bad (goal=balanced, hw=rtx5090, concurrency=1): vllm serve Qwen/Qwen3.8-27B-FP8 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=rtx5090, concurrency=1): vllm serve Qwen/Qwen3.6-27B-FP8 --max-num-seqs
    4
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    if not for_advice(case):
        return
    model, shape = case.facts.model, case.facts.shape
    if model is None or shape is None or model.proxy is None or shape.id == model.id:
        return
    yield Hit(
        f"the shape of {model_name(case)} is unknown; costs and memory are those of "
        f"{shape.name or shape.id}",
        sources=(model.source,) if model.source else (),
    )
