"""Weights of a model and of its drafter, in GiB over all GPUs of a replica, and what of them
an engine's options keep in the machine's own memory instead
(llama.cpp common/arg.cpp, b10605, 0.5.0). What it does not know: other tensors that
`--override-tensor` moves, layers that `--gpu-layers` leaves out, how much of groups of layers that
vLLM and SGLang fetch ahead lies on the device.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache

from advisor.domain.nouns import LLM, Facts, Plan, Quant
from advisor.domain.patterns import lazy_re
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine
from advisor.knowledge import drafters
from advisor.knowledge import store as knowledge
from advisor.perf.sizes import pools

GIB = 2.0**30
DRAFT_SIZE = lazy_re(r"(\d+(?:\.\d+)?)b\b", re.I)  # 1e9 parameters, in a draft model's name
USUAL_WIDTH = sourced(4096, "elements", "width of most models of 8B in knowledge/llms", "assumed")
LAYER_SQUARES = sourced(
    12, "squared widths", "a layer: 4 of attention and 8 of feed-forward weights", "derived"
)
EAGLE_SQUARES = sourced(
    17,
    "squared widths",
    "a layer, attention twice as wide, three states fused: arXiv:2503.01840",
    "derived",
)
EAGLE3_VOCABULARY = sourced(
    32_000, "tokens", "draft_vocab_size in config.json of most published EAGLE-3 heads", "read"
)
BLOCK_LAYERS = sourced(
    (5, 8),
    "layers of a block drafter, of one for a narrow mixture",
    "config.json of z-lab's DFlash drafters: Qwen3-8B-DFlash-b16 has 5; Qwen3.6-35B-A3B-DFlash "
    "(width 2,048) and gpt-oss-120b-DFlash (2,880) have 8. Sizes of others agree: Llama 3.1 8B 2.1 "
    "GB and Kimi-K2.5 (width 7,168) 7.0 GB are 5 layers, gpt-oss-20b 1.6 GB is 8",
    "read",
)
NARROW_WIDTH = sourced(
    3072, "elements", "between gpt-oss (2,880) and the mixtures of width 4,096 and more", "derived"
)


def weights_gib(shape: LLM, quant: Quant) -> float | None:
    """GiB of the target model's weights over all GPUs, by tensor class; None if not known."""
    total = shape.total_params_b
    if total is None:
        return None
    head = shape.lm_head_params_b
    if head is None or shape.mixer_params_b is None:
        return total * 1e9 * (quant.bits or 8 * quant.bytes_ffn) / 8 / GIB
    experts = (shape.experts or 0) * (shape.expert_params_m or 0.0) * (shape.moe_layers or 0) / 1e3
    ffn = (shape.dense_ffn_params_b or 0.0) + (shape.shared_params_b or 0.0) + experts
    size = (
        shape.mixer_params_b * shape.mixer_width(quant)
        + ffn * quant.bytes_ffn
        + head * quant.bytes_lm_head
        + max(total - shape.mixer_params_b - ffn - head, 0.0) * quant.bytes_embedding
    )
    return size * 1e9 / GIB


def target_gib(facts: Facts, plan: Plan, shape: LLM, quant: Quant) -> float | None:
    """GiB of the checkpoint that this engine would load: as it says, else by tensor class."""
    named = knowledge.checkpoint(facts.llm, quant, plan.engine, "none")
    if named is not None and named.size_gb:
        return named.size_gb * 1e9 / GIB
    return weights_gib(shape, quant)


def draft_gib(shape: LLM, quant: Quant, plan: Plan) -> float:
    """GiB that the plan's speculation adds over all GPUs (embedding and lm_head are shared)."""
    hidden = shape.hidden or USUAL_WIDTH
    if plan.method == "mtp":
        return (shape.assistant_params_b or shape.mtp_params_b or 0.0) * 1e9 * quant.bytes_mtp / GIB
    if plan.method in ("eagle", "eagle3"):
        own_head = EAGLE3_VOCABULARY * hidden if plan.method == "eagle3" else 0
        return (EAGLE_SQUARES * hidden**2 + own_head) * 2 / GIB
    if plan.method in ("dflash", "dspark"):
        narrow = plan.method == "dflash" and bool(shape.experts) and hidden < NARROW_WIDTH
        return BLOCK_LAYERS[narrow] * LAYER_SQUARES * hidden**2 * 2 / GIB
    if plan.method == "draft_model":
        stated = DRAFT_SIZE.search(plan.draft_model or "")
        size = float(stated[1]) if stated else 1.0
        return size * 1e9 * (2.0 if plan.engine in pools.SERVERS else quant.bytes_ffn) / GIB
    return 0.0


def published_gib(facts: Facts, plan: Plan) -> float | None:
    """GiB of the plan's drafter as published, over all GPUs; None if its size is not known."""
    known = drafters.of_plan(facts, plan)
    size = drafters.size_bytes(known) if known is not None else None
    return size / GIB if size is not None else None


ALL_EXPERTS, EXPERTS_OF, OVERRIDE = "--cpu-moe", "--n-cpu-moe", "--override-tensor"


def layer_gib(shape: LLM, quant: Quant) -> float:
    """The routed experts of one layer; 0 where the model has none or their size is not known."""
    return (shape.experts or 0) * (shape.expert_params_m or 0.0) * 1e6 * quant.bytes_ffn / GIB


