"""llama-server: its KV cache, and speculation."""

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.perf.regimes import losses
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import integer
from advisor.rules.kit.fixes import add_fix, joint_fix, set_fix, span_fix
from advisor.rules.kit.policy import regime
from advisor.rules.kit.relations import relate
from advisor.rules.kit.values import is_accepted

TYPES = table("compatibility")["kv_types_without_kernel"]
OFF = ("off", "0", "false", "disabled")
EXTERNAL = "defects.llama-external-draft-slow", "regime.external_draft_hybrid"
MMPROJ = ("--mmproj", "--mmproj-url")
WHAT = "Set --parallel 1, or switch speculation off for several slots."
# the longest context of the models here; a total above it is meant for several slots
LONGEST_CTX = 262_144


@rule("SD210", "warning", "llama-server", data="compatibility.kv_types_without_kernel")
def llama_kv_without_kernel(case: Case) -> Hits:
    """A KV cache type for which a default llama.cpp build has no flash-attention kernel.

    Why: decoding hangs or crawls; only builds with GGML_CUDA_FA_ALL_QUANTS have the kernels.
    Bad: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q5_1 -ctv q5_1
    Good: llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf -fa on -ctk q8_0 -ctv q8_0
    """
    if (case.value("--flash-attn") or "on").lower() in OFF:
        return
    places = [case.flag(name) for name in ("--cache-type-k", "--cache-type-v")]
    bad = [one for one in places if one and (one.value or "").lower() in TYPES["value"]]
    what = "Use q8_0 (or q4_0), the same for K and V."
    if bad:
        yield Hit(
            f"a default build has no flash-attention kernel for a {bad[0].value} KV cache: "
            f"decoding can hang",
            flag=bad[0],
            severity="info" if case.launch.fork else None,
            fix=joint_fix(what, *(span_fix(case, one.value_span, "q8_0", what) for one in bad)),
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
    k, v = case.flag("--cache-type-k"), case.flag("--cache-type-v")
    given, flash = [one for one in (k, v) if one is not None], case.value("--flash-attn") or "on"
    # SD107 names a type that there is not; the other is no cure
    if flash.lower() in OFF or any(one.unresolved or not is_accepted(case, one) for one in given):
        return
    types = [((place.value if place else None) or "f16").lower() for place in (k, v)]
    if types[0] != types[1]:
        yield Hit(
            f"K cache {types[0]} and V cache {types[1]}: a default build has flash-attention "
            f"kernels for equal types only",
            flag=v or k,
            severity="info" if case.launch.fork else None,
            fix=span_fix(case, v.value_span, types[0], f"Use {types[0]} for both.") if v else None,
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
    return relate(case, "SD243")


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
    return relate(case, "SD277")


@rule("SD205", "warning", "gguf", decides=True, data=EXTERNAL, at="--spec-draft-model spec")
@when(methods="draft_model", parts="hybrid", needs="model")
def external_draft_on_hybrid(case: Case) -> Hits:
    """A separate draft model for a hybrid target under llama.cpp.

    Why: every partly rejected round saves and restores the recurrent state.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -md
        /models/Qwen3.5-0.8B.gguf --spec-type draft-simple --spec-draft-n-max 8
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-35B-A3B-MTP-UD-Q4_K_XL.gguf --spec-type
        draft-mtp --spec-draft-n-max 2
    """
    yield Hit(
        "an external draft model on a hybrid target ran at 0.14 to 0.29 of the plain speed "
        "(RTX 3090, n=1 to 32)",
        fix="Use a GGUF that keeps the MTP tensors with --spec-type draft-mtp "
        "--spec-draft-n-max 2, DFlash, or no speculation.",
        conflicts=(
            "the first tables found 0.40 to 0.61 (seed001), and 122B-A10B users report gains "
            "of 15 to 45 %",
        ),
        effect=regime(case, losses.external_draft).effect,
    )


@rule("SD206", "warning", "llama-server", defect="llama-mtp-slots", unsure="info")
@when(methods="mtp")
def llama_mtp_slots(case: Case) -> Hits:
    """MTP with several server slots under llama.cpp.

    Why: with more than one slot the state came out wrong, or memory ran out; the default is four.
    Bad (version=b9235): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        --parallel 4
    Good (version=b9235): with --parallel 1 for --parallel 4
    """
    slots, given = case.plan.max_num_seqs, case.flag("--parallel")
    if slots == 1 or (given and (given.unresolved or slots is None)):
        return
    many = f"{slots} slots" if slots else "no --parallel (four slots by default)"
    fix = add_fix(case, case.spec_flag(), "--parallel", "1", WHAT)
    yield Hit(
        f"MTP with {many}: builds up to mid-2026 support one slot only",
        flag=given or case.spec_flag(),
        severity=None if slots else "info",
        fix=set_fix(case, given, "1", WHAT) if given else fix,
    )


@rule("SD207", "error", "llama-server", defect="llama-mtp-vision", unsure="info", at=MMPROJ)
@when(methods="mtp", options=MMPROJ)
def llama_mtp_vision(case: Case) -> Hits:
    """MTP together with an image projector on a llama.cpp build that cannot do both.

    Why: the first image prompt hits an assertion and the server dies.
    Bad (version=b9200): llama-server -m /models/Qwen3.6-27B-MTP-Q8_0.gguf --mmproj
        /models/mmproj-F16.gguf --spec-type draft-mtp
    Good (version=b9300): the same
    """
    return relate(case, "SD207")


@rule("SD208", "warning", "llama-server", data="defects.llama-mtp-split-tensor")
@when(methods="mtp", options="--split-mode")
def llama_mtp_split_tensor(case: Case) -> Hits:
    """MTP with split mode `tensor` over several GPUs under llama.cpp.

    Why: builds of May 2026 hit an assertion or ran out of memory; later ones changed the outputs.
    Bad: llama-server -m /models/Qwen3.6-27B-MTP-Q8_0.gguf -sm tensor --spec-type draft-mtp
    Good: llama-server -m /models/Qwen3.6-27B-MTP-Q8_0.gguf -sm layer --spec-type draft-mtp
    """
    return relate(case, "SD208")


@rule("SD209", "warning", "llama-server", defect="llama-draft-ctx-total", unsure="warning")
@when(methods="mtp")
def llama_draft_ctx_total(case: Case) -> Hits:
    """MTP with several slots and a total context beyond what the model has.

    Why: the draft context is sized from the total, and the server crashes at the first decode.
    Bad (version=b10752): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --ctx-size 1048576
        --parallel 4 --spec-type draft-mtp
    Good (version=b10752): with --ctx-size 131072 for --ctx-size 1048576
    """
    place, slots = case.flag("--ctx-size"), case.flag("--parallel")
    longest = (case.facts.model.max_context_tokens if case.facts.model else None) or LONGEST_CTX
    total, several = total_ctx(case), case.plan.max_num_seqs != 1
    if total is not None and total > longest and several and not (slots and slots.unresolved):
        what = f"Lower --ctx-size to {longest} or less, or use --parallel 1."
        yield Hit(
            f"a total context of {total} tokens with MTP and several slots: the draft context is "
            f"sized from the total, and a server crashed at its first decode",
            flag=place,
            fix=set_fix(case, place, str(longest), what),
        )


def total_ctx(case: Case) -> int | None:
    """Tokens over all slots; None where they are left to the model."""
    place = case.flag("--ctx-size")
    if place is not None:
        return None if place.unresolved else integer(place.value)
    per_slot, slots = case.plan.max_model_len, case.plan.max_num_seqs
    return per_slot * slots if case.launch.emitted and per_slot and slots else None


@rule("SD212", "warning", "llama-server")
@when(options="--spec-type")
def llama_n_max_zero(case: Case) -> Hits:
    """A speculative type together with zero draft tokens.

    Why: nothing is drafted, but the draft context and its memory are still built.
    Bad: llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp --spec-draft-n-max 0
    Good: llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf
    Sources: noonghunna/club-3090 compose notes
    """
    return relate(case, "SD212")
