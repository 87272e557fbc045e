"""How fast the kernels of a path compute: matrix rates by quantisation, the small-batch kernels of
llama.cpp and MLX, attention. All (N,), operations per second and device.
"""

from functools import lru_cache

import numpy as np

from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf.arrays import Floats
from advisor.perf.constants import MOST_SHARE, ByPath, Constants

_NO_INT8_TENSOR = ("sm_60", "sm_70")
_TILED_SHARE = sourced(
    0.6, "share of the fp32 rate", "5.6 of 13.6 TFLOP/s (M2 Max), 7.0 of 7.5 (M4 Pro)", "derived"
)
_WGMMA = ("sm_90", "sm_100")
SERVER_PATHS = ("vllm-cuda", "sglang-cuda")
# dp4a instructions issue on the integer pipe: full rate beside fp32 on Volta and Turing, half on
# Ampere and Ada. Two V100 sources put the truth between the two laws; the geometric middle of 1 and
# 2 is taken. CDNA lists its fp32 rate without the dual issue that RDNA counts, so its share of it
# is twice as large.
_INT_LANES = sourced(
    {"sm_70": 1.41, "sm_75": 1.41, "gfx9": 2.0}, "ratio", "instruction throughput tables", "derived"
)
# Unpacking cost of the quantisation relative to Q4_K: plain 8 bit needs none, codebook types a
# table look-up more.
_UNPACK = sourced(
    {"gguf-legacy": 1.4, "gguf-i": 0.85},
    "ratio",
    "Unpacking steps in llama.cpp, see above",
    "assumed",
)
_LANES = np.array([_INT_LANES.get(word, 1.0) for word in P.ARCHS])
_UNPACKING = np.array([_UNPACK.get(word, 1.0) for word in P.QUANT_FAMILIES])
# Shares of the fp32 rate on NVIDIA, whose listed matrix peaks mix dense, sparse and halved
# accumulation; of the listed 16-bit peak elsewhere.
PROMPT_SHARE = sourced(
    {"sm_60": 1.15, "sm_70": 2.0, "sm_75": 1.75, "sm_80": 6.0, "sm_86": 1.75, "sm_89": 1.75,
     "sm_90": 2.5, "sm_100": 2.5, "sm_110": 1.1, "sm_120": 2.2, "sm_121": 1.1, "gfx9": 0.46,
     "gfx11": 0.30, "gfx12": 0.28, "intel": 0.1, "ascend": 0.1, "apple": 0.65, "apple9": 0.65,
     "unknown": 1.75},
    "share of the fp32 rate (NVIDIA) or of the 16-bit peak",
    "2 x parameters x tokens/s of prompts. 8B Q4: RTX 3080 3,557, RTX 3090 3,865, RTX 4080 5,065, "
    "A100 7,259, H100 10,343, M2 Ultra 1,024, M3 Max 678 "
    "(github.com/XiongjieDai/GPU-Benchmarks-on-LLM-Inference), RTX 4090 9,279 (llama.cpp #7860), "
    "RTX 5090 14,925 (#24127), P40 857 (#8416), MI50 760 (#27841), RX 7900 XTX 3,227 (#26284), "
    "R9700 3,394 (#18816), Strix Halo 1,050 (#18666), M1 Max 500 (brand-o/normiebench #40); 7B "
    "Q8_0: GB10 2,275 (benches/dgx-spark.md); 27B: V100 589 (sudo38). T4, B200, Thor and Intel "
    "as their neighbours; an unknown card as the RTX 3090",
    "derived",
)  # fmt: skip
PROMPT_MOST = sourced(
    190e12,
    "FLOP/s",
    "most of a device in llama.cpp but an RTX 5090 (240): llama.cpp #21570",
    "derived",
)
PROMPT_EXPERTS = sourced(
    0.45,
    "ratio",
    "Rate of llama.cpp's experts over its dense layers in a long prompt. Strix Halo, 15k tokens: "
    "35B-A3B 972 tokens/s, 27B 280 (aimaestro); GB10, 2k: 30B-A3B 3,176, a 7B 2,275 (llama.cpp, "
    "benches/dgx-spark.md)",
    "derived",
)
_PROMPT_SHARE = np.array([PROMPT_SHARE.get(word, PROMPT_SHARE["unknown"]) for word in P.ARCHS])
NVIDIA = tuple(word for word in P.ARCHS if word.startswith("sm_")) + ("unknown",)
OVERLAP = sourced(
    4.0,
    "power",
    "Steps of 1 to 512 tokens of an 8B in BF16 (H100, H200), vLLM 0.25.1, own runs: 192 tokens "
    "cost half a millisecond more than 64, though they compute for 0.8 of the time that reading "
    "takes; 2, a hypotenuse, is 14 to 25 % too long from 128 tokens on, 6 and 10 fit as well",
    "measured",
)
_STAGE_LOSS = sourced(
    1.2, "ratio, for twice the stages", "GLM-4.7, RTX PRO 6000, seven loads (magik6k)", "derived"
)
LEAST_RATE = sourced(1e11, "FLOP/s", "own choice: below every card that is listed", "chosen")


