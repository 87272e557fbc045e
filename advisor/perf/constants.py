"""The constants of the physics core: few, interpretable, each with a default, a unit, a source and
a prior width.

A constant that depends on the kernels is a tuple in the order of `arrays.PATHS`. Defaults come from
the source above each, not from an optimiser. `shift_constants` applies a fit, by name or by
name[path].
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.perf.arrays import LLAMACPP, PATHS

ByPath = tuple[float, ...]


def by_path(default: float, **special: float) -> ByPath:
    """A value per kernel path; keywords use `_` for `-`; `llamacpp` stands for its four paths."""
    values = dict.fromkeys(PATHS, default)
    if "llamacpp" in special:
        values.update(dict.fromkeys(LLAMACPP, special.pop("llamacpp")))
    for name, value in special.items():
        values[name.replace("_", "-")] = value
    return tuple(values[name] for name in PATHS)


class Provenance(NamedTuple):
    """How a constant is known, and how far a fit may move it."""

    status: str  # read, measured, derived, assumed, chosen
    log_sd: float  # prior width of log(true / default), with which a fit shrinks; 0: not fitted


def constant(default: float | ByPath, status: str, log_sd: float = 0.0) -> Any:
    """A field of `Constants`, until its provenance is kept; its source stands above it."""
    return default, Provenance(status, log_sd)


class Constants:
    """Units: `_s` seconds, `eta`/`mfu`/`share` fractions of a peak, the rest pure numbers."""

    # -- memory and compute
    # AIConfigurator systems/*.yaml, mem_bw_empirical_scaling_factor 0.8; Strix Halo 212 of 256
    # GB/s; llama.cpp off CUDA and ROCm vLLM lower by their published baselines
    eta_bw: ByPath = constant(
        by_path(
            0.80, llamacpp_metal=0.75, llamacpp_vulkan=0.70, llamacpp_rocm=0.70, vllm_other=0.5
        ),
        "read",
        0.15,
    )
    # vLLM and SGLang on Hopper and B200 over other cards, whose eta_bw a fit puts at 0.75: Llama
    # 3.1 8B in BF16, 17.7 GB of keys and values beside 16.1 GB of weights take 5.6 ms more, 3.2
    # TB/s of 3.35 (H100), and 16.1 GB of weights 4.7 ms of 4.8 TB/s (H200); own runs
    hbm_read: float = constant(1.12, "derived")
    # small grouped GEMMs reach a little less of the bandwidth than dense ones
    expert_bw: ByPath = constant(by_path(0.94), "assumed", 0.25)
    # less than on Hopper (mfu_gemm_wgmma), whose tile instructions are asynchronous
    mfu_gemm: float = constant(0.50, "assumed", 0.3)
    # H100, H200, B200: Qwen3 8B with its DFlash head, vLLM, 512 to 1,024 tokens on an H100, 29 us
    # per token, 0.64 of peak (own runs); SpecDecode-Bench, Llama-3.1-8B: 21 us per token, 0.77. Not
    # Hopper's FP8, added up on vector units: a 27B's take 7.4 and 11.5 ms at 64, 160 tokens (H200)
    mfu_gemm_wgmma: float = constant(0.65, "measured")
    # decode attention with a few query tokens fills a fraction of a tile
    mfu_attention: ByPath = constant(by_path(0.25), "assumed", 0.5)
    # H100, H200, B200: FlashMLA reaches 580 of 989 TFLOP/s, FlashAttention-3 up to 740
    mfu_attention_wgmma: float = constant(0.60, "read", 0.3)
    # per KV token and layer where verify attention is not split over the KV cache: 45 ns (RTX 3090
    # Ti, vllm-project/flash-attention #190), 27 ns (RTX 4090, vllm #54691); SGLang's Triton kernel
    # about 100 ns (sglang #39316); vLLM's on gfx1201 172 ns (vllm #51995)
    verify_serial_s: ByPath = constant(
        by_path(0.0, vllm_cuda=30e-9, sglang_cuda=100e-9, vllm_other=170e-9), "derived", 0.2
    )

    # -- routing
    # text; 0.34 (GLM-5.2, ml-explore/mlx #3801); 0.32 to 0.46 (Cohere blog 2026-04-21)
    rho: float = constant(0.35, "derived", 0.15)
    # of rho after random prompts: left-out errors are 17.5, 17.5, 17.4 and 17.4 % at 0, 0.5, 0.75
    # and 1; a GB10 at 1 and 2 requests asks for less (seed000), own H200 steps for more
    rho_random: float = constant(0.75, "derived")
    # lognormal sigma of expert popularity, from the step time of GB10's 16 plain streams (67 ms)
    skew: float = constant(1.2, "derived", 0.4)

    # -- per step
    # 14 kernels a layer at 3 us (AIConfigurator mem_empirical_constant_latency); llama.cpp: 27B on
    # RTX 3090, 23.48 ms less its bytes
    layer_launch_s: ByPath = constant(
        by_path(42e-6, llamacpp=30e-6, mlx=35e-6, vllm_other=90e-6), "derived", 0.4
    )
    # launches of a layer with 16-bit weights over one that quantises its activations: Llama 3.1 8B
    # in BF16 at one request, 0.3 to 0.5 ms beyond its bytes for 32 layers (vLLM and SGLang, H100
    # and H200, own runs)
    wide_launch: float = constant(0.4, "derived")
    # llama.cpp: 35B-A3B on RTX 3090 at 139.9 tok/s less bytes and 30 us a layer
    moe_layer_launch_s: ByPath = constant(
        by_path(12e-6, llamacpp=85e-6, mlx=60e-6, vllm_other=60e-6), "derived", 0.4
    )
    # DeepSeek-V4 mixes four residual streams before and behind each part of a layer: what one
    # request takes a layer beyond reads and launches, vLLM and SGLang on one, two and four GPUs, is
    # 20 us (GB300, H200), 40 (B200), 48 to 53 (H100, H200) and 54 to 66 (RTX PRO 6000)
    streams_layer_s: float = constant(45e-6, "derived")
    # SpecDecode-Bench overhead 1.2 ms per step on H100; about half hidden by async scheduling
    host_s: ByPath = constant(
        by_path(0.6e-3, llamacpp=0.3e-3, mlx=0.5e-3, vllm_other=1.2e-3), "derived", 0.5
    )
    # scheduling and detokenising one sequence
    host_seq_s: ByPath = constant(by_path(8e-6, llamacpp=60e-6, mlx=100e-6), "assumed", 0.6)
    # llama.cpp on CUDA, models without experts: what a further sequence costs the card beside its
    # token. Llama 3.1 8B, H100, 16 to 32 sequences 15.5 to 25.2 ms, 16 to 32 tokens of one sequence
    # 8.3 to 10.4 (own llama-batched-bench)
    dense_seq_s: ByPath = constant(by_path(0.0, llamacpp_cuda=0.48e-3), "measured")
    # float32 logits read or written while sampling; steps of 128 to 512 tokens with blocks of Qwen3
    # 8B on an H100 are 2 to 8 % too long with 6 passes, 9 to 20 % with 30 (own runs)
    sampler_passes: float = constant(6.0, "derived")
    # llama.cpp samples on one CPU thread, by vocabulary entry: 2.9 ns on the host of an H200 (own
    # runs); desktop processors assumed three times as fast
    sample_s: ByPath = constant(by_path(0.0, llamacpp=1.0e-9), "derived")
    # host of an H200 over a desktop processor, see sample_s
    sample_server_cpu: float = constant(3.0, "assumed")
    # rejection sampler, draft input preparation; SpecDecode-Bench draft_c_fixed 2.1 ms
    spec_step_s: ByPath = constant(
        by_path(1.0e-3, llamacpp=0.5e-3, mlx=1.0e-3, sglang_cuda=0.7e-3), "assumed", 0.6
    )
    # rejection and draft bookkeeping of one sequence, on the host
    spec_seq_s: ByPath = constant(by_path(10e-6, llamacpp=30e-6, mlx=50e-6), "assumed", 0.8)
    # about 8 eager launches of 12 us a layer once FULL graphs are lost
    piecewise_layer_s: float = constant(100e-6, "assumed", 0.5)
    # without CUDA graphs a step takes the host's launches where they are longer than the GPU's
    # work: 1.3 ms a layer for Qwen3.8-27B on A100 and H100 PCIe, 1.2 ms for Gemma-4-26B-A4B on
    # GB10, at most 0.8 ms for Gemma-4-31B on A100
    eager_layer_s: float = constant(1.0e-3, "derived", 0.4)
    # vLLM, recurrent layers, prefix caching: copies of states at page boundaries in a verify step;
    # none in a baseline step
    prefix_verify_s: float = constant(0.5e-3, "assumed", 0.8)

    # -- small-batch verify kernels of llama.cpp and MLX
    # 5.55 ms per extra token, 27B Q4_K, RTX 3090: 9.7 TOPS of 35.6 fp32; AMD counts dual-issue
    # peak; Metal, Vulkan and MLX assumed
    mmvq_share: ByPath = constant(
        by_path(0.27, llamacpp_metal=0.12, llamacpp_vulkan=0.20, llamacpp_rocm=0.13, mlx=0.15),
        "derived",
        0.4,
    )
    # llama.cpp on CUDA: unpacking K-quants takes the vector kernel as long as computing so many
    # tokens, which is longer than reading on cards of much bandwidth: 27B Q4_K in 11.5 ms, 1.45
    # TB/s, on an H100 and on an H200 alike (own runs of b11312)
    unpack_tokens: ByPath = constant(by_path(0.0, llamacpp_cuda=3.8), "measured")
    # the same of Q8_0, whose tokens cost 0.7 of a K-quant's: 27B in 14.3 ms beside launches and
    # sampling, 2.0 TB/s of 3.35 (H100, one slot, own runs of b11312)
    unpack_q8_tokens: ByPath = constant(by_path(0.0, llamacpp_cuda=7.1), "measured")
    # llama.cpp on Metal: cost of a token in the kernel that reads K-quants anew for each of 2 or 3
    # tokens, over one in the small-batch kernel from 4 on; 1.5 to 1.9 on an M1 Max and an M5 Pro
    metal_repeat: float = constant(1.8, "derived", 0.2)
    # llama.cpp on Metal, M3 and M4: cost of a token of K-quants in the small-batch kernel, over one
    # on other chips at their rates; 2.2 to 2.6 on two M3 Ultra and an M4
    metal_apple9: float = constant(2.4, "derived", 0.2)
    # 35.43 / 23.48 ms, 27B Q4_K, RTX 3090; other platforms assumed alike
    mmq_fixed: ByPath = constant(by_path(1.51), "read", 0.2)
    # cards without int8 tensor cores keep the vector kernel's instruction in tiles
    mmq_fixed_dp4a: float = constant(1.5, "assumed", 0.3)
    # llama.cpp #15525, RTX 3090, DeepSeek-V2-Lite Q4_0: 11.0, 13.7, 16.8 and 20.4 ms for steps of
    # 2, 4, 8 and 16 tokens, 0.24 ms an expert more, whose read takes 0.17 ms at 80 % of the
    # bandwidth; Vulkan #25356: 65 ms at 8 sequences, 109 at 9
    mmq_moe: ByPath = constant(by_path(1.4, llamacpp_vulkan=2.0), "derived", 0.1)
    # llama.cpp uses no CUDA graph where experts meet more tokens than the vector kernel takes, and
    # sorts the tokens by experts: 4.3 ms between 8 and 9 sequences beyond what a sequence costs, 40
    # layers of 35B-A3B (H100, own llama-batched-bench)
    mmq_moe_layer_s: ByPath = constant(by_path(0.0, llamacpp_cuda=107e-6), "measured")
    # llama.cpp gives up its CUDA graph for batches
    verify_layer_s: ByPath = constant(by_path(0.0, llamacpp=15e-6), "assumed", 0.8)

    # -- drafting
    # launch of one draft pass, part of SpecDecode-Bench's 2.1 ms; llama.cpp builds a graph
    draft_pass_s: ByPath = constant(
        by_path(0.3e-3, llamacpp=0.6e-3, mlx=0.6e-3, sglang_cuda=0.2e-3), "assumed", 0.6
    )
    # a separate draft model launches its layers one by one: vLLM ran it without CUDA graphs (vllm
    # #47460); llama.cpp about 4 ms a pass of a 0.5B draft on GTX 1080 Ti and RTX 5060 Ti
    draft_layer_s: ByPath = constant(
        by_path(100e-6, vllm_cuda=150e-6, vllm_other=200e-6, llamacpp=130e-6), "derived", 0.5
    )
    # multiplier on the whole draft pass, for a fit
    draft_scale: ByPath = constant(by_path(1.0), "assumed", 0.3)
    # matching on the CPU; vLLM gives up asynchronous scheduling for lookups (#31998)
    ngram_host_s: ByPath = constant(by_path(0.5e-3, vllm_cuda=2.5e-3), "assumed", 0.7)
    # outside vLLM and SGLang on NVIDIA, where a fit finds more than the 5 to 8 layers that
    # published drafters have
    dflash_layers: float = constant(5.0, "assumed", 0.4)
    # a small sequential head per drafted token, and more for each request: Qwen3 8B, k = 7, over
    # DFlash's block 0.06 ms a cycle at 1 and 8 requests, 0.25 at 32 and 64, 1.0 at 256 (H200, vLLM
    # 0.25.1, own runs)
    dspark_token_s: float = constant(8e-6, "measured")
    # see dspark_token_s
    dspark_request_s: float = constant(0.5e-6, "measured")
    # llama.cpp, hybrid model with a separate draft: 50 to 100 ms a cycle unexplained in one
    # publication, about 10 ms in another (RTX 3090 both)
    state_checkpoint_s: float = constant(25e-3, "derived", 0.9)
    # llama-server b11312 with --spec-type ngram-*, H100: 23 ms a slot and cycle beyond the step for
    # 30 recurrent layers (35B-A3B), 38 ms for 48 (27B, 4 bit and BF16 alike): copied out layer by
    # layer before each draft, and back after a refused one (own runs)
    lookup_copy_layer_s: float = constant(0.78e-3, "measured")

    # -- recurrent state
    # each draft position writes its own recurrent state; MLX keeps snapshots and runs layers again
    state_reads: ByPath = constant(by_path(1.0, mlx=5.0), "assumed", 0.4)
    # llama.cpp on CUDA: a sequence's recurrent state of 63 MB takes 0.22 ms, as five readings or
    # writings where two are needed (35B-A3B, H100, own llama-batched-bench)
    state_copies: ByPath = constant(by_path(1.0, llamacpp_cuda=2.5), "measured")

    # -- experts in the machine's memory
    # a layer's hand-over to the processor and back: llama-server b11312, experts of 10 and 40
    # layers of 35B-A3B in the host's memory of an H100, 1 to 24 tokens a step, 13 points within 14
    # % (own runs)
    host_layer_s: float = constant(0.09e-3, "measured")
    # the same points: 68 GB/s of the experts that uniform routing reaches, where as many threads
    # read 101 GB/s
    host_memory_share: float = constant(0.67, "measured")
    # 1, or 2 in the other state of switch_host_memory
    host_memory_speed: float = constant(1.0, "chosen")
    # the same machine, 40 tokens a step: 25 ms a layer for 326 MB; copies of pageable memory 7 to
    # 12 GB/s, pinned 54 (own runs)
    host_copy_bw: float = constant(13e9, "measured")

    # -- tensor parallelism
    # one small all-reduce over NVLink with launch
    allreduce_s: float = constant(10e-6, "assumed", 0.5)
    # one small all-reduce over PCIe
    allreduce_pcie_s: float = constant(25e-6, "assumed", 0.5)
    # one small all-reduce over RoCE
    allreduce_net_s: float = constant(60e-6, "assumed", 0.6)

    # -- prefill
    # GB10, 35B-A3B FP8: 32,768 prompt tokens in 4.0 to 4.7 s (baseline TTFT of the tests B and C);
    # H200: 8,192 tokens in 145 to 155 ms, 0.17; a mixture's experts in a step of decodes likewise
    mfu_prefill: float = constant(0.15, "derived", 0.3)
    # half of SpecDecode-Bench's 0.77, hybrid layers
    mfu_prefill_dense: float = constant(0.45, "assumed", 0.3)
    # about 1 ms a layer launched one by one; SGLang and llama.cpp by their published TTFT
    prefill_call_s: ByPath = constant(
        by_path(30e-3, vllm_cuda=0.0, sglang_cuda=15e-3, llamacpp=8e-3, mlx=10e-3), "derived", 0.5
    )
    # vLLM 0.25.1, recurrent layers, which no graph holds beside prompts: calls within captured
    # sizes take 45 to 48 ms more than a step with 30 of them (35B-A3B, H100 and H200) and 64 with
    # 48 (27B, H200; own runs)
    prefill_linear_s: ByPath = constant(by_path(0.0, vllm_cuda=1.5e-3), "measured")
    # vLLM 0.25.1, a layer launched kernel by kernel beyond captured sizes
    prefill_layer_s: float = constant(0.35e-3, "assumed")
    # vLLM 0.25.1, the experts of a layer beyond captured sizes: a call takes 112 and 125 ms with 40
    # such layers and 30 recurrent ones (35B-A3B, H200 and H100), 102 to 119 with 46 (GLM-4.7-Flash,
    # H200; own runs), less the other layers
    prefill_moe_s: float = constant(1.6e-3, "measured")
    # multiplier on prefill; SGLang: TTFT of 8192 tokens at one stream, H200, 35B-A3B and 27B
    prefill_scale: ByPath = constant(by_path(1.0, sglang_cuda=0.75, vllm_other=1.5), "derived", 0.4)

    # -- kernel paths, for a fit: multipliers on the part of a verify step beyond a plain step
    # multiplier on what a verify step costs beyond a baseline step, for a fit
    verify_scale: ByPath = constant(by_path(1.0), "assumed", 0.15)

    def __init__(self, **changes: float | ByPath) -> None:
        """The defaults but for some. Raises TypeError for an unknown name."""
        if unknown := sorted(changes.keys() - PROVENANCE.keys()):
            raise TypeError(f"no constant {', '.join(unknown)}")
        self.__dict__.update(changes)

    def replace(self, **changes: float | ByPath) -> Constants:
        """These but for some. Raises TypeError for an unknown name."""
        return Constants(**{**vars(self), **changes})


MOST_SHARE = sourced(0.98, "share", "own choice: a fitted share stays below all of it", "chosen")
MOST_EXPERT_BW = sourced(
    1.2, "ratio", "own choice: experts are read at most little faster than dense weights", "chosen"
)
_NAMED = re.compile(r"(\w+)(?:\[([\w-]+)\])?$")
PROVENANCE: dict[str, Provenance] = {}
for _name in Constants.__annotations__:
    _default, PROVENANCE[_name] = getattr(Constants, _name)
    setattr(Constants, _name, _default)


def shift_constants(constants: Constants, logs: Mapping[str, float]) -> Constants:
    """Constants times exp(log): of all paths ("rho") or of one ("mmvq_share[llamacpp-cuda]").

    Fractions stay below 1 (`eta`, `mfu`, `rho`, `share`). Raises KeyError for an unknown name.
    """
    changes: dict[str, float | ByPath] = {}
    for key, log in logs.items():
        found = _NAMED.match(key)
        name, path = (found.group(1), found.group(2)) if found else (key, None)
        if name not in PROVENANCE:
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
    return constants.replace(**changes)


def _ceiling(name: str) -> float:
    if name.startswith(("eta", "mfu", "rho")):
        return MOST_SHARE
    return MOST_EXPERT_BW if name == "expert_bw" else math.inf
