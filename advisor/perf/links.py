"""What ranks wait for each other: the all-reduces of tensor parallelism, by kind of link, ranks and
size. Seconds, (N,), points filled, as in `physics`.

A small message costs a latency; a larger one goes by the kernel that moves less, with a latency of
its own. What it does not know: processors with two sockets, and cards that share a PCIe switch.
"""

import numpy as np

from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf import imputation
from advisor.perf.arrays import Floats, Mask, Seconds, Tokens
from advisor.perf.constants import Constants
from advisor.perf.kernels import SMALL_BATCH_PATHS
from advisor.perf.rates import NVIDIA, SERVER_PATHS

_NODE = sourced(8, "GPUs", "NVIDIA HGX A100, H100 and H200: eight GPUs on one NVSwitch", "read")
_HGX = ("sm_80", "sm_90")
KINDS = ("nvlink", "nvlink5", "pcie4", "pcie5", "host", "network")
# GB/s a direction of the card on which each kind was measured
_STATED = sourced(
    {"nvlink": 450, "nvlink5": 900, "pcie4": 32, "pcie5": 64, "host": 64, "network": 25},
    "GB/s",
    "H100, B200, L40S, RTX PRO 6000 (knowledge/hardware); ConnectX-7 of a GB10",
    "read",
)
_TWO_LINES = sourced(
    {  # us, us a MB of the kernel for small messages; us, us a MB of the other one; 2, 4, 8 ranks
        "nvlink": ((4.2, 4.3, 40, 3.6), (4.6, 11.8, 8.4, 5.0), (5.0, 23.8, 10.2, 4.6)),
        "nvlink5": ((6.3, 7.7, 29, 1.9), (6.3, 16.4, 18.8, 2.5), (6.4, 53.5, 19.4, 2.6)),
        "pcie4": ((5.2, 113, 5.7, 49), (12, 380, 12, 380), (20, 705, 20, 705)),
        "pcie5": ((4.2, 50, 4.2, 26.5), (11, 149, 47, 50), (25, 198, 93, 62)),
        "host": ((18, 69, 18, 69), (18, 149, 47, 69), (25, 198, 93, 69)),
        "network": ((60, 50, 60, 50), (60, 545, 765, 75), (140, 636, 1785, 88)),
    },
    "us and us/MB",
    "Lines through the measured all-reduces of tests/perf/all_reduces.csv (aiconfigurator "
    "095f58a), within 1.4 of each from 128 to 67 M elements; host: RTX PRO 6000 without peer "
    "access at two ranks; network: at most 72 us between two GB10 (kubis.ai, Gemma 4 26B), four "
    "took 59 us for 48 kB, 877 for 1.5 MB (NCCL: b12x, rocenante.md), never less than two; "
    "eight by the steps of a ring, large ones by its bytes",
    "derived",
)
_BY_TENSOR = sourced(
    {"sm_60": 90e-6, "others": 22e-6},
    "s",
    "What llama.cpp's split by tensors waits for beside that, a sum: plain runs of one model over "
    "two cards (sudo38, sudo38c, v100stack, r9700ngram; P100 and P40: sudo38c, p100x2dense); "
    "llama.cpp#19378: Gemma 4 26B-A4B 67 us, 31B 39 us, gpt-oss-120b on four RTX 4090 40 us in all",
    "derived",
)
_TCP = sourced(
    200e-6,
    "s",
    "An all-reduce of a few bytes over Ethernet: beyond twice the most of RoCE",
    "assumed",
)
_LINES = np.array([[np.array(row) * 1e-6 for row in _TWO_LINES[kind]] for kind in KINDS])
_SHARED = [KINDS.index(name) for name in ("pcie4", "pcie5", "host")]
_REFERENCE = np.array([_STATED[kind] * 1e9 for kind in KINDS])


