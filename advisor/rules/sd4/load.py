"""Losses by concurrency."""

from advisor.domain.nouns import Case
from advisor.domain.question import LIMITS
from advisor.knowledge.rule_data import number, table
from advisor.perf.regimes import losses
from advisor.perf.sizes.device import GRAPHS
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import integer, is_gguf
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import (
    concurrent_requests,
    each_replica,
    first_match,
    graphs_end,
    regime,
    running_requests,
    streams,
)
from advisor.rules.kit.releases import between, release, version_label

DEEPEST_K = int(LIMITS["acceptance_k"][1])  # nobody drafts more, so nothing more is advised


@rule("SD404", "warning", decides=True, data="regime.k_limits", at="k")
@when(speculative=True)
def k_too_high(case: Case) -> Hits:
    """More draft tokens than published sweeps support.

    Why: one MTP layer drafts on its own guesses: later positions are accepted less, at the same
    cost.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":8}'
    Good: with "num_speculative_tokens":2 for "num_speculative_tokens":8
    """
    if is_gguf(case) and case.plan.k + 1 > number("regime", "kernel_switch_tokens"):
        return  # the kernel switch says it, with the larger reason
    row, paths = first_match(case, "k_limits"), integer(case.value("--speculative-eagle-topk"))
    if row is not None and case.plan.k > row["usual"] and (paths or 1) == 1:  # a chain, no tree
        draft = row.get("draft", row["usual"])
        yield Hit(
            f"k={case.plan.k} draft tokens; published sweeps end at {row['usual']} (best: "
            f"{row['best']})",
            severity="info" if case.plan.k <= row["hard"] else None,
            fix=k_fix(case, draft, f"Draft {draft} ({row['usual']} at most)."),
            row=row,
            effect="k_max",
            k_max=row["usual"],
        )


@rule("SD408", "warning", "gguf", decides=True, data="regime.gguf_concurrency", at="spec")
@when(speculative=True, needs="hardware concurrency")
def gguf_concurrency(case: Case) -> Hits:
    """Speculation in llama-server with several requests at once.

    Why: several streams fill the small-batch kernels at once, and hybrids save a state per stream.
    Bad (hw=rtx3090, concurrency=8): llama-server -m Qwen3.6-35B-A3B-MTP-UD-Q4_K_XL.gguf -c 65536
        --parallel 8 --spec-type draft-mtp --spec-draft-n-max 2
    Good (hw=rtx3090, concurrency=1): with --parallel 1 for --parallel 8
    """
    at_once, row = concurrent_requests(case) or 1, first_match(case, "gguf_concurrency")
    if row is None or at_once <= row["from"] / 2:
        return
    yield Hit(
        f"{at_once} concurrent requests: {row['text']}",
        fix="Switch speculation off at this load, or use vLLM or SGLang for concurrent requests.",
        row=row,
        severity=None if at_once >= row["from"] else "info",
        **regime(case, losses.gguf_streams)._asdict(),
    )


@rule("SD414", "warning", "vllm", versioned=True, data="regime.piecewise_flashinfer")
@when(speculative=True, needs="hardware")
def graphs_piecewise(case: Case) -> Hits:
    """Speculation costs the full CUDA graphs: FlashInfer attention on SM12x up to vLLM 0.27.1.

    Why: its decode kernels there take one token per request, so that every layer pays its launches.
    Bad (hw=gb10, version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, version=0.28.0): the same
    """
    row, hw = table("regime")["piecewise_flashinfer"], case.facts.hardware
    backend, kv = (case.plan.attention_backend or "").upper(), case.plan.kv_cache_dtype or ""
    if hw is None or hw.arch not in row["archs"] or case.open_value("--attention-backend"):
        return
    chosen = backend == "FLASHINFER" or (not backend and kv.startswith("fp8"))
    if not chosen or between(release(case), None, row["until"]) is False:
        return
    yield Hit(
        f"vLLM {version_label(case)} verifies with PIECEWISE graphs on {case.hardware_name}: "
        f"FlashInfer {'is chosen' if backend else 'follows from the fp8 KV cache'}",
        flag=case.flag("--attention-backend", "--kv-cache-dtype") or case.spec_flag(),
        fix="Use vLLM 0.28.0 or later, or a bf16 KV cache with FLASH_ATTN.",
        versions="releases up to 0.27.1",
    )


