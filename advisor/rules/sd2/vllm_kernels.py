"""vLLM's kernels and token budget."""

from advisor.domain.nouns import Case
from advisor.rules import Hit, Hits, Lacking, rule, when
from advisor.rules.kit.case import certain, compute_arch, flag, model_text, value
from advisor.rules.kit.fixes import drop_fix, json_add_fix, set_fix
from advisor.rules.kit.flags import spec_config
from advisor.rules.kit.releases import affects, prefix_caching_on

CHUNKED = "--enable-chunked-prefill"
NAMES = ("--linear-attn-backend", "--linear-attn-decode-backend")
QUANTISED = ("fp8", "fp4", "awq", "gptq", "int4", "int8", "w4a16", "w8a8", "autoround")


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
