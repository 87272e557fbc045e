"""vLLM's KV cache: fp8 and alignment."""

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import compute_arch, flag, fp8_kv, k_flag, model_text
from advisor.rules.kit.fixes import drop_fix, set_fix
from advisor.rules.kit.releases import affects, prefix_caching_on, version_label
from advisor.rules.registry import get_defect

KV, BACKEND = "--kv-cache-dtype", "--attention-backend"
ALIGN, BLOCKS = "vllm-mamba-align-block", "compatibility.hybrid_block_tokens"
BLOCK = table("compatibility")["hybrid_block_tokens"]


@rule("SD220", "error", "vllm", defect="vllm-turboquant-mtp", at=KV)
@when(speculative=True)
def turboquant_mtp(case: Case) -> Hits:
    """TurboQuant KV cache together with speculation.

    Why: the verification of several tokens at once reads wrong values: lost needles and garbage.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B --kv-cache-dtype turboquant_4bit_nc
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (version=0.25.1): without --kv-cache-dtype turboquant_4bit_nc
    """
    if (case.plan.kv_cache_dtype or "").startswith(("turboquant", "tq")):
        text = f"KV cache {case.plan.kv_cache_dtype} with speculation gives wrong output"
        yield Hit(text, fix="Use one of the two, not both.")


@rule("SD221", "info", "vllm", at=KV)
@when(options=KV, parts="hybrid")
def fp8_kv_hybrid(case: Case) -> Hits:
    """An fp8 KV cache on a hybrid model, where the evidence conflicts.

    Why: scales are 1.0 unless the checkpoint carries them. Worth one quality test, not more.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Sources: vllm-project/vllm#26646; rwlove/home-ops; AI-Guru/ai_services
    """
    if fp8_kv(case):
        yield Hit(
            "fp8 KV on a hybrid: uncalibrated scales; the evidence on quality conflicts",
            fix="Compare answers with and without it on your own prompts.",
            conflicts=(
                "club-3090 finds the quality equal and sets it on",
                "the vLLM recipe for DGX Spark uses it",
            ),
        )


