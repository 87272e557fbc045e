from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import spec_flag
from advisor.rules.kit.policy import concurrent_requests, matches, regime, rows, sources


@rule(
    severity="warning",
    speculative=True,
    engines=("llama-server", "ik_llama.cpp"),
    needs=("hardware", "concurrency"),
    sources=sources("regime", "gguf_concurrency"),
)
def gguf_concurrency(case: Case) -> Iterator[Hit]:
    """Speculation in llama-server with several requests at once.

    Why: verified tokens of several streams fill the small-batch kernels at once, and hybrid models
    save and restore a state per stream. The gain of one stream is gone at 2 to 4 and negative
    beyond.
    Bad (hw=rtx3090, concurrency=8): llama-server -m Qwen3.6-35B-A3B-MTP-UD-Q4_K_XL.gguf -c 65536
        --parallel 8
        --spec-type draft-mtp --spec-draft-n-max 2
    Good (hw=rtx3090, concurrency=1): llama-server -m Qwen3.6-35B-A3B-MTP-UD-Q4_K_XL.gguf -c 65536
        --parallel 1
        --spec-type draft-mtp --spec-draft-n-max 2
    """
    at_once = concurrent_requests(case) or 1
    row = next((row for row in rows("regime", "gguf_concurrency") if matches(row, case)), None)
    if row is None or at_once <= row["from"] / 2:
        return
    effect, strength = regime(case, losses.gguf_streams)
    yield Hit(
        f"{at_once} concurrent requests: {row['text']}",
        flag=spec_flag(case),
        fix=Fix(
            text="Switch speculation off at this load, or use vLLM or SGLang for concurrent "
            "requests."
        ),
        sources=tuple(row["sources"]),
        conflicts=tuple(row["conflicts"]),
        severity=None if at_once >= row["from"] else "info",
        effect=effect,
        strength=strength,
    )
