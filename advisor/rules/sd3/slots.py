"""Slots, batches and tensor-parallel width."""

import math

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import number
from advisor.perf.sizes import device, pools
from advisor.perf.sizes.weights import GIB
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import is_gguf, is_hybrid, k_words
from advisor.rules.kit.fixes import add_fix, set_fix
from advisor.rules.kit.policy import bill, each_replica, streams
from advisor.rules.kit.relations import relate
from advisor.rules.kit.releases import within

MANY = 1024  # sequences at once: beyond, a number of tokens stands in the wrong place
# input slots that a sequence needs beside its own for k draft tokens, by method
SLOTS = {"dflash": (1, 0), "dspark": (1, -1), "draft_model": (0, 1)}


@rule("SD307", "warning", "vllm", decides=True, data="memory.mamba_blocks_context_tokens")
@when(needs="model")
def mamba_blocks_below_slots(case: Case) -> Hits:
    """More sequences than a hybrid has states for, or the large default at a long context.

    Why: every sequence needs a state block, and one more per draft token.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-model-len 131072
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-model-len 131072 --max-num-seqs 32
    Sources: vllm-project/recipes#551; vllm 0.25.1 v1/worker/gpu_model_runner.py
    """
    slots, blocks, place = case.plan.max_num_seqs, _blocks(case), case.flag("--max-num-seqs")
    if not is_hybrid(case):
        return
    most = MANY if blocks is None else max(1, blocks // 8 * 8 or blocks)  # sure of their states
    # the context, as told or the model's own
    least, length = number("memory", "mamba_blocks_context_tokens"), case.plan.max_model_len
    long = not case.open_value("--max-model-len") if length is None else length >= least
    if slots is None and place is None and (blocks is not None or long):
        # larger batches run without graphs where the default is larger, and were seen to start
        if blocks is not None and blocks >= number("memory", "vllm_default_slots"):
            return
        room = (
            "at a long context it can have fewer"
            if blocks is None
            else f"the memory holds states for about {blocks}"
        )
        wanted, hw = min(streams(case) or 32, most), case.facts.hardware
        memory = hw.memory_gb.value if hw is not None and hw.memory_gb is not None else 0.0
        large = memory >= number("memory", "vllm_large_device_gb")
        name = "vllm_default_slots_large" if large else "vllm_default_slots"
        slots_there = f"{number('memory', name):.0f}{'' if hw else ' or more'}"
        yield Hit(
            f"--max-num-seqs is left to its default ({slots_there}): a hybrid model needs a state "
            f"block per sequence, and {room}; graph capture then aborts",
            flag=case.flag("--max-model-len"),
            # without the device it is a possibility, and most launches leave the option out
            severity=None if blocks is not None else "info",
            fix=add_fix(
                case,
                case.flag("--max-model-len") or case.spec_flag(),
                "--max-num-seqs",
                str(wanted),
                f"Set --max-num-seqs to the concurrency that you serve, if it fits: {wanted}.",
            ),
        )
    elif slots is not None and blocks is not None and blocks < slots:
        what = f"Set --max-num-seqs to {most} or less, lower --max-model-len, or give more memory."
        yield Hit(
            f"--max-num-seqs {slots} exceeds the {blocks} or so sequences that the memory holds "
            f"states for ({1 + case.plan.k} state block{'s' if case.plan.k else ''} each)",
            flag=place,
            fix=set_fix(case, place, str(most), what),
        )
    size, pages = device.captured_tokens(case.plan) or 0, _pages(case)
    if size > pages and within(case, None, pools.GRAPH_PAGES_UNTIL):
        yield Hit(
            f"vLLM up to {pools.GRAPH_PAGES_UNTIL} measures its CUDA graphs beside a page of the "
            f"pool for each of their {size} tokens, and beside the weights there is room for "
            f"{pages:.0f}: it ends out of memory",
            flag=case.flag(device.GRAPHS),
            severity="error",
            fix=f"Lower {device.GRAPHS}, or take vLLM 0.26, which needs a page per slot.",
        )


def _pages(case: Case) -> float:
    """Pages of a hybrid's pool that the whole memory holds beside weights and drafter."""
    shape, usable, made = case.facts.known_shape, device.usable_gib(case.facts), bill(case)
    if made is None or usable is None or shape is None:
        return math.inf
    free = max(usable - made.weights_gib - made.spec_gib, 0.0) * case.plan.tp * case.plan.pp
    return pools.hybrid_pages(shape, case.plan, free * GIB)


def _blocks(case: Case) -> int | None:
    """Sequences whose states fit the memory left for KV and state; None if unknown."""
    shape, found = case.facts.shape, bill(case)
    if shape is None or found is None or not shape.state_mb_per_seq or not found.kv_gib:
        return None
    room_mb = found.kv_gib * 1073.741824 * case.plan.tp  # states live in the same pool of pages
    return int(max(0.0, room_mb) / (shape.state_mb_per_seq * (1 + case.plan.k)))


@rule("SD308", "info", data="memory.seqs_over_concurrency")
@when(needs="concurrency")
def slots_far_from_load(case: Case) -> Hits:
    """The number of request slots does not fit the load.

    Why: with fewer slots requests queue; with many more, graphs and states are reserved in vain.
    Bad (concurrency=16): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4
    Good (concurrency=16): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 32
    Sources: seed000
    """
    slots, running = case.plan.max_num_seqs, streams(case)
    place = case.flag("--max-num-seqs", "--max-running-requests", "--parallel")
    reserves = case.plan.method != "none" or is_gguf(case)
    if slots is None or running is None:
        return
    load = f"{running} concurrent request{'s' if running != 1 else ''}{each_replica(case)}"
    if slots < running:
        yield Hit(
            f"{slots} slot{'s' if slots != 1 else ''} for {load}: "
            f"{running - slots} {'is' if running - slots == 1 else 'are'} always queued",
            flag=place,
            severity="warning",
            fix=set_fix(
                case, place, str(running), f"Set at least {running} slots, as far as memory allows."
            ),
        )
    elif reserves and slots > running * number("memory", "seqs_over_concurrency"):
        fits = max(4, 2 * running)
        yield Hit(
            f"{slots} slots for {load} reserve memory that is never used",
            flag=place,
            fix=set_fix(case, place, str(fits), f"Set about {fits} slots."),
        )


@rule("SD428", "info", "llama-server", at="--parallel")
@when(options="--parallel", needs="concurrency")
def slots_apart(case: Case) -> Hits:
    """More llama-server slots than requests, each slot with a KV buffer of its own.

    Why: a batch whose busy slots are not neighbours is cut into passes of neighbours.
    Bad (concurrency=4): llama-server -m Qwen3.6-27B-MTP-UD-Q4_K_XL.gguf -c 131072 --parallel 16
    Good (concurrency=4): with --parallel 4 for --parallel 16
    Sources: ggml-org/llama.cpp#25840; llama.cpp b11312: llama_batch_allocr::split_equal;
        bench-h100-llama-b11312: slots side by side and one apart; bench-h100-llama-places: one to
        four groups of slots
    """
    running, slots = streams(case) or 0, case.plan.max_num_seqs or 0
    if 2 <= running < slots and not case.has_switch("--kv-unified"):
        yield Hit(
            f"{running} requests on {slots} slots: where their slots are not neighbours, a step is "
            "several passes, 1.2 to 4.6 times as long on an H100",
            fix=f"Use --parallel {running}, or add --kv-unified (-c is then shared).",
        )


@rule("SD316", "error", "vllm llama-server")
def batch_below_context(case: Case) -> Hits:
    """A batch budget smaller than the sequences of a step or, without chunks, than the context.

    Why: each running sequence takes a token of a step; without chunks a whole prompt has to fit.
    Bad: vllm serve Qwen/Qwen3-32B --max-model-len 32768 --max-num-batched-tokens 8192
        --no-enable-chunked-prefill
    Good: with --max-num-batched-tokens 32768 for --max-num-batched-tokens 8192
    Sources: vllm vllm/config/scheduler.py (verify_max_model_len); verl-project/verl#7626;
        vllm-project/vllm#33109; ggml-org/llama.cpp src/llama-context.cpp (n_ubatch = min(n_batch,
        n_ubatch))
    """
    return relate(case, "SD316")


@rule("SD317", "error", "vllm", versioned=True)
@when(speculative=True, options="--max-num-batched-tokens")
def draft_slots_fill_budget(case: Case) -> Hits:
    """Slots for drafting that use up the token budget of a step.

    Why: a block drafter takes a slot per draft token and sequence; vLLM stops where none is left.
    Bad (version=0.26.0): vllm serve Qwen/Qwen3.6-27B --max-num-seqs 256 --max-num-batched-tokens
        2048 --speculative-config
        '{"method":"dflash","model":"z-lab/Qwen3.6-27B-DFlash","num_speculative_tokens":15}'
    Good (version=0.26.0): with 16 --max-num-batched-tokens 8192 for 256 --max-num-batched-tokens
        2048
    Sources: vllm-project/vllm#50708; vllm-project/vllm#56025; vllm vllm/config/speculative.py
        (max_num_new_slots_for_drafting)
    """
    plan, place = case.plan, case.certain("--max-num-batched-tokens")
    per_token, more = SLOTS.get(plan.method, (0, 0))
    slots = per_token * (plan.k or 0) + more
    used, budget = slots * (plan.max_num_seqs or 0), plan.max_num_batched_tokens
    if place is None or budget is None or slots <= 0 or case.flag("--max-num-seqs") is None:
        return
    if used and budget <= used:
        what = f"Raise it well above {used:,}, or lower --max-num-seqs or k."
        yield Hit(
            f"{plan.max_num_seqs} sequences with {slots} draft slots each "
            f"({plan.method}{k_words(plan)}) use up the {budget:,} tokens of a step: the server "
            "refuses to start",
            flag=place,
            versions="0.26.0 and later",
            everywhere=within(case, "0.26.0", None) is True,
            fix=set_fix(case, place, str(max(8192, 1 << (2 * used).bit_length())), what),
        )