@rule(
    "SD416",
    "warning",
    "vllm",
    data=(
        "regime.saturated_concurrency",
        "regime.saturated_slots",
        "regime.unified_caution_concurrency",
    ),
)
@when(speculative=True)
def saturated_server(case: Case) -> Hits:
    """Speculation on a server that runs many requests at once.

    Why: once the batch fills the compute, every verified token takes from another request.
    Bad (hw=gb10, concurrency=64): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 64
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, concurrency=16): with --max-num-seqs 32 for --max-num-seqs 64
    """
    running, hw, slots = streams(case), case.facts.hardware, case.plan.max_num_seqs or 0
    unified = hw is not None and hw.unified_memory
    limit = number("regime", "unified_caution_concurrency" if unified else "saturated_concurrency")
    against = (
        "the 397B in NVFP4 on 4x RTX PRO 6000 gained 1.3x to 1.5x from 64 to 128 streams (rtx6k)"
    )
    if running is not None and (running > limit if unified else running >= limit):
        yield Hit(
            f"{running} streams{each_replica(case)} on {case.hardware_name}: documented losses of "
            "saturated servers (35B-A3B with 100 requests of 16k -15 %, 27B at 64 streams 0.52x "
            "(RTX 5090) and 0.41x (H20, SGLang))",
            flag=case.flag("--max-num-seqs"),
            severity="info" if hw is None else None,
            fix="Measure this load on and off; use k=1, or a k schedule that ends in 0 where the "
            "release runs it.",
            conflicts=("a GB10 gained 24 % at 16 streams (seed000)" if unified else against,),
        )
    elif running is None and slots >= number("regime", "saturated_slots"):
        yield Hit(
            f"{slots} slots with speculation: if they fill, verifying can cost more than it brings",
            flag=case.flag("--max-num-seqs"),
            severity="info",
            fix="Measure at full load, or cap --max-num-seqs.",
            conflicts=(against,),
        )


@rule("SD430", "info", "vllm", decides=True, data="regime.lone_losses", at="spec")
@when(speculative=True, needs="hardware model quant concurrency")
def lone_loss(case: Case) -> Hits:
    """A setting in which the few prompts that were measured lost.

    Why: one run of a prompt or two is too little to train on and too much to ignore.
    Bad (hw=a100-80gb, gpus=2, concurrency=1, quant=awq-int4): vllm serve
        QuantTrio/Qwen3.6-35B-A3B-AWQ --tensor-parallel-size 2 --max-num-seqs 4 --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good (hw=a100-80gb, gpus=2, concurrency=16, quant=awq-int4): with
        --max-num-seqs 16 for --max-num-seqs 4
    """
    row = first_match(case, "lone_losses")
    if row is None or (concurrent_requests(case) or 1) >= row["from"]:
        return
    yield Hit(
        f"the few prompts that were measured in this setting lost: {row['text']}",
        fix="Measure with and without it on your own prompts before switching it on.",
        row=row,
        **regime(case, losses.lone_loss)._asdict(),
    )


@rule("SD425", "warning", "vllm", decides=True, data="regime.graph_tokens")
@when(speculative=True, needs="concurrency")
def step_beyond_graphs(case: Case) -> Hits:
    """Verify steps larger than the largest CUDA graph.

    Why: a step holds k + 1 tokens for each running request. Above the largest captured size every
    kernel is launched one by one: speculation then serves fewer tokens than none.
    Bad (hw=h200, concurrency=128): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 128
        --speculative-config '{"method":"mtp","num_speculative_tokens":4}'
    Good (hw=h200, concurrency=128): with "num_speculative_tokens":2 for "num_speculative_tokens":4
    """
    batch, ends = running_requests(case), graphs_end(case.facts, case.plan)
    if batch is None or ends is None or case.open_value(GRAPHS):
        return
    largest, tokens = ends[0], batch * (case.plan.k + 1)
    if tokens <= largest:
        return
    # fewer draft tokens leave room for more requests, so each k has a batch of its own
    lower = range(min(case.plan.k - 1, DEEPEST_K), 0, -1)
    fits = next((k for k in lower if (running_requests(case, k) or batch) * (k + 1) <= largest), 0)
    advice = f"Draft {fits} or fewer" if fits else "Measure this load on and off"
    room = min(streams(case) or 0, case.plan.max_num_seqs or batch + 1)
    held = " that the KV pool holds" if batch < room else ""
    what = f"{advice}, or raise {GRAPHS} above {tokens} (costs memory)."
    yield Hit(
        f"{batch} requests{held}{each_replica(case)} with k={case.plan.k} make steps of {tokens} "
        f"tokens; CUDA graphs end at {largest}"
        + (", and so do those of baseline steps" if batch > largest else ""),
        flag=case.k_flag(),
        fix=k_fix(case, fits, what),
        conflicts=(
            "long prompts are in every step and leave the graphs anyway: with 2,048 prompt and "
            "128 output tokens k=4 at 128 requests gained 1.38x (H200), with 4,358 and 1,300 "
            "tokens k=5 at 128 requests 1.3x (A100, Gemma 4 26B-A4B)",
        ),
        # the estimate has the price of such steps, and of plain ones beyond the graphs as well
        effect="k_max" if fits else None,
        k_max=fits or None,
    )
