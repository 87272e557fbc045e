"""llama-server's KV cache."""

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import certain, flag, integer, model_name, unread, value
from advisor.rules.kit.fixes import (
    add_fix,
    drop_fix,
    is_release_pinned,
    replace_fix,
    set_fix,
    value_fix,
)
from advisor.rules.kit.values import is_accepted

TYPES = table("compatibility")["kv_types_without_kernel"]
WHOLE = ("f32", "f16", "bf16")  # types of the V cache that need no flash attention
OPTION = "--kv-cache-dtype"
SIXTEEN = ("", "auto", "bfloat16", "float16")
OFF = ("off", "0", "false", "disabled")


@rule("SD210", "warning", "llama-server", data="compatibility.kv_types_without_kernel")
def llama_kv_without_kernel(case: Case) -> Hits:
    """A KV cache type for which a default llama.cpp build has no flash-attention kernel.

    Why: decoding hangs or crawls; only builds with GGML_CUDA_FA_ALL_QUANTS have the kernels.
    Bad: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q5_1 -ctv q5_1
    Good: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q8_0 -ctv q8_0
    """
    if (value(case, "--flash-attn") or "on").lower() in OFF:
        return
    places = [flag(case, name) for name in ("--cache-type-k", "--cache-type-v")]
    bad = [one for one in places if one and (one.value or "").lower() in TYPES["value"]]
    if bad:
        yield Hit(
            f"a default build has no flash-attention kernel for a {bad[0].value} KV cache: "
            f"decoding can hang",
            flag=bad[0],
            severity="info" if case.launch.fork else None,
            fix=value_fix(case, bad[0], "q8_0", "Use q8_0 (or q4_0), the same for K and V."),
        )


@rule("SD211", "warning", "llama-server")
@when(options="--cache-type-k --cache-type-v")
def llama_mixed_kv_types(case: Case) -> Hits:
    """Different types for the K and the V cache under llama.cpp.

    Why: a default build has flash-attention kernels for equal types only; others crawl or hang.
    Bad: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q8_0 -ctv q4_0
    Good: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q8_0 -ctv q8_0
    Sources: Tanguille/cluster@c9a7856e4
    """
    k, v = flag(case, "--cache-type-k"), flag(case, "--cache-type-v")
    given = [place for place in (k, v) if place is not None]
    # SD107 names a type that there is not; the other is no cure
    if not given or any(one.unresolved or not is_accepted(case, one) for one in given):
        return
    types = [((place.value if place else None) or "f16").lower() for place in (k, v)]
    if types[0] != types[1]:
        yield Hit(
            f"K cache {types[0]} and V cache {types[1]}: a default build has flash-attention "
            f"kernels for equal types only",
            flag=v or k,
            severity="info" if case.launch.fork else None,
            fix=value_fix(case, v, types[0], f"Use {types[0]} for both.") if v else None,
        )


@rule("SD243", "info", "gguf")
@when(options="--cache-reuse --ctx-checkpoints", parts="hybrid")
def cache_reuse_hybrid(case: Case) -> Hits:
    """--cache-reuse on a hybrid model.

    Why: recurrent state cannot be shifted; context checkpoints do that work.
    Bad: llama-server -m /models/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf --cache-reuse 256
    Good: llama-server -m /models/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf --ctx-checkpoints 32
    Sources: Tanguille/cluster models.ini; lmstudio-ai/lmstudio-bug-tracker#1563
    """
    reuse, checkpoints = flag(case, "--cache-reuse"), flag(case, "--ctx-checkpoints")
    if reuse is not None and (integer(reuse.value) or 0) > 0:
        yield Hit(
            "--cache-reuse is ignored on a hybrid; keep --ctx-checkpoints at 32 or more instead",
            flag=reuse,
            fix=drop_fix(case, reuse, "Remove --cache-reuse.", safe=is_release_pinned(case)),
        )
    if checkpoints is not None and integer(checkpoints.value) == 0:
        what = "Keep --ctx-checkpoints at 32 where prompts share their beginning."
        yield Hit(
            "no context checkpoints on a hybrid: a changed prompt is recomputed from its start",
            flag=checkpoints,
            fix=set_fix(case, checkpoints, "32", what),
        )


@rule("SD277", "error", "gguf")
@when(options="--cache-type-v")
def quantised_v_without_flash(case: Case) -> Hits:
    """A quantised V cache with flash attention switched off.

    Why: without flash attention V has no quantised form, and the server stops. K alone may be.
    Bad: llama-server -m Qwen3-32B-Q4_K_M.gguf --flash-attn off --cache-type-v q8_0
    Good: llama-server -m Qwen3-32B-Q4_K_M.gguf --flash-attn on --cache-type-v q8_0
    Sources: ggml-org/llama.cpp#10378; ggml-org/llama.cpp src/llama-context.cpp (V cache
        quantization requires flash_attn)
    """
    values, attention = certain(case, "--cache-type-v"), certain(case, "--flash-attn")
    if values is None or attention is None or (values.value or "f16").lower() in WHOLE:
        return
    if (attention.value or "on").lower() in OFF:
        yield Hit(
            f"a V cache of type {values.value} needs flash attention, which {attention.raw} "
            f"{attention.value} switches off: the context is not created",
            flag=attention,
            fix=set_fix(case, attention, "on", "Switch flash attention on, or leave V at f16."),
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
    model, found = case.facts.model, flag(case, OPTION)
    needed = (model.kv_cache_dtype if model is not None else None) or ""
    if found is not None and (found.unresolved or (found.value or "") not in SIXTEEN):
        return
    text = f"Set {OPTION} {needed}."
    first = next((one for one in case.launch.flags if one.raw.startswith("--")), None)
    yield Hit(
        f"{model_name(case)} takes no KV cache but {needed} in vLLM: the server stops while it "
        "loads",
        flag=found or flag(case, "--model"),
        severity="warning" if found is None and unread(case) else None,
        fix=add_fix(case, first, OPTION, needed, text)
        if found is None
        else replace_fix(case, found, f"{found.raw} {needed}", text, safe=True),
    )
