from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_switch, is_hybrid, on_rocm, open_value, spec_flag
from advisor.rules.kit.fixes import add_fix, set_fix
from advisor.rules.kit.flags import catalogue, catalogued_version
from advisor.rules.kit.releases import affects, defect, version_label

DEFECT = defect("sglang-no-extra-buffer")
DROPS = defect("sglang-no-extra-buffer-drops-cache")

WHAT = (
    "Set the mamba strategy to extra_buffer (before 0.5.14: --mamba-scheduler-strategy), or "
    "--disable-radix-cache."
)


@rule(
    severity="error", engines=("sglang",), speculative=True, versioned=True, sources=DEFECT.sources
)
def sglang_extra_buffer_missing(case: Case) -> Iterator[Hit]:
    """Speculation on a hybrid with the radix cache but without extra_buffer state slots.

    Why: SGLang 0.5.10 to 0.5.13 on CUDA refuse to start ("not compatible with radix cache when
    using no_buffer"); 0.5.9 drops the cache with a warning; from 0.5.14 on `auto` does the right
    thing.
    Bad (version=0.5.10): python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    Good (version=0.5.10): python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-scheduler-strategy extra_buffer --speculative-algorithm NEXTN
        --speculative-num-steps 3
        --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    """
    strategy = (case.plan.mamba_strategy or "auto").lower()
    if (
        not is_hybrid(case)
        or strategy.startswith("extra_buffer")
        or on_rocm(case)
        or no_radix(case)
    ):
        return
    explicit = strategy == "no_buffer"
    if case.launch.emitted and not explicit:  # the emitter adds what the release needs
        return
    affected = affects(DEFECT, case)
    if affected is False and not explicit:
        return
    dropped = affects(DROPS, case)
    place = flag(case, "--mamba-scheduler-strategy", "--mamba-radix-cache-strategy")
    if open_value(case, "--mamba-scheduler-strategy", "--mamba-radix-cache-strategy"):
        return
    yield Hit(
        f"speculation on a hybrid with {'no_buffer' if explicit else 'no mamba strategy'} under "
        f"SGLang {version_label(case)}: "
        + ("the radix cache is dropped" if dropped else "refused together with the radix cache"),
        flag=place or spec_flag(case),
        severity=None if affected else "warning" if explicit else "info",
        fix=set_fix(case, place, "extra_buffer", WHAT)
        if place is not None
        else add_fix(case, spec_flag(case), strategy_flag(case), "extra_buffer", WHAT),
        versions=DEFECT.versions,
    )


def strategy_flag(case: Case) -> str:
    """The option's name at the case's release."""
    new = "--mamba-radix-cache-strategy"
    option = catalogue(case).find(new, catalogued_version(case))
    return new if option is not None and not option.removed else "--mamba-scheduler-strategy"


def no_radix(case: Case) -> bool:
    """Whether the launch turns the radix cache off."""
    return has_switch(case, "--disable-radix-cache") or case.plan.prefix_caching is False
