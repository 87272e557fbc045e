from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_switch
from advisor.rules.kit.policy import is_gguf


@rule(
    severity="warning",
    needs=("ctx_tokens",),
    sources=("llama-server 0.5.0 --help: --ctx-size, --parallel", "vllm and sglang request checks"),
)
def request_exceeds_context(case: Case) -> Iterator[Hit]:
    """Requests of this size are longer than the configured length per request.

    Why: vLLM and SGLang refuse such requests; llama-server divides -c by its slots, so that four
    slots of -c 16384 hold 4096 tokens each, and refuses or truncates.
    Bad (ctx=8192): llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 16384 --parallel 4
    Good (ctx=8192): llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 65536 --parallel 4
    """
    length, ctx = case.plan.max_model_len, case.facts.ctx_tokens
    if not length or ctx is None or has_switch(case, "--embedding", "--rerank"):
        return
    need = ctx + (case.facts.output_tokens or 0)
    if need <= length:
        return
    slots = case.plan.max_num_seqs or 1
    shared = f" (-c is shared by {slots} slots)" if is_gguf(case) and slots > 1 else ""
    yield Hit(
        f"requests of {ctx:,} + {case.facts.output_tokens or 0:,} tokens exceed the {length:,} "
        f"tokens per request{shared}",
        flag=flag(case, "--ctx-size", "--max-model-len", "--context-length"),
        severity="error" if ctx >= length else None,
        fix=Fix(
            text=f"Set -c {need * slots}."
            if is_gguf(case)
            else f"Raise the maximum length to {need} or more."
        ),
    )
