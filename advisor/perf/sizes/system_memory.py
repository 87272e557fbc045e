"""Weights that a launch keeps in the machine's own memory instead of the accelerator's.

What it does: reads llama-server's options for the experts of a mixture (`--cpu-moe`; `--n-cpu-moe`,
which counts layers from the first one; `--override-tensor` where it moves all experts). What it
does not know: other patterns of `--override-tensor`, and layers that `--gpu-layers` leaves out.
Source: llama.cpp common/arg.cpp (b10605, 0.5.0).
"""

from __future__ import annotations

from advisor.domain.nouns import LLM, Plan, Quant
from advisor.engines.traits import gguf_engine
from advisor.perf.sizes.weights import GIB

ALL_EXPERTS, EXPERTS_OF, OVERRIDE = "--cpu-moe", "--n-cpu-moe", "--override-tensor"
# The usual patterns that match the experts of every layer, without the backslashes of their dots.
_ALL = frozenset(
    {
        "exps=CPU",
        "_exps=CPU",
        ".*exps.*=CPU",
        ".*_exps.*=CPU",
        "ffn_.*_exps=CPU",
        ".ffn_.*_exps.=CPU",
        ".*.ffn_.*_exps.=CPU",
        ".*.ffn_.*_exps.*=CPU",
        ".ffn_(up|down|gate)_exps.=CPU",
        ".ffn_(up|gate|down)_exps.=CPU",
        ".ffn_(gate|up|down)_exps.=CPU",
        ".ffn_(gate|down|up)_exps.=CPU",
        "([0-9]+).ffn_.*_exps.=CPU",
        "blk..*.ffn_.*_exps.=CPU",
    }
)


def layer_gib(shape: LLM, quant: Quant) -> float:
    """The routed experts of one layer; 0 where the model has none or their size is not known."""
    return (shape.experts or 0) * (shape.expert_params_m or 0.0) * 1e6 * quant.bytes_ffn / GIB


def dense_layers(shape: LLM) -> int:
    """Layers without experts: the first ones, which the options count too."""
    return max((shape.layers or 0) - (shape.moe_layers or 0), 0)


def experts_gib(shape: LLM, quant: Quant, plan: Plan) -> float:
    """GiB of routed experts that the plan's options keep in system memory, over all devices."""
    return _layers(shape, plan) * layer_gib(shape, quant)


def _layers(shape: LLM, plan: Plan) -> int:
    """Layers whose experts leave the accelerator."""
    if not gguf_engine(plan.engine):
        return 0
    most, moved = shape.moe_layers or 0, 0
    for name, value in plan.extra:
        if name == ALL_EXPERTS:
            return most
        if name == EXPERTS_OF and value is not None and value.isdecimal():
            moved = int(value[:6]) - dense_layers(shape)
        words = (value or "")[:2000].replace("\\", "").split(",")
        if name == OVERRIDE and not _ALL.isdisjoint(words):
            return most
    return min(max(moved, 0), most)
