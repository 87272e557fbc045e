from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid
from advisor.rules.kit.fixes import caching_off_fix
from advisor.rules.kit.policy import is_sparse_moe, sources


@rule(
    severity="info",
    speculative=True,
    engines=("vllm",),
    needs=("model", "prefix_share"),
    sources=sources("regime", "prefix_share_low", "prefix_share_high", "prefix_cost_points"),
)
def prefix_caching_trade(case: Case) -> Iterator[Hit]:
    """Prefix caching with MTP on a hybrid model, weighed against what the prompts share.

    Why: with MTP each cache hit loses its last block, which on hybrid models is large, so caching
    costs decode speed (about 10 points on 2x RTX 3090) and saves little where prompts differ; where
    they share most of their text, prefilling it again costs more.
    Bad (prefix_share=0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (prefix_share=0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --no-enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    share, caching = case.facts.prefix_share, case.plan.prefix_caching
    if share is None or caching is None or case.plan.method != "mtp" or not is_hybrid(case):
        return
    place = flag(case, "--enable-prefix-caching")
    if caching and share < number("regime", "prefix_share_low") and is_sparse_moe(case):
        yield Hit(
            f"prefix caching with MTP cost about {number('regime', 'prefix_cost_points'):.0f} "
            f"points of decode speed on an "
            f"A3B hybrid, and prompts that share {share:.0%} gain little from it",
            flag=place,
            fix=caching_off_fix(case, "Add --no-enable-prefix-caching."),
            conflicts=(
                "published deployments keep both on (35B-A3B NVFP4 k=3: +55 %; the NVFP4 recipe; "
                "a live one at k=1)",
                "the dense 27B is reported to work well with both",
            ),
        )
    elif (
        not caching
        and not case.launch.emitted  # a plan of ours leaves it off where it was estimated to cost
        and share >= number("regime", "prefix_share_high")
    ):
        yield Hit(
            f"prompts share {share:.0%} of their tokens, and without prefix caching each request "
            f"prefills them again",
            flag=place,
            severity="warning",
            fix=Fix(
                text="Add --enable-prefix-caching, and check tool calls and recall on cache "
                "hits; vLLM 0.33 keeps the last block."
            ),
            conflicts=(
                "on hybrids with MTP, cached states were wrong on hits in several releases "
                "(vllm-project/vllm#43559)",
            ),
        )
