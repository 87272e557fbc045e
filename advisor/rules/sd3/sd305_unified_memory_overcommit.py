from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, spec_flag
from advisor.rules.kit.fixes import add_fix, set_fix
from advisor.rules.kit.policy import hardware_name, sources


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    needs=("hardware",),
    sources=sources("memory", "unified_memory_fraction_max", "vllm_default_memory_fraction"),
)
def unified_memory_overcommit(case: Case) -> Iterator[Hit]:
    """A memory share above 0.80 on a machine whose CPU and GPU share one memory.

    Why: what the GPU allocates there cannot be swapped; the system runs dry and freezes hard, up to
    a power cycle. vLLM's default share (0.90, from 0.20.2 on 0.92) is already too much.
    Bad (hw=gb10): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --gpu-memory-utilization 0.92 --max-num-seqs
        16
    Good (hw=gb10): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --gpu-memory-utilization 0.75 --max-num-seqs
        16
    """
    hw, limit = case.facts.hardware, number("memory", "unified_memory_fraction_max")
    if hw is None or not hw.unified_memory:
        return
    share, place = (
        case.plan.memory_fraction,
        flag(case, "--gpu-memory-utilization", "--mem-fraction-static"),
    )
    unset = share is None and place is None  # a variable sets it, too
    if unset and case.plan.engine == "vllm" and not flag(case, "--kv-cache-memory-bytes"):
        yield Hit(
            f"no memory share is set, and vLLM's default of "
            f"{number('memory', 'vllm_default_memory_fraction'):g} or more is "
            f"too much for the unified memory of {hardware_name(case)}",
            fix=add_fix(
                case,
                flag(case, "--max-model-len") or spec_flag(case),
                "--gpu-memory-utilization",
                f"{limit:g}",
                f"Set --gpu-memory-utilization to {limit:g} or less.",
            ),
        )
    elif share is not None and share > limit:
        yield Hit(
            f"a memory share of {share:g} leaves too little for the system on the unified memory "
            f"of {hardware_name(case)}: "
            f"above {limit:g} such machines froze",
            flag=place,
            fix=set_fix(case, place, f"{limit:g}", f"Set it to {limit:g} or less."),
        )
