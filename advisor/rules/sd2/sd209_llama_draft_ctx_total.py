from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, integer, open_value
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("llama-draft-ctx-total")
LONGEST_CTX = (
    262_144  # the longest context of the models here; a total above it is meant for several slots
)


@rule(
    severity="warning",
    engines=("llama-server",),
    speculative=True,
    versioned=True,
    sources=DEFECT.sources,
)
def llama_draft_ctx_total(case: Case) -> Iterator[Hit]:
    """MTP with several slots and a total context beyond what the model has.

    Why: the draft context is sized from the total, not from one slot's share, and the server
    crashes at the first decode.
    Bad (version=b10752): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --ctx-size 1048576
        --parallel 4
        --spec-type draft-mtp
    Good (version=b10752): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --ctx-size 131072
        --parallel 4
        --spec-type draft-mtp
    """
    place = flag(case, "--ctx-size")
    longest = (case.facts.model.max_context_tokens if case.facts.model else None) or LONGEST_CTX
    total = total_ctx(case)
    if (
        case.plan.method != "mtp"
        or total is None
        or total <= longest
        or case.plan.max_num_seqs == 1
    ):
        return
    if open_value(case, "--parallel"):
        return
    if affects(DEFECT, case) is not False:
        yield Hit(
            f"a total context of {total} tokens with MTP and several slots: the draft context is "
            f"sized from the total, and a server crashed at its first decode",
            flag=place,
            fix=set_fix(
                case,
                place,
                str(longest),
                f"Lower --ctx-size to {longest} or less, or use --parallel 1.",
            ),
            versions=DEFECT.versions,
        )


def total_ctx(case: Case) -> int | None:
    """Tokens over all slots: --ctx-size as written, else what the plan comes to; None where it is
    left to the model.
    """
    place = flag(case, "--ctx-size")
    if place is not None:
        return None if place.unresolved else integer(place.value)
    per_slot, slots = case.plan.max_model_len, case.plan.max_num_seqs
    return per_slot * slots if case.launch.emitted and per_slot and slots else None
