"""Contexts against the pool and the model."""

from advisor.domain.nouns import Case, MemoryBill
from advisor.knowledge.rule_data import number, table
from advisor.perf.sizes.device import BILL_ERROR_GIB
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import fp8_kv, integer, is_gguf
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.models import names_itself
from advisor.rules.kit.policy import bill, leaves_no_pool, unknown_sizes

# KV types of which the bill knows how many bytes they take
SIZED_KV = ("auto", "bf16", "bfloat16", "fp16", "float16", "fp8")
ALL_LAYERS = 90  # no known model has more
# what lifts the bound: a variable, or options that stretch the positions
STRETCH = (
    *("--hf-overrides", "--rope-scaling", "--rope-theta", "--hf-config-path", "--rope-scale"),
    *("--json-model-override-args", "--override-kv", "--rope-freq-scale", "--rope-freq-base"),
    *("--yarn-orig-ctx", "--yarn-ext-factor"),
)
OVERRIDE_ENV = {
    "vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
}
ENCODERS: dict[str, int] = table("compatibility")["encoder_contexts"]["value"]
LENGTH_2507 = 262_144  # the Qwen3 models of July 2025, whose name says so
BASE_IS_LONGER = "qwen2.5"  # the base models of this family have 131072, the instruct ones 32768


@rule("SD303", "error", "catalogued", data="memory.kv_pool_uncertainty")
@when(needs="hardware shape quant")
def context_exceeds_pool(case: Case) -> Hits:
    """One request of the maximum length, or what llama-server reserves, exceeds the KV pool.

    Why: vLLM refuses to start, SGLang admits less; drafts lost in llama-server (0.71x, 0.83x).
    Bad (hw=rtx3090): vllm serve Qwen/Qwen3.6-27B-AWQ --max-model-len 262144 --max-num-seqs 2
    Good (hw=h200): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-model-len 32768 --max-num-seqs 8
    Sources: advisor memory bill; noonghunna/club-3090
    """
    yield from unknown_sizes(case)
    found, length = bill(case), case.plan.max_model_len
    if found is None or found.kv_tokens is None or length is None or found.kv_tokens <= 0:
        return
    if not case.plan.engine.startswith(("vllm", "sglang")):
        yield from _slots_beyond(case, found)
        return
    if length <= found.kv_tokens:
        return
    # tokens of the pool if the engine needed hardly any buffers
    room = (found.available_gib or 0.0) - found.weights_gib - found.spec_gib
    more = 1 + number("memory", "kv_pool_uncertainty")
    at_best = found.kv_tokens / found.kv_gib * room * more if found.kv_gib else 0.0
    kind = case.plan.kv_cache_dtype
    sized = not case.open_value("--kv-cache-dtype") and (kind is None or kind.startswith(SIZED_KV))
    unsure = length <= at_best or not sized
    yield Hit(
        f"a request of the maximum length, {length:,} tokens, does not fit the KV pool of about "
        f"{found.kv_tokens:,}",
        flag=case.flag("--max-model-len", "--context-length"),
        severity="warning" if unsure or case.plan.engine == "sglang" else None,
        fix=(
            f"Lower the maximum length to {found.kv_tokens // 1024 * 1024:,} tokens"
            + (", or give it more memory." if fp8_kv(case) else ", or use an 8-bit KV cache.")
        ),
    )


def _slots_beyond(case: Case, found: MemoryBill) -> Hits:
    """Slots of llama-server beyond the error of its bills, with all layers there."""
    short, layers = found.short_gib or 0.0, integer(case.value("--gpu-layers"))
    partial = layers is not None and layers < ALL_LAYERS
    moved = case.flag("--cpu-moe", "--n-cpu-moe", "--override-tensor", "--kv-offload") is not None
    if short <= BILL_ERROR_GIB or partial or moved or leaves_no_pool(found):
        return
    slots = case.plan.max_num_seqs or case.facts.concurrency or 1
    many = f"{slots} slots" if slots > 1 else "one slot"
    other = "" if case.plan.kv_cache_dtype else ", or take -ctk q8_0 -ctv q8_0"
    yield Hit(
        f"the context of {many} is billed {short:.1f} GiB too large for {case.hardware_name}: "
        "what is over lies in system memory, where drafts lost",
        flag=case.flag("--ctx-size"),
        severity="warning",
        fix=f"Lower --ctx-size{other}" + (", or fewer slots (--parallel)." if slots > 1 else "."),
        sources=("advisor memory bill", "corral9070xt"),
    )