def at(values: ByPath, points: P.Points) -> Floats:
    """A per-path constant, spread over the points."""
    return _by_path(values)[points.path]


@lru_cache(maxsize=64)
def _by_path(values: ByPath) -> Floats:
    return np.array(values)


def is_swift(p: P.Points) -> P.Mask:
    """Whether vLLM or SGLang read the memory of a Hopper or B200 (N,)."""
    return np.asarray(p.is_arch(*_WGMMA) & p.is_path(*SERVER_PATHS))


@P.memoize
def read_rate(p: P.Points, c: Constants) -> Floats:
    """Bytes/s at which all devices of a replica read weights, states and caches (N,)."""
    share = at(c.eta_bw, p)
    swifter = np.fmin(share * c.hbm_read, np.fmax(share, MOST_SHARE))
    return np.asarray(p.bw * p.tp * np.where(is_swift(p), swifter, share), dtype=np.float64)


@P.memoize
def layer_launch(p: P.Points, c: Constants) -> Floats:
    """Seconds that launching one layer takes, without its experts (N,)."""
    wide = p.is_path(*SERVER_PATHS) & (p.quant_family == P.QUANT_FAMILIES.index("bf16"))
    return np.asarray(at(c.layer_launch_s, p) * np.where(wide, c.wide_launch, 1.0))


def overlap(p: P.Points, read: Floats, ops: Floats) -> Floats:
    """Seconds of matrix products that read `read` seconds and compute `ops` seconds on tensor
    cores: nearly the longer one with the asynchronous copies of Hopper and B200.
    """
    power = np.where(_asynchronous(p), OVERLAP, 2.0)
    return np.asarray((read**power + ops**power) ** (1 / power))


@P.memoize
def tensor_rates(p: P.Points) -> tuple[Floats, Floats]:
    """Matrix rates of one device, FLOP/s, for mixer weights and for FFN or expert weights."""
    fp8 = np.where(p.fp8 > 0, p.fp8, p.bf16)
    int8 = np.where(p.int8 > 0, p.int8, p.bf16)
    fp4 = np.where(p.fp4 > 0, p.fp4, p.bf16)
    is_fp8, is_int8, is_nvfp4, is_mxfp4 = (
        p.quant_family == P.QUANT_FAMILIES.index(name) for name in ("fp8", "int8", "nvfp4", "mxfp4")
    )
    same = np.where(is_int8, int8, p.bf16)
    mixer = np.where(is_fp8 | is_nvfp4, fp8, same)
    ffn = np.where(is_nvfp4, fp4, np.where(is_fp8 | is_mxfp4, fp8, same))
    return np.fmax(mixer, LEAST_RATE), np.fmax(ffn, LEAST_RATE)


