"""Losses by workload."""

from advisor.domain.nouns import Case, Request
from advisor.domain.question import LIMITS
from advisor.knowledge.rule_data import number, table
from advisor.perf.regimes import losses
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.fixes import caching_off_fix, k_fix
from advisor.rules.kit.flags import spec_keys
from advisor.rules.kit.policy import is_sparse_moe, matches, regime
from advisor.rules.sd1.spec_config_method import is_suffix_decoding

DEEPEST_K = int(LIMITS["acceptance_k"][1])  # nobody drafts more, so nothing more is advised


@rule("SD406", "warning", decides=True, data="regime.ngram_general", at="spec")
@when(methods="ngram")
def ngram_general_text(case: Case) -> Hits:
    """N-gram speculation on text that does not repeat its prompt.

    Why: few are accepted while every guess is verified. It pays where answers copy from the prompt.
    Bad: llama-server -m Qwen3.6-35B-A3B-Q4_K_M.gguf --spec-type ngram-cache
    Good: llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf --spec-type draft-mtp --spec-draft-n-max 2
    """
    if is_suffix_decoding(case):
        return
    keys, longer = spec_keys(case)[1], ""
    ends = [n for end in ("min", "max") if isinstance(n := keys.get(f"prompt_lookup_{end}"), int)]
    if case.plan.engine == "vllm" and (ends or [5])[0] < 8:  # the one that is left out is as long
        longer = "; at least raise prompt_lookup_min, and prompt_lookup_max with it, to 8"
    effect = regime(case, losses.lookup).effect
    yield Hit(
        "n-gram speculation lost 11 to 19 % on general prompts at 2 to 5 % acceptance",
        severity="info" if effect == "caution" else None,  # where answers copy
        fix=f"Use MTP where the checkpoint has a head, else no speculation{longer}.",
        conflicts=("copy-and-edit loads gained 15 to 24 %",),
        effect=effect,
    )


@rule("SD412", "info", decides=True, data="regime.creative_k_max_sparse", at="k")
@when(speculative=True, needs="workload model")
def creative_text(case: Case) -> Hits:
    """Creative or random text with more than a short draft.

    Why: acceptance falls fastest there: one draft token is even on the 35B-A3B, a gain on the 27B.
    Bad (workload=creative): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good (workload=creative): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
    """
    if case.facts.workload != "creative":
        return
    sparse = is_sparse_moe(case)
    measured = (
        "DFlash on the 35B-A3B 1.05x at k=1, 0.91x at 3"
        if sparse
        else "MTP on the 27B 1.32x at k=1, 1.37x at 2, 0.98x at 6"
    )
    limit = int(number("regime", "creative_k_max_sparse" if sparse else "creative_k_max_dense"))
    over = case.plan.k > limit
    yield Hit(
        f"creative text is accepted least ({measured}, V100): off, or at most k={limit}",
        fix=k_fix(case, limit, f"Use k={limit}, or switch speculation off for this load.")
        if over
        else "Measure, or switch speculation off for this load.",
        conflicts=(
            "a dense 27B on an RTX 4090 gained 1.65x at k=4 with creative prompts (f59702526243)",
        ),
        effect="k_max" if over else regime(case, losses.creative).effect,
        k_max=limit if over else None,
    )


@rule("SD403", "info", "vllm", data=("regime.prefix_share_low", "regime.prefix_cost_points"))
@when(methods="mtp", needs="model prefix_share", parts="hybrid")
def prefix_caching_trade(case: Case) -> Hits:
    """Prefix caching with MTP on a hybrid model, weighed against what the prompts share.

    Why: each cache hit loses its last block, which on hybrids is large.
    Bad (prefix_share=0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --enable-prefix-caching --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (prefix_share=0): with --no-enable-prefix-caching for --enable-prefix-caching
    """
    share, caching = case.facts.prefix_share or 0.0, case.plan.prefix_caching
    place = case.flag("--enable-prefix-caching")
    if caching and share < number("regime", "prefix_share_low") and is_sparse_moe(case):
        yield Hit(
            f"prefix caching with MTP cost about {number('regime', 'prefix_cost_points'):.0f} "
            f"points of decode speed on an A3B hybrid, and prompts that share {share:.0%} gain "
            "little from it",
            flag=place,
            fix=caching_off_fix(case, "Add --no-enable-prefix-caching."),
            conflicts=(
                "published deployments keep both on (35B-A3B NVFP4 k=3: +55 %; the NVFP4 recipe; "
                "a live one at k=1)",
                "the dense 27B is reported to work well with both",
            ),
        )
    # a plan of ours leaves it off where it was estimated to cost
    high = share >= number("regime", "prefix_share_high")
    if caching is False and not case.launch.emitted and high:
        yield Hit(
            f"prompts share {share:.0%} of their tokens, and without prefix caching each request "
            f"prefills them again",
            flag=place,
            severity="warning",
            fix="Add --enable-prefix-caching, and check tool calls and recall on cache "
            "hits; vLLM 0.33 keeps the last block.",
            conflicts=(
                "on hybrids with MTP, cached states were wrong on hits in several releases "
                "(vllm-project/vllm#43559)",
            ),
        )


