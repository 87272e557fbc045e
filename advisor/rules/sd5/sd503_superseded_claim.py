from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.policy import for_advice, matches, rows, sources


@rule(
    severity="info",
    speculative=True,
    needs=("hardware", "concurrency"),
    sources=sources("claims", "superseded"),
)
def superseded_claim(case: Case) -> Iterator[Hit]:
    """A widely read statement about this set-up is out of date.

    Why: guides of spring 2026 are still found first; who follows them turns a gain off or sets what
    has no effect.
    Bad (goal=balanced, hw=rtx3090, concurrency=1): llama-server -m
    Qwen3.6-35B-A3B-MTP-UD-Q4_K_XL.gguf -c 16384 --parallel 1
        --spec-type draft-mtp --spec-draft-n-max 2
    Good (goal=balanced, hw=rtx3090, concurrency=1): llama-server -m
    Qwen3.6-35B-A3B-MTP-UD-Q4_K_XL.gguf -c 16384 --parallel 1
    """
    if not for_advice(case):
        return
    for row in rows("claims", "superseded"):
        if matches(row, case):
            yield Hit(
                f"outdated: {row['text']}",
                sources=tuple(row["sources"]),
                conflicts=tuple(row["conflicts"]),
            )
