from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid, open_value, spec_flag
from advisor.rules.kit.fixes import add_fix, set_fix
from advisor.rules.kit.policy import bill, sources


@rule(
    severity="warning",
    engines=("vllm",),
    needs=("model",),
    sources=sources("memory", "mamba_blocks_context_tokens", "vllm_default_slots")
    + ("vllm-project/recipes#551",),
)
def mamba_blocks_below_slots(case: Case) -> Iterator[Hit]:
    """More sequences than a hybrid model's state cache has blocks for, or the large default at a
    long context.

    Why: every decoding sequence needs one state block, and one more per draft token. If the
    profiled cache holds fewer blocks than --max-num-seqs (default 256 to 1024), graph capture
    aborts and the server restarts for ever.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-model-len 131072
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-model-len 131072 --max-num-seqs 32
    """
    if not is_hybrid(case):
        return
    slots, blocks = case.plan.max_num_seqs, _blocks(case)
    default = default_slots(case)
    if (
        slots is None
        and flag(case, "--max-num-seqs") is None
        and (blocks is not None or _long(case))
    ):
        # larger batches run without graphs where the default is larger, and were seen to start
        if blocks is not None and blocks >= number("memory", "vllm_default_slots"):
            return
        left = (
            f"the memory holds states for about {blocks}"
            if blocks is not None
            else "at a long context it can have fewer"
        )
        yield Hit(
            f"--max-num-seqs is left to its default "
            f"({default}{'' if case.facts.hardware else ' or more'}): a hybrid model needs "
            f"a "
            f"state block per sequence, and "
            f"{left}; graph capture then aborts",
            flag=flag(case, "--max-model-len"),
            # without the device it is a possibility, and most launches leave the option out
            severity=None if blocks is not None else "info",
            fix=add_fix(
                case,
                flag(case, "--max-model-len") or spec_flag(case),
                "--max-num-seqs",
                str(case.facts.concurrency or 32),
                "Set --max-num-seqs to the concurrency that you serve, for example 32.",
            ),
        )
    elif slots is not None and blocks is not None and blocks < slots:
        yield Hit(
            f"--max-num-seqs {slots} exceeds the {blocks} or so sequences that the memory holds "
            f"states for "
            f"({1 + case.plan.k} state block{'s' if case.plan.k else ''} each)",
            flag=flag(case, "--max-num-seqs"),
            fix=set_fix(
                case,
                flag(case, "--max-num-seqs"),
                str(fewer(blocks)),
                f"Set --max-num-seqs to {fewer(blocks)} or less, lower --max-model-len, "
                f"or give more memory.",
            ),
        )


def _long(case: Case) -> bool:
    """Whether the context is long: as told, or the model's own where nothing is; a variable could
    be anything.
    """
    length = case.plan.max_model_len
    if length is None:
        return not open_value(case, "--max-model-len")
    return length >= number("memory", "mamba_blocks_context_tokens")


def _blocks(case: Case) -> int | None:
    """Sequences whose states fit all the memory that is left for KV and state; None where it is not
    known.
    """
    shape, found = case.facts.shape, bill(case)
    if shape is None or found is None or not shape.state_mb_per_seq or not found.kv_gib:
        return None
    room_mb = found.kv_gib * 1073.741824 * case.plan.tp  # states live in the same pool of pages
    return int(max(0.0, room_mb) / (shape.state_mb_per_seq * (1 + case.plan.k)))


def default_slots(case: Case) -> int:
    """What vLLM takes where nothing is said: more on devices with much memory."""
    hw = case.facts.hardware
    memory = hw.memory_gb.value if hw is not None and hw.memory_gb is not None else 0.0
    large = memory >= number("memory", "vllm_large_device_gb")
    return int(number("memory", "vllm_default_slots_large" if large else "vllm_default_slots"))


def fewer(blocks: int) -> int:
    """A round number of sequences below those that the memory holds states for."""
    return blocks // 8 * 8 if blocks >= 8 else max(1, blocks)
