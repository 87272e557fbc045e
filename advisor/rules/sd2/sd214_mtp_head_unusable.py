from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Severity
from advisor.knowledge import store as knowledge
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import model_text, spec_flag
from advisor.rules.kit.fixes import drop_fix
from advisor.rules.kit.models import base_name, headless, unusable_head

FAMILIES = table("compatibility")["no_mtp_families"]
UNUSABLE = (
    "Use a checkpoint that keeps mtp.* unquantised, or drop MTP; the log's acceptance must be "
    "well above 0."
)


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    speculative=True,
    sources=("z-lab/paroquant#42", "sgl-project/sglang#35797", "noonghunna/club-3090#1052"),
)
def mtp_head_unusable(case: Case) -> Iterator[Hit]:
    """MTP on a model without a head, or on a checkpoint whose head is missing or quantised away.

    Why: a model whose configuration names no MTP layer is refused, whoever quantised it. Where the
    model has a head and the checkpoint does not, the loader skips the mtp.* names in silence; the
    acceptance is 0 to 1 % and every draft pass is wasted. No error shows it, only the log's
    acceptance does.
    Bad: vllm serve Qwen/Qwen3-32B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good: vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    """
    if case.plan.method != "mtp" or (
        case.plan.draft_model and case.plan.draft_model != case.plan.model
    ):
        return  # a checkpoint of its own holds the head, as Gemma 4's assistant does
    place, checkpoint = spec_flag(case), case.facts.checkpoint
    if headless(case):
        model = case.facts.model
        name = (model.name or model.id) if model else base_name(case.plan.model or "")
        yield Hit(
            f"{name} has no MTP head: the server refuses to draft with one",
            flag=place,
            severity="error",
            fix=without(case),
            sources=(model.source,) if model and model.source else tuple(FAMILIES["sources"]),
        )
        return
    if checkpoint is not None and checkpoint.keeps_mtp is False:
        text = f"{checkpoint.repository} has no usable MTP head"
        fix, sources = Fix(text=UNUSABLE), (checkpoint.source,)
        yield Hit(text, flag=place, severity="error", fix=fix, sources=sources)
        return
    if row := unusable_head(model_text(case)):
        severity: Severity = row["severity"]
        text = f"{row['text']}: check the log's acceptance before trusting MTP here"
        fix, sources = Fix(text=UNUSABLE), tuple(row["sources"])
        yield Hit(text, flag=place, severity=severity, fix=fix, sources=sources)


def without(case: Case) -> Fix:
    """Another drafter where one is published, else no speculation."""
    own = knowledge.drafters(case.facts.model) if case.facts.model is not None else ()
    other = next((one for one in own if case.plan.engine in one.engines), None)
    if other is not None:
        return Fix(text=f"Draft with {other.repository} ({other.method}), or without speculation.")
    what = "Serve it without speculation, or with a drafter of its own."
    return drop_fix(case, spec_flag(case), what) if case.plan.engine == "vllm" else Fix(text=what)
