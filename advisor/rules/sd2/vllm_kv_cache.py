"""vLLM's KV cache: fp8 and alignment."""

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import compute_arch, flag, fp8_kv, is_hybrid, k_flag, model_text
from advisor.rules.kit.fixes import drop_fix, set_fix
from advisor.rules.kit.releases import affects, prefix_caching_on, version_label
from advisor.rules.registry import get_defect

BLOCK = table("compatibility")["hybrid_block_tokens"]


@rule("SD220", "error", "vllm", defect="vllm-turboquant-mtp")
@when(speculative=True)
def turboquant_mtp(case: Case) -> Hits:
    """TurboQuant KV cache together with speculation.

    Why: the verification of several tokens at once reads wrong values: lost needles and garbage.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B --kv-cache-dtype turboquant_4bit_nc
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (version=0.25.1): without --kv-cache-dtype turboquant_4bit_nc
    """
    if (case.plan.kv_cache_dtype or "").startswith(("turboquant", "tq")):
        yield Hit(
            f"KV cache {case.plan.kv_cache_dtype} with speculation gives wrong output",
            flag=flag(case, "--kv-cache-dtype"),
            fix="Use one of the two, not both.",
        )


@rule("SD221", "info", "vllm")
def fp8_kv_hybrid(case: Case) -> Hits:
    """An fp8 KV cache on a hybrid model, where the evidence conflicts.

    Why: scales are 1.0 unless the checkpoint carries them. Worth one quality test, not more.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Sources: vllm-project/vllm#26646; rwlove/home-ops; AI-Guru/ai_services
    """
    if fp8_kv(case) and is_hybrid(case):
        yield Hit(
            "fp8 KV on a hybrid: uncalibrated scales; the evidence on quality conflicts",
            flag=flag(case, "--kv-cache-dtype"),
            fix="Compare answers with and without it on your own prompts.",
            conflicts=(
                "club-3090 finds the quality equal and sets it on",
                "the vLLM recipe for DGX Spark uses it",
            ),
        )


