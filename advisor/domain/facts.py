"""The nouns of what is known; import them from `advisor.domain.nouns`."""

from __future__ import annotations

from typing import Any, Literal

from advisor.domain.frozen import Frozen

Status = Literal["read", "measured", "derived", "recall", "assumed"]


class AdvisorError(Exception):
    """A problem that the user can mend, in one sentence: what is wrong, what to do."""

    status = 2  # of the process that ends with it


class UnknownFact(AdvisorError):
    """A name (hardware, model, quant, release ...) that is not known, with the nearest known."""

    def __init__(self, kind: str, name: str, nearest: tuple[str, ...] = (), hint: str = "") -> None:
        self.kind, self.name, self.nearest = kind, name, nearest
        text = f"unknown {kind} '{name}'"
        if nearest:
            text += f"; did you mean {' or '.join(nearest)}?"
        super().__init__(f"{text} {hint}".rstrip())


class Source(Frozen):
    """Where a number or statement comes from. `id`: a key of sources.yaml or a citation."""

    id: str
    title: str = ""
    address: str = ""
    date: str = ""


class Quantity(Frozen):
    """A number with its provenance. The unit is in the name of the field that holds it."""

    value: float
    source: str
    status: Status = "read"


class Hardware(Frozen):
    """One accelerator model. Rates are dense peak; the link is per device and direction."""

    id: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    vendor: Literal["nvidia", "amd", "apple", "intel", "huawei", "unknown"] = "unknown"
    arch: str = ""  # sm_90, gfx1151, apple ...
    gpu_family: str = ""  # apple9: where an architecture's generations differ in their kernels
    hardware_class: str = ""  # datacenter, workstation, consumer, laptop, unified, igpu
    unified_memory: bool = False
    memory_gb: Quantity | None = None
    # sizes of the same chip with the same bandwidth (M4: theguardiantime.com, 2024; older: recall)
    other_memory_gb: tuple[int, ...] = ()
    # what the driver reports in all, where ECC takes its bits from the memory (GDDR6)
    memory_reported_mib: Quantity | None = None
    memory_bandwidth_gb_s: Quantity | None = None
    memory_bandwidth_measured_gb_s: Quantity | None = None
    bf16_tflops: Quantity | None = None
    fp8_tflops: Quantity | None = None
    int8_tops: Quantity | None = None
    fp4_tflops: Quantity | None = None
    fp32_tflops: Quantity | None = None
    link: str = ""
    link_gb_s: Quantity | None = None
    machine_gpus: Quantity | None = None  # of its board, where it is sold on one
    switch_gpus: Quantity | None = None  # of several boards that one NVLink switch joins
    note: str = ""


# source of a checkpoint of which no more than the name that was given is known
AS_ASKED = "request"


class Checkpoint(Frozen):
    """A repository that holds a model at a quantisation."""

    quant: str
    repository: str
    file: str | None = None  # GGUF file or quant tag
    engines: tuple[str, ...] = ("llama-server", "ik_llama.cpp")  # empty: all
    # the MTP tensors are in it, or in a file that the engine finds beside it; None = not known
    keeps_mtp: bool | None = None
    size_gb: float | None = None  # its weights, where bytes by tensor class miss them
    source: str
    # read: the name stands at the source; assumed: put together from names that do
    status: str = "read"
    note: str = ""


