from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import spec_flag
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("llama-sampler-assert")


@rule(
    severity="warning",
    engines=("llama-server",),
    speculative=True,
    versioned=True,
    sources=DEFECT.sources,
)
def llama_sampler_assert(case: Case) -> Iterator[Hit]:
    """MTP with llama.cpp b10217 as some distributions package it.

    Why: builds with assertions abort ("found") past about 30,000 tokens; a release build does not.
    Bad (version=b10217): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        -np 1
    Good (version=b10236): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        -np 1
    """
    if case.plan.method == "mtp" and affects(DEFECT, case):
        yield Hit(
            "MTP on b10217 built with assertions aborts past about 30,000 tokens",
            flag=spec_flag(case),
            fix=Fix(text="Use a Release build (assertions off), or a newer one."),
            versions=DEFECT.versions,
        )