@rule("SD311", "warning", decides=True, at="--ctx-size --max-model-len --context-length")
@when(parts="plan.max_model_len", needs="ctx_tokens")
def request_exceeds_context(case: Case) -> Hits:
    """Requests of this size are longer than the configured length per request.

    Why: vLLM and SGLang refuse them; llama-server divides -c by its slots, and may truncate.
    Bad (ctx=8192): llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 16384 --parallel 4
    Good (ctx=8192): llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 65536 --parallel 4
    Sources: llama-server 0.5.0 --help: --ctx-size, --parallel; vllm and sglang request checks
    """
    length, ctx = case.plan.max_model_len or 0, case.facts.ctx_tokens or 0
    output, slots = case.facts.output_tokens or 0, case.plan.max_num_seqs or 1
    if ctx + output <= length or case.has_switch("--embedding", "--rerank"):
        return
    shared = f" (-c is shared by {slots} slots)" if is_gguf(case) and slots > 1 else ""
    yield Hit(
        f"requests of {ctx:,} + {output:,} tokens exceed the {length:,} tokens per request{shared}",
        severity="error" if ctx >= length else None,
        fix=f"Set -c {(ctx + output) * slots}."
        if is_gguf(case)
        else f"Raise the maximum length to {ctx + output} or more.",
    )


@rule("SD315", "error", "vllm sglang gguf")
def context_beyond_model(case: Case) -> Hits:
    """A context longer than the model was made for.

    Why: vLLM and SGLang refuse to start; llama-server caps the context or answers badly beyond.
    Bad: vllm serve Qwen/Qwen3-32B --max-model-len 131072
    Good: vllm serve Qwen/Qwen3-32B --max-model-len 40960
    Sources: vllm vllm/config/model.py (_get_and_verify_max_len); sglang
        python/sglang/srt/configs/model_config.py; sgl-project/sglang#1778; config.json of the
        models (max_position_embeddings)
    """
    model, length = case.facts.model, case.plan.max_model_len
    name = case.plan.model or case.launch.model or ""
    encoder = ENCODERS.get(name.lower())
    most = model.max_context_tokens if model is not None else None
    if most is not None and "2507" in name:
        most = max(most, LENGTH_2507)
    most = encoder or most
    if most is None or length is None or length <= most:
        return
    how = OVERRIDE_ENV.get(case.plan.engine)
    lifted = case.launch.env_value(how or "") not in (None, "0", "false", "False")
    if lifted or any(found.name.partition(".")[0] in STRETCH for found in case.launch.flags):
        return
    itself: bool | None = encoder is not None
    if encoder is None and model is not None:
        itself = names_itself(model, name)
        if model.id.startswith(BASE_IS_LONGER) and "instruct" not in name.lower():
            return
    if itself is None:
        return
    place = case.flag("--max-model-len", "--context-length", "--ctx-size")
    slots = (case.plan.max_num_seqs or 1) if place and place.name == "--ctx-size" else 1
    what = "or stretch the positions (YaRN) where the model's card says how."
    yield Hit(
        f"{length:,} tokens exceed the {most:,} that {name if encoder else case.model_name} was "
        "made for" + (f": the server refuses to start without {how}=1" if how else ""),
        flag=place,
        severity="warning" if is_gguf(case) or not itself else None,
        fix=set_fix(case, place, str(most * slots), f"Set it to {most} at most, {what}"),
    )


@rule("SD312", "info", "gguf", data="memory.slot_ctx_tokens_min")
@when(options="--parallel", parts="plan.max_model_len")
def slots_share_context(case: Case) -> Hits:
    """llama-server's -c is the total over all slots, and little is left for each.

    Why: -c 16384 with -np 4 gives a request 4096 tokens, without one pool (--kv-unified).
    Bad: llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 16384 --parallel 4
    Good: llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 131072 --parallel 4
    Sources: llama-server 0.5.0 --help: --ctx-size, --parallel
    """
    slots, length = case.plan.max_num_seqs or 1, case.plan.max_model_len or 0
    short = length < number("memory", "slot_ctx_tokens_min")
    if short and slots > 1 and not case.has_switch("--kv-unified"):
        yield Hit(
            f"{slots} slots share -c {length * slots:,}: each request gets {length:,} tokens",
            flag=case.flag("--ctx-size", "--parallel"),
            severity="warning" if length <= number("memory", "slot_ctx_tokens_least") else None,
            fix="Multiply -c by the number of slots, or use fewer slots.",
        )