class Drafter(Frozen):
    """A published checkpoint, or module of the model's own, that drafts for one model."""

    method: Literal["eagle", "eagle3", "dflash", "dspark"]
    repository: str
    target: str  # the repository of the model that it was trained for
    file: str | None = None  # GGUF file or quant tag
    inside: tuple[str, ...] = ()  # checkpoints that hold it: a launch of one names no drafter
    revision: str | None = None  # the commit that a launch pins
    licence: str = ""  # what a user must know of it, where that is not the model's own
    architecture: str = ""  # of its config.json, where that tells forms of one method apart
    # engine -> the first release of its option catalogue that is known to load it
    engines: dict[str, str]
    k: int | None = None  # draft tokens with which its publisher, or who reports of it, serves it
    k_min: int | None = None  # with fewer than these nobody serves it, or a release refuses it
    k_max: int | None = None  # more than these it was not made for
    block: int | None = None  # tokens of a block drafter's block, the one before it included
    # layers of its own that keep a KV cache; None: the method's usual number
    layers: int | None = None
    prefix_caching: bool | None = None  # False: its publisher serves it without
    # trained for answers with (or without) reasoning only; None: not said
    thinking: bool | None = None
    params_b: float | None = None
    size_gb: float | None = None
    # engine -> variables that its page sets for the server, and options beside method and k; those
    # of one vendor's cards alone under `engine/vendor`
    env: dict[str, dict[str, str]] = {}  # noqa: RUF012 - a field of a model
    options: dict[str, dict[str, str]] = {}  # noqa: RUF012 - a field of a model
    # acceptance that was reported of it: told to the user, not used in the estimate
    reported: str = ""
    # users saw no gain with it, or none is known to have run it: proposed where no other is known
    asked_only: bool = False
    sources: tuple[str, ...]
    conflicts: tuple[str, ...] = ()
    note: str = ""

    @property
    def address(self) -> str:
        """As an engine is told it: the repository, with the file of a GGUF behind a colon."""
        return f"{self.repository}:{self.file}" if self.file else self.repository


class DrafterFile(Frozen):
    """The published drafters of one model, preferred first, and repositories of the model."""

    id: str  # of the model that they draft for
    drafters: tuple[Drafter, ...]
    checkpoints: tuple[Checkpoint, ...] = ()


class LLM(Frozen):
    """One model's shape. Parameter counts are in 1e9 (`_b`) or 1e6 (`_m`); None = not read."""

    id: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    family: str = ""  # qwen3.5, qwen3-next, deepseek, glm ...
    arch: str = ""  # hybrid-gdn-moe, hybrid-gdn-dense, moe, dense, mla-moe, swa-moe, swa-dense
    layers: int | None = None
    hidden: int | None = None
    residual_streams: int | None = None  # of hyper-connections, mixed around each part of a layer
    dense_ffn: int | None = None
    dense_layers: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    moe_layers: int | None = None
    moe_ffn: int | None = None
    shared_ffn: int | None = None
    full_attention_layers: int | None = None
    linear_layers: int | None = None
    swa_layers: int | None = None
    swa_window: int | None = None
    # of the sliding layers, where they differ from kv_heads and head_dim
    swa_kv_heads: int | None = None
    swa_head_dim: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    mtp_layers: int | None = None
    total_params_b: float | None = None
    active_params_b: float | None = None
    mixer_params_b: float | None = None
    mixer_bytes: float | None = None  # of a weight as released: what quantises experts keeps it
    dense_ffn_params_b: float | None = None
    expert_params_m: float | None = None  # one expert of one layer
    shared_params_b: float | None = None
    lm_head_params_b: float | None = None
    mtp_params_b: float | None = None
    mtp_k_max: dict[str, int] = {}  # noqa: RUF012 - engine -> most draft tokens of its head there
    # a small drafter of its own, head included, where there is no MTP layer
    assistant_params_b: float | None = None
    assistant: str | None = None  # the repository of that drafter, which vLLM and SGLang are told
    # the first vLLM release that takes it (vllm-project/vllm #42180, #42005)
    assistant_since: str = "0.21.0"
    state_mb_per_seq: float | None = None  # recurrent state (GDN), MB = 1e6 bytes
    kv_elems_per_token: float | None = None  # K and V elements over all layers
    # sparse attention (DSA): keys that a token meets, and bytes of the keys that pick them
    sparse_keys: int | None = None
    index_bytes_per_token: float | None = None
    max_context_tokens: int | None = None
    only_tp: int | None = None  # ranks that its checkpoints are written for, where others fail
    default_temperature: Quantity | None = None
    # where the card recommends another one for precise code
    code_temperature: Quantity | None = None
    direct_temperature: Quantity | None = None  # the same with thinking switched off
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    kv_cache_dtype: str | None = None  # the only KV cache type that vLLM's class for it takes
    block_size: int | None = None  # the KV page that all its layers read in vLLM, where it is named
    tokenizer_mode: str | None = None  # vLLM's, where no chat template is published
    thinking_default: bool | None = None
    multimodal: bool | None = None
    proxy: str | None = None  # id of the model whose shape stands in where this one's was not read
    checkpoints: tuple[Checkpoint, ...] = ()
    source: str = ""
    note: str = ""

    def temperature(
        self, workload: str | None = None, thinking: bool | None = None
    ) -> float | None:
        """Sampling temperature that the model card recommends for such work, None if none."""
        found = self.default_temperature
        if workload == "code" and self.code_temperature:
            found = self.code_temperature
        if thinking is False and self.direct_temperature:
            found = self.direct_temperature
        return found.value if found else None

    def mixer_width(self, quant: Quant) -> float:
        """Bytes of a mixer's weight in a checkpoint of this quantisation."""
        return min(quant.bytes_mixer, self.mixer_bytes or quant.bytes_mixer)

    @property
    def is_class(self) -> bool:
        """A class of models in measurements that do not name theirs; nothing can be launched."""
        return self.id.startswith("unknown-")

    @property
    def is_moe(self) -> bool:
        """Whether the model routes tokens to experts."""
        return bool(self.experts) or "moe" in self.arch

    @property
    def is_hybrid(self) -> bool:
        """Recurrent (GDN/KDA/Mamba) layers: prefix caching and rollback behave differently."""
        return "hybrid" in self.arch or bool(self.linear_layers)


