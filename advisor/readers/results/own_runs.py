"""What `advisor bench run` writes: JSON lines, a header, then a record a request as it ends."""

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from advisor.engines import ENGINES
from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import (
    Acceptance,
    BenchmarkRun,
    Count,
    Latency,
    Number,
    ResultModel,
    spread_of,
)

FORMAT = "advisor-bench"


class Header(ResultModel):
    """The first line: what was run, and against what."""

    format: Literal["advisor-bench"] = "advisor-bench"
    version: Literal[1] = 1
    arm: str
    seed: int
    concurrency: int = Field(ge=1, le=100_000)
    requests: int = Field(ge=1, le=10_000_000)
    input_tokens: int
    output_tokens: int
    output_spread: float = 0.0
    workload: str
    date: str
    prompts_sha256: str
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    method: str | None = None
    k: Count = None
    slots: Count = None
    turns: int = 1
    prefix_share: float = 0
    request_rate: Number = None
    max_ttft_ms: Number = None
    max_tpot_ms: Number = None


class RequestRecord(ResultModel):
    """One request: seconds from the start of the run, tokens as the server counted them."""

    i: int
    start_s: float = Field(ge=0)
    ttft_s: float = Field(ge=0)
    end_s: float = Field(ge=0)
    input_tokens: int | None = None
    output_tokens: int = Field(ge=0)
    chunks: int = Field(ge=0)
    draft_tokens: Count = None  # where the answer itself states them
    accepted_tokens: Count = None
    sitting: int = 0  # counts the resumptions: clocks of two sittings do not compare
    error: str | None = None


class Counters(ResultModel):
    """Differences of the server's counters over one sitting."""

    sitting: int = 0
    seconds: float
    drafts: Number = None
    draft_tokens: Number = None
    accepted: Number = None
    positions: tuple[float, ...] = ()
    accept_length: Number = None


class RunFile(ResultModel):
    """A whole file."""

    header: Header
    records: tuple[RequestRecord, ...]
    counters: tuple[Counters, ...]


def matches(doc: Document) -> bool:
    """Whether the document is a run recorded by `advisor bench run`."""
    return bool(doc.objects) and doc.objects[0].get("format") == FORMAT


def parse(doc: Document) -> RunFile:
    """Header, records and counters of a file."""
    header = Header.model_validate(doc.objects[0])
    records = [RequestRecord.model_validate(row) for row in doc.objects[1:] if "i" in row]
    counters = [Counters.model_validate(row) for row in doc.objects[1:] if "seconds" in row]
    return RunFile(header=header, records=tuple(records), counters=tuple(counters))


def read(doc: Document) -> list[BenchmarkRun]:
    """Return the run. Raises Unreadable where no request finished."""
    file = parse(doc)
    header = file.header
    last = {r.i: r for r in file.records if r.error is None and r.output_tokens > 0}
    good = list(last.values())  # a conversation that was broken off began anew
    if not good:
        raise Unreadable(f"{doc.name}: no request of this run has finished")
    seconds = busy_seconds(good)
    tokens = sum(r.output_tokens for r in good)
    inputs = [r.input_tokens for r in good if r.input_tokens]
    known: Any = header.engine if header.engine in ENGINES else None
    acceptance = _acceptance(file)
    counted = len(acceptance.by_position) if acceptance else 0  # where nobody said k
    return [
        BenchmarkRun(
            file=doc.name, format=FORMAT, sha256=doc.sha256, client="advisor bench run",
            part=f"{header.arm}, seed {header.seed}", date=header.date, engine=known,
            engine_version=header.engine_version, model=header.model, method=header.method,
            k=header.k or counted or (0 if header.method == "none" else None),
            slots=header.slots, seed=header.seed, request_rate=header.request_rate,
            concurrency=None if header.request_rate else header.concurrency,
            goodput_rps=_goodput(header, good) / seconds if seconds else None,
            dataset=f"{header.workload}:{header.prompts_sha256[:12]}",
            requests=len(good), failed=len(file.records) - len(good),
            input_tokens=sum(inputs) / len(inputs) if inputs else None,
            output_tokens=tokens / len(good),
            output_spread=spread_of([r.output_tokens for r in good]),
            duration_s=seconds,
            output_tok_s=tokens / seconds if seconds else None,
            ttft_ms=Latency.of(r.ttft_s * 1e3 for r in good),
            tpot_ms=Latency.of(tpots(good)),
            itl_ms=Latency.of(
                (r.end_s - r.start_s - r.ttft_s) * 1e3 / (r.chunks - 1)
                for r in good
                if r.chunks > 1
            ),
            e2e_ms=Latency.of((r.end_s - r.start_s) * 1e3 for r in good),
            acceptance=acceptance,
        )
    ]  # fmt: skip


def _goodput(header: Header, records: Sequence[RequestRecord]) -> float:
    """How many requests kept to the objectives; NaN, which is not stated, without any."""
    ttft, tpot = header.max_ttft_ms or math.inf, header.max_tpot_ms or math.inf
    if math.isinf(ttft) and math.isinf(tpot):
        return math.nan
    return sum(r.ttft_s * 1e3 <= ttft and all(t <= tpot for t in tpots([r])) for r in records)


def busy_seconds(records: list[RequestRecord]) -> float:
    """Time from the first start to the last end, summed over sittings, s."""
    total = 0.0
    for sitting in sorted({r.sitting for r in records}):
        rows = [r for r in records if r.sitting == sitting]
        total += max(r.end_s for r in rows) - min(r.start_s for r in rows)
    return total


def tpots(records: Sequence[RequestRecord]) -> list[float]:
    """Time per output token after the first of each request, ms."""
    return [
        (r.end_s - r.start_s - r.ttft_s) * 1e3 / (r.output_tokens - 1)
        for r in records
        if r.output_tokens > 1
    ]


def _acceptance(file: RunFile) -> Acceptance | None:
    rows = file.counters
    drafts, drafted = (sum(getattr(r, n) or 0 for r in rows) for n in ("drafts", "draft_tokens"))
    accepted = sum(r.accepted or 0 for r in rows)
    width = max((len(r.positions) for r in rows), default=0)
    at = [sum(r.positions[i] for r in rows if i < len(r.positions)) for i in range(width)]
    counted = Acceptance.from_counts(drafts or None, drafted or None, accepted or None, at)
    lengths = [r.accept_length for r in rows if r.accept_length and r.accept_length >= 1]
    if counted or not lengths:
        return counted or _of_answers(file.records)
    return Acceptance(length=sum(lengths) / len(lengths))


def _of_answers(records: Sequence[RequestRecord]) -> Acceptance | None:
    """From llama-server's answers: each step after the first token emits one of the model."""
    rows = [r for r in records if r.draft_tokens and r.accepted_tokens is not None]
    accepted = sum(r.accepted_tokens or 0 for r in rows)
    steps = sum(max(r.output_tokens - 1 - (r.accepted_tokens or 0), 1) for r in rows)
    return Acceptance.from_counts(steps, sum(r.draft_tokens or 0 for r in rows), accepted)
