from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, Lacking, rule
from advisor.rules.kit.case import flag, fp8_kv, speculates
from advisor.rules.kit.policy import (
    bill,
    demand_tokens,
    leaves_no_pool,
    sources,
    streams,
    unknown_sizes,
)


@rule(
    severity="warning",
    needs=("hardware", "shape", "quant", "concurrency", "ctx_tokens"),
    sources=("advisor memory bill", *sources("memory", "mtp_kv_loss_gb10", "mtp_kv_loss_h200")),
)
def kv_pool_too_small(case: Case) -> Iterator[Hit | Lacking]:
    """The KV pool holds fewer tokens than the load has in flight.

    Why: requests are queued or preempted and prefilled again; TTFT and the tail of the inter-token
    latency grow, with speculation more than without.
    Bad (hw=rtx3090, concurrency=32, ctx=32768, quant=awq-int4): vllm serve
    cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit
        --max-num-seqs 32
    Good (hw=h200, concurrency=4, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
    """
    if open_sizes := unknown_sizes(case):
        yield Lacking(open_sizes)
        return
    found, demand, running = bill(case), demand_tokens(case), streams(case)
    if (
        found is None
        or found.kv_tokens is None
        or demand is None
        or not running
        or demand <= found.kv_tokens
    ):
        return
    if leaves_no_pool(found):
        return  # SD301 says it
    if case.plan.method != "none" and demand <= found.kv_tokens + (found.kv_tokens_lost or 0):
        return  # SD304 says that speculation decides it
    each = demand // running
    counted = found.kv_tokens // each if each else 0
    fit = counted if found.requests is None else found.requests  # the bill's and the estimate's
    fit = min(max(0, fit), running) if counted > 0 else 0
    run = f"about {fit} of them run at once, the rest are queued" if fit else "not one of them fits"
    lost = f" (MTP took {found.kv_tokens_lost:,} of it)" if found.kv_tokens_lost else ""
    yield Hit(
        f"the KV pool holds about {max(0, found.kv_tokens):,} tokens{lost}, but {running} "
        f"requests of {each:,} tokens need "
        f"{demand:,}: {run}",
        flag=flag(
            case,
            "--gpu-memory-utilization",
            "--mem-fraction-static",
            "--ctx-size",
            "--kv-cache-dtype",
        ),
        fix=Fix(
            text="Take fewer concurrent requests, a larger memory share"
            + ("" if fp8_kv(case) else ", an 8-bit KV cache")
            + (", or no speculation." if speculates(case.plan) else ", or more GPUs.")
        ),
    )
