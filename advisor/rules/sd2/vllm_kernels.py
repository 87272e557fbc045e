"""vLLM's kernels, KV cache and token budget."""

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, Lacking, rule, when
from advisor.rules.kit.case import (
    certain,
    compute_arch,
    flag,
    fp8_kv,
    model_name,
    model_text,
    unread,
    value,
)
from advisor.rules.kit.fixes import add_fix, drop_fix, json_add_fix, replace_fix, set_fix
from advisor.rules.kit.flags import spec_config
from advisor.rules.kit.releases import affects, prefix_caching_on, version_label
from advisor.rules.registry import get_defect

CHUNKED = "--enable-chunked-prefill"
NAMES = ("--linear-attn-backend", "--linear-attn-decode-backend")
QUANTISED = ("fp8", "fp4", "awq", "gptq", "int4", "int8", "w4a16", "w8a8", "autoround")
SIXTEEN = ("", "auto", "bfloat16", "float16")
KV, BACKEND = "--kv-cache-dtype", "--attention-backend"
ALIGN, BLOCKS = "vllm-mamba-align-block", "compatibility.hybrid_block_tokens"
BLOCK = table("compatibility")["hybrid_block_tokens"]


@rule("SD246", "warning", "vllm", at="spec")
@when(methods="mtp", options="--moe-backend")
def draft_moe_backend(case: Case) -> Hits:
    """NVFP4 weights on the marlin MoE backend with an MTP head that has no backend of its own.

    Why: the head is not NVFP4: on marlin it fails or crawls. The recipe gives it triton.
    Bad: vllm serve nvidia/Qwen3.6-35B-A3B-NVFP4 --moe-backend marlin --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good: with "num_speculative_tokens":3,"moe_backend":"triton" for "num_speculative_tokens":3
    Sources: vllm-project/recipes Qwen3.6-35B-A3B; AI-Guru/ai_services
    """
    read, marlin = spec_config(case), (value(case, "--moe-backend") or "").lower() == "marlin"
    own = read is not None and (read.data is None or "moe_backend" in read.data)
    if marlin and "nvfp4" in model_text(case).lower() and not own:
        what = 'Add "moe_backend":"triton" to --speculative-config.'
        place = read.flag if read is not None else None
        yield Hit(
            "the MTP head of an NVFP4 checkpoint fails or crawls on the marlin MoE backend",
            fix=json_add_fix(case, place, "moe_backend", '"triton"', what),
        )


