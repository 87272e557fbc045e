from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import spec_flag
from advisor.rules.kit.policy import concurrent_requests, matches, regime, rows, sources


@rule(
    severity="info",
    speculative=True,
    engines=("vllm",),
    needs=("hardware", "model", "quant", "concurrency"),
    sources=sources("regime", "lone_losses"),
)
def lone_loss(case: Case) -> Iterator[Hit]:
    """A setting in which the few prompts that were measured lost.

    Why: one run of a prompt or two is too little to train on and too much to ignore where it
    contradicts the estimate of the very setting.
    Bad (hw=a100-80gb, gpus=2, concurrency=1, quant=awq-int4): vllm serve
        QuantTrio/Qwen3.6-35B-A3B-AWQ --tensor-parallel-size 2 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good (hw=a100-80gb, gpus=2, concurrency=16, quant=awq-int4): vllm serve
        QuantTrio/Qwen3.6-35B-A3B-AWQ --tensor-parallel-size 2 --max-num-seqs 16
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    """
    row = next((row for row in rows("regime", "lone_losses") if matches(row, case)), None)
    if row is None or (concurrent_requests(case) or 1) >= row["from"]:
        return
    effect, strength = regime(case, losses.lone_loss)
    yield Hit(
        f"the few prompts that were measured in this setting lost: {row['text']}",
        flag=spec_flag(case),
        fix=Fix(text="Measure with and without it on your own prompts before switching it on."),
        sources=tuple(row["sources"]),
        conflicts=tuple(row["conflicts"]),
        effect=effect,
        strength=strength,
    )
