from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_switch, spec_flag
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("sglang-triton-graph-crash")
GRAPHS_OFF = ("--disable-cuda-graph", "--disable-decode-cuda-graph")


@rule(
    severity="warning",
    engines=("sglang",),
    speculative=True,
    versioned=True,
    sources=DEFECT.sources,
)
def sglang_triton_graph_crash(case: Case) -> Iterator[Hit]:
    """MTP on SGLang 0.5.15's triton attention backend with CUDA graphs.

    Why: the mask buffer of the verify step is too small beyond a batch context, and the scheduler
    crashes.
    Bad (version=0.5.15): python3 -m sglang.launch_server --model-path nvidia/Qwen3.6-35B-A3B-NVFP4
        --attention-backend triton --speculative-algorithm NEXTN --speculative-num-steps 3
        --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    Good (version=0.5.16): python3 -m sglang.launch_server --model-path nvidia/Qwen3.6-35B-A3B-NVFP4
        --attention-backend triton --speculative-algorithm NEXTN --speculative-num-steps 3
        --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    """
    if (case.plan.attention_backend or "").lower() != "triton" or not affects(DEFECT, case):
        return
    graphs = flag(case, "--cuda-graph-backend-decode")
    if has_switch(case, *GRAPHS_OFF) or (graphs is not None and graphs.value == "disabled"):
        return
    yield Hit(
        "MTP with the triton backend and CUDA graphs crashes on SGLang 0.5.15 once the batch's "
        "context passes a threshold",
        flag=flag(case, "--attention-backend") or spec_flag(case),
        fix=Fix(text="Use another release or backend, or switch decode CUDA graphs off."),
        versions=DEFECT.versions,
    )
