"""Plan points as arrays: one (N,) float64 array per named quantity, NaN = unknown, and small
integer codes for words. A table of 100,000 rows and one question take the same road through them.

Units: bytes, seconds, FLOP/s, bytes/s, tokens, parameters (not billions). Rates are dense peak per
device.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt

from advisor.domain.nouns import METHODS
from advisor.domain.sourced import sourced

# One value for each point, (N,), unless a docstring says another shape.
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int16]
Seconds = Floats
Tokens = Floats  # of a step, a prompt or a context; `tau`: those a step emits, the bonus included
Requests = Floats  # that run in a step (`batch`), or wait
Made = TypeVar("Made")
Others = TypeVarTuple("Others")

MAX_K = sourced(
    8, "draft positions", "positions in acceptance arrays; beyond, the last one repeats", "chosen"
)

# Vocabularies: a code is the index; 0 is "unknown" (methods: 0 is "none").
ENGINES = (
    "unknown", "vllm", "sglang", "llama-server", "ik_llama.cpp", "mlx", "tensorrt-llm", "ollama",
    "lmstudio", "custom",
)  # fmt: skip
ARCHS = (
    "unknown", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_110",
    "sm_120", "sm_121", "gfx9", "gfx11", "gfx12", "apple", "apple9", "intel", "ascend",
)  # fmt: skip
APPLE = ("apple", "apple9")  # GPU family Apple9 of Metal: M3 and M4
CLASSES = ("unknown", "datacenter", "workstation", "consumer", "laptop", "unified", "igpu")
QUANT_FAMILIES = (
    "unknown", "bf16", "fp8", "int4", "nvfp4", "mxfp4", "int8", "gguf-k", "gguf-i", "gguf-legacy",
    "mlx", "exl3",
)  # fmt: skip
LINKS = ("unknown", "none", "pcie", "nvlink", "roce", "ethernet", "fabric")
WORKLOADS = (
    "unknown", "chat", "code", "math", "agent", "rag", "summarization", "creative", "mixed",
    "random", "reasoning", "factual", "voice",
)  # fmt: skip
FAMILIES = ("unknown", "qwen3.5", "qwen3", "deepseek", "glm", "gemma", "llama", "other")
METRICS = ("unknown", "output_tok_s", "request_tok_s", "tpot", "ttft")
# Kernel paths: engine and platform together decide the kernels, so constants may differ by path.
PATHS = (
    "other", "vllm-cuda", "sglang-cuda", "llamacpp-cuda", "llamacpp-metal", "llamacpp-vulkan",
    "llamacpp-rocm", "mlx", "vllm-other",
)  # fmt: skip
LLAMACPP = tuple(path for path in PATHS if path.startswith("llamacpp"))
SERVED = ("vllm-cuda", "sglang-cuda", "vllm-other")  # by a server with a pool of pages


def code(vocabulary: Sequence[str], word: str) -> int:
    """Index of a word in a vocabulary, 0 if it is not in it."""
    return vocabulary.index(word) if word in vocabulary else 0


METHOD_CODE: dict[str, int] = {name: index for index, name in enumerate(METHODS)}


@cache
def _is_one_of(vocabulary: tuple[str, ...], names: tuple[str, ...]) -> Mask:
    return np.array([word in names for word in vocabulary])


def mask(codes: Codes, vocabulary: Sequence[str], names: Sequence[str]) -> Mask:
    """Which codes stand for one of the names; a table look-up, quicker than np.isin here."""
    found = _is_one_of(tuple(vocabulary), tuple(names))[codes]
    found.flags.writeable = False  # it may be kept
    return found


def memoize(work_out: Callable[[Points, *Others], Made]) -> Callable[[Points, *Others], Made]:
    """A function of points, and of constants or words, whose value is kept with the points: they do
    not change.
    """

    @wraps(work_out)
    def look_up(points: Points, *others: *Others) -> Made:
        kept: dict[Hashable, Any] = points.__dict__["_kept"]
        if (key := (work_out, *others)) not in kept:
            kept[key] = work_out(points, *others)
        made: Made = kept[key]
        return made

    return look_up


class Points:
    """N plan points. All (N,) float64 unless marked; NaN = unknown.

    Model shape: parameter counts over all layers, except `expert_params` (one expert of one layer).
    Quantisation: bytes per weight by tensor class. Acceptance as measured by the row or the user,
    never a prior.
    """

    # model
    mixer_params: Floats
    dense_ffn_params: Floats
    expert_params: Floats
    experts: Floats
    topk: Floats
    moe_layers: Floats
    shared_params: Floats
    lm_head_params: Floats
    mtp_params: Floats
    # output head that each draft pass reads beside mtp_params, which may hold one of its own
    draft_head_params: Floats
    layers: Floats
    attn_layers: Floats  # attention layers, sliding windows included
    global_layers: Floats  # those of them that see the whole context
    window: Floats  # tokens that the other attention layers see; 0 where there are none
    swa_kv_elems: Floats  # K and V elements per token of the window over those layers
    swa_head_dim: Floats
    linear_layers: Floats  # recurrent (GDN) layers
    hidden: Floats
    residual_streams: Floats  # of hyper-connections; unknown is one
    heads: Floats
    head_dim: Floats
    state_bytes: Floats  # recurrent state of one sequence (or one draft position)
    kv_elems: Floats  # K and V elements per token over all layers that see the whole context
    sparse_keys: Floats  # keys that a token picks of it by sparse attention; unknown is all
    index_bytes: Floats  # per token and over all layers, of the keys that pick them; unknown is 0
    total_params: Floats
    active_params: Floats
    is_moe: Floats  # 0/1
    is_hybrid: Floats  # 0/1
    draft_params: Floats  # separate draft model: its parameters
    # hardware, per device
    bw: Floats  # B/s, peak
    bf16: Floats
    fp8: Floats
    int8: Floats
    fp4: Floats
    fp32: Floats
    memory_bytes: Floats
    unified: Floats  # 0/1
    link_bw: Floats  # B/s per device and direction
    expert_ranks: Floats  # of a server's ranks, that hold whole experts; unknown is one
    stages: Floats  # of a pipeline that has a batch for each; unknown is one
    attention_groups: Floats  # of a server's ranks, with requests of their own; unknown is one
    # quantisation, bytes per weight
    bytes_mixer: Floats
    bytes_ffn: Floats
    bytes_lm_head: Floats
    bytes_mtp: Floats
    bytes_mtp_lm_head: Floats
    quant_bits: Floats
    kv_bytes: Floats  # bytes per KV element
    # plan and load
    k: Floats  # drafted tokens beyond the bonus token; NaN: the row does not say
    # tokens verified per request and step where it is not k + 1 (tree drafts); NaN: k + 1
    verify_tokens: Floats
    # 1 = verify kernels of a fork that use the matrix units for a few tokens; NaN: no
    tiled: Floats
    p_min: Floats  # draft stops below this probability (llama.cpp); NaN: not said
    tp: Floats
    gpus: Floats
    concurrency: Floats
    input_tokens: Floats
    output_tokens: Floats
    depth_tokens: Floats  # tokens really in the context
    prefix_caching: Floats  # 0/1
    plain_caching: Floats  # the same without speculation; NaN: as with it
    prefix_share: Floats  # 0..1
    max_num_seqs: Floats
    max_num_batched_tokens: Floats
    graph_tokens: Floats  # of the largest CUDA graph (vLLM); NaN: by the slots
    kv_pool_tokens: Floats  # tokens that the KV pool of the base arm holds, if known
    held_base: Floats  # requests that the memory holds at once without speculation, if counted
    held_spec: Floats  # the same with it
    host_base: Floats  # layers whose experts lie in the machine's memory, without speculation
    host_spec: Floats  # the same with it; NaN: none
    n_requests: Floats
    output_spread: Floats  # 0 = equal output lengths, 0.5 = +-50 %
    temperature: Floats
    thinking: Floats  # 0/1
    piecewise: Floats  # 1 = the speculative arm lost its FULL CUDA graphs
    eager: Floats  # 1 = no CUDA graphs in either arm
    version: Floats  # vllm/sglang: major*10000 + minor*100 + patch; llama-server: build number
    given_rate: Floats  # accepted / drafted
    given_length: Floats  # tokens per step, bonus token included
    given_k: Floats  # k at which rate and length were measured; NaN: this point's k
    given_conditional: Floats  # (N, MAX_K) conditional acceptance by position
    # numbers of names, for the cells of measured pairs; NaN: not one that is known
    hardware_name: Floats
    model_name: Floats
    # codes, (N,) int16
    engine: Codes
    path: Codes
    method: Codes
    arch: Codes
    hw_class: Codes
    quant_family: Codes
    link: Codes
    workload: Codes
    family: Codes
    metric: Codes
    filled: bool

    def __init__(self, *, filled: bool = False, **columns: npt.NDArray[Any]) -> None:
        # not a dataclass: its generated methods for 90 columns are a tenth of an answer's start
        if columns.keys() ^ set(ALL_FIELDS):
            wrong = ", ".join(sorted(columns.keys() ^ set(ALL_FIELDS)))
            raise TypeError(f"Points takes every column once: {wrong}")
        self.__dict__.update(columns, filled=filled, _kept={}, _of=None)

    if not TYPE_CHECKING:  # for a type checker every column is there

        def __getattr__(self, name: str) -> npt.NDArray[Any]:
            """A column of points that were taken from others, when it is asked for first."""
            held = self.__dict__
            if name not in _COLUMNS or held.get("_of") is None:
                raise AttributeError(name)
            held[name] = made = getattr(held["_of"], name)[held["_at"]]
            return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Points are not changed ({name}): use `replace`")

    def __len__(self) -> int:
        return len(self.k)

    def take(self, index: Ints | Mask | slice) -> Points:
        """The points at `index`, positions (M,), a mask (N,) or a slice, as a new Points. A column
        is taken when it is asked for: most are not.
        """
        made = object.__new__(Points)
        made.__dict__.update(filled=self.filled, _kept={}, _of=self, _at=index)
        return made

    def replace(self, **changes: Floats | Codes | float | bool) -> Points:
        """A copy with some fields changed: arrays or scalars. Raises TypeError for no field."""
        if not _COLUMNS.union(("filled",)).issuperset(changes):
            raise TypeError(f"Points have no column {', '.join(sorted({*changes} - _COLUMNS))}")
        made: dict[str, Any] = {
            name: bool(value) if name == "filled" else _spread(name, value, len(self))
            for name, value in changes.items()
        }
        copy = object.__new__(Points)
        copy.__dict__.update(self.__dict__, _kept={})
        copy.__dict__.update(made)
        return copy

    @memoize
    def is_path(self, *names: str) -> Mask:
        """Mask (N,) of the points on one of the named kernel paths."""
        return mask(self.path, PATHS, names)

    @memoize
    def is_engine(self, *names: str) -> Mask:
        """Mask (N,) of the points on one of the named engines."""
        return mask(self.engine, ENGINES, names)

    @memoize
    def is_arch(self, *names: str) -> Mask:
        """Mask (N,) of the points on one of the named architectures."""
        return mask(self.arch, ARCHS, names)

    @memoize
    def is_method(self, *names: str) -> Mask:
        """Mask (N,) of the points with one of the named methods."""
        return mask(self.method, METHODS, names)


def _spread(name: str, value: object, n: int) -> npt.NDArray[Any]:
    """A column: np.broadcast_to takes longer than the sums of a single question."""
    shape = (n, MAX_K) if name == "given_conditional" else (n,)
    column: npt.NDArray[Any] = np.asarray(
        value, dtype=np.int16 if name in CODE_FIELDS else np.float64
    )
    return column if column.shape == shape else np.broadcast_to(column, shape)


CODE_FIELDS = (
    "engine", "path", "method", "arch", "hw_class", "quant_family", "link", "workload", "family",
    "metric",
)  # fmt: skip
FLOAT_FIELDS = tuple(
    name for name in Points.__annotations__ if name not in (*CODE_FIELDS, "filled")
)
ALL_FIELDS = (*FLOAT_FIELDS, *CODE_FIELDS)
_COLUMNS = frozenset(ALL_FIELDS)


def build(n: int, columns: Mapping[str, object]) -> Points:
    """N points from some columns (arrays, lists, scalars); what is not named is NaN (codes: 0).
    Raises KeyError where a column is no field of `Points`.
    """
    made: dict[str, Any] = dict.fromkeys(FLOAT_FIELDS, np.full(n, np.nan))  # one for all
    made |= dict.fromkeys(CODE_FIELDS, np.zeros(n, dtype=np.int16))
    made["given_conditional"] = np.full((n, MAX_K), np.nan)
    if unknown := columns.keys() - _COLUMNS:
        raise KeyError(f"no such field of Points: {', '.join(sorted(unknown))}")
    made |= {name: _spread(name, value, n) for name, value in columns.items() if value is not None}
    return Points(**made)


def concat(parts: Sequence[Points]) -> Points:
    """Several Points after one another, (N,) in all."""
    return Points(
        **{n: np.concatenate([getattr(p, n) for p in parts]) for n in ALL_FIELDS},
        filled=all(p.filled for p in parts),
    )