def dense_layers(shape: LLM) -> int:
    """Layers without experts: the first ones, which the options count too."""
    return max((shape.layers or 0) - (shape.moe_layers or 0), 0)


def layers_over(shape: LLM, quant: Quant, gib: float) -> int | None:
    """Layers whose experts make room for so many GiB; None where all of them do not."""
    each, most = layer_gib(shape, quant), shape.moe_layers or 0
    layers = math.ceil(max(gib, 0.0) / each) if each else 1
    return layers if layers <= most else None


def offloaded_gib(plan: Plan) -> float | None:
    """GiB of its weights that each device reads from system memory; None where the options do not
    say how many. Sources: vllm 0.33.0 config/offload.py, sglang 0.5.23 utils/offloader.py.
    """
    options = dict(plan.extra)
    backend, size = options.get("--offload-backend"), options.get("--cpu-offload-gb") or "0"
    groups = backend != "uva" and pools.read_count(plan, "--offload-group-size", 0)
    if groups or not size.replace(".", "", 1).isdecimal() or "--cpu-offload-params" in options:
        return None
    return 0.0 if backend == "prefetch" else float(size)


def told_layers(shape: LLM, plan: Plan) -> float:
    """Layers whose experts the plan's options keep in system memory, or parts of one."""
    if not plan.extra or not gguf_engine(plan.engine):
        return 0
    told: list[Override] = []
    for name, value in plan.extra:
        if name == OVERRIDE and value is not None:
            told += read_overrides(value)
        elif name == ALL_EXPERTS:
            told.append(_EXPERTS)
        elif name == EXPERTS_OF and value is not None and value.isdecimal():
            told.append(_EXPERTS._replace(below=int(value[:6])))
    return host_layers(tuple(told), dense_layers(shape), shape.moe_layers or 0)


# ---------------------------------------------------------------- where --override-tensor puts them
# The engine splits the value at commas, takes each part as PATTERN=BUFFER, and searches a tensor's
# name for the patterns in their order: the first that matches decides. The same is done here for
# the three expert tensors of every layer. A pattern may come from anybody's file, and a matcher
# that tries one reading after the other can take hours over it: one with too many readings is not
# tried. Source: llama.cpp common/arg.cpp (parse_tensor_buffer_overrides),
# src/llama-model-loader.cpp (create_tensor), b10605.

TENSORS = ("gate", "up", "down")  # of one size each
MAX_LAYERS, MAX_TEXT = 128, 10_000  # no launch has more
MAX_READINGS = 100_000  # of one name by all patterns
_NAME_LENGTH = 30
_CHARACTER = lazy_re(r"\\[dDwWsS\W_]|\[\^?\]?(?:\\[dDwWsS\W_]|[^\\\]])*\]")
_GROUP = lazy_re(r"\((?:\?:)?([^()?][^()]*)\)(?![*+?{])")


class Override(NamedTuple):
    """One pattern, whether its buffer is the machine's memory, below which layer (None: any)."""

    pattern: str
    host: bool
    below: int | None = None


_EXPERTS = Override("_exps", host=True)


def read_overrides(value: str) -> Iterator[Override]:
    """The overrides of a value of the option, in their order. A buffer is the machine's memory if
    it is CPU, or a device's window into it (CUDA_Host).
    """
    for part in value[:MAX_TEXT].split(","):
        pattern, equals, buffer = part.partition("=")
        if equals:
            yield Override(pattern, buffer.startswith("CPU") or buffer.endswith("_Host"))


@lru_cache(maxsize=256)
def host_layers(told: tuple[Override, ...], first: int, count: int) -> float:
    """Layers whose experts lie in the machine's memory; a part of one where only some of its three
    tensors do. A pattern that is not tried counts as one that matches: nothing is then said to be
    too large.
    """
    patterns, left = [], MAX_READINGS
    for one in told:
        left -= _readings(one.pattern)
        patterns.append((_compile(one.pattern) if left >= 0 else None, one))
    moved = 0
    for layer in range(first, first + min(count, MAX_LAYERS)):
        for tensor in TENSORS:
            name = f"blk.{layer}.ffn_{tensor}_exps.weight"
            for pattern, one in patterns:
                inside = one.below is None or layer < one.below
                if inside and (pattern is None or pattern.search(name)):
                    moved += one.host
                    break
    return round(moved / len(TENSORS), 6)


def _readings(pattern: str) -> int:
    """Bound on the ways to read one name: of a group that is repeated or stands in another one, and
    of a look ahead, beyond any limit.
    """
    plain = _CHARACTER.sub("x", pattern)
    parts = [*_GROUP.findall(plain), _GROUP.sub("x", plain)]
    if re.search(r"[()\\]", parts[-1]):
        return MAX_READINGS + 1
    repeated = len(re.findall(r"[*+]|\{(?!\d\})", plain))
    optional = plain.replace("(?:", "").count("?")
    ways = math.prod(part.count("|") + 1 for part in parts) << min(optional, _NAME_LENGTH)
    return int(ways * _NAME_LENGTH ** (min(repeated, 8) + 1))


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[str] | None:
    """The pattern; None where it cannot be read."""
    try:
        return re.compile(pattern)
    except re.error:
        return None
