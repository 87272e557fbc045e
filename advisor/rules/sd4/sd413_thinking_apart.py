from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule


@rule(
    severity="info", speculative=True, needs=("model",), sources=("seed002", "seed003", "repo3090")
)
def thinking_apart(case: Case) -> Iterator[Hit]:
    """An acceptance measured without saying whether the model was thinking.

    Why: thinking changes both the acceptance and the length of the answers, so that figures of the
    two modes must not be averaged; comparisons across modes were confounded by length.
    Bad (acceptance=0.8): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (acceptance=0.8, thinking=true): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    request, model = case.facts.request, case.facts.model
    if (
        request is None
        or model is None
        or (request.acceptance is None and request.acceptance_length is None)
    ):
        return
    if request.thinking is None and (model.thinking_default is not None or model.reasoning_parser):
        yield Hit(
            "measure the acceptance with thinking on and off separately: the given value does not "
            "state the mode, and the two differ in acceptance and answer length"
        )
