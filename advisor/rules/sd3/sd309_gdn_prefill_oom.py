from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid
from advisor.rules.kit.policy import hardware_name, sources, unknown_sizes


@rule(
    severity="warning",
    engines=("vllm",),
    needs=("hardware", "model"),
    sources=sources("memory", "gdn_prefill_gpu_memory_gb") + ("noonghunna/club-3090 CLIFFS",),
)
def gdn_prefill_oom(case: Case) -> Iterator[Hit]:
    """Long prompts of a hybrid (GDN) model on one small card under vLLM.

    Why: the chunked GDN prefill keeps about 500 MiB of live tensors on one card; with the memory
    share nearly full a request of some 50,000 tokens fails on a 38 to 50 MiB allocation after a
    healthy start.
    Bad (hw=rtx3090): vllm serve Qwen/Qwen3.6-27B-AWQ --max-model-len 131072 --max-num-seqs 2
    Good (hw=rtx3090): vllm serve Qwen/Qwen3.6-27B-AWQ --max-model-len 32768 --max-num-seqs 2
    """
    hw = case.facts.hardware
    memory = hw.memory_gb if hw else None
    if (
        not is_hybrid(case)
        or memory is None
        or memory.value > number("memory", "gdn_prefill_gpu_memory_gb")
    ):
        return
    longest = max(case.facts.ctx_tokens or 0, case.plan.max_model_len or 0)
    if (
        case.plan.tp * case.plan.pp > 1
        or unknown_sizes(case)
        or longest < number("memory", "gdn_prefill_ctx_tokens")
    ):
        return
    yield Hit(
        f"prompts of up to {longest:,} tokens on one {hardware_name(case)} ({memory.value:g} GB): "
        f"the GDN prefill of vLLM ran "
        f"out of memory there beyond about "
        f"{number('memory', 'gdn_prefill_ctx_tokens'):,.0f} tokens",
        flag=flag(case, "--max-model-len"),
        fix=Fix(
            text="Use --max-num-batched-tokens 2048, TP 2, a shorter context, or llama-server."
        ),
    )
