from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.policy import for_advice, sources


@rule(
    severity="info",
    speculative=True,
    engines=("llama-server",),
    needs=("concurrency",),
    sources=sources("regime", "raw_completion"),
)
def raw_completion(case: Case) -> Iterator[Hit]:
    """MTP in llama-server is accepted less on /completion than on /v1/chat/completions.

    Why: without the chat template the head sees text that it was not trained on: acceptance 0.63
    instead of 0.76, 1.30x instead of 1.49x.
    Bad (goal=balanced, concurrency=1): llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf -c 16384
    --parallel 1
        --spec-type draft-mtp --spec-draft-n-max 4
    Good (goal=balanced, concurrency=1): llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf -c 16384
    --parallel 1
    """
    if not for_advice(case):
        return
    if case.plan.method == "mtp":
        yield Hit(
            "send requests to /v1/chat/completions: raw prompts on /completion were accepted at "
            "63 % instead of 76 % (1.30x "
            "instead of 1.49x, A100)"
        )
