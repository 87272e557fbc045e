"""An OpenAI-compatible server that streams at a set pace, for benchmark clients and for the tests
of `bench` and `watch`.

    python -m tests.readers.results.paced_server --port 8123 --step-ms 31 --k 2 --rates 0.8,0.6

Every step takes `step_ms` and emits the bonus token and as many drafts as the unconditional `rates`
say, spread evenly, so that a run's means are known beforehand: tokens per step 1 + sum(rates), TPOT
step_ms / tokens per step. `fault` misbehaves: `die` ends the process's server, `stall` says so in
the middle of a stream and then nothing more, `rubbish` answers with bytes that are no JSON. With
`until` the answers after the first `after` requests stop at their first token until that file is
there.

With `rounds_of` the server does not wait: it states before each event when it is due, in seconds
since the request (": at 0.06"), and lets that many measured requests (streams with a seed) go on
together, so that a client on the server's clock measures the same on every machine.
"""

import argparse
import json
import os
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

MODEL = "paced-model"
Fault = Literal["", "die", "stall", "rubbish"]


@dataclass
class Pace:
    """What the server does and what it has counted."""

    step_ms: float = 20.0
    ttft_ms: float = 60.0
    k: int = 0
    rates: tuple[float, ...] = ()
    engine: Literal["vllm", "sglang", "llama-server"] = "vllm"
    fault: Fault = ""
    after: int = 0  # requests answered well before the fault, or before `until` holds
    until: Path | None = None
    slots: int = 64
    rounds_of: int = 0
    key: str = ""  # what requests below /v1 must carry, as vLLM asks for it
    started: float = 0.0  # as /metrics states it; 0: not
    behind: list[str] = field(default_factory=list)  # a router: whose /metrics are read in turn
    usage: bool = True  # whether token counts are sent where they are asked for
    answer: Any = None  # (body) -> the message of an answer that does not stream
    requests: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    drafts: int = 0
    accepted: list[int] = field(default_factory=list)
    running: int = 0
    lock: Any = field(default_factory=threading.Lock)
    together: Any = None

    def tokens_per_step(self) -> float:
        return 1 + sum(self.rates)


