from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import integer, k_flag, open_value, value
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import running_requests, sources, streams


@rule(
    severity="warning",
    speculative=True,
    engines=("vllm",),
    needs=("concurrency",),
    sources=sources("regime", "graph_tokens"),
)
def step_beyond_graphs(case: Case) -> Iterator[Hit]:
    """Verify steps larger than the largest captured CUDA graph.

    Why: a step holds k + 1 tokens for each running request. Above the largest captured size every
    kernel is launched one by one again, and the step takes several times as long: speculation then
    serves fewer tokens than no speculation, unless long prompts are in every step anyway. Requests
    that the KV pool does not hold wait and are not counted.
    Bad (hw=h200, concurrency=128): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 128
        --speculative-config '{"method":"mtp","num_speculative_tokens":4}'
    Good (hw=h200, concurrency=128): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 128
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    batch = running_requests(case)
    if (
        batch is None
        or case.plan.k < 1
        or case.plan.k_schedule
        or open_value(case, "--max-cudagraph-capture-size")
    ):
        return
    largest = integer(value(case, "--max-cudagraph-capture-size")) or int(
        number("regime", "graph_tokens")
    )
    tokens = batch * (case.plan.k + 1)
    if tokens <= largest:
        return
    # fewer draft tokens leave room for more requests, so each k has a batch of its own
    fits = next(
        (
            k
            for k in range(case.plan.k - 1, 0, -1)
            if (running_requests(case, k) or batch) * (k + 1) <= largest
        ),
        0,
    )
    advice = f"Draft {fits} or fewer" if fits else "Measure this load on and off"
    held = (
        " that the KV pool holds"
        if batch < min(streams(case) or 0, case.plan.max_num_seqs or batch + 1)
        else ""
    )
    yield Hit(
        f"{batch} requests{held} with k={case.plan.k} make steps of {tokens} tokens; CUDA graphs "
        f"end at {largest}" + (", and so do those of baseline steps" if batch > largest else ""),
        flag=k_flag(case),
        fix=k_fix(
            case,
            fits,
            f"{advice}, or raise --max-cudagraph-capture-size above {tokens} (costs memory).",
        ),
        conflicts=(
            "long prompts are in every step and leave the graphs anyway: with 2,048 prompt and "
            "128 output tokens k=4 at 128 "
            "requests gained 1.38x (H200), with 4,358 and 1,300 tokens k=5 at 128 requests 1.3x "
            "(A100, Gemma 4 26B-A4B)",
        ),
        # the estimate has the price of such steps, and of plain ones beyond the graphs as well
        effect="k_max" if fits else None,
        k_max=fits or None,
    )
