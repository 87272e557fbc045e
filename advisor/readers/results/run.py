"""What every format is read into, in fixed units; what a file does not state is None."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MAX_VALUES = 20_000  # per-request values that are kept of one run
MAX_MS = 1e12  # above: no latency
LEAST_LENGTHS = 4  # of answers, that tell how far they vary
MOST_SPREAD = 0.95
Kind = Literal["serving", "offline", "counters", "log"]
# the last has no predictions: its runs are read and judged
EngineName = Literal["vllm", "sglang", "llama-server", "ik_llama.cpp"]


def finite(value: Any) -> Any:
    """None for what is no number: NaN, infinite, empty or 'N/A'."""
    if isinstance(value, str):
        value = value.strip()
        if value.lower() in ("", "n/a", "nan", "inf", "infinity", "none", "not set"):
            return None
    return None if isinstance(value, float) and not math.isfinite(value) else value


Number = Annotated[Annotated[float, Field(ge=0, le=1e12)] | None, BeforeValidator(finite)]
Count = Annotated[Annotated[int, Field(ge=0, le=10**15)] | None, BeforeValidator(finite)]
MOST_DRAFTS = 128  # of a step
Drafts = Annotated[Annotated[int, Field(ge=0, le=MOST_DRAFTS)] | None, BeforeValidator(finite)]
Share = Annotated[float, Field(ge=0, le=1)]


class ResultModel(BaseModel):
    """Base of the records: immutable, unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Latency(ResultModel):
    """A time in milliseconds over the requests of one run."""

    mean: Number = None
    p50: Number = None
    p90: Number = None
    p99: Number = None
    sd: Number = None
    # one a request, in the order of the file
    values: tuple[float, ...] = Field(default=(), exclude=True)

    @classmethod
    def of(cls, values: Iterable[float]) -> Latency | None:
        """Statistics of per-request values, ms; None without any."""
        kept = [float(v) for v in values if v is not None and 0 <= v <= MAX_MS][:MAX_VALUES]
        if not kept:
            return None
        ordered, mean = sorted(kept), math.fsum(kept) / len(kept)
        sd = math.sqrt(math.fsum((v - mean) ** 2 for v in kept) / len(kept))
        p50, p90, p99 = (quantile(ordered, share) for share in (0.5, 0.9, 0.99))
        return cls(mean=mean, p50=p50, p90=p90, p99=p99, sd=sd, values=tuple(kept))

    @classmethod
    def from_statistics(cls, **numbers: Any) -> Latency | None:
        """From stated statistics, ms; None where neither mean nor median is there."""
        made = cls(**numbers)
        return None if made.mean is None and made.p50 is None else made


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value at a share of an ordered sequence, interpolated linearly."""
    at = share * (len(ordered) - 1)
    low = math.floor(at)
    return ordered[low] + (ordered[min(low + 1, len(ordered) - 1)] - ordered[low]) * (at - low)


class Acceptance(ResultModel):
    """Tokens per step with the bonus token, accepted over drafted tokens, and by position the share
    of drafts whose first i + 1 tokens were accepted.
    """

    length: Annotated[Annotated[float, Field(ge=1, le=129)] | None, BeforeValidator(finite)] = None
    rate: Annotated[Share | None, BeforeValidator(finite)] = None
    by_position: tuple[Share, ...] = Field(default=(), max_length=64)
    drafts: Count = None
    draft_tokens: Count = None
    accepted_tokens: Count = None

    @classmethod
    def from_counts(
        cls,
        drafts: float | None,
        draft_tokens: float | None,
        accepted: float | None,
        positions: Sequence[float] = (),
    ) -> Acceptance | None:
        """From counts of one run, by position too; None where nothing was drafted. What is accepted
        while the counters are read may stand in one of them alone.
        """
        drafts, draft_tokens, accepted = map(finite, (drafts, draft_tokens, accepted))
        if accepted and (draft_tokens or drafts):
            accepted = min(accepted, draft_tokens or MOST_DRAFTS * (drafts or 0.0))
        if not accepted and not drafts and not draft_tokens:
            return None
        return cls(
            length=1 + (accepted or 0) / drafts if drafts else None,
            rate=(accepted or 0) / draft_tokens if draft_tokens else None,
            by_position=tuple(min(count / drafts, 1.0) for count in positions) if drafts else (),
            drafts=round(drafts) if drafts else None,
            draft_tokens=round(draft_tokens) if draft_tokens else None,
            accepted_tokens=round(accepted) if accepted is not None else None,
        )

    def tokens_per_step(self, k: int | None = None) -> float | None:
        """The acceptance length, also from the rates by position or per token."""
        if self.length is not None:
            return self.length
        if self.by_position:
            return 1 + sum(self.by_position)
        return 1 + k * self.rate if k and self.rate is not None else None

    def mean_draft(self) -> float | None:
        """Drafted tokens per draft: below k where drafts are cut short."""
        return self.draft_tokens / self.drafts if self.draft_tokens and self.drafts else None


class BenchmarkRun(ResultModel):
    """One measured load of one server, as one file states it."""

    file: str
    format: str
    kind: Kind = "serving"
    part: str = ""  # which run of the file, where it holds several
    client: str | None = None
    client_version: str | None = None
    date: str | None = None
    engine: EngineName | None = None
    engine_version: str | None = None
    model: str | None = None
    # speculative method, "none" where the file states that nothing was drafted
    method: str | None = None
    k: Drafts = None
    hardware: str | None = None
    concurrency: Number = None  # requests in flight, as limited by the client
    request_rate: Number = None  # requests per second, where the load is open
    goodput_rps: Number = None  # requests per second within the objectives
    slots: Count = None
    dataset: str | None = None
    seed: Count = None
    temperature: Number = None
    requests: Count = None
    failed: Count = None
    input_tokens: Number = None  # per request
    depth_tokens: Number = None  # cached before the prompt, per request
    output_tokens: Number = None  # per request
    output_spread: Number = None  # half the range of answer lengths by their mean
    duration_s: Number = None
    output_tok_s: Number = None  # of the server
    request_tok_s: Number = None  # of one stream, after its first token
    prompt_tok_s: Number = None
    output_tok_s_sd: Number = None  # between repeats within the file
    repeats: Count = None
    ttft_ms: Latency | None = None
    tpot_ms: Latency | None = None  # time per output token after the first
    itl_ms: Latency | None = None  # between stream chunks: of one step, not of one token
    e2e_ms: Latency | None = None
    acceptance: Acceptance | None = None
    notes: tuple[str, ...] = ()
    sha256: str = ""

    @property
    def speculates(self) -> bool | None:
        """Whether drafts were made; None where the file does not tell."""
        if self.acceptance is not None or (self.k or 0) > 0 or self.method not in (None, "none"):
            return True
        return False if self.method == "none" or self.k == 0 else None

    def value(self, metric: str) -> float | None:
        """The run's figure for output_tok_s, tpot, ttft (ms, means) or request_tok_s."""
        name = metric if metric.endswith("_tok_s") else f"{metric}_ms"
        made: Latency | float | None = getattr(self, name)
        if isinstance(made, Latency):
            return made.p50 if made.mean is None else made.mean
        return made


def spread_of(lengths: Sequence[float]) -> float | None:
    """Half the range of lengths by their mean, if all were as likely; None of fewer than four."""
    if len(lengths) < LEAST_LENGTHS or not (mean := sum(lengths) / len(lengths)) > 0:
        return None
    variance = sum((length - mean) ** 2 for length in lengths) / len(lengths)
    return min(math.sqrt(3 * variance) / mean, MOST_SPREAD)


def per_request(total: float | None, count: float | None) -> float | None:
    """A total over requests as a mean, None where either is missing or 0."""
    return total / count if total and count else None