def link_seconds(p: P.Points, c: Constants, tokens: Tokens, layers: Floats) -> Seconds:
    """Two all-reduces of the activations per layer under tensor parallelism."""
    if not (p.tp > 1).any():
        return np.zeros(len(p.tp))
    # beyond one node, whatever links the GPUs inside it
    beyond = (p.tp > _NODE) & P.mask(p.arch, P.ARCHS, _HGX)
    ethernet = P.mask(p.link, P.LINKS, ("ethernet",))
    beyond = beyond | ethernet
    slow = beyond | P.mask(p.link, P.LINKS, ("roce",))
    fast = (p.link == P.LINKS.index("nvlink")) | (
        (p.link == 0) & (p.link_bw > imputation.value("pcie_most"))
    )
    # groups that attend by themselves gather tokens before the experts and scatter them behind:
    # each is half of an all-reduce
    half = np.where(p.attention_groups > 1, 0.5, 1.0)
    size = tokens * p.hidden * 2 * half  # bytes, activations of 16 bits
    # neither kernels of another vendor nor several boards are in the measured tables
    known = p.is_path(*SERVER_PATHS) & P.mask(p.arch, P.ARCHS, NVIDIA) & ~beyond
    kind = _kind(p, slow, fast)
    known = known & ~((kind == KINDS.index("host")) & (p.tp <= 2))  # fitted: pairs of GeForce
    pcie = np.fmax(c.allreduce_pcie_s, c.allreduce_s)  # fitted apart; never the quicker link
    latency = np.where(slow, c.allreduce_net_s, np.where(fast, c.allreduce_s, pcie))
    latency = np.where(ethernet, np.fmax(latency, _TCP), latency)
    old = P.mask(p.arch, P.ARCHS, ("sm_60",))
    waits = np.where(old, _BY_TENSOR["sm_60"], _BY_TENSOR["others"])
    latency = latency + np.where(p.is_path(*SMALL_BATCH_PATHS), waits, 0.0)
    other = latency + 2 * size / p.link_bw  # a ring: about twice the size over each link
    one = np.where(known, all_reduce_seconds(p, kind, size), other)
    return np.where(p.tp > 1, 2 * layers * one, 0.0)


def _kind(p: P.Points, slow: Mask, fast: Mask) -> P.Ints:
    """The kind of link of each point, as a place in KINDS."""
    geforce = P.mask(p.hw_class, P.CLASSES, ("consumer", "laptop"))  # no peer access over PCIe
    newer = p.link_bw > _REFERENCE[KINDS.index("pcie4")]
    pcie = np.where(geforce, KINDS.index("host"), np.where(newer, 3, 2))
    inside = np.where(fast, np.where(P.mask(p.arch, P.ARCHS, ("sm_100",)), 1, 0), pcie)
    return np.where(slow, KINDS.index("network"), inside)


def all_reduce_seconds(p: P.Points, kind: P.Ints, size: Floats) -> Seconds:
    """One all-reduce of `size` bytes (N,): the quicker of two kernels, each a latency and a rate
    that goes with the card's own link. Between the measured ranks in the logarithm. Over PCIe most
    of the time goes by what shares it, so that a narrower link adds a ring's bytes over it.
    """
    place = np.log2(np.clip(p.tp, 2, 8)) - 1
    low = np.floor(place).astype(int)
    above = (place - low)[:, None]
    lines = _LINES[kind, low] * (1 - above) + _LINES[kind, np.fmin(low + 1, 2)] * above
    reached = imputation.value("link_share") * _REFERENCE[kind]
    narrow = np.isin(kind, _SHARED) & (p.link_bw < reached)
    scaled = size * 1e-6 * np.where(narrow, 1.0, reached / p.link_bw)
    ring = 2 * (1 - 1 / np.fmax(p.tp, 2.0)) * size * np.fmax(1 / p.link_bw - 1 / reached, 0.0)
    first, second = (lines[:, i] + lines[:, i + 1] * scaled for i in (0, 2))
    return np.asarray(np.fmin(first, second) + np.where(narrow, ring, 0.0))
