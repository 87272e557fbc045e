from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, flag, model_text, spec_flag
from advisor.rules.kit.fixes import drop_fix
from advisor.rules.kit.models import headless

SPLIT = table("compatibility")["split_mtp_publishers"]


@rule(
    severity="error",
    engines=GGUF_ENGINES,
    speculative=True,
    sources=(*SPLIT["sources"], "ggml-org/llama.cpp#22673"),
)
def gguf_without_mtp(case: Case) -> Iterator[Hit]:
    """draft-mtp on a GGUF that has no MTP tensors, judging by its name.

    Why: most GGUF files drop the MTP head; loading then fails or speculation is left out.
    Publishers who keep it say MTP in the name.
    Bad: llama-server -hf unsloth/Qwen3.6-35B-A3B-GGUF:Q4_K_M --spec-type draft-mtp
    Good: llama-server -hf unsloth/Qwen3.6-35B-A3B-MTP-GGUF:Q4_K_M --spec-type draft-mtp
    """
    name = model_text(case).lower()
    if (
        case.plan.method != "mtp"
        or not name.strip()
        or "mtp" in name
        or any(sign in name for sign in "$<{")
    ):
        return
    if case.plan.draft_model and case.plan.draft_model != case.plan.model:
        return  # the head comes in a file of its own, as Gemma 4's assistant does
    known = case.facts.checkpoint.keeps_mtp if case.facts.checkpoint else None
    if known:
        return
    model, repository = case.facts.model, flag(case, "--hf-repo")
    if model is not None and model.assistant and repository is not None:
        yield Hit(
            f"{model.name or model.id} drafts with a separate assistant: this repository must hold "
            f"its GGUF as mtp-*.gguf beside the model",
            flag=repository,
            severity="warning",
            fix=Fix(
                text="Name the assistant's GGUF with --spec-draft-model, or look for that file."
            ),
            sources=("ggml-org/llama.cpp#23398", "unsloth-mtp-docs"),
        )
        return
    if headless(case):
        yield Hit(
            f"{model.name or model.id if model else 'this model'} has no MTP head, so no "
            f"GGUF of it "
            f"can draft-mtp",
            flag=spec_flag(case),
            fix=drop_fix(case, spec_flag(case), "Leave --spec-type out, or name a draft model."),
        )
        return
    publisher = any(part in name for part in SPLIT["value"])
    yield Hit(
        "draft-mtp needs a GGUF that keeps the MTP tensors; "
        + ("this one has none" if known is False else "the name of this file does not include MTP"),
        flag=flag(case, "--hf-repo", "--hf-file", "--model"),
        severity="error" if known is False else "warning" if publisher else "info",
        fix=Fix(
            text="Use a GGUF with MTP in its name, for example unsloth/Qwen3.6-35B-A3B-MTP-GGUF."
        ),
    )
