# ruff: noqa: RUF009
"""The constants of the physics core: few, interpretable, each with a default, a unit, a source and
a prior width.

A constant that depends on the kernels is a tuple in the order of `points.PATHS`. Defaults come from
the sources named in CONSTANT_SOURCES, not from an optimiser; `log_sd` is the standard deviation of
log(true / default) that a fit should shrink with. `shifted` applies such a fit, by name or by
name[path].
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

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
    """Units: `_s` seconds, `eta`/`mfu`/`share` fractions of a peak, the rest pure numbers. See
    CONSTANT_SOURCES.
    """

    # memory and compute
    eta_bw: ByPath = by_path(
        0.80,
        mlx=0.80,
        llamacpp_metal=0.75,
        llamacpp_vulkan=0.70,
        llamacpp_rocm=0.70,
        vllm_other=0.5,
    )
    expert_bw: ByPath = by_path(0.94)
    mfu_gemm: float = 0.50
    mfu_attention: ByPath = by_path(0.25)
    mfu_attention_wgmma: float = 0.60
    verify_serial_s: ByPath = by_path(0.0, vllm_cuda=30e-9, sglang_cuda=100e-9, vllm_other=170e-9)
    # routing
    rho: float = 0.35
    skew: float = 1.2
    # per step
    layer_launch_s: ByPath = by_path(42e-6, llamacpp=30e-6, mlx=35e-6, vllm_other=90e-6)
    moe_layer_launch_s: ByPath = by_path(12e-6, llamacpp=85e-6, mlx=60e-6, vllm_other=60e-6)
    host_s: ByPath = by_path(0.6e-3, llamacpp=0.3e-3, mlx=0.5e-3, vllm_other=1.2e-3)
    host_seq_s: ByPath = by_path(8e-6, llamacpp=60e-6, mlx=100e-6)
    sampler_passes: float = 6.0
    spec_step_s: ByPath = by_path(1.0e-3, llamacpp=0.5e-3, mlx=1.0e-3, sglang_cuda=0.7e-3)
    spec_seq_s: ByPath = by_path(10e-6, llamacpp=30e-6, mlx=50e-6)
    piecewise_layer_s: float = 100e-6
    eager_layer_s: float = 1.0e-3
    prefix_verify_s: float = 0.5e-3
    # small-batch verify kernels of llama.cpp and MLX
    mmvq_share: ByPath = by_path(
        0.27, llamacpp_metal=0.12, llamacpp_vulkan=0.20, llamacpp_rocm=0.13, mlx=0.15
    )
    metal_repeat: float = 1.8
    metal_apple9: float = 2.4
    mmq_fixed: float = 1.51
    mmq_gain: float = 14.0
    mmq_gain_dp4a: float = 4.2
    mmq_moe: ByPath = by_path(1.4, llamacpp_vulkan=2.0)
    verify_layer_s: ByPath = by_path(0.0, llamacpp=15e-6)
    # drafting
    draft_pass_s: ByPath = by_path(0.3e-3, llamacpp=0.6e-3, mlx=0.6e-3, sglang_cuda=0.2e-3)
    draft_layer_s: ByPath = by_path(100e-6, vllm_cuda=150e-6, vllm_other=200e-6, llamacpp=130e-6)
    draft_scale: ByPath = by_path(1.0)
    ngram_host_s: ByPath = by_path(0.5e-3, vllm_cuda=2.5e-3)
    dflash_layers: float = 5.0
    dspark_token_s: float = 60e-6
    state_checkpoint_s: float = 25e-3
    # recurrent state
    state_reads: ByPath = by_path(1.0, mlx=5.0)
    # tensor parallelism
    allreduce_s: float = 10e-6
    allreduce_pcie_s: float = 25e-6
    allreduce_net_s: float = 60e-6
    # prefill
    mfu_prefill: float = 0.15
    mfu_prefill_dense: float = 0.45
    prefill_call_s: ByPath = by_path(30e-3, sglang_cuda=15e-3, llamacpp=8e-3, mlx=10e-3)
    prefill_linear_s: ByPath = by_path(0.0, vllm_cuda=2.5e-3)
    prefill_captured: float = 0.45
    prefill_scale: ByPath = by_path(
        1.0,
        sglang_cuda=0.75,
        llamacpp_metal=1.5,
        llamacpp_vulkan=1.5,
        llamacpp_rocm=1.5,
        vllm_other=1.5,
    )
    # kernel paths, for a fit: multipliers on the part of a verify step beyond a plain step
    verify_scale: ByPath = by_path(1.0)


class Provenance(NamedTuple):
    """Where a constant comes from, and how wide its prior is."""

    source: str
    status: str  # read, derived, assumed
    log_sd: float  # prior width of log(true / default)


CONSTANT_SOURCES: dict[str, Provenance] = {
    "eta_bw": Provenance(
        "AIConfigurator systems/*.yaml, mem_bw_empirical_scaling_factor 0.8; Strix Halo 212 of "
        "256 GB/s; llama.cpp off CUDA and ROCm vLLM lower by their published baselines",
        "read",
        0.15,
    ),
    "expert_bw": Provenance(
        "small grouped GEMMs reach a little less of the bandwidth than dense ones", "assumed", 0.25
    ),
    "mfu_gemm": Provenance(
        "SpecDecode-Bench: 21 us per token on Llama-3.1-8B/H100 is 0.77 of peak; less on "
        "smaller layers",
        "derived",
        0.3,
    ),
    "mfu_attention": Provenance(
        "decode attention with a few query tokens fills a fraction of a tile", "assumed", 0.5
    ),
    "mfu_attention_wgmma": Provenance(
        "H100, H200, B200: FlashMLA reaches 580 of 989 TFLOP/s, FlashAttention-3 up to 740",
        "read",
        0.3,
    ),
    "verify_serial_s": Provenance(
        "per KV token and layer where verify attention is not split over the KV cache: 45 ns (RTX "
        "3090 Ti, vllm-project/"
        "flash-attention #190), 27 ns (RTX 4090, vllm #54691); SGLang's Triton kernel about 100 "
        "ns (sglang #39316); "
        "vLLM's on gfx1201 172 ns (vllm #51995)",
        "derived",
        0.2,
    ),
    "rho": Provenance(
        "text; 0.34 (GLM-5.2, ml-explore/mlx #3801); 0.32 to 0.46 (Cohere blog 2026-04-21)",
        "derived",
        0.15,
    ),
    "skew": Provenance(
        "lognormal sigma of expert popularity, from the step time of GB10's 16 plain "
        "streams (67 ms)",
        "derived",
        0.4,
    ),
    "layer_launch_s": Provenance(
        "14 kernels a layer at 3 us (AIConfigurator mem_empirical_constant_latency); llama.cpp: "
        "27B on RTX 3090, "
        "23.48 ms less "
        "its bytes",
        "derived",
        0.4,
    ),
    "moe_layer_launch_s": Provenance(
        "llama.cpp: 35B-A3B on RTX 3090 at 139.9 tok/s less bytes and 30 us a layer", "derived", 0.4
    ),
    "host_s": Provenance(
        "SpecDecode-Bench overhead 1.2 ms per step on H100; about half hidden by async scheduling",
        "derived",
        0.5,
    ),
    "host_seq_s": Provenance("scheduling and detokenising one sequence", "assumed", 0.6),
    "sampler_passes": Provenance("float32 logits read or written while sampling", "assumed", 0.5),
    "spec_step_s": Provenance(
        "rejection sampler, draft input preparation; SpecDecode-Bench draft_c_fixed 2.1 ms",
        "assumed",
        0.6,
    ),
    "spec_seq_s": Provenance(
        "rejection and draft bookkeeping of one sequence, on the host", "assumed", 0.8
    ),
    "piecewise_layer_s": Provenance(
        "about 8 eager launches of 12 us a layer once FULL graphs are lost", "assumed", 0.5
    ),
    "eager_layer_s": Provenance(
        "without CUDA graphs a step takes the host's launches where they are longer than the "
        "GPU's work: 1.3 ms a layer for "
        "Qwen3.8-27B on A100 and H100 PCIe, 1.2 ms for Gemma-4-26B-A4B on GB10, at most 0.8 ms "
        "for Gemma-4-31B on A100",
        "derived",
        0.4,
    ),
    "prefix_verify_s": Provenance(
        "vLLM, recurrent layers, prefix caching: copies of states at page boundaries in a verify "
        "step; none in a baseline "
        "step",
        "assumed",
        0.8,
    ),
    "mmvq_share": Provenance(
        "5.55 ms per extra token, 27B Q4_K, RTX 3090: 9.7 TOPS of 35.6 fp32; AMD counts "
        "dual-issue peak; Metal, "
        "Vulkan and MLX "
        "assumed",
        "derived",
        0.4,
    ),
    "metal_repeat": Provenance(
        "llama.cpp on Metal: cost of a token in the kernel that reads K-quants anew for each of 2 "
        "or 3 tokens, over one in the "
        "small-batch kernel from 4 on; 1.5 to 1.9 on an M1 Max and an M5 Pro",
        "derived",
        0.2,
    ),
    "metal_apple9": Provenance(
        "llama.cpp on Metal, M3 and M4: cost of a token of K-quants in the small-batch kernel, "
        "over one on other chips at their "
        "rates; 2.2 to 2.6 on two M3 Ultra and an M4",
        "derived",
        0.2,
    ),
    "mmq_fixed": Provenance(
        "35.43 / 23.48 ms, 27B Q4_K, RTX 3090; other platforms assumed alike", "read", 0.2
    ),
    "mmq_gain": Provenance(
        "0.39 ms per token, 27B Q4_K, RTX 3090, over the MMVQ rate", "derived", 0.4
    ),
    "mmq_gain_dp4a": Provenance(
        "cards without int8 tensor cores keep the same instruction in tiles: reuse of the weights "
        "is the gain",
        "assumed",
        0.5,
    ),
    "mmq_moe": Provenance(
        "llama.cpp #15525, RTX 3090, DeepSeek-V2-Lite Q4_0: 11.0, 13.7, 16.8 and 20.4 ms for steps "
        "of 2, 4, 8 and 16 tokens, 0.24 ms an expert more, whose read takes 0.17 ms at 80 % of the "
        "bandwidth; Vulkan #25356: 65 ms at 8 sequences, 109 at 9",
        "derived",
        0.1,
    ),
    "verify_layer_s": Provenance("llama.cpp gives up its CUDA graph for batches", "assumed", 0.8),
    "draft_pass_s": Provenance(
        "launch of one draft pass, part of SpecDecode-Bench's 2.1 ms; llama.cpp builds a graph",
        "assumed",
        0.6,
    ),
    "draft_layer_s": Provenance(
        "a separate draft model launches its layers one by one: vLLM ran it without CUDA graphs "
        "(vllm #47460); llama.cpp about "
        "4 ms a pass of a 0.5B draft on GTX 1080 Ti and RTX 5060 Ti",
        "derived",
        0.5,
    ),
    "draft_scale": Provenance("multiplier on the whole draft pass, for a fit", "assumed", 0.3),
    "ngram_host_s": Provenance(
        "matching on the CPU; vLLM gives up asynchronous scheduling for lookups (#31998)",
        "assumed",
        0.7,
    ),
    "dflash_layers": Provenance("published DFlash drafters have 5 to 8 layers", "assumed", 0.4),
    "dspark_token_s": Provenance("a small sequential head per drafted token", "assumed", 0.7),
    "state_checkpoint_s": Provenance(
        "llama.cpp, hybrid model with a separate draft: 50 to 100 ms a cycle unexplained in one "
        "publication, about 10 ms in "
        "another (RTX 3090 both)",
        "derived",
        0.9,
    ),
    "state_reads": Provenance(
        "each draft position writes its own recurrent state; MLX keeps snapshots and runs "
        "layers again",
        "assumed",
        0.4,
    ),
    "allreduce_s": Provenance("one small all-reduce over NVLink with launch", "assumed", 0.5),
    "allreduce_pcie_s": Provenance("one small all-reduce over PCIe", "assumed", 0.5),
    "allreduce_net_s": Provenance("one small all-reduce over RoCE", "assumed", 0.6),
    "mfu_prefill": Provenance(
        "GB10, 35B-A3B FP8: 32,768 prompt tokens in 4.0 to 4.7 s (baseline TTFT of the tests "
        "B and C)",
        "derived",
        0.3,
    ),
    "mfu_prefill_dense": Provenance(
        "half of SpecDecode-Bench's 0.77, hybrid layers", "assumed", 0.3
    ),
    "prefill_call_s": Provenance(
        "about 1 ms a layer launched one by one; SGLang and llama.cpp by their published TTFT",
        "derived",
        0.5,
    ),
    "prefill_linear_s": Provenance(
        "H200, 35B-A3B: 112 ms for a call of 2k to 4k tokens, less 30 ms, over 30 recurrent layers",
        "derived",
        0.5,
    ),
    "prefill_captured": Provenance(
        "H200, 35B-A3B: 48 ms for a prompt of 64 tokens, against 112 ms beyond captured sizes",
        "derived",
        0.3,
    ),
    "prefill_scale": Provenance(
        "multiplier on prefill; SGLang: TTFT of 8192 tokens at one stream, H200, 35B-A3B and 27B",
        "derived",
        0.4,
    ),
    "verify_scale": Provenance(
        "multiplier on what a verify step costs beyond a baseline step, for a fit", "assumed", 0.15
    ),
}

_NAMED = re.compile(r"(\w+)(?:\[([\w-]+)\])?$")


def shift_constants(constants: Constants, logs: Mapping[str, float]) -> Constants:
    """Constants times exp(log): of all paths ("rho") or of one ("mmvq_share[llamacpp-cuda]").

    Fractions stay below 1 (`eta`, `mfu`, `rho`, `share`). Raises KeyError for an unknown name.
    """
    changes: dict[str, float | ByPath] = {}
    for key, log in logs.items():
        found = _NAMED.match(key)
        name, path = (found.group(1), found.group(2)) if found else (key, None)
        if name not in CONSTANT_SOURCES:
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
        return 0.98
    return 1.2 if name == "expert_bw" else math.inf
