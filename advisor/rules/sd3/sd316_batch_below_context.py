from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import drop_fix


@rule(
    severity="error",
    engines=("vllm",),
    sources=(
        "vllm vllm/config/scheduler.py (verify_max_model_len)",
        "verl-project/verl#7626",
        "vllm-project/vllm#33109",
    ),
)
def batch_below_context(case: Case) -> Iterator[Hit]:
    """Chunked prefill switched off with a batch budget smaller than the context.

    Why: without chunks a whole prompt has to fit into one step: vLLM compares
    --max-num-batched-tokens with the context length and refuses to start.
    Bad: vllm serve Qwen/Qwen3-32B --max-model-len 32768 --max-num-batched-tokens 8192
        --no-enable-chunked-prefill
    Good: vllm serve Qwen/Qwen3-32B --max-model-len 32768 --max-num-batched-tokens 32768
        --no-enable-chunked-prefill
    """
    off = flag(case, "--enable-chunked-prefill")
    budget, length = case.plan.max_num_batched_tokens, case.plan.max_model_len
    if off is None or (off.value or "").lower() != "false" or budget is None or length is None:
        return
    if flag(case, "--max-num-batched-tokens") is None or budget >= length:
        return
    yield Hit(
        f"{budget:,} batched tokens are fewer than the {length:,} of the context, and chunked "
        f"prefill is off: the server refuses to start",
        flag=off,
        fix=drop_fix(
            case, off, "Leave chunked prefill on, or raise --max-num-batched-tokens to the context."
        ),
    )
