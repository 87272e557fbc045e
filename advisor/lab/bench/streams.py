"""A small client for streamed completions that keeps the moment each event arrived.

The readers of the usual HTTP libraries decode and split events as they come, which at 64 streams
costs as much time as a step of a small model. Here the bytes are kept with the time of the read and
taken apart once the stream has ended.
"""

from __future__ import annotations

import asyncio
import json
import time
from bisect import bisect_left
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One server-sent event: seconds of `time.perf_counter` at which its last byte was read, and
    its JSON.
    """

    at: float
    data: dict[str, Any]


class Reply(NamedTuple):
    """All events of one request, with the moment it was sent."""

    sent: float
    events: list[Event]


class ServerError(RuntimeError):
    """The server answered with another status than 200 or broke off."""


async def stream(
    port: int, path: str, body: dict[str, Any], timeout: float = 120.0, key: str | None = None
) -> Reply:
    """POST `body` to 127.0.0.1, with the key that the server asks for, and read the event stream to
    its end.

    Raises
    ------
    ServerError
        The status is not 200, or no reply came.
    TimeoutError
        Nothing was read for `timeout` seconds.
    """
    payload = json.dumps(body, separators=(",", ":")).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(payload)}\r\nConnection: close\r\n"
    )
    head += f"Authorization: Bearer {key}\r\n\r\n" if key else "\r\n"
    reads: list[tuple[float, bytes]] = []
    try:
        writer.write(head.encode() + payload)
        await writer.drain()
        sent = time.perf_counter()
        while True:
            data = await asyncio.wait_for(reader.read(1 << 18), timeout)
            if not data:
                break
            reads.append((time.perf_counter(), data))
    finally:
        writer.close()
    return Reply(sent, parse(reads))


def parse(reads: list[tuple[float, bytes]]) -> list[Event]:
    """Events of an HTTP reply given as (time, bytes) of each read; chunked or not. Raises
    ServerError where it is no event stream.
    """
    raw = b"".join(data for _, data in reads)
    ends, total = [], 0
    for _, data in reads:
        total += len(data)
        ends.append(total)
    first, found, _ = raw.partition(b"\r\n\r\n")
    if not found or b" 200" not in first.split(b"\r\n", 1)[0]:
        raise ServerError(raw[:2000].decode(errors="replace") or "no reply")
    start = len(first) + 4
    chunked = b"transfer-encoding: chunked" in first.lower()
    pieces = _chunks(raw, start) if chunked else [(start, len(raw))]
    events: list[Event] = []
    pending = b""
    for begin, end in pieces:
        at = reads[min(bisect_left(ends, end), len(reads) - 1)][0]
        *whole, pending = (pending + raw[begin:end]).replace(b"\r\n", b"\n").split(b"\n\n")
        for text in whole:
            for line in text.split(b"\n"):
                if line.startswith(b"data:") and line[5:].strip() not in (b"", b"[DONE]"):
                    events.append(Event(at, _json(line[5:])))
    return events


def _json(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ServerError(f"an event is not JSON: {text[:200]!r}") from error
    if not isinstance(found, dict):
        raise ServerError(f"an event is not an object: {text[:200]!r}")
    return found


def _chunks(raw: bytes, start: int) -> list[tuple[int, int]]:
    """(begin, end) of every chunk's body."""
    pieces = []
    while start < len(raw):
        line = raw.find(b"\r\n", start)
        if line < 0:
            break
        try:
            size = int(raw[start:line].split(b";")[0], 16)
        except ValueError:
            break
        if not size:
            break
        pieces.append((line + 2, min(line + 2 + size, len(raw))))
        start = line + 2 + size + 2
    return pieces


async def get(port: int, path: str, timeout: float = 5.0) -> tuple[int, bytes]:
    """Status and body of a GET; status 0 while nothing listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0, b""
    try:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        raw = await asyncio.wait_for(reader.read(-1), timeout)
    except (TimeoutError, OSError):
        return 0, b""
    finally:
        writer.close()
    line, _, rest = raw.partition(b"\r\n\r\n")
    words = line.split(b" ", 2)
    return (int(words[1]) if len(words) > 1 and words[1].isdigit() else 0), rest
