from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.domain.versions import parse_release
from advisor.rules import Hit, rule
from advisor.rules.kit.policy import for_advice, sources
from advisor.rules.kit.releases import release


@rule(
    severity="info",
    speculative=True,
    engines=("vllm", "sglang"),
    needs=("hardware", "model", "concurrency"),
    sources=sources("claims", "no_pair"),
)
def evidence_of_other_version(case: Case) -> Iterator[Hit]:
    """The published benchmarks of this configuration used another release line of the engine.

    Why: kernels, graph modes and cache defaults change between releases, and with them the sign of
    small effects.
    Bad (goal=balanced, hw=gb10, concurrency=16, ctx=2048, version=0.28.0): vllm serve
    Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 32
        --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=gb10, concurrency=16, ctx=2048, version=0.19.1): vllm serve
    Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 32
        --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    """
    if not for_advice(case):
        return
    asked = release(case)
    covering = [
        e for e in case.facts.evidence if e.covers and parse_release(e.engine_version) is not None
    ]
    if asked is None or not covering or any(_line(e.engine_version) == asked[:2] for e in covering):
        return
    newest = max(covering, key=lambda e: parse_release(e.engine_version) or ())
    when = f" of {newest.date}" if newest.date else ""
    yield Hit(
        f"the newest benchmark of this load was run with {newest.engine} "
        f"{newest.engine_version}{when}, not with "
        f"{'.'.join(map(str, asked))}",
        sources=(newest.source,),
    )


def _line(text: str) -> tuple[int, ...] | None:
    found = parse_release(text)
    return found[:2] if found else None
