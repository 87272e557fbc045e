from collections.abc import Iterator

from advisor.rules import Hit, rule
from advisor.rules.asking import integer, k_flag, open_value, value
from advisor.rules.editing import k_fix
from advisor.rules.policy import number, sources, streams
from advisor.types import Case


@rule(
    severity="warning",
    speculative=True,
    engines=("vllm",),
    needs=("concurrency",),
    sources=sources("regime", "graph_tokens"),
)
def step_beyond_graphs(case: Case) -> Iterator[Hit]:
    """Verify steps larger than the largest captured CUDA graph.

    Why: a step holds k + 1 tokens for each running request. Above the largest captured size every kernel is launched one by
    one again, and the step takes several times as long: speculation then serves fewer tokens than no speculation.
    Bad (hw=h200, concurrency=128): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 128
        --speculative-config '{"method":"mtp","num_speculative_tokens":4}'
    Good (hw=h200, concurrency=128): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 128
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    running = streams(case)
    unknown = open_value(case, "--max-cudagraph-capture-size")
    if running is None or case.plan.k < 1 or case.plan.k_schedule or unknown:
        return
    running = min(running, case.plan.max_num_seqs or running)
    largest = integer(value(case, "--max-cudagraph-capture-size")) or int(number("regime", "graph_tokens"))
    tokens = running * (case.plan.k + 1)
    fits = largest // running - 1
    if tokens <= largest or fits < 0:
        return
    advice = f"Draft {fits} or fewer" if fits else "Switch speculation off for this load"
    yield Hit(
        f"{running} requests with k={case.plan.k} make steps of {tokens} tokens; CUDA graphs end at {largest}",
        flag=k_flag(case),
        fix=k_fix(case, fits, f"{advice}, or raise --max-cudagraph-capture-size above {tokens} (costs memory)."),
        conflicts=(
            "with 2,048 prompt and 128 output tokens k=4 at 128 requests still gained (1.38x, H200): prompts are in every step",
        ),
        effect="k_max" if fits else "veto",
        k_max=fits or None,
    )
