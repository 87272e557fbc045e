"""A small client for streamed completions that keeps the moment each event arrived, and what the
events say of a request's steps.

The readers of the usual HTTP libraries decode and split events as they come, which at 64 streams
costs as much time as a step of a small model. Here the bytes are kept with the time of the read and
taken apart once the stream has ended.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from advisor.engines.traits import traits
from advisor.lab.bench.timing import TimedRequest

# Tokens that llama-server accepts in one step arrive one after the other within this time (s).
TOGETHER_S = 1e-3
BURST = 0.3  # or within this share of the usual gap between two steps
Reads = list[tuple[float, bytes]]  # each with its seconds of `time.perf_counter`


class Event(NamedTuple):
    """One server-sent event: when its last byte was read, and its JSON."""

    at: float
    data: dict[str, Any]


class Reply(NamedTuple):
    """All events of one request, with the moment it was sent."""

    sent: float
    events: list[Event]


class ServerError(RuntimeError):
    """The server answered with another status than 200, broke off, or no step can be told."""


async def exchange(
    port: int, head: str, payload: bytes, timeout: float, key: str | None = None
) -> tuple[float, Reads]:
    """When a request to 127.0.0.1 was sent, and all reads. Raises TimeoutError or OSError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    reads: Reads = []
    try:
        head += f" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        if key:
            head += f"Authorization: Bearer {key}\r\n"
        if payload:
            head += f"Content-Type: application/json\r\nContent-Length: {len(payload)}\r\n"
        writer.write(head.encode() + b"\r\n" + payload)
        await writer.drain()
        sent = time.perf_counter()
        while data := await asyncio.wait_for(reader.read(1 << 18), timeout):
            reads.append((time.perf_counter(), data))
    finally:
        writer.close()
    return sent, reads


async def stream(
    port: int, path: str, body: dict[str, Any], timeout: float = 120.0, key: str | None = None
) -> Reply:
    """POST `body`, read the events to their end. Raises ServerError, and what `exchange` raises."""
    payload = json.dumps(body, separators=(",", ":")).encode()
    sent, reads = await exchange(port, f"POST {path}", payload, timeout, key)
    return Reply(sent, parse(reads))


async def is_healthy(port: int) -> bool:
    """Whether a server answers at /health with status 200."""
    try:
        _, reads = await exchange(port, "GET /health", b"", 5.0)
    except (TimeoutError, OSError):
        return False
    return b" 200" in b"".join(data for _, data in reads).split(b"\r\n", 1)[0]


def parse(reads: Reads) -> list[Event]:
    """Events of an HTTP reply, chunked or not. Raises ServerError where it is no event stream."""
    raw = b"".join(data for _, data in reads)
    ends = list(accumulate(len(data) for _, data in reads))
    head, blank, _ = raw.partition(b"\r\n\r\n")
    if not blank or b" 200" not in head.split(b"\r\n", 1)[0]:
        raise ServerError(raw[:2000].decode(errors="replace") or "no reply")
    start = len(head) + 4
    chunked = b"transfer-encoding: chunked" in head.lower()
    events: list[Event] = []
    pending = b""
    for begin, end in _chunks(raw, start) if chunked else [(start, len(raw))]:
        at = reads[min(bisect_left(ends, end), len(reads) - 1)][0]
        *whole, pending = (pending + raw[begin:end]).replace(b"\r\n", b"\n").split(b"\n\n")
        for line in (line for text in whole for line in text.split(b"\n")):
            if line.startswith(b"data:") and line[5:].strip() not in (b"", b"[DONE]"):
                events.append(Event(at, _json(line[5:])))
    return events


def _json(text: bytes) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ServerError(f"an event is not JSON: {text[:200]!r}") from error
    if not isinstance(data, dict) or "error" in data:
        raise ServerError(f"an event is not an answer: {text[:500]!r}")
    return data


def _chunks(raw: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Begin and end of every chunk's body."""
    while (line := raw.find(b"\r\n", start)) >= 0:
        try:
            size = int(raw[start:line].split(b";")[0], 16)
        except ValueError:
            return
        if not size:
            return
        yield line + 2, min(line + 2 + size, len(raw))
        start = line + 2 + size + 2


def tokens_of(engine: str, event: Event, seen: int) -> list[int]:
    """Token ids that an event brings after the `seen` ones: SGLang may send all so far."""
    if traits(engine).gguf:
        return list(event.data.get("tokens") or [])
    ids = list(event.data.get("output_ids") or [])
    total = int((event.data.get("meta_info") or {}).get("completion_tokens", seen + len(ids)))
    return ids[len(ids) - (total - seen) :] if total > seen else []


class Served(NamedTuple):
    """A request's tokens in time."""

    request: TimedRequest
    tokens: list[int]


def read_reply(engine: str, reply: Reply, drafts: bool) -> Served:
    """A reply's tokens in time. Raises ServerError where none came."""
    tokens: list[int] = []
    at: list[float] = []
    for event in reply.events:
        new = tokens_of(engine, event, len(tokens))
        tokens += new
        at += [event.at] * len(new)
    if not at:
        raise ServerError("no tokens came")
    return Served(TimedRequest(reply.sent, at, _steps(engine, at) if drafts else at), tokens)


def _steps(engine: str, at: list[float]) -> list[float]:
    """When the first token of each step came."""
    if not traits(engine).gguf:
        return sorted(set(at))
    gaps = [b - a for a, b in pairwise(at) if b - a > TOGETHER_S]
    limit = max(TOGETHER_S, BURST * statistics.median(gaps)) if gaps else TOGETHER_S
    return at[:1] + [b for a, b in pairwise(at) if b - a > limit]
