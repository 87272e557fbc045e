# ruff: noqa: RUF009
"""The constants of the physics core: few, interpretable, each with a default, a unit, a source and
a prior width.

A constant that depends on the kernels is a tuple in the order of `arrays.PATHS`. Defaults come from
`constant_sources`, not from an optimiser; `log_sd` there is the standard deviation of log(true /
default) that a fit should shrink with. `shift_constants` applies such a fit, by name or
by name[path].
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping

from advisor.domain.sourced import sourced
from advisor.perf.arrays import PATHS

ByPath = tuple[float, ...]
LLAMACPP = ("llamacpp-cuda", "llamacpp-metal", "llamacpp-vulkan", "llamacpp-rocm")


def by_path(default: float, **special: float) -> ByPath:
    """A value per kernel path; keywords use `_` for `-`; `llamacpp` stands for its four paths."""
    values = dict.fromkeys(PATHS, default)
    if "llamacpp" in special:
        values.update(dict.fromkeys(LLAMACPP, special.pop("llamacpp")))
    for name, value in special.items():
        values[name.replace("_", "-")] = value
    return tuple(values[name] for name in PATHS)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Constants:
    """Units: `_s` seconds, `eta`/`mfu`/`share` fractions of a peak, the rest pure numbers."""

    # memory and compute
    eta_bw: ByPath = by_path(
        0.80,
        mlx=0.80,
        llamacpp_metal=0.75,
        llamacpp_vulkan=0.70,
        llamacpp_rocm=0.70,
        vllm_other=0.5,
    )
    hbm_read: float = 1.12
    expert_bw: ByPath = by_path(0.94)
    mfu_gemm: float = 0.50
    mfu_gemm_wgmma: float = 0.65
    mfu_attention: ByPath = by_path(0.25)
    mfu_attention_wgmma: float = 0.60
    verify_serial_s: ByPath = by_path(0.0, vllm_cuda=30e-9, sglang_cuda=100e-9, vllm_other=170e-9)
    # routing
    rho: float = 0.35
    skew: float = 1.2
    # per step
    layer_launch_s: ByPath = by_path(42e-6, llamacpp=30e-6, mlx=35e-6, vllm_other=90e-6)
    wide_launch: float = 0.4
    moe_layer_launch_s: ByPath = by_path(12e-6, llamacpp=85e-6, mlx=60e-6, vllm_other=60e-6)
    host_s: ByPath = by_path(0.6e-3, llamacpp=0.3e-3, mlx=0.5e-3, vllm_other=1.2e-3)
    host_seq_s: ByPath = by_path(8e-6, llamacpp=60e-6, mlx=100e-6)
    dense_seq_s: ByPath = by_path(0.0, llamacpp_cuda=0.48e-3)
    sampler_passes: float = 6.0
    sample_s: ByPath = by_path(0.0, llamacpp=1.0e-9)
    sample_server_cpu: float = 3.0
    spec_step_s: ByPath = by_path(1.0e-3, llamacpp=0.5e-3, mlx=1.0e-3, sglang_cuda=0.7e-3)
    spec_seq_s: ByPath = by_path(10e-6, llamacpp=30e-6, mlx=50e-6)
    piecewise_layer_s: float = 100e-6
    eager_layer_s: float = 1.0e-3
    prefix_verify_s: float = 0.5e-3
    # small-batch verify kernels of llama.cpp and MLX
    mmvq_share: ByPath = by_path(
        0.27, llamacpp_metal=0.12, llamacpp_vulkan=0.20, llamacpp_rocm=0.13, mlx=0.15
    )
    unpack_tokens: ByPath = by_path(0.0, llamacpp_cuda=3.8)
    unpack_q8_tokens: ByPath = by_path(0.0, llamacpp_cuda=7.1)
    metal_repeat: float = 1.8
    metal_apple9: float = 2.4
    mmq_fixed: ByPath = by_path(1.51)
    mmq_fixed_dp4a: float = 1.5
    mmq_moe: ByPath = by_path(1.4, llamacpp_vulkan=2.0)
    mmq_moe_gain: float = 1.0
    mmq_moe_layer_s: ByPath = by_path(0.0, llamacpp_cuda=107e-6)
    verify_layer_s: ByPath = by_path(0.0, llamacpp=15e-6)
    # drafting
    draft_pass_s: ByPath = by_path(0.3e-3, llamacpp=0.6e-3, mlx=0.6e-3, sglang_cuda=0.2e-3)
    draft_layer_s: ByPath = by_path(100e-6, vllm_cuda=150e-6, vllm_other=200e-6, llamacpp=130e-6)
    draft_scale: ByPath = by_path(1.0)
    ngram_host_s: ByPath = by_path(0.5e-3, vllm_cuda=2.5e-3)
    dflash_layers: float = 5.0
    dspark_token_s: float = 60e-6
    state_checkpoint_s: float = 25e-3
    lookup_copy_layer_s: float = 0.78e-3
    # recurrent state
    state_reads: ByPath = by_path(1.0, mlx=5.0)
    state_copies: ByPath = by_path(1.0, llamacpp_cuda=2.5)
    # experts in the machine's memory
    host_layer_s: float = 0.09e-3
    host_memory_share: float = 0.67
    host_memory_speed: float = 1.0
    host_copy_bw: float = 13e9
    # tensor parallelism
    allreduce_s: float = 10e-6
    allreduce_pcie_s: float = 25e-6
    allreduce_net_s: float = 60e-6
    # prefill
    mfu_prefill: float = 0.15
    mfu_prefill_dense: float = 0.45
    prefill_call_s: ByPath = by_path(
        30e-3, vllm_cuda=0.0, sglang_cuda=15e-3, llamacpp=8e-3, mlx=10e-3
    )
    prefill_linear_s: ByPath = by_path(0.0, vllm_cuda=1.5e-3)
    prefill_layer_s: float = 0.35e-3
    prefill_moe_s: float = 1.6e-3
    prefill_scale: ByPath = by_path(1.0, sglang_cuda=0.75, vllm_other=1.5)
    prompt_rate: ByPath = by_path(1.0)
    # kernel paths, for a fit: multipliers on the part of a verify step beyond a plain step
    verify_scale: ByPath = by_path(1.0)


MOST_SHARE = sourced(0.98, "share", "own choice: a fitted share stays below all of it", "chosen")
MOST_EXPERT_BW = sourced(
    1.2,
    "ratio",
    "own choice: experts are read at most a little faster than dense weights",
    "chosen",
)
_NAMED = re.compile(r"(\w+)(?:\[([\w-]+)\])?$")
_NAMES = {field.name for field in dataclasses.fields(Constants)}


def shift_constants(constants: Constants, logs: Mapping[str, float]) -> Constants:
    """Constants times exp(log): of all paths ("rho") or of one ("mmvq_share[llamacpp-cuda]").

    Fractions stay below 1 (`eta`, `mfu`, `rho`, `share`). Raises KeyError for an unknown name.
    """
    changes: dict[str, float | ByPath] = {}
    for key, log in logs.items():
        found = _NAMED.match(key)
        name, path = (found.group(1), found.group(2)) if found else (key, None)
        if name not in _NAMES:
            raise KeyError(f"no constant '{key}'")
        value = changes.get(name, getattr(constants, name))
        factor, top = math.exp(log), _ceiling(name)
        if isinstance(value, tuple):
            changes[name] = tuple(
                min(v * factor, top) if path is None or PATHS[i] == path else v
                for i, v in enumerate(value)
            )
        else:
            changes[name] = min(value * factor, top)
    return dataclasses.replace(constants, **changes)  # type: ignore[arg-type]


def _ceiling(name: str) -> float:
    if name.startswith(("eta", "mfu", "rho")):
        return MOST_SHARE
    return MOST_EXPERT_BW if name == "expert_bw" else math.inf
