from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_switch, is_hybrid


@rule(
    severity="info",
    engines=("vllm",),
    speculative=True,
    sources=("LMCache/LMCache#3649",),
)
def lmcache_mtp(case: Case) -> Iterator[Hit]:
    """An external KV store (LMCache) with MTP on a hybrid.

    Why: state snapshots are kept at block boundaries only; without single-block prefill they are
    lost, or batches stay small.
    Bad: vllm serve Qwen/Qwen3.6-27B-FP8 --kv-transfer-config
        '{"kv_connector":"LMCacheMPConnector","kv_role":"kv_both"}'
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good: vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    """
    place = flag(case, "--kv-transfer-config")
    if (
        case.plan.method != "mtp"
        or place is None
        or "lmcache" not in (place.value or "").lower()
        or not is_hybrid(case)
    ):
        return
    if not has_switch(case, "--mamba-align-single-block-prefill"):
        yield Hit(
            "LMCache with MTP on a hybrid: snapshots between block boundaries are lost",
            flag=place,
            fix=Fix(
                text="Switch MTP off with LMCache, or make it prefill single blocks, and watch "
                "the hit rate."
            ),
        )
