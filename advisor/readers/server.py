"""HTTP to an OpenAI-compatible server: what it is, its counters, one streamed request."""

import http.client
import json
import time
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from advisor.domain.facts import AdvisorError
from advisor.domain.printable import excerpt
from advisor.readers.exchange import (
    BadAnswer,
    HasFile,
    Limit,
    Refused,
    ServerGone,
    exchange,
    reason,
)
from advisor.readers.results.exposition import Scrape, scrape, together

MAX_ANSWER = 16 * 2**20
MAX_LINE = 2**20


class ServerInfo(NamedTuple):
    """What a server says of itself; None where it does not."""

    url: str
    engine: str | None
    version: str | None
    model: str | None
    slots: int | None
    k: int | None


class StreamedAnswer(NamedTuple):
    """One streamed answer, seconds since its request was sent."""

    ttft_s: float
    end_s: float
    chunks: int
    input_tokens: int | None
    output_tokens: int
    draft_tokens: int | None = None  # llama-server's `timings`: drafted in this answer
    accepted_tokens: int | None = None
    text: str = ""  # without what the model thought


def checked_url(url: str) -> str:
    """An http(s) address without a path at its end. Raises AdvisorError."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise AdvisorError(f"'{excerpt(url)}' is no address of a server: http://HOST:PORT")
    if parts.username or parts.password:
        raise AdvisorError("an address with a password would be stored: give it without")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"


def get(
    url: str, path: str, timeout_s: float = 10.0, key: str | None = None, data: bytes | None = None
) -> bytes:
    """The body of a GET, or of a POST of JSON. Raises ServerGone, BadAnswer or Refused."""
    headers = {"Content-Type": "application/json"} if data else {}
    try:
        with exchange(f"{url}{path}", Limit(timeout_s), key, data, headers) as answer:
            if answer.status >= 400:
                raise BadAnswer(f"{url}{path} answers {answer.status}")
            body = answer.read(MAX_ANSWER + 1)
            if len(body) > MAX_ANSWER:
                raise Refused(f"{url}{path} answers more than {MAX_ANSWER // 2**20} MiB")
            if answer.length:
                raise BadAnswer(f"{url}{path}: the answer broke off")
            return body
    except (OSError, UnicodeError, http.client.HTTPException) as error:
        late = isinstance(error, TimeoutError)
        why = f"no whole answer in {timeout_s:g} s" if late else reason(error)
        raise ServerGone(f"no server answers at {url} ({why})") from error


def get_json(
    url: str,
    path: str,
    key: str | None = None,
    asked: Mapping[str, Any] | None = None,
    timeout_s: float = 10.0,
) -> dict[str, Any]:
    """The JSON object at a path, `asked` by a POST. Raises ServerGone, BadAnswer or Refused."""
    data = None if asked is None else json.dumps(asked).encode()
    try:
        value = json.loads(get(url, path, timeout_s, key, data))
    except (ValueError, RecursionError) as error:
        raise BadAnswer(f"{url}{path} is no JSON: not an OpenAI-compatible server?") from error
    if not isinstance(value, dict):
        raise BadAnswer(f"{url}{path} is no JSON object")
    return value


def _optional(url: str, path: str, key: str | None) -> dict[str, Any]:
    try:
        return get_json(url, path, key)
    except (BadAnswer, Refused):
        return {}


def describe(url: str, key: str | None = None) -> ServerInfo:
    """What runs at an address. Raises ServerGone, BadAnswer or Refused."""
    rows = get_json(url, "/v1/models", key).get("data")
    first = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
    model = first.get("id") if isinstance(first.get("id"), str) else None
    props = _optional(url, "/props", key)
    if "total_slots" in props or "build_info" in props:
        build = str(props.get("build_info") or "").split("-")[0] or None
        return ServerInfo(url, "llama-server", build, model, _whole(props.get("total_slots")), None)
    info = _optional(url, "/server_info", key) or _optional(url, "/get_server_info", key)
    if info:
        release, slots = _text(info.get("version")), _whole(info.get("max_running_requests"))
        k = _whole(info.get("speculative_num_steps"))
        return ServerInfo(url, "sglang", release, model, slots, k)
    version = _optional(url, "/version", key).get("version")
    engine = "vllm" if version or first.get("owned_by") == "vllm" else None
    return ServerInfo(url, engine, _text(version), model, None, None)


def _text(value: Any) -> str | None:
    return excerpt(value, 40) if isinstance(value, str) and value else None


def _whole(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 < value < 10**6 else None


def counters(url: str, key: str | None = None, replicas: Sequence[str] = ()) -> Scrape | None:
    """Its counters or the sum over `replicas`; None without. Raises ServerGone or Refused."""
    try:
        texts = {one: get(one, "/metrics", key=key) for one in replicas or (url,)}
        return together(
            [
                scrape(text.decode("utf-8", "replace"), f"{one}/metrics")
                for one, text in texts.items()
            ]
        )
    except (ServerGone, Refused):
        raise
    except AdvisorError:
        return None


def stream(
    url: str,
    body: Mapping[str, Any],
    stall_s: float,
    opened: Callable[[HasFile], None] | None = None,
    key: str | None = None,
) -> StreamedAnswer:
    """One chat, `stall_s` for each silence. Raises ServerGone, BadAnswer or Refused."""
    data = json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}}).encode()
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    reader, limit = _Reader(body.get("max_tokens")), Limit(stall_s)
    try:
        with exchange(f"{url}/v1/chat/completions", limit, key, data, headers, opened) as answer:
            if answer.status != http.client.OK:
                text = answer.read(300).decode("utf-8", "replace")
                raise BadAnswer(f"the server answers {answer.status}: {excerpt(text)}")
            while not reader.finished and (line := answer.readline(MAX_LINE)):
                before = reader.chunks
                reader.take(line)
                if reader.chunks > before:
                    limit.restart()
    except http.client.HTTPException as error:
        raise BadAnswer(f"the answer broke off ({type(error).__name__})") from error
    except TimeoutError as error:
        raise BadAnswer(f"the server sent nothing for {stall_s:g} s") from error
    except (OSError, UnicodeError) as error:
        raise ServerGone(f"no server answers at {url} ({reason(error)})") from error
    return reader.result()


class _Reader:
    """The lines of one event stream, and when they came; at most twice `max_tokens` of text."""

    def __init__(self, max_tokens: int | None = None) -> None:
        self.max_tokens = max_tokens
        self.start = time.monotonic()
        self.first: float | None = None
        self.last, self.chunks, self.finished = 0.0, 0, False
        self.usage: dict[str, Any] = {}
        self.timings: dict[str, Any] = {}
        self.text: list[str] = []

    def take(self, line: bytes) -> None:
        """One line. Raises BadAnswer where it is none of an event stream."""
        if not line.startswith(b"data:"):
            if line.strip() and not line.startswith((b":", b"event:", b"id:", b"retry:")):
                raise BadAnswer("the server's answer is no event stream")
            return
        text = line[5:].strip()
        if text == b"[DONE]":
            self.finished = True
            return
        event = _event(text)
        if isinstance(event.get("usage"), dict):
            self.usage = event["usage"]
        if isinstance(event.get("timings"), dict):
            self.timings = event["timings"]
        if delta := _delta(event):
            self.text.append(str(delta.get("content") or ""))
            self.last = time.monotonic() - self.start
            self.first = self.last if self.first is None else self.first
            self.chunks += 1
            if self.max_tokens and self.chunks > 2 * self.max_tokens:
                limit = f"max_tokens {self.max_tokens}"
                raise BadAnswer(f"the server does not keep to {limit}: twice as many chunks came")

    def result(self) -> StreamedAnswer:
        """The whole answer. Raises BadAnswer where it is empty or broke off."""
        if self.first is None:
            raise BadAnswer("the answer holds no text")
        if not self.finished:
            raise BadAnswer("the answer broke off before its end")
        prompt, output = (_whole(self.usage.get(f"{n}_tokens")) for n in ("prompt", "completion"))
        drafted, accepted = (_whole(self.timings.get(f"draft_n{end}")) for end in ("", "_accepted"))
        accepted = (accepted or 0) if drafted else None
        tokens = prompt, output or self.chunks, drafted, accepted
        return StreamedAnswer(self.first, self.last, self.chunks, *tokens, "".join(self.text))


def _event(text: bytes) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadAnswer("the server's stream holds broken JSON") from error
    if not isinstance(event, dict):
        raise BadAnswer("the server's stream holds no JSON objects")
    if event.get("error"):
        raise BadAnswer(f"the server reports an error: {excerpt(str(event['error']))}")
    return event


def _delta(event: Mapping[str, Any]) -> dict[str, Any]:
    """What an event adds to the answer; empty where that is no text."""
    match event.get("choices"):
        case [{"delta": dict(delta)}, *_]:
            names = ("content", "reasoning_content", "reasoning", "tool_calls")
            return delta if any(delta.get(name) for name in names) else {}
    return {}
