"""Losses by hardware and at long contexts."""

import re
from collections.abc import Mapping
from typing import Any

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number, table
from advisor.perf.regimes import losses
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import fp8_kv, rows
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import (
    concurrent_requests,
    each_replica,
    first_match,
    is_sparse_moe,
    matches,
    regime,
    setting_of,
    streams,
)

_STATED = "a model card of 2026-05 found no gain with the 35B-A3B on Apple Silicon"


@rule("SD405", "warning", "gguf", decides=True, data="regime.kernel_switch_tokens", at="k")
@when(speculative=True, parts="plan.k")
def kernel_switch(case: Case) -> Hits:
    """The verify step of llama.cpp crosses from the kernels for few tokens to those for many.

    Why: up to 8 tokens (concurrency x (k + 1)) are multiplied as vectors; the ninth moves to tiles.
    Bad: llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf --spec-type draft-mtp --spec-draft-n-max 8
    Good: llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf --spec-type draft-mtp --spec-draft-n-max 4
    """
    limit, at_once = int(number("regime", "kernel_switch_tokens")), concurrent_requests(case) or 1
    hw, tokens = case.facts.hardware, at_once * (case.plan.k + 1)
    if (hw is not None and hw.vendor == "apple") or not at_once <= limit < tokens:
        return
    best, least = limit // at_once - 1, case.flag("--spec-draft-p-min")
    # a draft model ends most drafts before k then: llama-swap's guide measured 2.5x with k = 16
    whole = case.plan.method != "draft_model" or least is None or least.value in ("0", "0.0")
    what = f"Draft {best} tokens or fewer" if best else "Switch speculation off"
    yield Hit(
        f"{at_once} x ({case.plan.k} + 1) = {tokens} verified tokens a step exceed the {limit} "
        "that llama.cpp's small-batch kernels take: on an A100 one stream at k=8 cost 4.7 "
        "baseline steps (0.82x), at k=4 2.7 (1.49x)",
        severity=None if at_once == 1 and whole else "info",
        fix=k_fix(case, best, f"{what} at this load."),
        conflicts=(
            "the dense 27B still gained at k=8 on an MI210 (1.54x) and an RTX PRO 6000 "
            "Max-Q (2.44x)",
        ),
        effect="k_max" if best else regime(case, losses.kernel_switch).effect,
        k_max=best or None,
    )


