from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_switch
from advisor.rules.kit.policy import sources


@rule(
    severity="info",
    engines=("llama-server", "ik_llama.cpp"),
    sources=(
        "llama-server 0.5.0 --help: --ctx-size, --parallel",
        *sources("memory", "slot_ctx_tokens_min"),
    ),
)
def slots_share_context(case: Case) -> Iterator[Hit]:
    """llama-server's -c is the total over all slots, and little is left for each.

    Why: -c 16384 with -np 4 gives every request 4096 tokens, unless the slots share one pool
    (--kv-unified).
    Bad: llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 16384 --parallel 4
    Good: llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 131072 --parallel 4
    """
    slots, length = case.plan.max_num_seqs or 1, case.plan.max_model_len
    explicit = flag(case, "--parallel")
    if explicit is None or slots < 2 or not length or has_switch(case, "--kv-unified"):
        return
    if length < number("memory", "slot_ctx_tokens_min"):
        yield Hit(
            f"{slots} slots share -c {length * slots:,}: each request gets {length:,} tokens",
            flag=flag(case, "--ctx-size") or explicit,
            severity="warning" if length <= number("memory", "slot_ctx_tokens_least") else None,
            fix=Fix(text="Multiply -c by the number of slots, or use fewer slots."),
        )
