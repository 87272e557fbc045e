from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import env, flag, rename_fix
from advisor.rules.kit.releases import affects, defect, version_label

DEFECT = defect("vllm-mtp-pipeline-parallel")

RUNNER, OFF = "VLLM_USE_V2_MODEL_RUNNER", ("0", "false")
WHAT = "Use tensor parallelism instead, or drop speculation."


@rule(severity="error", engines=("vllm",), speculative=True, versioned=True, sources=DEFECT.sources)
def mtp_pipeline_parallel(case: Case) -> Iterator[Hit]:
    """MTP with pipeline parallelism.

    Why: the draft class does not support it: NotImplementedError at start, or about 1 % acceptance
    and gibberish. From 0.30 on the V2 model runner, the default there, takes it.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B --pipeline-parallel-size 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-27B --tensor-parallel-size 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    """
    if case.plan.method != "mtp" or case.plan.pp <= 1:
        return
    place, affected = flag(case, "--pipeline-parallel-size"), affects(DEFECT, case)
    old_runner = (env(case, RUNNER) or "").lower() in OFF
    if affected is False and not old_runner:
        return
    yield Hit(
        f"MTP with pipeline parallelism {case.plan.pp} under vLLM {version_label(case)}: "
        + (
            f"only the V2 model runner takes it, and {RUNNER} turns that off"
            if affected is False
            else "the draft class refuses it (from 0.30 on the V2 model runner takes it)"
        ),
        flag=place,
        fix=rename_fix(case, place, "--tensor-parallel-size", WHAT, safe=False)
        if place is not None
        and place.origin == "cli"
        and flag(case, "--tensor-parallel-size") is None
        else Fix(text=WHAT),
        versions=DEFECT.versions,
    )
