"""The nouns of the advisor: frozen values, no behaviour beyond tiny properties.

Every stage takes some of these and returns new ones. Units live in names; `None` always means
"unknown", never 0. Speed-ups are ratios where a value above 1 always means faster, for TPOT and
TTFT as well.
"""

from __future__ import annotations

from typing import Any, Literal

from advisor.domain.facts import LLM as LLM
from advisor.domain.facts import AdvisorError as AdvisorError
from advisor.domain.facts import Checkpoint as Checkpoint
from advisor.domain.facts import Drafter as Drafter
from advisor.domain.facts import DrafterFile as DrafterFile
from advisor.domain.facts import Evidence as Evidence
from advisor.domain.facts import Hardware as Hardware
from advisor.domain.facts import OwnRun as OwnRun
from advisor.domain.facts import Quant as Quant
from advisor.domain.facts import Quantity as Quantity
from advisor.domain.facts import Source as Source
from advisor.domain.facts import Status as Status
from advisor.domain.facts import UnknownFact as UnknownFact
from advisor.domain.frozen import Frozen as Frozen

Engine = Literal["vllm", "sglang", "llama-server", "ik_llama.cpp"]
Method = Literal["none", "mtp", "eagle", "eagle3", "draft_model", "ngram", "dflash", "dspark"]
DraftMethod = Literal[
    "mtp", "eagle", "eagle3", "dflash"
]  # those for which a launch can be proposed
Basis = Literal["measured", "interpolated", "extrapolated", "physics"]
Severity = Literal["error", "warning", "info"]
Goal = Literal["throughput", "tpot", "ttft", "balanced"]
Decision = Literal["on", "off", "measure"]
Effect = Literal["veto", "loss", "caution", "k_max", "support"]
Workload = Literal[
    "chat",
    "code",
    "math",
    "agent",
    "rag",
    "summarization",
    "creative",
    "mixed",
    "random",
    "reasoning",
    "factual",
    "voice",
]
Metric = Literal["output_tok_s", "request_tok_s", "tpot", "ttft"]
Interconnect = Literal["none", "pcie", "nvlink", "roce", "ethernet"]

METHODS: tuple[Method, ...] = (
    "none",
    "mtp",
    "eagle",
    "eagle3",
    "draft_model",
    "ngram",
    "dflash",
    "dspark",
)


# ---------------------------------------------------------------- what was asked

# Least and most of each number of a question, for the command line and Python alike
LIMITS: dict[str, tuple[float, float]] = {
    "gpus": (1, 1024), "tp": (1, 1024), "concurrency": (1, 100_000), "ctx_tokens": (1, 10_000_000),
    "output_tokens": (1, 1_000_000), "temperature": (0, 5), "prefix_share": (0, 1), "acceptance_length": (1, 32),
    "acceptance_k": (1, 31), "max_ttft_ms": (0.001, 1e9), "max_tpot_ms": (0.001, 1e9),
    "max_num_seqs": (1, 100_000), "max_model_len": (1, 10_000_000), "memory_fraction": (0.05, 1.0),
}  # fmt: skip
MAX_POSITIONS = 16  # draft positions whose acceptance can be given


