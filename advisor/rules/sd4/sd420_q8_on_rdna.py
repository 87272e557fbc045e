from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import spec_flag
from advisor.rules.kit.policy import hardware_name, regime, sources


@rule(
    severity="warning",
    speculative=True,
    engines=("llama-server", "ik_llama.cpp"),
    needs=("hardware", "quant"),
    sources=sources("regime", "q8_rdna"),
)
def q8_on_rdna(case: Case) -> Iterator[Hit]:
    """MTP with Q8_0 weights on an RDNA card in llama.cpp.

    Why: on an R9700 the same model gained 1.8x to 2.1x in Q5_K_M and Q6_K and lost 6 to 12 % in
    Q8_0.
    Bad (hw=r9700, quant=q8_0): llama-server -m Qwen3.6-27B-MTP-Q8_0.gguf -c 8192 --parallel 1
        --spec-type draft-mtp --spec-draft-n-max 2
    Good (hw=r9700, quant=q6_k): llama-server -m Qwen3.6-27B-MTP-Q6_K.gguf -c 8192 --parallel 1
        --spec-type draft-mtp --spec-draft-n-max 2
    """
    effect, _ = regime(case, losses.q8_on_rdna)
    if effect is None:
        return
    yield Hit(
        f"Q8_0 with MTP on {hardware_name(case)}: 0.94x at k=2 and 0.88x at 3 on one R9700, while "
        f"Q5_K_M and Q6_K gained "
        f"1.8x to 2.1x",
        flag=spec_flag(case),
        fix=Fix(text="Use Q6_K weights, or measure."),
        conflicts=(
            "two R9700 are reported at 2.17x with Q8_0 (aos); the losing run is a build from "
            "before the merge",
        ),
        effect=effect,
    )