@rule("SD222", "warning", "vllm", defect="vllm-fp8kv-disables-prefix-caching")
def fp8_kv_prefix_caching(case: Case) -> Hits:
    """An fp8 KV cache with which some vLLM 0.25 builds drop prefix caching on hybrids in silence.

    Why: the hit rate is 0.0 %, and an agent computes its whole context at every step.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --kv-cache-dtype fp8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    cached = fp8_kv(case) and is_hybrid(case) and case.plan.prefix_caching is not False
    if cached and affects("vllm-fp8kv-disables-prefix-caching", case):
        what = "Remove --kv-cache-dtype fp8, or read the prefix cache hit rate in the log."
        yield Hit(
            f"fp8 KV under vLLM {version_label(case)} switched prefix caching off on a hybrid: "
            f"the hit rate was 0.0 %",
            flag=flag(case, "--kv-cache-dtype"),
            fix=drop_fix(case, "--kv-cache-dtype", what),
        )


@rule("SD223", "error", "vllm", defect="vllm-e5m2-refused")
def fp8_e5m2_refused(case: Case) -> Hits:
    """An fp8_e5m2 KV cache with an FP8 checkpoint or the TRITON_ATTN backend.

    Why: vLLM raises a ValueError at start; e4m3 is the kind they take.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --kv-cache-dtype fp8_e5m2
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --kv-cache-dtype fp8_e4m3
    """
    if case.plan.kv_cache_dtype != "fp8_e5m2" or affects("vllm-e5m2-refused", case) is False:
        return
    backend, option = (case.plan.attention_backend or "").upper(), "--kv-cache-dtype"
    checkpoint = "fp8" in model_text(case).lower() or case.plan.quantization == "fp8"
    if checkpoint or backend == "TRITON_ATTN":
        yield Hit(
            f"fp8_e5m2 KV is refused "
            f"{'with an FP8 checkpoint' if checkpoint else 'by TRITON_ATTN'}",
            flag=flag(case, option),
            fix=set_fix(case, option, "fp8_e4m3", f"Use {option} fp8_e4m3 (fp8)."),
        )


@rule("SD224", "error", "vllm", defect="vllm-flashinfer-fp8kv-sm120")
def flashinfer_fp8kv_sm120(case: Case) -> Hits:
    """FlashInfer attention with an fp8 KV cache and NVFP4 weights on sm_120.

    Why: an illegal memory access even for a request of 16 tokens.
    Bad (version=0.27.1): vllm serve nvidia/Qwen3.6-35B-A3B-NVFP4 --kv-cache-dtype fp8
        --attention-backend FLASHINFER
    Good (version=0.27.1): with TRITON_ATTN for FLASHINFER
    """
    arch, option = compute_arch(case), "--attention-backend"
    flashinfer = (case.plan.attention_backend or "").upper() == "FLASHINFER" and fp8_kv(case)
    if not flashinfer or "nvfp4" not in model_text(case).lower():
        return
    if affects("vllm-flashinfer-fp8kv-sm120", case) and (arch or "sm_120").startswith("sm_120"):
        yield Hit(
            "FlashInfer attention with fp8 KV and NVFP4 weights faults on sm_120"
            + ("" if arch else " (give --hw to know whether this machine is one)"),
            flag=flag(case, option),
            severity=None if arch else "warning",
            fix=set_fix(case, option, "TRITON_ATTN", f"Use {option} TRITON_ATTN."),
        )


@rule("SD225", "error", "vllm", defect="vllm-flashinfer-k3-fp8kv-hopper")
@when(speculative=True)
def flashinfer_k3_fp8kv(case: Case) -> Hits:
    """FlashInfer attention with an fp8 KV cache and k of 3 or more on Hopper with an early release.

    Why: the kernel for four verified tokens does not compile there.
    Bad (version=0.15.0, hw=h100): vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct-FP8 --kv-cache-dtype
        fp8 --attention-backend FLASHINFER --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1, hw=h100): the same
    """
    flashinfer = (case.plan.attention_backend or "").upper() == "FLASHINFER" and fp8_kv(case)
    hopper = compute_arch(case) in ("sm_90", "sm_90a")
    affected = affects("vllm-flashinfer-k3-fp8kv-hopper", case)
    if flashinfer and hopper and case.plan.k >= 3 and affected:
        yield Hit(
            f"FlashInfer with fp8 KV and k={case.plan.k} does not compile on Hopper with "
            f"this release",
            flag=k_flag(case) or flag(case, "--attention-backend"),
            fix="Use k of at most 2, another attention backend, or a newer vLLM.",
        )


@rule("SD226", "info", "vllm", defect="vllm-async-align-assert")
@when(methods="mtp")
def async_align_assert(case: Case) -> Hits:
    """Asynchronous scheduling, MTP and align-mode prefix caching on a hybrid, spring 2026.

    Why: an assertion on allocating new blocks was reported; it has not been seen on later releases.
    Bad (version=0.21.0): vllm serve Qwen/Qwen3.6-27B --async-scheduling --enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (version=0.21.0): with --no-async-scheduling for --async-scheduling
    """
    if case.plan.async_scheduling is False or not affects("vllm-async-align-assert", case):
        return
    if is_hybrid(case) and prefix_caching_on(case):
        yield Hit(
            "asynchronous scheduling, MTP and align-mode caching can hit an assertion on "
            "allocating blocks",
            flag=flag(case, "--async-scheduling") or flag(case, "--enable-prefix-caching"),
            fix="If it appears: --no-async-scheduling.",
        )


@rule(
    "SD227",
    "error",
    "vllm",
    versioned=True,
    data="defects.vllm-mamba-align-block compatibility.hybrid_block_tokens",
)
def mamba_align_block(case: Case) -> Hits:
    """A token budget per step below one hybrid cache block, with prefix caching.

    Why: align mode schedules whole blocks (1,056 tokens and more): the start fails or hangs.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --enable-prefix-caching
        --max-num-batched-tokens 512
    Good (version=0.19.1): without --max-num-batched-tokens 512
    """
    budget = case.plan.max_num_batched_tokens
    if budget is None or budget >= BLOCK["value"]:
        return
    if not is_hybrid(case) or not prefix_caching_on(case):
        return
    sure = affects("vllm-mamba-align-block", case)
    what = "Use --max-num-batched-tokens 2048 or more, or --no-enable-prefix-caching."
    yield Hit(
        f"{budget} tokens a step are less than one hybrid cache block (at least {BLOCK['value']})",
        flag=flag(case, "--max-num-batched-tokens"),
        severity=None if sure else "warning",
        fix=set_fix(case, "--max-num-batched-tokens", "2048", what),
        versions=get_defect("vllm-mamba-align-block").versions,
    )
