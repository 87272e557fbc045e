from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, spec_flag
from advisor.rules.kit.fixes import add_fix, set_fix
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("llama-mtp-slots")

WHAT = "Set --parallel 1, or switch speculation off for several slots."


@rule(
    severity="warning",
    engines=("llama-server",),
    speculative=True,
    versioned=True,
    sources=DEFECT.sources,
)
def llama_mtp_slots(case: Case) -> Iterator[Hit]:
    """MTP with several server slots under llama.cpp.

    Why: MTP was first written for one slot: with more, the state came out wrong or was reset, or
    memory ran out. Without
    --parallel the server takes four slots.
    Bad (version=b9235): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        --parallel 4
    Good (version=b9235): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        --parallel 1
    """
    if case.plan.method != "mtp":
        return
    slots, affected = case.plan.max_num_seqs, affects(DEFECT, case)
    if slots == 1 or affected is False:
        return
    given = flag(case, "--parallel")
    if given is not None and (given.unresolved or slots is None):
        return
    many = f"{slots} slots" if slots else "no --parallel (four slots by default)"
    yield Hit(
        f"MTP with {many}: builds up to mid-2026 support one slot only",
        flag=given or spec_flag(case),
        severity=None if slots and affected else "info",
        fix=set_fix(case, given, "1", WHAT)
        if given
        else add_fix(case, spec_flag(case), "--parallel", "1", WHAT),
        versions=DEFECT.versions,
    )