class Request(Frozen):
    """One question: what hardware, model and load. `None` means "let the advisor choose", and it
    says what it chose.
    """

    hardware: str
    gpus: int = 1
    tp: int | None = None
    interconnect: Interconnect | None = None
    model: str = "qwen3.6-35b-a3b"
    quant: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    method: DraftMethod | None = (
        None  # None: the model's own head where it has one, else what is published for it
    )
    concurrency: int = 1
    ctx_tokens: int = 2048  # prompt tokens per request
    output_tokens: int = 512
    workload: Workload = "mixed"
    thinking: bool | None = None
    temperature: float | None = None
    prefix_share: float = 0.0  # part of the prompt shared between requests, 0..1
    acceptance: tuple[float, ...] | None = (
        None  # conditional acceptance by position, as measured by the user
    )
    acceptance_length: float | None = (
        None  # tokens emitted per step incl. the bonus token, as measured by the user
    )
    acceptance_k: int | None = (
        None  # the k at which acceptance_length was measured; None: the plan's k
    )
    goal: Goal = "balanced"
    max_ttft_ms: float | None = None
    max_tpot_ms: float | None = None
    max_num_seqs: int | None = None  # request slots of a replica; None: chosen with the memory
    max_model_len: int | None = None  # tokens of the longest request
    memory_fraction: float | None = None  # of the accelerator, for the engines that take a share
    kv_cache_dtype: str | None = None  # fp8, q8_0 ...; None: 16 bit unless 8 decide

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """The fields within their limits, and together. Made here, since the annotations of a noun
        carry no metadata.
        """
        from typing import Annotated, get_type_hints

        from pydantic import Field
        from pydantic_core import PydanticCustomError, core_schema

        made = super().__get_pydantic_core_schema__(source, handler)
        fields, kinds = made["schema"]["fields"], get_type_hints(cls)
        for name, (low, high) in LIMITS.items():
            finite = None if kinds[name] in (int, int | None) else False
            limited = Annotated[kinds[name], Field(ge=low, le=high, allow_inf_nan=finite)]  # type: ignore[valid-type]
            fields[name]["schema"] = handler.generate_schema(limited)
        rate = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
        rates = Annotated[tuple[rate, ...] | None, Field(min_length=1, max_length=MAX_POSITIONS)]
        fields["acceptance"]["schema"] = handler.generate_schema(rates)

        def together(request: Request) -> Request:
            if problem := clash(
                request.acceptance, request.acceptance_length, request.acceptance_k
            ):
                raise PydanticCustomError("together", "{problem}", {"problem": problem})
            return request

        return core_schema.no_info_after_validator_function(together, made)


def clash(
    rates: tuple[float, ...] | None, length: float | None, k: int | None, prefix: str = "acceptance"
) -> str | None:
    """What does not go together in a measured acceptance, in one sentence; `prefix` spells its
    names as the asker does.
    """
    join = "-" if prefix.startswith("-") else "_"
    if rates is not None and length is not None:
        return f"{prefix} and {prefix}{join}length say the same thing twice: give one of them"
    if length is not None and k is not None and length > k + 1:
        return f"an acceptance length of {length:g} is impossible at k = {k}: at most {k + 1} tokens a step"
    if k is not None and length is None:
        return f"{prefix}{join}k says at which k {prefix}{join}length was measured: give that too, or leave it out"
    return None


# ---------------------------------------------------------------- what an engine is told


class Span(Frozen):
    """A place in the text that was read: byte-free, as character offsets into the decoded file; end
    is exclusive.
    """

    start: int
    end: int


class Flag(Frozen):
    """One option as written. `name` is the catalogue's canonical spelling (or the spelling as
    written if unknown).
    """

    name: str
    raw: str  # the spelling in the file, e.g. "-tp", "LLAMA_ARG_N_PARALLEL", "np"
    value: str | None = None  # None: a bare switch; "" is an empty string
    # the engine's catalogue has it at this launch's version (or at any version if none is
    # known)
    known: bool = True
    origin: Literal["cli", "env", "ini", "yaml", "python"] = "cli"
    line: int = 0  # 1-based; 0 = not from a file
    column: int = 0
    span: Span | None = (
        # flag and value together, literal in the file (None: built from variables, not
        # editable)
        None
    )
    value_span: Span | None = None
    unresolved: bool = False  # the value contains a variable that the file does not set


class EnvVar(Frozen):
    name: str
    value: str | None = None
    line: int = 0
    column: int = 0
    span: Span | None = None  # name and value together, where they stand together in the file
    value_span: Span | None = None
    unresolved: bool = False


class Container(Frozen):
    """What surrounds the command: image, shared memory, probes. All optional; None = the file does
    not say.
    """

    image: str | None = None
    tag: str | None = None
    shm_bytes: int | None = None
    ipc_host: bool | None = None
    shm_volume: bool | None = None  # a memory-backed /dev/shm volume is mounted
    gpus: str | None = None  # as written: "all", "2", device ids "0,1"
    startup_budget_s: float | None = None  # how long a probe waits before it kills the server
    rollout_surge: bool | None = None  # a rolling update needs a second GPU
    kind: str = ""  # compose, docker-run, kubernetes, llmkube, systemd, quadlet, llama-swap ...
    image_line: int = 0
    image_span: Span | None = None
    name: str = ""  # service / unit / preset name


