from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, flag, integer
from advisor.rules.kit.fixes import drop_fix, swap_fix

MANY = 1024  # sequences at once: beyond, a number of tokens stands in the wrong place


@rule(
    severity="error",
    engines=("vllm", "llama-server"),
    sources=(
        "vllm vllm/config/scheduler.py (verify_max_model_len)",
        "verl-project/verl#7626",
        "vllm-project/vllm#33109",
        "ggml-org/llama.cpp src/llama-context.cpp (n_ubatch = min(n_batch, n_ubatch))",
    ),
)
def batch_below_context(case: Case) -> Iterator[Hit]:
    """A batch budget smaller than the sequences of a step or, without chunks, than the context.

    Why: each running sequence takes a token of a step, and without chunks a whole prompt has to fit
    into one: vLLM compares the batch budget with --max-num-seqs, and without chunks
    --max-num-batched-tokens with the context length and refuses to start. llama-server cuts its
    physical batch down to the logical one.
    Bad: vllm serve Qwen/Qwen3-32B --max-model-len 32768 --max-num-batched-tokens 8192
        --no-enable-chunked-prefill
    Good: vllm serve Qwen/Qwen3-32B --max-model-len 32768 --max-num-batched-tokens 32768
        --no-enable-chunked-prefill
    """
    if case.plan.engine in GGUF_ENGINES:
        yield from physical_above_logical(case)
        return
    off, place = flag(case, "--enable-chunked-prefill"), flag(case, "--max-num-batched-tokens")
    budget, length = case.plan.max_num_batched_tokens, case.plan.max_model_len
    if place is None or budget is None:
        return
    slots = case.plan.max_num_seqs or 0
    seqs = flag(case, "--max-num-seqs")
    if seqs is not None and budget < slots:
        swapped = slots >= MANY > budget
        yield Hit(
            f"{budget:,} batched tokens are fewer than the {slots:,} sequences that each take one "
            f"a step: the server refuses to start",
            flag=place,
            fix=swap_fix(case, seqs, place, "Exchange the two values, if that is meant.")
            if swapped
            else Fix(text=f"Give --max-num-batched-tokens at least {slots}, or leave it out."),
        )
    chunked = off is None or (off.value or "").lower() != "false"
    if chunked or length is None or budget >= length:
        return
    yield Hit(
        f"{budget:,} batched tokens are fewer than the {length:,} of the context, and chunked "
        f"prefill is off: the server refuses to start",
        flag=off,
        fix=drop_fix(
            case, off, "Leave chunked prefill on, or raise --max-num-batched-tokens to the context."
        ),
    )


def physical_above_logical(case: Case) -> Iterator[Hit]:
    """--ubatch-size above --batch-size: cut down in silence."""
    batch, part = flag(case, "--batch-size"), flag(case, "--ubatch-size")
    if batch is None or part is None or batch.unresolved or part.unresolved:
        return
    whole, wanted = integer(batch.value), integer(part.value)
    if whole is None or wanted is None or not 0 < whole < wanted:
        return
    yield Hit(
        f"--ubatch-size {wanted:,} is cut down to the {whole:,} of --batch-size",
        flag=part,
        severity="warning",
        fix=swap_fix(case, batch, part, "Exchange the two values, or raise --batch-size."),
    )
