"""Losses at long contexts."""

from collections.abc import Mapping
from typing import Any

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.perf.regimes import losses
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import flag, fp8_kv, hardware_name, k_flag, open_value, rows, spec_flag
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import concurrent_requests, matches, regime, setting_of, streams


@rule("SD402", "warning", "vllm sglang", decides=True, data="regime.long_prefill")
@when(speculative=True, needs="hardware concurrency ctx_tokens")
def long_context_prefill(case: Case) -> Hits:
    """Speculation while several long prompts are prefilled at once on unified memory.

    Why: prefill and verify steps share the little compute of such machines, and a stalled verify
    step costs more than a plain one. The first token comes earlier all the same.
    Bad (hw=gb10, concurrency=4, ctx=8192, output=256): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, concurrency=4, ctx=8192, output=256): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    facts, running = case.facts, streams(case)
    ctx, near = facts.ctx_tokens, losses.long_prefill_nearness(setting_of(case))
    if ctx is None or running is None or near == 0:
        return
    effect, strength = regime(case, losses.long_prefill)
    (known,) = rows("regime", "long_prefill")
    measured = matches(known, case)  # kin, other models and machines, is warned of alone
    whose = known["text"] if measured else f"measured elsewhere: {known['text']}"
    if facts.goal == "ttft":
        yield Hit(
            f"the first token comes earlier with speculation in such a load ({whose})",
            severity="info",
            effect="support" if measured else None,
        )
        return
    load = f"{running} concurrent prompts of {ctx:,} tokens on {hardware_name(case)}"
    like = "such a load is" if near == 1 else "such a load is close to"
    yield Hit(
        f"{load}: {like} a documented loss for throughput and TPOT ({whose})",
        flag=spec_flag(case),
        fix="Switch speculation off for this load, or give long prompts their own server; "
        "on only if TTFT is the goal.",
        conflicts=tuple(known["conflicts"]),
        severity=None if near == 1 else "info",
        effect=effect,
        strength=strength,
    )


@rule("SD407", "warning", "gguf", decides=True, data="regime.dflash_gguf_k_max")
@when(methods="dflash")
def dflash_too_long(case: Case) -> Hits:
    """DFlash in llama.cpp with long drafts.

    Why: on an RTX 3090 two to four draft tokens gain 17 to 27 %, eight lose 15 % and sixteen 47 %.
    Bad: llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -md Qwen3.6-35B-A3B-DFlash.gguf -c 16384
        --parallel 1 --spec-type draft-dflash --spec-draft-n-max 16
    Good: with --spec-draft-n-max 2 for --spec-draft-n-max 16
    """
    limit = int(number("regime", "dflash_gguf_k_max"))
    if case.plan.k <= limit:
        return
    yield Hit(
        f"DFlash with {case.plan.k} draft tokens: the measured order on an RTX 3090 is +17 to +27 "
        "% at 2, +17 to +19 % at 4, -9 % at 6, -15 % at 8, -47 % at 16",
        flag=k_flag(case),
        fix=k_fix(case, 2, f"Draft 2 tokens, {limit} at most."),
        conflicts=("a GB10 fork reports 1.3x to 1.8x at 14 tokens, without a baseline run",),
        effect="k_max",
        k_max=limit,
    )


@rule("SD422", "warning", "vllm sglang", decides=True, data="regime.long_context_losses")
@when(speculative=True, needs="ctx_tokens quant concurrency")
def long_context_kernel_loss(case: Case) -> Hits:
    """Speculation at a depth where one kernel path is known to lose.

    Why: its attention for several queries does not scale: the loss grows with depth.
    Bad (hw=rtx-pro-6000, gpus=4, concurrency=1, ctx=131072, quant=awq-int4): vllm serve
        QuantTrio/Qwen3.5-397B-A17B-AWQ --tensor-parallel-size 4 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=rtx-pro-6000, gpus=4, concurrency=1, ctx=2048, quant=awq-int4): the same
    """
    row = next((row for row in rows("regime", "long_context_losses") if matches(row, case)), None)
    if row is not None:
        yield Hit(
            f"{case.facts.ctx_tokens:,} tokens of context: {row['text']}",
            flag=spec_flag(case),
            fix="Measure at this depth, or switch speculation off for long contexts.",
            row=row,
            effect=regime(case, losses.long_context).effect,
        )


@rule("SD424", "warning", "vllm sglang", decides=True, data="regime.serial_verify")
@when(speculative=True, needs="hardware ctx_tokens concurrency")
def serial_verify_attention(case: Case) -> Hits:
    """A verify step whose attention walks the whole context in one block of threads.

    Why: some kernels split the KV cache over the chip for a single query only: with k + 1 queries
    few blocks read everything, and a gain at 2k tokens is a loss at 30k. Batches hide it.
    Bad (hw=rtx4090, concurrency=1, ctx=65536): vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=rtx4090, concurrency=1, ctx=65536): with --attention-backend FLASHINFER added
    """
    at_once, ctx = concurrent_requests(case), case.facts.ctx_tokens
    row = next((row for row in rows("regime", "serial_verify") if _applies(row, case)), None)
    losing = rows("regime", "long_context_losses")  # of which SD422 speaks, with figures
    if row is None or at_once is None or ctx is None or any(matches(one, case) for one in losing):
        return
    shape, ms = case.facts.shape or case.facts.model, "a time that grows with it"
    if shape is not None and (layers := shape.full_attention_layers):
        ms = f"about {1e-6 * row['ns_per_token_and_layer'] * ctx * layers:.0f} ms"
    yield Hit(
        f"each verify step adds {ms} at {ctx:,} tokens of context on {hardware_name(case)}: "
        f"{row['text']}",
        flag=flag(case, "--attention-backend", "--kv-cache-dtype") or spec_flag(case),
        fix=row["fix"],
        row=row,
        effect=regime(case, losses.serial_verify).effect,
    )


def _applies(row: Mapping[str, Any], case: Case) -> bool:
    """The row's filters, and no backend or cache type that leaves the kernel."""
    shape, backend = case.facts.shape or case.facts.model, case.plan.attention_backend or ""
    latent = shape is not None and shape.arch.startswith("mla")  # MLA has kernels of its own
    if latent or open_value(case, "--attention-backend") or not matches(row, case):
        return False
    if row["wide_kv_only"] and open_value(case, "--kv-cache-dtype"):
        return False
    if backend:
        return backend.upper() in row["backends"]
    narrow = fp8_kv(case) or (case.facts.quant is not None and case.facts.quant.family == "nvfp4")
    return not (row["wide_kv_only"] and narrow)
