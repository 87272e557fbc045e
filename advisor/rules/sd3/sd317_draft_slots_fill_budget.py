from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, k_words
from advisor.rules.kit.fixes import set_fix

# input slots that a sequence needs beside its own for k draft tokens, by method
SLOTS = {"dflash": (1, 0), "dspark": (1, -1), "draft_model": (0, 1)}


@rule(
    severity="error",
    engines=("vllm",),
    speculative=True,
    versioned=True,
    sources=(
        "vllm-project/vllm#50708",
        "vllm-project/vllm#56025",
        "vllm vllm/config/speculative.py (max_num_new_slots_for_drafting)",
    ),
)
def draft_slots_fill_budget(case: Case) -> Iterator[Hit]:
    """Slots for drafting that use up the token budget of a step.

    Why: a block drafter takes a slot per draft token and sequence out of --max-num-batched-tokens;
    where nothing is left, vLLM stops with a negative max_num_scheduled_tokens.
    Bad (version=0.26.0): vllm serve Qwen/Qwen3.6-27B --max-num-seqs 256
        --max-num-batched-tokens 2048 --speculative-config
        '{"method":"dflash","model":"z-lab/Qwen3.6-27B-DFlash","num_speculative_tokens":15}'
    Good (version=0.26.0): vllm serve Qwen/Qwen3.6-27B --max-num-seqs 16
        --max-num-batched-tokens 8192 --speculative-config
        '{"method":"dflash","model":"z-lab/Qwen3.6-27B-DFlash","num_speculative_tokens":15}'
    """
    plan, place = case.plan, flag(case, "--max-num-batched-tokens")
    per_token, more = SLOTS.get(plan.method, (0, 0))
    slots = per_token * (plan.k or 0) + more
    budget, sequences = plan.max_num_batched_tokens, plan.max_num_seqs
    if place is None or place.unresolved or budget is None or not sequences or slots <= 0:
        return
    if flag(case, "--max-num-seqs") is None or budget > slots * sequences:
        return
    yield Hit(
        f"{sequences} sequences with {slots} draft slots each ({plan.method}{k_words(plan)}) use "
        f"up the {budget:,} tokens of a step: the server refuses to start",
        flag=place,
        versions="0.26.0 and later",
        fix=set_fix(
            case,
            place,
            str(max(8192, 1 << (2 * slots * sequences).bit_length())),
            f"Raise it well above {slots * sequences:,}, or lower --max-num-seqs or k.",
        ),
    )
