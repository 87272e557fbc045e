from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import number
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import k_flag, spec_flag
from advisor.rules.kit.policy import concurrent_requests, for_advice, is_sparse_moe, regime, sources


@rule(
    severity="info",
    speculative=True,
    engines=("sglang",),
    needs=("concurrency",),
    sources=sources("regime", "sglang_low_latency_concurrency", "sglang_saturated_concurrency"),
)
def sglang_profile(case: Case) -> Iterator[Hit]:
    """SGLang's MTP profile against the load: steps 3 / topk 1 / draft 4, steps 1 / topk 1 / draft
    2, or off.

    Why: one stream has compute to spare for three draft tokens; with more streams each draft token
    takes from the others; on a saturated server verifying is all cost. The profiles are recipes:
    where a longer draft is surer by what was measured, it is recommended. On a saturated server
    dense models lost, which the estimate takes in; mixtures gained, so that it does not for them.
    Bad (concurrency=16): python -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    Good (concurrency=16): python -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN --speculative-num-steps 1 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 2
    """
    at_once, few = (
        concurrent_requests(case) or 1,
        number("regime", "sglang_low_latency_concurrency"),
    )
    if case.plan.method != "mtp":
        return
    effect, strength = regime(case, losses.saturated_sglang)
    if effect is not None:
        yield Hit(
            f"{at_once} streams: verifying dominates on a saturated server, and dense models lost "
            f"with MTP there (a 27B on a GB10 0.88x to 0.92x at 64 streams, on 2x H20 0.41x)",
            flag=spec_flag(case),
            severity="warning",
            fix=Fix(text="Switch speculation off, or give interactive users their own server."),
            sources=("coralgb10sgl", "f68420811681", "vprog"),
            effect=effect,
            strength=strength,
        )
    elif at_once > number("regime", "sglang_saturated_concurrency") / 2 and is_sparse_moe(case):
        yield Hit(
            f"{at_once} streams: the published throughput profile for the 35B-A3B is speculation "
            f"off, a recipe without measurements",
            flag=spec_flag(case),
            fix=Fix(text="Measure both; what was measured gained."),
            conflicts=(
                "64 streams: 35B-A3B in FP8 on an H200, output tok/s 1.10x with k=1, 1.13x and "
                "1.28x with 2, 1.26x with 3 (bench-h200-sglang-0517); DeepSeek-V3 on 8x MI300X "
                "1.25x and 1.36x (amdmtp300); GLM-5 on 8x RTX PRO 6000 1.41x and 1.56x (rtx6k)",
            ),
            effect="caution",
        )
    elif (
        at_once > few and case.plan.k > 1 and is_sparse_moe(case) is not False
    ):  # profiles of the 35B-A3B
        yield Hit(
            f"{at_once} streams: the published balanced profile is steps 1, topk 1, draft tokens "
            f"2 (k=1), a recipe without measurements",
            flag=k_flag(case),
            fix=Fix(text=f"Measure it beside k={case.plan.k}; what was measured prefers 2 and 3."),
            conflicts=(
                "35B-A3B in FP8 on an H200, 16 streams: output tok/s 1.20x with k=1, 1.28x with 2, "
                "1.33x with 3 (bench-h200-sglang-0517); 397B NVFP4 with 3 draft tokens gained "
                "1.56x at 8 and 1.40x at 16 streams (rtx6k)",
            ),
        )
    elif at_once == 1 and for_advice(case) and is_sparse_moe(case):
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