@rule("SD409", "warning", "gguf", decides=True, data="regime.apple_generations")
@when(speculative=True, needs="hardware")
def apple_llama(case: Case) -> Hits:
    """Speculation with llama.cpp on Apple Silicon: it depends on the chip and on k.

    Why: a step of 2 or 3 tokens of a K-quant reads the weights anew for every token on Metal, one
    of 4 reads them once: an M1 Max loses with 2 drafts what it gains with 3. An M4 has little
    compute to spare for either; an M5 gains at every depth.
    Bad (hw=apple-m4): llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf -c 16384 --parallel 1 --spec-type
        draft-mtp --spec-draft-n-max 2
    Good (hw=apple-m4): llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf -c 16384 --parallel 1
    """
    hw = case.facts.hardware
    if hw is None or hw.vendor != "apple":
        return
    chip, effect = losses.apple_chip(hw.id), regime(case, losses.apple).effect
    measured, sparse = table("regime")["apple_generations"].get(chip or ""), is_sparse_moe(case)
    stated = bool(chip and sparse)  # a model card of the 35B-A3B, where nothing was measured
    if measured is None:
        what = f"M{chip} was not measured with llama.cpp"
        todo = "Measure with speculation off and with 3 drafts."
        if not chip:
            what = "the chip is not named, and the result depends on it"
            todo = "Name the chip, for example --hw apple-m5-pro."
        yield Hit(
            f"{what}: with 3 drafts an M1 Max and an M5 gain, an M4 loses"
            + (f"; {_STATED}" if stated else ""),
            flag=case.spec_flag(),
            fix=todo,
            effect=effect,
        )
        return
    told, best = measured["told"], int(measured["k_best"])
    if measured["effect"] == "support":
        # experts are read token by token at any depth, so 2 drafts are as good as 3 there
        rereads = case.facts.quant is not None and re.search(r"q\d_k", case.facts.quant.id)
        wasted = case.plan.k in (1, 2) and not sparse and rereads
        what = f"Draft {best} tokens: a step of {best + 1} reads the weights once."
        if wasted:
            tokens = case.plan.k + 1
            told += f"; Metal reads K-quant weights {tokens} times for a step of {tokens} tokens"
        yield Hit(
            told,
            flag=case.k_flag() if wasted else None,
            severity="warning" if wasted else "info",
            fix=k_fix(case, best, what) if wasted else None,
            conflicts=("a model card of 2026-05 found no gain on Apple Silicon (seed004)",),
            effect="support",
            k_best=best,
        )
        return
    # larger chips of the generation were not measured
    here = measured["effect"] == "veto" and hw.id in measured["chips"]
    yield Hit(
        f"{case.hardware_name}, measured on {told}"
        + (f"; {_STATED}" if stated and not here else ""),
        flag=case.spec_flag(),
        fix="Switch speculation off with llama.cpp; an MLX server with MTP gained 1.1x to 1.2x "
        "(M3 Ultra)."
        if here
        else f"Draft {best} token, or measure.",
        conflicts=(
            "an M1 Max and an M5 Pro gain with 3 drafts and the same engine (m1maxlab, m5pro)",
            *(("an M4 Pro ran the 35B-A3B at 1.23x (asiaimtp)",) if stated else ()),
        ),
        effect=effect,
    )


@rule("SD420", "warning", "gguf", decides=True, data="regime.q8_rdna", at="spec")
@when(speculative=True, needs="hardware quant")
def q8_on_rdna(case: Case) -> Hits:
    """MTP with Q8_0 weights on an RDNA card in llama.cpp.

    Why: an R9700 gained 1.8x to 2.1x in Q5_K_M and Q6_K and lost 6 to 12 % in Q8_0.
    Bad (hw=r9700, quant=q8_0): llama-server -m Qwen3.6-27B-MTP-Q8_0.gguf -c 8192 --parallel 1
        --spec-type draft-mtp --spec-draft-n-max 2
    Good (hw=r9700, quant=q6_k): with Qwen3.6-27B-MTP-Q6_K.gguf for Qwen3.6-27B-MTP-Q8_0.gguf
    """
    effect = regime(case, losses.q8_on_rdna).effect
    if effect is not None:
        yield Hit(
            f"Q8_0 with MTP on {case.hardware_name}: 0.94x at k=2 and 0.88x at 3 on one R9700, "
            "while Q5_K_M and Q6_K gained 1.8x to 2.1x",
            fix="Use Q6_K weights, or measure.",
            conflicts=(
                "two R9700 are reported at 2.17x with Q8_0 (aos); the losing run is a build from "
                "before the merge",
            ),
            effect=effect,
        )


