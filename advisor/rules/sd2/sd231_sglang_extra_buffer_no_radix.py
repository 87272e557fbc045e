from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.releases import affects, defect
from advisor.rules.sd2.sd230_sglang_extra_buffer_missing import no_radix

DEFECT = defect("sglang-extra-buffer-no-radix")


@rule(severity="error", engines=("sglang",), versioned=True, sources=DEFECT.sources)
def sglang_extra_buffer_no_radix(case: Case) -> Iterator[Hit]:
    """extra_buffer state slots with the radix cache switched off.

    Why: the slots serve that cache: 0.5.10 to 0.5.12 reject the combination, later releases waste
    memory on unused slots.
    Bad (version=0.5.12): python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-scheduler-strategy extra_buffer --disable-radix-cache
    Good (version=0.5.12): python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-scheduler-strategy no_buffer --disable-radix-cache
    """
    if not (case.plan.mamba_strategy or "").startswith("extra_buffer") or not no_radix(case):
        return
    refused = affects(DEFECT, case)
    place = flag(case, "--mamba-scheduler-strategy", "--mamba-radix-cache-strategy")
    yield Hit(
        "extra_buffer serves the radix cache, which is switched off here: "
        + (
            "the state slots are wasted memory"
            if refused is False
            else "the server rejects the combination"
        ),
        flag=place,
        severity="warning" if refused is False else None,
        fix=set_fix(case, place, "no_buffer", "Use no_buffer, or keep the radix cache."),
        versions=DEFECT.versions,
    )