@rule("SD247", "warning", "vllm", defect="vllm-gb10-deepgemm", unsure="silent")
@when(needs="hardware")
def gb10_deepgemm(case: Case) -> Hits:
    """A block-FP8 checkpoint on GB10 with vLLM 0.24 and DeepGEMM left on.

    Why: loading stops with "Unknown SF transformation".
    Bad (version=0.24.0, hw=gb10): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.24.0, hw=gb10):
        export VLLM_USE_DEEP_GEMM=0
        vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    hw, name = case.facts.hardware, "VLLM_USE_DEEP_GEMM"
    fp8 = "fp8" in model_text(case).lower() and case.launch.env_value(name) != "0"
    if hw is not None and hw.id == "gb10" and fp8:
        text = f"vLLM 0.24 on GB10 needs {name}=0 for this FP8 checkpoint"
        yield Hit(text, flag=name, fix=f"Set {name}=0.")


@rule("SD251", "error", "vllm", defect="vllm-lookahead-budget", at="--max-num-batched-tokens")
@when(speculative=True)
def batched_tokens_below_k(case: Case) -> Hits:
    """A token budget per step that does not even hold the draft tokens of one request.

    Why: vLLM 0.33 refuses it; earlier releases can never schedule a speculative step.
    Bad (version=0.33.0): vllm serve Qwen/Qwen3.6-27B --max-num-batched-tokens 2
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (version=0.33.0): with --max-num-batched-tokens 8192 for --max-num-batched-tokens 2
    """
    budget = case.plan.max_num_batched_tokens
    if budget is not None and budget <= case.plan.k:
        yield Hit(
            f"{budget} tokens a step do not hold k={case.plan.k} draft tokens and one more",
            fix=set_fix(case, "--max-num-batched-tokens", "2048", "Use 2048 or more."),
            severity=None if affects("vllm-lookahead-budget", case) else "warning",
        )


@rule("SD252", "error", "vllm", at=CHUNKED)
@when(options=CHUNKED, parts="hybrid")
def chunked_prefill_off(case: Case) -> Hits:
    """Prefix caching on a hybrid with chunked prefill switched off.

    Why: align mode needs chunked prefill and asserts it at start.
    Bad: vllm serve Qwen/Qwen3.6-27B --enable-prefix-caching --no-enable-chunked-prefill
    Good: vllm serve Qwen/Qwen3.6-27B --enable-prefix-caching --enable-chunked-prefill
    Sources: vllm 0.19.1 and 0.25.1 vllm/model_executor/models/config.py
    """
    if (value(case, CHUNKED) or "").lower() == "false" and prefix_caching_on(case):
        what = "Remove --no-enable-chunked-prefill, or switch prefix caching off."
        yield Hit(
            "prefix caching on a hybrid asserts chunked prefill, which is switched off here",
            fix=drop_fix(case, CHUNKED, what),
        )


@rule("SD258", "warning", "sglang")
@when(speculative=True, options=NAMES, parts="hybrid")
def dead_linear_backend(case: Case) -> Hits:
    """A linear-attention backend other than triton with speculation on a hybrid.

    Why: it switches extra_buffer off; FlashInfer decode without it is refused (0.5.10).
    Bad: sglang serve --model-path Qwen/Qwen3.5-9B --linear-attn-decode-backend flashinfer
        --speculative-algorithm NEXTN
    Good: with triton for flashinfer
    Sources: sglang 0.5.10 and 0.5.14 server_args.py
    """
    place = certain(case, *NAMES)
    if place is not None and (place.value or "triton") != "triton":
        yield Hit(
            f"{place.raw} {place.value} switches extra_buffer off, which speculation on a hybrid "
            f"needs for its radix cache",
            flag=place,
            fix=set_fix(case, place, "triton", "Use triton."),
        )


@rule("SD262", "error", "vllm", defect="vllm-moe-backend-bf16-hopper", unsure="silent")
@when(parts="facts.model facts.model.is_moe")
def moe_backend_bf16_hopper(case: Case) -> Hits:
    """A BF16 mixture of experts on Hopper with vLLM 0.18 and the default MoE backend.

    Why: the FlashInfer CUTLASS default faults with an illegal memory access during graph capture.
    Bad (version=0.18.2, hw=h100): vllm serve Qwen/Qwen3.6-35B-A3B
    Good (version=0.18.2, hw=h100): vllm serve Qwen/Qwen3.6-35B-A3B --moe-backend triton
    """
    arch, name = compute_arch(case), model_text(case).lower()
    quantised = case.plan.quantization or any(word in name for word in QUANTISED)
    if quantised or flag(case, "--moe-backend") is not None:
        return
    if arch is None:
        yield Lacking(("hardware",))
    elif arch.startswith("sm_90"):
        yield Hit(
            "BF16 experts on Hopper fault during graph capture with this release's default "
            "MoE backend",
            fix="Add --moe-backend triton, or use a newer vLLM.",
        )


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


@rule("SD225", "error", "vllm", defect="vllm-flashinfer-k3-fp8kv-hopper", unsure="silent", at="k")
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


@rule("SD278", "error", "vllm")
@when(parts="facts.model facts.model.kv_cache_dtype", needs="model")
def cache_type_of_model(case: Case) -> Hits:
    """A KV cache type that vLLM's class for this model does not take.

    Why: the attention of DeepSeek-V4 keeps its cache in fp8 alone: the server stops at other types.
    Bad: vllm serve deepseek-ai/DeepSeek-V4-Flash --tensor-parallel-size 4
    Good: vllm serve deepseek-ai/DeepSeek-V4-Flash --tensor-parallel-size 4 --kv-cache-dtype fp8
    Sources: vllm recipe of DeepSeek-V4-Flash; vllm models/deepseek_v4/attention.py
    """
    model, found = case.facts.model, flag(case, KV)
    needed = (model.kv_cache_dtype if model is not None else None) or ""
    if found is not None and (found.unresolved or (found.value or "") not in SIXTEEN):
        return
    text = f"Set {KV} {needed}."
    first = next((one for one in case.launch.flags if one.raw.startswith("--")), None)
    yield Hit(
        f"{model_name(case)} takes no KV cache but {needed} in vLLM: the server stops while it "
        "loads",
        flag=found or flag(case, "--model"),
        severity="warning" if found is None and unread(case) else None,
        fix=add_fix(case, first, KV, needed, text)
        if found is None
        else replace_fix(case, found, f"{found.raw} {needed}", text, safe=True),
    )
