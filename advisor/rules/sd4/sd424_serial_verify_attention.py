from collections.abc import Iterator, Mapping
from typing import Any

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, fp8_kv, open_value, spec_flag
from advisor.rules.kit.policy import (
    concurrent_requests,
    hardware_name,
    matches,
    regime,
    rows,
    sources,
)


@rule(
    severity="warning",
    speculative=True,
    engines=("vllm", "sglang"),
    needs=("hardware", "ctx_tokens", "concurrency"),
    sources=sources("regime", "serial_verify"),
)
def serial_verify_attention(case: Case) -> Iterator[Hit]:
    """A verify step whose attention walks the whole context in one block of threads.

    Why: some kernels split the KV cache over the chip for a single query only. A verify step asks k
    + 1 queries, so few blocks read everything one after another: the step grows with the context,
    and a gain at 2k tokens is a loss at 30k. Batches hide it, because each request brings blocks of
    its own.
    Bad (hw=rtx4090, concurrency=1, ctx=65536): vllm serve Qwen/Qwen3.6-27B-FP8 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=rtx4090, concurrency=1, ctx=65536): vllm serve Qwen/Qwen3.6-27B-FP8 --max-num-seqs 4
        --attention-backend FLASHINFER --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    """
    at_once, ctx = concurrent_requests(case), case.facts.ctx_tokens
    row = next((row for row in rows("regime", "serial_verify") if _applies(row, case)), None)
    measured = any(
        matches(known, case) for known in rows("regime", "long_context_losses")
    )  # SD422 says it, with figures
    if row is None or at_once is None or ctx is None or measured:
        return
    layers = _layers(case)
    ms = (
        f"about {1e-6 * row['ns_per_token_and_layer'] * ctx * layers:.0f} ms"
        if layers
        else "a time that grows with it"
    )
    yield Hit(
        f"each verify step adds {ms} at {ctx:,} tokens of context on {hardware_name(case)}: "
        f"{row['text']}",
        flag=flag(case, "--attention-backend", "--kv-cache-dtype") or spec_flag(case),
        fix=Fix(text=row["fix"]),
        sources=tuple(row["sources"]),
        conflicts=tuple(row["conflicts"]),
        effect=regime(case, losses.serial_verify).effect,
    )


def _applies(row: Mapping[str, Any], case: Case) -> bool:
    """The row's filters, and no backend or cache type that leaves the kernel."""
    shape = case.facts.shape or case.facts.model
    if not matches(row, case) or (
        shape is not None and shape.arch.startswith("mla")
    ):  # MLA has kernels of its own
        return False
    backend = (case.plan.attention_backend or "").upper()
    if open_value(case, "--attention-backend") or (
        row["wide_kv_only"] and open_value(case, "--kv-cache-dtype")
    ):
        return False
    if backend and backend not in row["backends"]:
        return False
    narrow = fp8_kv(case) or (case.facts.quant is not None and case.facts.quant.family == "nvfp4")
    return bool(backend) or not (row["wide_kv_only"] and narrow)


def _layers(case: Case) -> int | None:
    shape = case.facts.shape or case.facts.model
    return shape.full_attention_layers if shape else None
