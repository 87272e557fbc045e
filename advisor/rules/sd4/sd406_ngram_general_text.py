from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import spec_flag
from advisor.rules.kit.policy import regime, sources
from advisor.rules.sd1.sd111_spec_method_unknown import is_suffix_decoding


@rule(severity="warning", speculative=True, sources=sources("regime", "ngram_general"))
def ngram_general_text(case: Case) -> Iterator[Hit]:
    """N-gram speculation on text that does not repeat its prompt.

    Why: almost nothing is accepted (2 to 5 % on an RTX 3090), while every guess is verified: -11 %
    with ngram-mod, -19 % with ngram-cache. It pays only where answers copy from the prompt, such as
    edits of a file.
    Bad: llama-server -m Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf -c 16384 --parallel 1 --spec-type
        ngram-cache
    Good: llama-server -m Qwen3.6-35B-A3B-MTP-UD-Q4_K_XL.gguf -c 16384 --parallel 1 --spec-type
        draft-mtp
        --spec-draft-n-max 2
    """
    if case.plan.method != "ngram" or is_suffix_decoding(case):
        return
    longer = "; at least raise prompt_lookup_min to 8" if case.plan.engine == "vllm" else ""
    effect, _ = regime(case, losses.lookup)
    copying = effect == "caution"
    yield Hit(
        "n-gram speculation lost 11 to 19 % on general prompts at 2 to 5 % acceptance",
        flag=spec_flag(case),
        severity="info" if copying else None,
        fix=Fix(text=f"Use MTP where the checkpoint has a head, else no speculation{longer}."),
        conflicts=("copy-and-edit loads gained 15 to 24 %",),
        effect=effect,
    )
