from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, Lacking, rule
from advisor.rules.kit.case import flag, is_hybrid, on_rocm
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("sglang-extra-buffer-rocm")
NEEDED = defect("sglang-no-extra-buffer")


@rule(severity="error", engines=("sglang",), versioned=True, sources=DEFECT.sources)
def sglang_extra_buffer_rocm(case: Case) -> Iterator[Hit | Lacking]:
    """extra_buffer on ROCm with an SGLang that has it for CUDA only.

    Why: an assertion stops the server.
    Bad (version=0.5.10, hw=mi300x): python3 -m sglang.launch_server --model-path
        Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-scheduler-strategy extra_buffer
    Good (version=0.5.10, hw=h100): python3 -m sglang.launch_server --model-path
        Qwen/Qwen3.6-35B-A3B-FP8
        --mamba-scheduler-strategy extra_buffer
    """
    affected, rocm = affects(DEFECT, case), on_rocm(case)
    if not strategy(case).startswith("extra_buffer") or affected is False:
        return
    if rocm is None:
        yield Lacking(("hardware",))
    elif rocm:
        yield Hit(
            "extra_buffer asserts CUDA and this is ROCm",
            flag=flag(case, "--mamba-scheduler-strategy", "--mamba-radix-cache-strategy"),
            fix=Fix(
                text="Drop extra_buffer (the radix cache goes off), or use a build with "
                "sglang#27141."
            ),
            conflicts=DEFECT.conflicts,
            versions=DEFECT.versions,
        )


def strategy(case: Case) -> str:
    """The state slots in force: as told; for a plan of ours also what the emitter adds where the
    release needs it.
    """
    told = case.plan.mamba_strategy or ""
    ours = (
        case.launch.emitted
        and not told
        and case.plan.method != "none"
        and case.plan.prefix_caching is not False
    )
    return "extra_buffer" if ours and is_hybrid(case) and affects(NEEDED, case) else told
