"""The columns of measured runs and of acceptance rows. Empty means "not published", never 0."""

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from advisor.domain.nouns import Method, Workload

DataEngine = Literal[
    "vllm", "sglang", "llama.cpp", "llama-server", "ik_llama.cpp", "mlx", "tensorrt-llm", "ollama",
    "lmstudio", "custom",
]  # fmt: skip
DataMetric = Literal["output_tok_s", "request_tok_s", "tpot", "ttft"]


T = TypeVar("T")
Opt = Annotated[
    T | None, BeforeValidator(lambda x: x if not isinstance(x, str) or x.strip() else None)
]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Tokens = Annotated[int, Field(ge=0, le=20_000_000)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, lt=1e6, allow_inf_nan=False)]


class Run(BaseModel):
    """One measured run. Units are in the names; `k` counts drafted tokens beyond the bonus one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: Annotated[str, Field(min_length=1)]
    source_id: Annotated[str, Field(min_length=1)]
    group_id: Annotated[str, Field(min_length=1)]
    model: Annotated[str, Field(min_length=1)]
    total_params_b: Opt[Positive] = None
    active_params_b: Opt[Positive] = None
    is_moe: Opt[bool] = None
    quant: str = ""
    kv_cache_dtype: str = ""
    hardware: Annotated[str, Field(min_length=1)]
    gpu_count: Opt[Count] = None
    interconnect: Opt[Literal["none", "pcie", "nvlink", "roce", "ethernet"]] = None
    tp: Opt[Count] = None
    engine: DataEngine
    engine_version: str = ""
    spec_method: Method
    k: Opt[Annotated[int, Field(ge=0, le=128)]] = None
    draft_min: Opt[Annotated[int, Field(ge=0)]] = None
    spec_extra: str = ""
    concurrency: Opt[Positive] = None
    input_tokens: Opt[Tokens] = None
    output_tokens: Opt[Tokens] = None
    context_tokens: Opt[Tokens] = None
    depth_tokens: Opt[Tokens] = None
    workload: Opt[Workload] = None
    temperature: Opt[Annotated[float, Field(ge=0, le=5)]] = None
    prefix_caching: Opt[bool] = None
    cuda_graphs: str = ""
    output_tok_s: Opt[Rate] = None
    request_tok_s: Opt[Rate] = None
    ttft_ms: Opt[Positive] = None
    tpot_ms: Opt[Positive] = None
    itl_p99_ms: Opt[Positive] = None
    acceptance_rate: Opt[Share] = None
    acceptance_length: Opt[Annotated[float, Field(ge=1, le=129)]] = None
    speedup: Opt[Annotated[float, Field(gt=0.01, lt=30, allow_inf_nan=False)]] = None
    speedup_metric: Opt[DataMetric] = None
    n_trials: Opt[Count] = None
    stdev_tok_s: Opt[Annotated[float, Field(ge=0)]] = None
    use: Literal["train", "eval", "no"]
    use_why: str = ""
    notes: str = ""
    # from here on: what few publications say (RARE_COLUMNS)
    machine: str = ""  # tells apart several machines of one kind in one source
    n_requests: Opt[Count] = None
    output_spread: Opt[Share] = None
    max_num_seqs: Opt[Count] = None
    max_num_batched_tokens: Opt[Count] = None
    prefix_share: Opt[Share] = None
    # acceptance was set by the harness, or the prompt repeats itself: it is nobody else's
    acceptance_forced: Opt[bool] = None


class PositionAcceptance(BaseModel):
    """P(this draft position, 0-based, and all earlier ones accepted); or the mean of all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source_id: Annotated[str, Field(min_length=1)]
    model: Annotated[str, Field(min_length=1)]
    quant: str = ""
    engine: DataEngine
    spec_method: Method
    k: Opt[Count] = None
    workload: str = ""
    position: Annotated[int, Field(ge=0, le=64)] | Literal["mean"]
    acceptance_rate: Share


RUN_COLUMNS: tuple[str, ...] = tuple(Run.model_fields)
RARE_COLUMNS = RUN_COLUMNS[RUN_COLUMNS.index("machine") :]  # a table may lack them
ACCEPTANCE_COLUMNS: tuple[str, ...] = tuple(PositionAcceptance.model_fields)
