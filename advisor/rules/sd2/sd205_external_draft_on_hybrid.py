from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid, spec_flag
from advisor.rules.kit.releases import affects, defect

REFUSED = defect("llama-external-draft-refused")
SLOW = defect("llama-external-draft-slow")


@rule(
    severity="warning",
    engines=("llama-server",),
    speculative=True,
    versioned=True,
    sources=(*REFUSED.sources, *SLOW.sources),
)
def external_draft_on_hybrid(case: Case) -> Iterator[Hit]:
    """A separate draft model for a hybrid target under llama.cpp.

    Why: the recurrent state cannot be rolled back token by token. Older builds refuse the draft
    model; newer ones save and restore the state at every partly rejected round and run at a quarter
    of the baseline speed (30.9 against 115.7 tok/s).
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -md
        /models/Qwen3.5-0.8B.gguf
        --spec-type draft-simple --spec-draft-n-max 8
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-35B-A3B-MTP-UD-Q4_K_XL.gguf --spec-type
        draft-mtp
        --spec-draft-n-max 2
    """
    if case.plan.method != "draft_model" or not is_hybrid(case):
        return
    refused = affects(REFUSED, case)
    slow = "every partly rejected round saves and restores the recurrent state (-73 %)"
    how = (
        "this build refuses it"
        if refused
        else f"builds before b9180 refuse it, later {slow}"
        if refused is None
        else slow
    )
    yield Hit(
        f"an external draft model on a hybrid target: {how}",
        flag=flag(case, "--spec-draft-model") or spec_flag(case),
        severity="error" if refused else None,
        fix=Fix(
            text="Use a GGUF that keeps the MTP tensors with --spec-type draft-mtp "
            "--spec-draft-n-max 2, or DFlash."
        ),
        sources=REFUSED.sources if refused else SLOW.sources,
    )