class Launch(Frozen):
    """What an engine is told: engine, version, model, flags and env, each with value, file and
    line.
    """

    engine: Engine
    engine_version: str | None = (
        None  # catalogued release (or interval id for llama-server); None = not pinned
    )
    version_text: str | None = None  # as written (image tag, bNNNN, commit), for messages
    version_pinned: bool = False  # True only if the file pins a catalogued release
    fork: str | None = (
        None  # vllm-ascend, ik_llama.cpp, a community image: rules are at most warnings then
    )
    model: str | None = None  # as written: repository, path or GGUF name
    flags: tuple[Flag, ...] = ()
    env: tuple[EnvVar, ...] = ()
    container: Container | None = None
    file: str = ""
    line: int = 0
    form: str = "command"
    emitted: bool = False  # written by this program, not read from a file
    notes: tuple[str, ...] = ()  # what was not read (env_file ignored, unresolved variable ...)
    strays: tuple[Flag, ...] = ()  # arguments that belong to no option: a value and its place

    def flag(self, name: str) -> Flag | None:
        """The last occurrence of a flag by canonical name (engines let the last one win)."""
        for flag in reversed(self.flags):
            if flag.name == name:
                return flag
        return None

    def env_value(self, name: str) -> str | None:
        for var in reversed(self.env):
            if var.name == name:
                return var.value
        return None


# ---------------------------------------------------------------- what we mean


class Plan(Frozen):
    """A serving configuration in no engine's words. `k` counts draft tokens beyond the bonus token
    (SGLang topk 1: draft tokens - 1). `None` = left to the engine's default.
    """

    engine: Engine
    engine_version: str | None = None
    model: str | None = None  # repository, path or GGUF as the engine is told
    served_model_name: str | None = None
    quantization: str | None = None  # explicit engine flag value (vLLM/SGLang --quantization)
    method: Method = "none"
    k: int = 0
    k_schedule: tuple[tuple[int, int, int], ...] = ()  # (batch from, batch to, k)
    draft_model: str | None = None
    prefix_caching: bool | None = None
    kv_cache_dtype: str | None = None
    max_num_seqs: int | None = None  # SGLang max-running-requests, llama-server slots
    max_num_batched_tokens: int | None = None  # SGLang chunked-prefill-size, llama-server -b
    max_model_len: int | None = None  # tokens per request; llama-server: total -c / slots
    memory_fraction: float | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    reasoning_parser: str | None = None
    tool_call_parser: str | None = None
    attention_backend: str | None = None
    mamba_strategy: str | None = None  # SGLang no_buffer / extra_buffer
    async_scheduling: bool | None = None
    host: str | None = None
    port: int | None = None
    extra: tuple[
        tuple[str, str | None], ...
    ] = ()  # flags without a noun here, canonical name and value, in order
    env: tuple[tuple[str, str], ...] = ()


# ---------------------------------------------------------------- what is known


class Facts(Frozen):
    """What is known for one request (or one launch). For `validate` any part may be None: rules
    then are skipped.
    """

    request: Request | None = None
    hardware: Hardware | None = None
    model: LLM | None = None
    shape: LLM | None = None  # the shape that physics uses: the model's own, or its proxy's
    quant: Quant | None = None
    checkpoint: Checkpoint | None = None
    drafters: tuple[Drafter, ...] = ()  # published for the model, whatever the engine
    engine: str | None = None
    engine_version: str | None = None
    gpus: int = 1
    tp: int | None = None
    concurrency: int | None = None
    ctx_tokens: int | None = None
    output_tokens: int | None = None
    workload: Workload | None = None
    temperature: float | None = None
    thinking: bool | None = None
    prefix_share: float | None = None
    goal: Goal | None = None
    interconnect: str | None = None
    evidence: tuple[Evidence, ...] = ()
    own_runs: tuple[OwnRun, ...] = ()  # of the user's own machine, where one is named
    defaults: tuple[
        tuple[str, str, str], ...
    ] = ()  # (field, value chosen, why): printed where they were used


# ---------------------------------------------------------------- what we expect


class Interval(Frozen):
    p10: float
    p50: float
    p90: float


