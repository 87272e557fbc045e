from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import spec_flag
from advisor.rules.kit.policy import matches, regime, rows, sources, streams


@rule(
    severity="warning",
    speculative=True,
    engines=("vllm",),
    needs=("model", "concurrency"),
    sources=sources("regime", "draft_model_sparse"),
)
def draft_model_sparse_target(case: Case) -> Iterator[Hit]:
    """A separate draft model beside a mixture with few active parameters, at one or two streams.

    Why: a step of such a target reads little more than a draft of 0.6B, and each drafted token is
    one more launch of all the draft's layers. On an H100 a 0.6B draft for Qwen3-30B-A3B ran at 0.71
    to 0.82 of the baseline speed with 2 draft tokens and at
    0.31 to 0.45 with 8, although up to 6.5 tokens a step were accepted. From 4 streams on one draft
    token gains.
    Bad (hw=h100-sxm, concurrency=1): vllm serve Qwen/Qwen3-30B-A3B
        --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":4}'
    Good (hw=h100-sxm, concurrency=16): vllm serve Qwen/Qwen3-30B-A3B
        --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":1}'
    """
    row = next((row for row in rows("regime", "draft_model_sparse") if matches(row, case)), None)
    if row is None:
        return
    yield Hit(
        f"a separate draft model rarely pays beside a target with few active parameters at "
        f"{streams(case)} concurrent "
        f"request{'s' if streams(case) != 1 else ''}: a 0.6B draft for Qwen3-30B-A3B cost 18 to "
        f"69 % of the speed with 2 to 8 "
        "draft tokens on an H100",
        flag=spec_flag(case),
        fix=Fix(text="Use the model's own MTP head or an EAGLE-3 head, or no speculation."),
        sources=tuple(row["sources"]),
        conflicts=tuple(row["conflicts"]),
        effect=regime(case, losses.sparse_draft).effect,
    )
