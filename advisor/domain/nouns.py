"""The nouns of the advisor: frozen values. Units live in names; `None` means unknown, never 0; a
speed-up above 1 is always faster, for TPOT and TTFT too.
"""

from __future__ import annotations

from collections.abc import Sequence

# every name of these modules is one of this module's, from which all others import them
from advisor.domain.facts import *
from advisor.domain.frozen import Frozen as Frozen
from advisor.domain.launches import *
from advisor.domain.question import *
from advisor.domain.records import NamedTuple
from advisor.domain.vocabulary import *

# ---------------------------------------------------------------- what we mean


class Plan(Frozen):
    """A serving configuration in no engine's words. `k` counts draft tokens beyond the bonus token;
    `None` is the engine's default.
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
    # of the server without speculation beside it, where prompts share a part and drafts end that
    plain_caching: bool | None = None
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
    # flags without a noun here, canonical name and value, in order
    extra: tuple[tuple[str, str | None], ...] = ()
    env: tuple[tuple[str, str], ...] = ()


# ---------------------------------------------------------------- what is known


# What stands for a part of the facts that is not there: all of it is open or not known
NOTHING_ASKED, NO_HARDWARE, NO_MODEL = Request(hardware=""), Hardware(id=""), LLM(id="")


class Facts(Frozen):
    """What is known for a request or a launch; for `validate` any part may be None."""

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
    mean_batch: float | None = None  # requests of one step, where replicas or stages share them
    ctx_tokens: int | None = None
    output_tokens: int | None = None
    pool_tokens: int | None = None  # mean of the requests that share a server's memory, of a mix
    output_spread: float | None = None  # half the range of answer lengths by their mean
    workload: Workload | None = None
    temperature: float | None = None
    thinking: bool | None = None
    prefix_share: float | None = None
    goal: Goal | None = None
    interconnect: str | None = None
    evidence: tuple[Evidence, ...] = ()
    own_runs: tuple[OwnRun, ...] = ()  # of the user's own machine, where one is named
    # (field, value chosen, why): printed where they were used
    defaults: tuple[tuple[str, str, str], ...] = ()

    @property
    def question(self) -> Request:
        """The request; where there is none, one that leaves everything open."""
        return self.request or NOTHING_ASKED

    @property
    def aim(self) -> Goal:
        """The goal, balanced where none is stated."""
        return self.goal or "balanced"

    @property
    def load(self) -> int:
        """Requests at once, 1 where nobody tells."""
        return self.concurrency or 1

    @property
    def length(self) -> int:
        """Tokens of a request, prompt and answer; usual ones where nobody tells."""
        return (self.ctx_tokens or USUAL_PROMPT) + (self.output_tokens or USUAL_OUTPUT)

    @property
    def memory_tokens(self) -> int:
        """Tokens that a request holds in memory, on average of those beside it."""
        return self.pool_tokens or self.length

    @property
    def known_shape(self) -> LLM | None:
        """The shape that physics uses, else what the model itself states."""
        return self.shape or self.model

    @property
    def device(self) -> Hardware:
        """The accelerator; where it is not known, one of which nothing is."""
        return self.hardware or NO_HARDWARE

    @property
    def llm(self) -> LLM:
        """The model; where it is not known, one of which nothing is."""
        return self.model or NO_MODEL


# ---------------------------------------------------------------- what we expect


class Interval(Frozen):
    """An 80 % interval: the 10th, 50th and 90th percentile."""

    p10: float
    p50: float
    p90: float


class MetricEstimate(Frozen):
    """`speedup` against the plan without speculation; not `predictable`: sign and size unknown."""

    speedup: Interval
    predictable: bool = True
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

    @property
    def left_gib(self) -> float | None:
        """What remains of one device for KV and states; None where the memory is not known."""
        if self.available_gib is None:
            return None
        return self.available_gib - self.weights_gib - self.spec_gib - self.overhead_gib


class Estimate(Frozen):
    """The predicted effect of a plan against the same plan without speculation."""

    output_tok_s: MetricEstimate
    tpot_ms: MetricEstimate
    ttft_ms: MetricEstimate
    accepted_length: Interval  # tokens emitted per step, bonus token included
    p_gain: float  # probability that the goal's metric gains, calibrated
    memory: MemoryBill | None = None
    basis: Basis = "physics"
    terms: dict[str, float] = {}  # step-time parts in ms, for `why`
    notes: tuple[str, ...] = ()
    measured_gain: float = 0.0  # how far this configuration was measured and gained, 0 to 1
    own_share: float = 0.0  # of the variance of the gain, that the user's own runs explain


class Edit(Frozen):
    """Replace characters start..end of `file` by `text`."""

    file: str
    start: int
    end: int
    text: str


class Fix(Frozen):
    """How to resolve a finding: a sentence, and the edits where they are known."""

    text: str  # what to do, for a person
    safe: bool = False  # keeps meaning: may be applied by --fix
    edits: tuple[Edit, ...] = ()


class Finding(Frozen):
    """One violation of a rule, with its place in the file."""

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
    strength: float = 1.0  # of the effect: below 1 towards the border of what was documented
    # with effect "k_max": the largest k that the documented sweeps support here
    k_max: int | None = None
    # with effect "support": the k that the documented sweep prefers in this regime
    k_best: int | None = None


class Skipped(NamedTuple):
    """A rule that could not be judged because an input is missing; a file has dozens."""

    code: str
    needs: tuple[str, ...]
    file: str = ""


class Case(FlagLookups, Frozen):
    """The argument of every rule; `launch` was read, or is the one that will be printed."""

    facts: Facts
    plan: Plan
    launch: Launch
    estimate: Estimate | None = None
    siblings: tuple[Launch, ...] = ()  # the other launches of the same file

    @property
    def hardware_name(self) -> str:
        """The hardware's name for a message."""
        hw = self.facts.hardware
        return (hw.name or hw.id) if hw else "this hardware"

    @property
    def model_name(self) -> str:
        """The model's name for a message."""
        model = self.facts.model
        return (model.name or model.id) if model else "this model"