def steps(pace: Pace, count: int) -> Iterator[int]:
    """Tokens of each step until `count` are emitted; accepted drafts follow the rates evenly."""
    due = [0.5] * len(pace.rates)  # so that short answers have the mean, too
    left = count - 1
    while left > 0:
        taken = 0
        for i, rate in enumerate(pace.rates):
            due[i] += rate
            if due[i] >= 1 - 1e-9 and taken == i:
                due[i] -= 1
                taken += 1
        with pace.lock:
            if pace.k:
                pace.drafts += 1
                for i in range(taken):
                    pace.accepted[i] += 1
        step = min(1 + taken, left)
        left -= step
        yield step


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    pace: Pace

    def log_message(self, *args: Any) -> None:
        pass

    def _is_locked(self) -> bool:
        key = self.pace.key
        if not key or not self.path.startswith("/v1"):
            return False
        return self.headers.get("Authorization") != f"Bearer {key}"

    def do_GET(self) -> None:
        pace = self.pace
        if self._is_locked():
            return self._json({"error": "Unauthorized"}, 401)
        if self.path == "/metrics" and pace.behind:
            pace.behind.append(pace.behind.pop(0))
            with urllib.request.urlopen(f"{pace.behind[-1]}/metrics") as answer:
                return self._text(answer.read().decode(), "text/plain; version=0.0.4")
        if self.path == "/metrics":
            return self._text(metrics(pace), "text/plain; version=0.0.4")
        if self.path == "/v1/models":
            entry = {"id": MODEL, "object": "model", "owned_by": pace.engine}
            entry["max_model_len"] = 32768
            return self._json({"object": "list", "data": [entry]})
        if self.path == "/version" and pace.engine == "vllm":
            return self._json({"version": "0.33.0"})
        if self.path in ("/get_server_info", "/server_info") and pace.engine == "sglang":
            state = {"avg_spec_accept_length": pace.tokens_per_step()} if pace.k else {}
            info = {"version": "0.5.23", "speculative_num_steps": pace.k or None}
            return self._json({**info, "internal_states": [state]})
        if self.path == "/props" and pace.engine == "llama-server":
            build = {"build_info": "b11312-0c1e57098", "model_path": f"/m/{MODEL}.gguf"}
            return self._json(build | {"total_slots": pace.slots})
        if self.path in ("/health", "/ping"):
            return self._json({"status": "ok"})
        self._json({"error": "not found"}, 404)

    def _end(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def do_POST(self) -> None:
        pace = self.pace
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self._is_locked():
            return self._json({"error": "Unauthorized"}, 401)
        with pace.lock:
            pace.requests += 1
            fault = pace.fault if pace.requests > pace.after else ""
            holds = pace.until is not None and pace.requests > pace.after
        if fault == "die":
            threading.Thread(target=self._end, daemon=True).start()
            self.close_connection = True
            self.connection.close()
            return
        if fault == "rubbish":
            return self._text("\x00\x7f<html>502 nonsense", "text/event-stream")
        chat = "chat" in self.path
        prompt = body.get("prompt") or " ".join(
            str(m.get("content")) for m in body.get("messages") or []
        )
        asked = len(prompt) if isinstance(prompt, list) else len(str(prompt).split())
        count = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        with pace.lock:
            pace.prompt_tokens += asked
            pace.running += 1
        usage = {"prompt_tokens": asked, "completion_tokens": count, "total_tokens": asked + count}
        if pace.together is not None and "seed" in body and body.get("stream"):
            pace.together.wait(60)
        try:
            if body.get("stream"):
                wanted = (body.get("stream_options") or {}).get("include_usage")
                told = usage if wanted and pace.usage else {}
                self._stream(chat, count, told, stall=fault == "stall", holds=holds)
            else:
                if not pace.answer:
                    taken = pace.ttft_ms + pace.step_ms * sum(1 for _ in steps(pace, count))
                    time.sleep(taken / 1000)
                made = whole(chat, count, usage)
                if pace.answer is not None:
                    made["choices"][0]["message"] = pace.answer(body)
                self._json(made)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with pace.lock:
                pace.tokens += count
                pace.running -= 1

    def _stream(
        self, chat: bool, count: int, usage: dict[str, int], stall: bool, holds: bool
    ) -> None:
        pace, start = self.pace, time.monotonic()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        due = pace.ttft_ms / 1000
        self._wait(start, due)
        self._event(piece(chat, 1))
        while holds and pace.until is not None and not pace.until.exists():
            time.sleep(0.02)
        for number, step in enumerate(steps(pace, count)):
            if stall and number == 1:  # answers vary in length, all have two steps
                self._chunk(b": stalls\n\n")
                time.sleep(3600)
            due += pace.step_ms / 1000
            self._wait(start, due)
            self._event(piece(chat, step))
        last = piece(chat, 0)
        last["choices"][0]["finish_reason"] = "length"
        self._event(last)
        if usage:
            self._event({**piece(chat, 0), "choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _wait(self, start: float, due: float) -> None:
        if self.pace.rounds_of:
            return self._chunk(b": at %.9f\n\n" % due)
        time.sleep(max(0.0, start + due - time.monotonic()))

    def _event(self, value: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def _json(self, value: Any, status: int = 200) -> None:
        self._text(json.dumps(value), "application/json", status)

    def _text(self, text: str, kind: str, status: int = 200) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def piece(chat: bool, tokens: int) -> dict[str, Any]:
    text = "tok " * tokens
    choice: dict[str, Any] = {"index": 0, "finish_reason": None}
    choice |= (
        {"delta": {"role": "assistant", "content": text}}
        if chat
        else {"text": text, "logprobs": None}
    )
    kind = "chat.completion.chunk" if chat else "text_completion"
    return {"id": "c-1", "object": kind, "created": 1, "model": MODEL, "choices": [choice]}


def whole(chat: bool, count: int, usage: dict[str, int]) -> dict[str, Any]:
    made = piece(chat, count)
    choice = made["choices"][0]
    choice["finish_reason"] = "length"
    if chat:
        choice["message"] = choice.pop("delta")
    return {**made, "object": "chat.completion" if chat else "text_completion", "usage": usage}


def metrics(pace: Pace) -> str:
    """The counters that the real engine's exposition has under the same names."""
    with pace.lock:
        accepted = list(pace.accepted) if pace.k else []
        drafted = {"drafts": pace.drafts, "draft_tokens": pace.drafts * pace.k}
        drafted |= {"accepted_tokens": sum(accepted)}
        spec = {f"spec_decode_num_{name}": n for name, n in drafted.items() if pace.k}
        running, asked, tokens, requests = (
            pace.running, pace.prompt_tokens, pace.tokens, pace.requests
        )  # fmt: skip
    if pace.engine == "vllm":
        family, label = "vllm", f'engine="0",model_name="{MODEL}"'
        gauges: dict[str, float] = {"num_requests_running": running, "num_requests_waiting": 0}
        gauges |= {"kv_cache_usage_perc": 0.25}
        counters = {"prompt_tokens": asked, "generation_tokens": tokens}
        counters |= {"request_success": requests, **spec}
    elif pace.engine == "sglang":
        family, label = "sglang", f'model_name="{MODEL}"'
        gauges = {"num_running_reqs": running, "num_queue_reqs": 0, "token_usage": 0.25}
        gauges |= {"spec_accept_length": pace.tokens_per_step() if pace.k else 0}
        counters = {"prompt_tokens": asked, "generation_tokens": tokens, "num_requests": requests}
    else:
        family, label = "llamacpp", ""
        gauges = {"requests_processing": running, "requests_deferred": 0}
        counters = {"prompt_tokens": asked, "tokens_predicted": tokens, **spec}
    rows = [(name, "gauge", label, value) for name, value in gauges.items()]
    rows += [(f"{name}_total", "counter", label, value) for name, value in counters.items()]
    each = "spec_decode_num_accepted_tokens_per_pos_total"
    rows += [
        (each, "counter", f'{label},position="{i}"', value)
        for i, value in enumerate(accepted)
        if pace.engine == "vllm"
    ]
    lines = []
    for i, (name, kind, where, value) in enumerate(rows):
        if name not in (row[0] for row in rows[:i]):
            short = name if pace.engine == "llama-server" else name.removesuffix("_total")
            lines.append(f"# HELP {family}:{name} {family}:{short}")
            lines.append(f"# TYPE {family}:{name} {kind}")
        lines.append(f"{family}:{name}{f'{{{where}}}' if where else ''} {float(value)}")
    if pace.started:
        lines.append(f"process_start_time_seconds {pace.started}")
    return "\n".join(lines) + "\n"


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def serve(pace: Pace, port: int = 0) -> Server:
    """A server on a port of 127.0.0.1 (0: any free one), not yet started."""
    pace.accepted = [0] * len(pace.rates)
    pace.together = threading.Barrier(pace.rounds_of) if pace.rounds_of else None
    return Server(("127.0.0.1", port), type("PacedHandler", (Handler,), {"pace": pace}))


def start(pace: Pace, port: int = 0) -> tuple[Server, str]:
    """A running server and its URL; `server.shutdown()` ends it."""
    server = serve(pace, port)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--step-ms", type=float, default=20.0)
    parser.add_argument("--ttft-ms", type=float, default=60.0)
    parser.add_argument("--k", type=int, default=0)
    parser.add_argument("--rates", default="")
    parser.add_argument("--engine", default="vllm")
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--until", type=Path)
    parser.add_argument("--rounds-of", type=int, default=0)
    parser.add_argument("--api-key", default=os.environ.get("VLLM_API_KEY", ""))
    space = parser.parse_args()
    rates = tuple(float(word) for word in space.rates.split(",") if word)
    pace = Pace(space.step_ms, space.ttft_ms, space.k, rates, space.engine, after=space.after,
                until=space.until, rounds_of=space.rounds_of, key=space.api_key)  # fmt: skip
    serve(pace, space.port).serve_forever()


if __name__ == "__main__":
    main()
