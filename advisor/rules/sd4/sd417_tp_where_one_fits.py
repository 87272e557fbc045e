from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.policy import bill, is_sparse_moe

_SLOW_LINKS = ("pcie", "none", "ethernet", "roce")


@rule(
    severity="info",
    engines=("vllm", "sglang"),
    needs=("hardware", "shape", "quant", "interconnect"),
    sources=("repo2x3090", "nikolatesla20 matrix", "vllm-project/recipes#335"),
)
def tp_where_one_fits(case: Case) -> Iterator[Hit]:
    """Tensor parallelism over a slow link for a sparse model that fits one device.

    Why: each layer waits for an all-reduce over PCIe or the network, in the draft passes as well;
    with 3B active parameters that is a large part of a step. Replicas do not have this cost.
    Bad (hw=rtx-pro-6000, gpus=2, interconnect=pcie): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    --max-num-seqs 32
        --tensor-parallel-size 2
    Good (hw=rtx-pro-6000, gpus=2, interconnect=pcie): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    --max-num-seqs 32
        --data-parallel-size 2
    """
    found = bill(case)
    if (
        case.plan.tp < 2
        or case.facts.interconnect not in _SLOW_LINKS
        or not is_sparse_moe(case)
        or found is None
    ):
        return
    whole = (found.weights_gib + found.spec_gib) * case.plan.tp + found.overhead_gib
    if found.available_gib is not None and whole <= 0.7 * found.available_gib:
        yield Hit(
            f"TP {case.plan.tp} over {case.facts.interconnect}, but the weights ({whole:.0f} GiB) "
            f"fit one device",
            flag=flag(case, "--tensor-parallel-size", "--tp-size"),
            fix=Fix(
                text=f"Run {case.plan.tp} replicas (--data-parallel-size {case.plan.tp}, or one "
                f"server per device)."
            ),
            conflicts=("for one stream, two devices can still decode faster than one",),
        )