class Quant(Frozen):
    """Bytes per weight by tensor class, block scales included."""

    id: str
    aliases: tuple[str, ...] = ()
    family: str = ""  # bf16, fp8, int4, nvfp4, mxfp4, int8, gguf-k, gguf-i, gguf-legacy, mlx, exl3
    bits: float | None = None
    bytes_mixer: float
    bytes_ffn: float  # dense FFN, experts and shared experts
    bytes_lm_head: float
    bytes_embedding: float
    bytes_mtp: float
    bytes_mtp_lm_head: float
    engines: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()  # architectures that run it natively; empty = any
    source: str
    note: str = ""


class Evidence(Frozen):
    """A measured pair near the question."""

    run_id: str
    source: str
    hardware: str
    model: str
    quant: str
    engine: str
    engine_version: str = ""
    method: str
    k: int | None
    concurrency: float | None
    input_tokens: float | None
    output_tokens: float | None
    metric: str
    speedup: float
    workload: str | None = None  # kind of text, where the source says
    accepted: float | None = None  # tokens a step, bonus token included, where the source says
    output_spread: float | None = None  # of the lengths of answers, where the source says
    prefix_share: float | None = None  # of a prompt that others have, where the source says
    date: str = ""
    clean: bool = True  # a fair pair, which the estimate rests on; else it is shown and counts not
    # same hardware, model, quant, engine; concurrency and ctx within a factor of 2; clean pair
    covers: bool = False
    repeats: int = 1  # runs of one setting, of which this is the median
    lowest: float | None = None  # speed-up among them
    highest: float | None = None


class OwnRun(Frozen):
    """One A/B of a user's own machine; what is None was not stated: as in the question."""

    hardware: str
    model: str
    engine: str
    method: str
    k: int
    quant: str | None = None
    engine_version: str | None = None
    gpus: int = 1
    tp: int | None = None
    concurrency: float = 1.0
    input_tokens: float | None = None
    output_tokens: float | None = None
    output_spread: float | None = None
    workload: str | None = None
    temperature: float | None = None
    plan: tuple[tuple[str, Any], ...] = ()  # fields of the plan that ran, and their values
    accepted_length: float | None = None  # tokens per step at this k, bonus token included
    gains: tuple[tuple[str, float, float], ...] = ()  # metric, log of the ratio, sd of it
    # output_tok_s, tpot (ms) or ttft (ms) without drafts, and the sd of its log (0: not known)
    baseline: tuple[tuple[str, float, float], ...] = ()
    date: str = ""
    derived: bool = False  # from an adaptive run: what a fixed block would have measured there