@rule("SD222", "warning", "vllm", defect="vllm-fp8kv-disables-prefix-caching", unsure="silent")
@when(options=KV, parts="hybrid")
def fp8_kv_prefix_caching(case: Case) -> Hits:
    """An fp8 KV cache with which some vLLM 0.25 builds drop prefix caching on hybrids in silence.

    Why: the hit rate is 0.0 %, and an agent computes its whole context at every step.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    if fp8_kv(case) and case.plan.prefix_caching is not False:
        what = f"Remove {KV} fp8, or read the prefix cache hit rate in the log."
        yield Hit(
            f"fp8 KV under vLLM {version_label(case)} switched prefix caching off on a hybrid: "
            f"the hit rate was 0.0 %",
            flag=flag(case, KV),
            fix=drop_fix(case, KV, what),
        )


@rule("SD223", "error", "vllm", defect="vllm-e5m2-refused", unsure="error", at=KV)
def fp8_e5m2_refused(case: Case) -> Hits:
    """An fp8_e5m2 KV cache with an FP8 checkpoint or the TRITON_ATTN backend.

    Why: vLLM raises a ValueError at start; e4m3 is the kind they take.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --kv-cache-dtype fp8_e5m2
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --kv-cache-dtype fp8_e4m3
    """
    checkpoint = "fp8" in model_text(case).lower() or case.plan.quantization == "fp8"
    triton = (case.plan.attention_backend or "").upper() == "TRITON_ATTN"
    if case.plan.kv_cache_dtype == "fp8_e5m2" and (checkpoint or triton):
        yield Hit(
            "fp8_e5m2 KV is refused "
            + ("with an FP8 checkpoint" if checkpoint else "by TRITON_ATTN"),
            fix=set_fix(case, KV, "fp8_e4m3", f"Use {KV} fp8_e4m3 (fp8)."),
        )


@rule("SD224", "error", "vllm", defect="vllm-flashinfer-fp8kv-sm120", unsure="silent", at=BACKEND)
def flashinfer_fp8kv_sm120(case: Case) -> Hits:
    """FlashInfer attention with an fp8 KV cache and NVFP4 weights on sm_120.

    Why: an illegal memory access even for a request of 16 tokens.
    Bad (version=0.27.1): vllm serve nvidia/Qwen3.6-35B-A3B-NVFP4 --kv-cache-dtype fp8
        --attention-backend FLASHINFER
    Good (version=0.27.1): with TRITON_ATTN for FLASHINFER
    """
    arch = compute_arch(case)
    four = "nvfp4" in model_text(case).lower() and (arch or "sm_120").startswith("sm_120")
    if four and flashinfer_fp8(case):
        yield Hit(
            "FlashInfer attention with fp8 KV and NVFP4 weights faults on sm_120"
            + ("" if arch else " (give --hw to know whether this machine is one)"),
            severity=None if arch else "warning",
            fix=set_fix(case, BACKEND, "TRITON_ATTN", f"Use {BACKEND} TRITON_ATTN."),
        )


def flashinfer_fp8(case: Case) -> bool:
    """Whether FlashInfer is asked for with an fp8 KV cache."""
    return (case.plan.attention_backend or "").upper() == "FLASHINFER" and fp8_kv(case)


@rule("SD225", "error", "vllm", defect="vllm-flashinfer-k3-fp8kv-hopper", unsure="silent")
@when(speculative=True)
def flashinfer_k3_fp8kv(case: Case) -> Hits:
    """FlashInfer attention with an fp8 KV cache and k of 3 or more on Hopper with an early release.

    Why: the kernel for four verified tokens does not compile there.
    Bad (version=0.15.0, hw=h100): vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct-FP8 --kv-cache-dtype
        fp8 --attention-backend FLASHINFER --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1, hw=h100): the same
    """
    if flashinfer_fp8(case) and compute_arch(case) in ("sm_90", "sm_90a") and case.plan.k >= 3:
        yield Hit(
            f"FlashInfer with fp8 KV and k={case.plan.k} does not compile on Hopper with "
            "this release",
            flag=k_flag(case),
            fix="Use k of at most 2, another attention backend, or a newer vLLM.",
        )


@rule("SD226", "info", "vllm", defect="vllm-async-align-assert", unsure="silent")
@when(methods="mtp", parts="hybrid")
def async_align_assert(case: Case) -> Hits:
    """Asynchronous scheduling, MTP and align-mode prefix caching on a hybrid, spring 2026.

    Why: an assertion on allocating new blocks was reported; it has not been seen on later releases.
    Bad (version=0.21.0): vllm serve Qwen/Qwen3.6-27B --async-scheduling --enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (version=0.21.0): with --no-async-scheduling for --async-scheduling
    """
    if case.plan.async_scheduling is not False and prefix_caching_on(case):
        yield Hit(
            "asynchronous scheduling, MTP and align-mode caching can hit an assertion on "
            "allocating blocks",
            flag=flag(case, "--async-scheduling", "--enable-prefix-caching"),
            fix="If it appears: --no-async-scheduling.",
        )


@rule("SD227", "error", "vllm", versioned=True, data=f"defects.{ALIGN} {BLOCKS}")
@when(parts="hybrid plan.max_num_batched_tokens")
def mamba_align_block(case: Case) -> Hits:
    """A token budget per step below one hybrid cache block, with prefix caching.

    Why: align mode schedules whole blocks (1,056 tokens and more): the start fails or hangs.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --enable-prefix-caching
        --max-num-batched-tokens 512
    Good (version=0.19.1): without --max-num-batched-tokens 512
    """
    budget, block = case.plan.max_num_batched_tokens or 0, BLOCK["value"]
    if budget < block and prefix_caching_on(case):
        place, what = "--max-num-batched-tokens", "Use --max-num-batched-tokens 2048 or more"
        yield Hit(
            f"{budget} tokens a step are less than one hybrid cache block (at least {block})",
            flag=flag(case, place),
            severity=None if affects(ALIGN, case) else "warning",
            fix=set_fix(case, place, "2048", f"{what}, or --no-enable-prefix-caching."),
            versions=get_defect(ALIGN).versions,
        )