class Reason(Frozen):
    """One sentence behind a decision, with its sources."""

    text: str
    sources: tuple[str, ...] = ()
    weight: float = 0.0  # for the order of printing, larger first
    brief: str = ""  # the same in one line of a screen, where the text is longer
    risk: bool = False  # speaks of what could go wrong, not of why the answer is what it is


class Candidate(Frozen):
    """A judged plan."""

    plan: Plan
    estimate: Estimate | None = None  # None for the plan without speculation
    findings: tuple[Finding, ...] = ()
    utility: float = 0.0
    regret: float = 0.0


class Objective(Frozen):
    """Limits of the mean latency: the chances that they are kept, whether they probably are (None:
    no speed is predicted), and users within them with 90 % (None: all tried, or not counted).
    """

    max_tpot_ms: float | None
    max_ttft_ms: float | None
    met: bool | None
    chance: float | None
    chance_without: float | None
    users: int | None = None
    users_without: int | None = None


class Advice(Frozen):
    """The answer to a request: decision, plan, estimate and what supports them."""

    request: Request
    facts: Facts
    decision: Decision
    plan: Plan
    candidate: Plan | None = None  # the best speculative plan, which `estimate` describes
    plan_off: Plan | None = None  # the plan without speculation, of `launch_off`
    estimate: Estimate | None = None  # of `plan_off` where nothing can draft
    gain: Interval | None = None  # speed-up of the candidate for the goal
    # estimate, unsure, rule, objective, one_token, no_method, unknown_hardware, unseen_head,
    # unpriced, unlisted
    decided_by: str = ""
    # of the candidate, and of the plan to run where that is another one
    findings: tuple[Finding, ...] = ()
    plan_findings: tuple[Finding, ...] = ()  # of the plan to run
    reasons: Sequence[Reason] = ()  # strongest first; without `what_if` found when first read
    runners_up: tuple[Candidate, ...] = ()
    next_layout: str = ""  # of several GPUs: the second best split, and what it costs
    quicker: str = ""  # what another k, an 8-bit KV cache or a GPU less would give, where much
    would_change: Sequence[str] = ()  # found when it is first read: it takes longer than the rest
    launch: LaunchText
    launch_off: LaunchText
    launch_on: LaunchText | None = None  # for `measure`: the arm to try
    measure_with: tuple[str, ...] = ()  # for `measure`: the exact commands of the A/B
    evidence_newest: str = ""
    settings: tuple[tuple[str, str], ...] = ()  # of the file to write, see render/deploy/settings
    objective: Objective | None = None  # where one was asked for
    # of a million output tokens without speculation and with it; None: no price was told
    cost_per_million: tuple[float | None, ...] | None = None
