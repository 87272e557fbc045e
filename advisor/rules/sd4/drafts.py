"""Losses and gains by method."""

from advisor.domain.nouns import Case
from advisor.engines.vllm import verifies_adaptively
from advisor.knowledge.rule_data import number
from advisor.perf.regimes import losses
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import capability, is_hybrid, rows
from advisor.rules.kit.policy import (
    concurrent_requests,
    first_match,
    is_sparse_moe,
    regime,
    streams,
)
from advisor.rules.kit.relations import relate
from advisor.rules.kit.releases import between, release


@rule("SD401", "info", decides=True, data="regime.documented_gains")
@when(speculative=True, needs="hardware model concurrency")
def documented_gain(case: Case) -> Hits:
    """Published benchmarks show a gain from speculation at this load.

    Why: where memory bandwidth limits decoding, rules of thumb about concurrency fail.
    Bad (hw=gb10, concurrency=16, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (hw=gb10, concurrency=16, ctx=2048): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    row = first_match(case, "documented_gains")
    if row is not None:
        best = row.get("k_best")
        yield Hit(f"documented gain: {row['text']}", row=row, effect="support", k_best=best)


@rule("SD410", "info", "sglang", decides=True, data="regime.sglang_saturated_concurrency")
@when(methods="mtp", needs="concurrency")
def sglang_profile(case: Case) -> Hits:
    """SGLang's MTP profile against the load: 3 steps, topk 1, 4 drafts; or off.

    Why: one stream has compute to spare for three draft tokens; with more each takes from the
    others. The profiles are recipes: what was measured goes before. On a saturated server dense
    models lost and mixtures gained.
    Bad (concurrency=64): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm
        NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    Good (concurrency=16): the same
    """
    at_once = concurrent_requests(case) or 1
    effect, strength = regime(case, losses.saturated_sglang)
    if effect is not None:
        yield Hit(
            f"{at_once} streams: verifying dominates on a saturated server, and dense models lost "
            f"with MTP there (a 27B on a GB10 0.88x to 0.92x at 64 streams, on 2x H20 0.41x)",
            flag=case.spec_flag(),
            severity="warning",
            fix="Switch speculation off, or give interactive users their own server.",
            sources=("coralgb10sgl", "f68420811681", "vprog"),
            effect=effect,
            strength=strength,
        )
    elif at_once > number("regime", "sglang_saturated_concurrency") / 2 and is_sparse_moe(case):
        yield Hit(
            f"{at_once} streams: the published throughput profile for the 35B-A3B is speculation "
            f"off, a recipe without measurements",
            flag=case.spec_flag(),
            fix="Measure both; what was measured gained.",
            conflicts=(
                "64 streams: 35B-A3B in FP8 on an H200, output tok/s 1.10x with k=1, 1.13x and "
                "1.28x with 2, 1.26x with 3 (bench-h200-sglang-0517); DeepSeek-V3 on 8x MI300X "
                "1.25x and 1.36x (amdmtp300); GLM-5 on 8x RTX PRO 6000 1.41x and 1.56x (rtx6k)",
            ),
            effect="caution",
        )
    elif at_once == 1 and case.facts.request is not None and is_sparse_moe(case):
        yield Hit(
            "the low-latency profile for one stream is steps 3, topk 1, draft tokens 4",
            sources=("seed002", "seed003", "sgl-cookbook Qwen3.6"),
            conflicts=(
                "recipes without measurements: on a GB10 three draft tokens still gain at four "
                "streams (pico), and a dense 27B "
                "on 2x H20 lost with them even alone (f68420811681)",
            ),
            effect="support",
            k_best=int(number("regime", "sglang_low_latency_k")),
        )


@rule("SD426", "warning", "vllm", decides=True, data="regime.triton_mla")
@when(speculative=True, needs="hardware model")
def triton_mla_verify(case: Case) -> Hits:
    """Speculation with latent attention (MLA) where vLLM has only its Triton kernel.

    Why: its Triton kernel decodes one token a request.
    Bad (hw=rtx-pro-6000): vllm serve zai-org/GLM-4.7-Flash --speculative-config
        '{"method":"mtp","num_speculative_tokens":1}'
    Good (hw=h200): the same
    """
    row, asked = first_match(case, "triton_mla"), (case.plan.attention_backend or "").upper()
    if row is None or case.plan.method == "ngram" or asked not in ("", "TRITON_MLA"):
        return
    if not case.open_value("--attention-backend"):
        yield Hit(
            f"vLLM has only its Triton kernel for MLA on {case.hardware_name}: a verify step "
            "reads the context like a prompt; EAGLE ran at 0.49 to 0.77 of the baseline speed on "
            "a GB10",
            flag=case.flag("--attention-backend") or case.spec_flag(),
            fix="Run without speculation, or benchmark both first.",
            row=row,
            effect=regime(case, losses.triton_mla).effect,
        )


@rule("SD427", "warning", "vllm", decides=True, data="regime.draft_model_sparse", at="spec")
@when(speculative=True, needs="model concurrency")
def draft_model_sparse_target(case: Case) -> Hits:
    """A separate draft model beside a mixture with few active parameters, at one or two streams.

    Why: a step of such a target reads little more than a draft of 0.6B.
    Bad (hw=h100-sxm, concurrency=1): vllm serve Qwen/Qwen3-30B-A3B --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":4}'
    Good (hw=h100-sxm, concurrency=16): vllm serve Qwen/Qwen3-30B-A3B --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":1}'
    """
    row, running = first_match(case, "draft_model_sparse"), streams(case)
    if row is not None:
        yield Hit(
            "a separate draft model rarely pays beside a target with few active parameters at "
            f"{running} concurrent request{'s' if running != 1 else ''}: a 0.6B draft for "
            "Qwen3-30B-A3B cost 18 to 69 % of the speed with 2 to 8 draft tokens on an H100",
            fix="Use the model's own MTP head or an EAGLE-3 head, or no speculation.",
            row=row,
            effect=regime(case, losses.sparse_draft).effect,
        )


@rule("SD429", "warning", "gguf", decides=True, data="regime.lookup_states", at="spec")
@when(methods="ngram", needs="model", parts="hybrid")
def lookups_copy_states(case: Case) -> Hits:
    """Lookups (--spec-type ngram-*) on a model with recurrent states in llama-server.

    Why: each lookup copies a slot's state out before every draft and back after a refused one.
    Bad: llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type ngram-simple
    Good: llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp --spec-draft-n-max 2
    """
    effect = regime(case, losses.lookup_states).effect
    yield Hit(
        f"each lookup copies a slot's recurrent state of {case.model_name}: 0.26 to 0.92 of the "
        "plain speed on an H100",
        severity=None if effect else "info",
        fix="Use --spec-type draft-mtp where the file has a head, else no speculation.",
        conflicts=("drafts of up to 96 tokens gained 1.67 to 2.07 on prose that repeats itself",),
        effect=effect,
    )


@rule("SD431", "info", "vllm", data="regime.adaptive_verification", at="spec")
@when(methods="mtp eagle eagle3 dflash dspark draft_model", needs="model concurrency version")
def adaptive_or_fixed(case: Case) -> Hits:
    """A fixed block of drafts at loads where adaptive verification gained, or the reverse.

    Why: with few requests a refused draft costs less than choosing drafts does, with many more.
    Bad (version=0.33.0, hw=h200, concurrency=128): vllm serve Qwen/Qwen3-8B --speculative-config
        '{"method":"dflash","model":"z-lab/Qwen3-8B-DFlash-b16","num_speculative_tokens":15}'
    Good (version=0.33.0, hw=h200, concurrency=128): with "num_speculative_tokens":15,
        "enable_adaptive_verification":true for "num_speculative_tokens":15
    """
    (row,) = rows("regime", "adaptive_verification")
    since = row["since" if case.plan.method == "dspark" else "others_since"]
    running, long = streams(case) or 0, case.plan.k >= row["least_k"]
    starts = capability(case) in (None, 9, 10) and not is_hybrid(case) and case.plan.pp == 1
    if not (starts and long and between(release(case), since, None) is True):
        return
    on = verifies_adaptively(case.plan)
    if running <= row["few"] if on else running >= row["many"]:
        yield Hit(
            f"adaptive verification is {'on' if on else 'off'} at {running} requests: it lost "
            f"{row['lost']} and gained {row['gained']} (DeepSeek-V4-Flash, 8x MI355X)",
            fix=f'Compare with "enable_adaptive_verification": {"false" if on else "true"}.',
            row=row,
        )


@rule("SD433", "info", "llama-server", data="relations.SD433")
@when(methods="mtp", options="--spec-draft-p-min")
def drafts_cut_by_probability(case: Case) -> Hits:
    """Drafts of an MTP head that stop below a probability.

    Why: a draft of a few tokens costs little beside the pass that checks it.
    Bad: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --parallel 1 --spec-type draft-mtp
        --spec-draft-n-max 3 --spec-draft-p-min 0.75
    Good: with --spec-draft-p-min 0.0 for --spec-draft-p-min 0.75
    """
    return relate(case, "SD433")