@P.memoize
def small_batch_rate(p: P.Points, c: Constants) -> Floats:
    """FLOP/s of all devices of a layer in the matrix-vector kernels of llama.cpp and MLX (N,)."""
    lanes, unpack = _LANES[p.arch], _UNPACKING[p.quant_family]
    # Apple: half precision throughout, twice the fp32 rate from M5 on. M1 and M2 emulate bf16, in
    # which MLX computes; llama.cpp computes in fp16 there.
    apple = p.is_arch(*P.APPLE)
    half = np.where(p.is_path("mlx"), p.bf16, np.fmax(p.bf16, p.fp32))
    vector = at(c.mmvq_share, p) * np.where(apple, half, p.fp32) * lanes * unpack
    return p.tp * np.where(np.nan_to_num(p.tiled) > 0, _TILED_SHARE * p.fp32, vector)


def unpack_tokens(p: P.Points, c: Constants) -> Floats:
    """Tokens whose operations take as long as unpacking the weights once, llama.cpp (N,)."""
    legacy = p.quant_family == P.QUANT_FAMILIES.index("gguf-legacy")
    q8 = legacy & (p.bytes_ffn >= 1)  # the other legacy types have four and five bits
    return np.asarray(np.where(q8, at(c.unpack_q8_tokens, p), at(c.unpack_tokens, p)))


def tile_overhead(p: P.Points, c: Constants) -> Floats:
    """Time of llama.cpp's tiled kernels for dense weights over that of one token."""
    dp4a = p.is_arch(*_NO_INT8_TENSOR)
    return np.asarray(at(c.mmq_fixed, p) * np.where(dp4a, c.mmq_fixed_dp4a, 1.0))


@P.memoize
def prompt_rate(p: P.Points) -> Floats:
    """FLOP/s of one device in llama.cpp and MLX on a long prompt (N,): as published for its
    architecture, and never more than the device computes in 16 bits, or in 8 on NVIDIA cards that
    have kernels for it. A split by tensors is not faster (llama.cpp#19378: 0.25 to 1.1 of layers).
    """
    nvidia = p.is_arch(*NVIDIA)
    peak = np.fmax(p.bf16, p.fp32)
    rate = _PROMPT_SHARE[p.arch] * np.where(nvidia, p.fp32, peak)
    rate = np.where(p.is_arch("gfx9"), 1 / (1 / rate + 1 / PROMPT_MOST), rate)
    most = np.where(nvidia, np.fmax(peak, p.int8), peak)
    return np.asarray(np.fmax(np.fmin(rate, most), LEAST_RATE))


@P.memoize
def gemm_share(p: P.Points, c: Constants) -> Floats:
    """Share of the matrix peak that matrix products reach, 0 to 1 (N,)."""
    return np.where(_asynchronous(p), c.mfu_gemm_wgmma, c.mfu_gemm)


def _asynchronous(p: P.Points) -> P.Mask:
    """Whether products run beside their copies (N,): all but Hopper's FP8 (mfu_gemm_wgmma)."""
    eight = p.is_arch("sm_90") & (p.quant_family == P.QUANT_FAMILIES.index("fp8"))
    return np.asarray(p.is_arch(*_WGMMA) & ~eight)


@P.memoize
def attention_share(p: P.Points, c: Constants) -> Floats:
    """Share of the matrix peak that attention reaches: more with wgmma on Hopper and B200."""
    return np.where(p.is_arch(*_WGMMA), c.mfu_attention_wgmma, at(c.mfu_attention, p))


def params(p: P.Points) -> tuple[Floats, Floats, Floats]:
    """Parameters that each token uses: mixer, FFN (dense and shared), routed experts. (N,) each."""
    return (
        p.mixer_params,
        p.dense_ffn_params + p.shared_params,
        p.topk * p.expert_params * p.moe_layers,
    )


@P.memoize
def pipeline_loss(p: P.Points) -> Floats:
    """How much longer a pipeline's steps take than its stages' work: they wait for each other."""
    return np.asarray(_STAGE_LOSS ** np.log2(p.stages))
