from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Severity
from advisor.rules import Hit, rule
from advisor.rules.kit.case import model_text, spec_flag, table

MARKERS = table("compatibility")["mtp_head_unusable"]


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    speculative=True,
    sources=("z-lab/paroquant#42", "sgl-project/sglang#35797", "noonghunna/club-3090#1052"),
)
def mtp_head_unusable(case: Case) -> Iterator[Hit]:
    """MTP on a checkpoint whose head is missing or was quantised away.

    Why: the loader skips the mtp.* names in silence; the acceptance is 0 to 1 % and every draft
    pass is wasted. No error shows it, only the log's acceptance does.
    Bad: vllm serve /models/Qwen3.6-27B-PARO --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good: vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    """
    if case.plan.method != "mtp" or (
        case.plan.draft_model and case.plan.draft_model != case.plan.model
    ):
        return  # a checkpoint of its own holds the head, as Gemma 4's assistant does
    fix = Fix(
        text="Use a checkpoint that keeps mtp.* unquantised, or drop MTP; the log's acceptance "
        "must be well above 0."
    )
    checkpoint = case.facts.checkpoint
    if checkpoint is not None and checkpoint.keeps_mtp is False:
        text = f"{checkpoint.repository} has no usable MTP head"
        yield Hit(
            text, flag=spec_flag(case), severity="error", fix=fix, sources=(checkpoint.source,)
        )
        return
    name = model_text(case).lower()
    for row in MARKERS:
        if row["marker"] in name and "mtp" not in name.replace('"method":"mtp"', ""):
            severity: Severity = row["severity"]
            text = f"{row['text']}: check the log's acceptance before trusting MTP here"
            yield Hit(
                text,
                flag=spec_flag(case),
                severity=severity,
                fix=fix,
                sources=tuple(row["sources"]),
            )
            return