class MetricEstimate(Frozen):
    """`speedup` of the plan against the same plan without speculation; `baseline` and `value` in
    the metric's unit.
    """

    speedup: Interval
    baseline: float | None = None
    value: float | None = None
    baseline_range: Interval | None = None  # the 80 % interval of `baseline`, and of `value`
    value_range: Interval | None = None


class MemoryBill(Frozen):
    """GiB per GPU and KV tokens over all GPUs of one replica."""

    weights_gib: float
    spec_gib: float = 0.0
    state_gib: float = 0.0
    kv_gib: float | None = None
    overhead_gib: float = 0.0
    available_gib: float | None = None
    kv_tokens: int | None = None
    kv_tokens_lost: int | None = None  # against the same plan without speculation
    fits: bool | None = None
    short_gib: float | None = None  # by how much it does not fit
    requests: int | None = None  # that run at once in one replica, each of `request_tokens`
    requests_without: int | None = None  # the same without speculation
    request_tokens: int | None = None  # prompt and answer of one request as asked for


class Estimate(Frozen):
    output_tok_s: MetricEstimate
    tpot_ms: MetricEstimate
    ttft_ms: MetricEstimate
    accepted_length: Interval  # tokens emitted per step, bonus token included
    p_gain: float  # probability that the goal's metric gains, calibrated
    memory: MemoryBill | None = None
    basis: Basis = "physics"
    terms: dict[str, float] = {}  # step-time parts in ms, for `why`
    notes: tuple[str, ...] = ()


class Edit(Frozen):
    """Replace characters start..end of `file` by `text`."""

    file: str
    start: int
    end: int
    text: str


class Fix(Frozen):
    text: str  # what to do, for a person
    safe: bool = False  # keeps meaning: may be applied by --fix
    edits: tuple[Edit, ...] = ()


class Finding(Frozen):
    code: str
    severity: Severity
    message: str
    slug: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    engine: str | None = None
    flag: str | None = None
    fix: Fix | None = None
    sources: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()  # sources that say otherwise, in one sentence each
    effect: Effect | None = None  # what the decision makes of it; see advisor/rules/policy.py
    k_max: int | None = (
        None  # with effect "k_max": the largest k that the documented sweeps support here
    )
    k_best: int | None = (
        None  # with effect "support": the k that the documented sweep prefers in this regime
    )


class Skipped(Frozen):
    """A rule that could not be judged because an input is missing."""

    code: str
    needs: tuple[str, ...]
    file: str = ""


class Case(Frozen):
    """The single argument of every rule. `launch` is the one that was read, or, for a plan that
    `recommend` proposes, the one that will be printed.
    """

    facts: Facts
    plan: Plan
    launch: Launch
    estimate: Estimate | None = None
    siblings: tuple[Launch, ...] = ()  # the other launches of the same file


class Reason(Frozen):
    text: str
    sources: tuple[str, ...] = ()
    weight: float = 0.0  # for the order of printing, larger first


class Candidate(Frozen):
    """A judged plan."""

    plan: Plan
    estimate: Estimate | None = None  # None for the plan without speculation
    findings: tuple[Finding, ...] = ()
    utility: float = 0.0
    regret: float = 0.0


class LaunchText(Frozen):
    """A launch ready to paste. `text` is shell-quoted, one option a line."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    text: str = ""


class Advice(Frozen):
    request: Request
    facts: Facts
    decision: Decision
    plan: Plan
    candidate: Plan | None = None  # the best speculative plan, which `estimate` describes
    plan_off: Plan | None = None  # the plan without speculation, of `launch_off`
    estimate: Estimate | None = None
    gain: Interval | None = None  # speed-up of the candidate for the goal
    decided_by: str = (
        ""  # estimate, unsure, rule, objective, one_token, no_method, unknown_hardware
    )
    findings: tuple[
        Finding, ...
    ] = ()  # of the candidate, and of the plan to run where that is another one
    plan_findings: tuple[Finding, ...] = ()  # of the plan to run
    reasons: tuple[Reason, ...] = ()
    runners_up: tuple[Candidate, ...] = ()
    would_change: tuple[str, ...] = ()
    launch: LaunchText
    launch_off: LaunchText
    launch_on: LaunchText | None = None  # for `measure`: the arm to try
    measure_with: tuple[str, ...] = ()  # for `measure`: the exact commands of the A/B
    evidence_newest: str = ""
