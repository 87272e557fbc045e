from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, value_fix
from advisor.rules.kit.releases import defect

DEFECT = defect("llama-mtp-split-tensor")


@rule(
    severity="warning",
    engines=("llama-server",),
    speculative=True,
    sources=DEFECT.sources,
)
def llama_mtp_split_tensor(case: Case) -> Iterator[Hit]:
    """MTP with split mode `tensor` over several GPUs under llama.cpp.

    Why: builds of May 2026 hit an assertion or ran out of their memory pool; later ones gave other
    outputs than without.
    Bad: llama-server -m /models/Qwen3.6-27B-MTP-Q8_0.gguf -sm tensor --spec-type draft-mtp
    Good: llama-server -m /models/Qwen3.6-27B-MTP-Q8_0.gguf -sm layer --spec-type draft-mtp
    """
    place = flag(case, "--split-mode")
    if case.plan.method == "mtp" and place is not None and (place.value or "").lower() == "tensor":
        yield Hit(
            "MTP with split mode tensor crashed (May 2026) or changed outputs (later): use layer",
            flag=place,
            fix=value_fix(case, place, "layer", "Use --split-mode layer.", safe=False),
        )
