from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import spec_flag
from advisor.rules.kit.policy import matches, regime, rows, sources


@rule(
    severity="warning",
    speculative=True,
    engines=("vllm", "sglang"),
    needs=("ctx_tokens", "quant", "concurrency"),
    sources=sources("regime", "long_context_losses"),
)
def long_context_kernel_loss(case: Case) -> Iterator[Hit]:
    """Speculation at a depth where one kernel path is known to lose.

    Why: the loss grows with depth and shrinks with batch, on one quantisation or engine only: an
    attention path for several queries that does not scale, not a law of the hardware.
    Bad (hw=rtx-pro-6000, gpus=4, concurrency=1, ctx=131072, quant=awq-int4): vllm serve
    QuantTrio/Qwen3.5-397B-A17B-AWQ
        --tensor-parallel-size 4 --max-num-seqs 4 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=rtx-pro-6000, gpus=4, concurrency=1, ctx=2048, quant=awq-int4): vllm serve
    QuantTrio/Qwen3.5-397B-A17B-AWQ
        --tensor-parallel-size 4 --max-num-seqs 4 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    """
    row = next((row for row in rows("regime", "long_context_losses") if matches(row, case)), None)
    if row is not None:
        yield Hit(
            f"{case.facts.ctx_tokens:,} tokens of context: {row['text']}",
            flag=spec_flag(case),
            fix=Fix(text="Measure at this depth, or switch speculation off for long contexts."),
            sources=tuple(row["sources"]),
            conflicts=tuple(row["conflicts"]),
            effect=regime(case, losses.long_context).effect,
        )
