from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import is_hybrid, spec_flag
from advisor.rules.kit.policy import model_name, regime, sources


@rule(
    severity="warning",
    speculative=True,
    engines=("llama-server", "ik_llama.cpp"),
    needs=("model",),
    sources=sources("regime", "lookup_states"),
)
def lookups_copy_states(case: Case) -> Iterator[Hit]:
    """Lookups (--spec-type ngram-*) on a model with recurrent states in llama-server.

    Why: the server keeps states to go back to for heads that draft. For a lookup it copies each
    slot's state out before every draft, and back after a refused one: 23 ms a slot and cycle for
    the 35B-A3B, 38 ms for the 27B on an H100. With 2.45 tokens a step, where MTP gains up to 1.74x,
    lookups ran at 0.26 to 0.92 of the plain speed. Where nothing is drafted they cost nothing.
    Bad: llama-server -m Qwen3.6-27B-MTP-UD-Q4_K_XL.gguf -c 16384 --parallel 1 --spec-type
        ngram-simple
    Good: llama-server -m Qwen3.6-27B-MTP-UD-Q4_K_XL.gguf -c 16384 --parallel 1 --spec-type
        draft-mtp --spec-draft-n-max 2
    """
    if case.plan.method != "ngram" or not is_hybrid(case):
        return
    effect, _ = regime(case, losses.lookup_states)
    yield Hit(
        f"each lookup copies a slot's recurrent state of {model_name(case)}: 0.26 to 0.92 of the "
        "plain speed on an H100",
        flag=spec_flag(case),
        severity=None if effect else "info",
        fix=Fix(text="Use --spec-type draft-mtp where the file has a head, else no speculation."),
        conflicts=("drafts of up to 96 tokens gained 1.67 to 2.07 on prose that repeats itself",),
        effect=effect,
    )