@rule("SD402", "warning", "vllm sglang", decides=True, data="regime.long_prefill")
@when(speculative=True, needs="hardware concurrency ctx_tokens")
def long_context_prefill(case: Case) -> Hits:
    """Speculation while several long prompts are prefilled at once on unified memory.

    Why: prefill and verify steps share the little compute. The first token comes earlier all the
    same.
    Bad (hw=gb10, concurrency=4, ctx=8192, output=256): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, concurrency=4, ctx=8192, output=256): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    facts, running = case.facts, streams(case)
    ctx, near = facts.ctx_tokens, losses.long_prefill_nearness(setting_of(case))
    if ctx is None or running is None or near == 0:
        return
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
    yield Hit(
        f"{running} concurrent prompts of {ctx:,} tokens{each_replica(case)} on "
        f"{case.hardware_name}: such a load is "
        f"{'' if near == 1 else 'close to '}a documented loss for throughput and TPOT ({whose})",
        flag=case.spec_flag(),
        fix="Switch speculation off for this load, or give long prompts their own server; "
        "on only if TTFT is the goal.",
        conflicts=tuple(known["conflicts"]),
        severity=None if near == 1 else "info",
        **regime(case, losses.long_prefill)._asdict(),
    )


@rule("SD407", "warning", "gguf", decides=True, data="regime.dflash_gguf_k_max", at="k")
@when(methods="dflash")
def dflash_too_long(case: Case) -> Hits:
    """DFlash in llama.cpp with long drafts.

    Why: on an RTX 3090 two to four draft tokens gain 17 to 27 %, eight lose 15 % and sixteen 47 %.
    Bad: llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -md Qwen3.6-35B-A3B-DFlash.gguf -c 16384
        --parallel 1 --spec-type draft-dflash --spec-draft-n-max 16
    Good: with --spec-draft-n-max 2 for --spec-draft-n-max 16
    """
    limit = int(number("regime", "dflash_gguf_k_max"))
    if case.plan.k > limit:
        yield Hit(
            f"DFlash with {case.plan.k} draft tokens: the measured order on an RTX 3090 is +17 to "
            "+27 % at 2, +17 to +19 % at 4, -9 % at 6, -15 % at 8, -47 % at 16",
            fix=k_fix(case, 2, f"Draft 2 tokens, {limit} at most."),
            conflicts=("a GB10 fork reports 1.3x to 1.8x at 14 tokens, without a baseline run",),
            effect="k_max",
            k_max=limit,
        )


@rule("SD422", "warning", "vllm sglang", decides=True, data="regime.long_context_losses", at="spec")
@when(speculative=True, needs="ctx_tokens quant concurrency")
def long_context_kernel_loss(case: Case) -> Hits:
    """Speculation at a depth where one kernel path is known to lose.

    Why: its attention for several queries does not scale: the loss grows with depth.
    Bad (hw=rtx-pro-6000, gpus=4, concurrency=1, ctx=131072, quant=awq-int4): vllm serve
        QuantTrio/Qwen3.5-397B-A17B-AWQ --tensor-parallel-size 4 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=rtx-pro-6000, gpus=4, concurrency=1, ctx=2048, quant=awq-int4): the same
    """
    row = first_match(case, "long_context_losses")
    if row is not None:
        yield Hit(
            f"{case.facts.ctx_tokens:,} tokens of context: {row['text']}",
            fix="Measure at this depth, or switch speculation off for long contexts.",
            row=row,
            effect=regime(case, losses.long_context).effect,
        )


@rule("SD424", "warning", "vllm sglang", decides=True, data="regime.serial_verify")
@when(speculative=True, needs="hardware ctx_tokens concurrency")
def serial_verify_attention(case: Case) -> Hits:
    """A verify step whose attention walks the whole context in one block of threads.

    Why: some kernels split the KV cache over the chip for a single query only. Batches hide it.
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
        f"each verify step adds {ms} at {ctx:,} tokens of context on {case.hardware_name}: "
        f"{row['text']}",
        flag=case.flag("--attention-backend", "--kv-cache-dtype") or case.spec_flag(),
        fix=row["fix"],
        row=row,
        effect=regime(case, losses.serial_verify).effect,
    )


def _applies(row: Mapping[str, Any], case: Case) -> bool:
    """The row's filters, and no backend or cache type that leaves the kernel."""
    shape, backend = case.facts.shape or case.facts.model, case.plan.attention_backend or ""
    latent = shape is not None and shape.arch.startswith("mla")  # MLA has kernels of its own
    if latent or case.open_value("--attention-backend") or not matches(row, case):
        return False
    if row["wide_kv_only"] and case.open_value("--kv-cache-dtype"):
        return False
    if backend:
        return backend.upper() in row["backends"]
    narrow = fp8_kv(case) or (case.facts.quant is not None and case.facts.quant.family == "nvfp4")
    return not (row["wide_kv_only"] and narrow)
