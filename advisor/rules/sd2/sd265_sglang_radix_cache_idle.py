from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, is_hybrid
from advisor.rules.kit.releases import affects, defect
from advisor.rules.sd2.sd230_sglang_extra_buffer_missing import no_radix

DEFECT = defect("sglang-radix-idle")


@rule(severity="info", engines=("sglang",), versioned=True, sources=DEFECT.sources)
def sglang_radix_cache_idle(case: Case) -> Iterator[Hit]:
    """A hybrid without extra_buffer on SGLang up to 0.5.13: the prefix cache brings no hits.

    Why: `auto` means no_buffer there, with which a hybrid's state is not cached and scheduling does
    not overlap.
    Bad (version=0.5.12): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.5.12): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-scheduler-strategy extra_buffer
    """
    buffered = (case.plan.mamba_strategy or "").startswith("extra_buffer")
    if (
        case.plan.method == "none"
        and not buffered
        and is_hybrid(case)
        and affects(DEFECT, case)
        and not no_radix(case)
    ):
        yield Hit(
            "without extra_buffer a hybrid gets no prefix hits on this release",
            flag=flag(case, "--mamba-scheduler-strategy") or "--mamba-scheduler-strategy",
            fix=Fix(
                text="Add --mamba-scheduler-strategy extra_buffer where prompts share prefixes."
            ),
            versions=DEFECT.versions,
        )