@rule("SD411", "info", data="regime.low_acceptance_rate", at="k")
@when(speculative=True, parts="facts.request")
def low_acceptance(case: Case) -> Hits:
    """Less than half of an MTP head's drafts are accepted, by the user's own measurement.

    Why: a rule of thumb of short MTP drafts; the estimate takes nothing off for it.
    Bad (acceptance=0.42, k=1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    Good (acceptance=0.82, k=1): the same
    """
    row, request = table("regime")["low_acceptance_rate"], case.facts.request
    floor = row["value"]
    rate = mean_rate(request, case.plan.k) if request is not None else None
    if request is None or rate is None or rate >= floor or not matches(row, case):
        return
    fewer = range(1, min(case.plan.k, DEEPEST_K + 1))
    best = max((k for k in fewer if (mean_rate(request, k) or 0.0) >= floor), default=0)
    rival = f"k={best}, where it is {mean_rate(request, best):.0%}" if best else "speculation off"
    yield Hit(
        f"the measured acceptance gives {rate:.0%} of the drafted tokens at k={case.plan.k}, "
        f"below {floor:.0%}",
        fix=f"Compare it with {rival}.",
        conflicts=tuple(row["conflicts"]),
    )


@rule("SD413", "info")
@when(speculative=True, parts="facts.request", needs="model")
def thinking_apart(case: Case) -> Hits:
    """An acceptance measured without saying whether the model was thinking.

    Why: the two modes differ in acceptance and length of answers, and must not be averaged.
    Bad (acceptance=0.8): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (acceptance=0.8, thinking=true): the same
    Sources: seed002; seed003; repo3090
    """
    request, model = case.facts.request, case.facts.model
    if request is None or model is None or request.thinking is not None:
        return
    stated = request.acceptance is not None or request.acceptance_length is not None
    if stated and (model.thinking_default is not None or model.reasoning_parser):
        yield Hit(
            "measure the acceptance with thinking on and off separately: the given value does not "
            "state the mode, and the two differ in acceptance and answer length"
        )


@rule("SD419", "info", "llama-server", data="regime.raw_completion")
@when(methods="mtp", parts="facts.request", needs="concurrency")
def raw_completion(case: Case) -> Hits:
    """MTP in llama-server is accepted less on /completion than on /v1/chat/completions.

    Why: the head sees text that it was not trained on: acceptance 0.63, not 0.76; 1.30x, not 1.49x.
    Bad (goal=balanced, concurrency=1): llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf --spec-type
        draft-mtp --spec-draft-n-max 4
    Good (goal=balanced, concurrency=1): llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf
    """
    yield Hit(
        "send requests to /v1/chat/completions: raw prompts on /completion were accepted at 63 % "
        "instead of 76 % (1.30x instead of 1.49x, A100)"
    )


def mean_rate(request: Request, k: int) -> float | None:
    """Mean share of accepted tokens among k drafted ones, from what the user measured; None where
    it does not say.

    Conditional acceptances by position are extended by their last value; an accepted length counts
    only at its own k.
    """
    if k < 1:
        return None
    if request.acceptance:
        alive, total = 1.0, 0.0
        for rate in request.acceptance[:k]:
            alive *= rate
            total += alive
        more = k - len(request.acceptance)
        if more > 0:  # a geometric series
            total += alive * (more if rate == 1 else rate * (1 - rate**more) / (1 - rate))
        return total / k
    if request.acceptance_length is not None and (request.acceptance_k or k) == k:
        return (request.acceptance_length - 1.0) / k
    return None
