"""Servers that ask for a key, send on, drip, or answer without end: each is one sentence, in time.

The right values are what the client of a named server owes its user: the key at that server alone,
and an end.
"""

import json
import os
import re
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from cli_run import Result, run
from ports import free_port
from readers.results.paced_server import Pace, start

from advisor.readers import exchange
from advisor.readers import server as client
from advisor.readers.exchange import BadAnswer, Refused, ServerGone

ROOT = Path(__file__).parents[2]
KEY = "sk-" + "Zq7" * 9
MODELS = b'{"object": "list", "data": [{"id": "m", "owned_by": "vllm"}]}'


class Handler(BaseHTTPRequestHandler):
    """Answers as `answer` says, and notes what came."""

    answer: Callable[["Handler"], None]
    seen: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("Authorization")))
        try:
            self.answer()
        except OSError:  # the client has gone
            self.close_connection = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.do_GET()

    def log_message(self, *args: object) -> None:
        pass

    def send(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serve(
    answer: Callable[["Handler"], None], secure: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A server's address, and the (path, Authorization) of each request that it got."""
    seen: list[tuple[str, str | None]] = []
    kind = type("H", (Handler,), {"answer": answer, "seen": seen})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    server.daemon_threads = True
    if secure is not None:
        server.socket = secure.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http{'s' if secure else ''}://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def with_key(handler: Handler) -> None:
    """What vLLM does: 401 below /v1 without the key."""
    if handler.headers.get("Authorization") != f"Bearer {KEY}":
        return handler.send(401, b'{"error":"Unauthorized"}')
    texts = {"/v1/models": MODELS, "/metrics": b"vllm:generation_tokens_total 5\n"}
    if handler.path in texts:
        return handler.send(200, texts[handler.path])
    return handler.send(404)


def watch(url: str, *more: str) -> Result:
    return run("watch", "--url", url, "--seconds", "0.2", *more)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VLLM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("way", ["--api-key", "VLLM_API_KEY", "OPENAI_API_KEY"])
def test_a_key_reaches_its_server_and_no_output(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    more = ("--api-key", KEY) if way == "--api-key" else ()
    if not more:
        monkeypatch.setenv(way, KEY)
    with serve(with_key) as (url, seen):
        made = watch(url, *more)
    assert made.code == 0, made.err
    assert {key for _, key in seen} == {f"Bearer {KEY}"} and KEY not in made.out + made.err


@pytest.mark.parametrize("header", [f"X-Api-Key: {KEY}", f"Authorization: Basic {KEY}"])
def test_a_header_of_a_gateway_is_sent_instead_of_a_key(header: str) -> None:
    name, _, value = header.partition(": ")

    def behind_a_gateway(handler: Handler) -> None:
        if handler.headers.get(name) != value:
            return handler.send(403)
        text = MODELS if handler.path == "/v1/models" else b"vllm:generation_tokens_total 5\n"
        return handler.send(200, text)

    with serve(behind_a_gateway) as (url, _):
        made = watch(url, "--header", header)
        refused = watch(url, "--api-key", KEY)
    assert made.code == 0, made.err
    assert refused.code == 2 and "--header" in refused.err
    assert KEY not in made.out + made.err + refused.err


@pytest.mark.parametrize(
    ("option", "secret"),
    [("--header", "geheim"), ("--header", "a b: c"), ("--header", "x: y\r\nz"),
     ("--api-key", "geheim\r\nHost: x")],
)  # fmt: skip
def test_what_no_header_can_hold_is_refused_without_being_shown(option: str, secret: str) -> None:
    made = watch("http://127.0.0.1:9", option, secret)
    assert made.code == 2 and option in made.err
    assert secret not in made.err and "geheim" not in made.err


def test_a_private_ca_is_named_by_the_environment(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    words += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(
        [*words, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with serve(with_key, context) as (url, _):
        refused = watch(url, "--api-key", KEY)
        code = "from advisor.cli.app import main; main()"
        words = [sys.executable, "-c", code, "watch", "--url", url, "--seconds", "0.2"]
        done = subprocess.run(
            [*words, "--api-key", KEY], check=False, capture_output=True, text=True,
            env=os.environ | {"SSL_CERT_FILE": str(cert), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    assert refused.code == 2 and "SSL_CERT_FILE=" in refused.err
    assert done.returncode == 0, done.stderr


def test_a_server_that_asks_for_a_key_names_the_way_out() -> None:
    with serve(with_key) as (url, _):
        made = watch(url)
        assert made.code == 2 and "401" in made.err
        assert "VLLM_API_KEY" in made.err and "--api-key" in made.err
        wrong = watch(url, "--api-key", "wrong-one-123")
        assert wrong.code == 2 and "--api-key" in wrong.err and "wrong-one-123" not in wrong.err


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308, 399])
@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/v1/chat/completions"])
def test_no_redirect_is_followed(status: int, path: str) -> None:
    """Neither with a key nor without one: the second server sees nothing. A 400 is none."""
    exchange._check_status("http://a", 400, None)

    def send_on(handler: Handler) -> None:
        if handler.path == path:
            return handler.send(status, Location=f"{other}{path}")
        return with_key(handler)

    with (
        serve(with_key) as (other, elsewhere),
        serve(send_on) as (url, _),
        pytest.raises(Refused, match="sends on to another address"),
    ):
        if "chat" in path:
            client.stream(url, {"max_tokens": 4}, 5, key=KEY)
        else:
            client.describe(url, KEY)
            client.counters(url, KEY)
    assert not elsewhere


def test_a_whole_answer_has_one_limit_of_time() -> None:
    """A byte every 50 ms, each read short: in headers, a body of stated length, and chunks."""

    def drip(handler: Handler) -> None:
        if handler.path == "/body":
            handler.send(200, b"", Content_Length="100000")
        elif handler.path == "/chunks":
            handler.send(200, b"", Transfer_Encoding="chunked", Content_Length="")
        else:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(600):
            handler.wfile.write(b"1\r\nx\r\n" if handler.path == "/chunks" else b"x")
            time.sleep(0.05)

    for path in ("/body", "/chunks", "/headers"):
        with serve(drip) as (url, _):
            begin = time.monotonic()
            with pytest.raises(ServerGone, match=r"no whole answer in 0\.5 s"):
                client.get(url, path, timeout_s=0.5)
            assert time.monotonic() - begin < 10


@pytest.mark.parametrize("extra", [0, 1])
def test_an_answer_is_taken_whole_or_refused(extra: int) -> None:
    size = client.MAX_ANSWER + extra
    with serve(lambda handler: handler.send(200, b" " * size)) as (url, _):
        if not extra:
            assert len(client.get(url, "/metrics", 60)) == size
        else:
            with pytest.raises(Refused, match="more than 16 MiB"):
                client.counters(url)


def test_an_answer_that_ends_early_is_none() -> None:
    def half(handler: Handler) -> None:
        handler.send(200, b"vllm:generation_tokens_total 5\n", Content_Length="900")
        handler.close_connection = True

    with serve(half) as (url, _), pytest.raises(BadAnswer, match="broke off"):
        client.get(url, "/metrics")


def endless(event: bytes, pause: float = 0.0) -> Callable[["Handler"], None]:
    """A stream that says the same for ever."""

    def answer(handler: Handler) -> None:
        handler.send(200, b"", Content_Type="text/event-stream", Content_Length=str(10**9))
        for _ in range(100_000):
            handler.wfile.write(event)
            if pause:
                time.sleep(pause)

    return answer


TOKEN = b"data: " + json.dumps({"choices": [{"delta": {"content": "x"}}]}).encode() + b"\n\n"


@pytest.mark.parametrize("event", [b": ping\n\n", b"x", b'data: {"choices": []}\n\n'])
def test_what_is_no_token_does_not_keep_a_stream_open(event: bytes) -> None:
    begin = time.monotonic()
    with (
        serve(endless(event, 0.02)) as (url, _),
        pytest.raises(BadAnswer, match=r"sent nothing for 0\.3 s"),
    ):
        client.stream(url, {"max_tokens": 16}, 0.3)
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://h:99999", "http://h:x", "http://h:0", "http://a..b:1"]
)
def test_an_impossible_address_is_one_sentence(url: str) -> None:
    made = watch(url)
    assert made.code == 2 and made.err.startswith("Error: ") and made.err.count("\n") == 1


@pytest.mark.parametrize("way", ["environment", "launch"])
@pytest.mark.slow  # starts two servers
def test_a_server_that_a_plan_starts_is_asked_with_its_own_key(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "environment":
        monkeypatch.setenv("VLLM_API_KEY", KEY)
    port = free_port()
    command = [sys.executable, "-m", "tests.readers.results.paced_server", "--port", str(port)]
    command += ["--step-ms", "2", "--ttft-ms", "2"]
    command += ["--api-key", KEY] if way == "launch" else []
    plan = {"hardware": "gb10", "model": "qwen3.6-35b-a3b", "engine": "vllm",
            "url": f"http://127.0.0.1:{port}", "concurrency": 1, "input_tokens": 8,
            "output_tokens": 8, "requests": 2, "warmup": 1, "seeds": [1],
            "arms": [{"name": "off", "argv": command}]}  # fmt: skip
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    made = run("bench", "run", str(tmp_path))
    assert made.code == 0, made.err
    assert (tmp_path / "off-seed1.jsonl").read_text().count('"i"') == 2
    assert KEY not in (tmp_path / "off-seed1.jsonl").read_text() + made.out + made.err


def test_a_running_server_is_measured_with_a_key(tmp_path: Path) -> None:
    server, url = start(Pace(step_ms=2, ttft_ms=2, key=KEY))
    words = ["bench", "run", str(tmp_path), "--url", url, "--arm", "off", "--requests", "2"]
    words += ["--seeds", "1", "--concurrency", "1", "--output-tokens", "8", "--ctx", "8"]
    try:
        refused, made = run(*words), run(*words, "--api-key", KEY)
    finally:
        server.shutdown()
        server.server_close()
    assert refused.code == 2 and "--api-key" in refused.err
    assert made.code == 0, made.err
    assert not any(KEY in path.read_text() for path in tmp_path.iterdir())


@contextmanager
def replicas() -> Iterator[tuple[str, str, str]]:
    """A router and the two servers behind it, /metrics of which it shows in turn."""
    paces = [Pace(k=1, rates=(0.5,), started=1764388800.0 + later) for later in (0, 60)]
    servers = [start(pace) for pace in paces]
    servers.append(start(Pace(behind=[url for _, url in servers])))
    stop = threading.Event()

    def traffic() -> None:
        while not stop.wait(0.02):
            for number, pace in enumerate(paces, 1):
                with pace.lock:
                    pace.tokens, pace.drafts = pace.tokens + 10 * number, pace.drafts + 4
                    pace.accepted[0] += number

    thread = threading.Thread(target=traffic)
    thread.start()
    try:
        first, second, router = (url for _, url in servers)
        yield router, first, second
    finally:
        stop.set()
        thread.join()
        for server, _ in servers:
            server.shutdown()
            server.server_close()


def test_two_replicas_behind_a_router_are_named_and_summed() -> None:
    with replicas() as (router, first, second):
        mixed = watch(router)
        assert mixed.code == 2 and "different replicas" in mixed.err
        assert "started 2025-11-29 04:00:00 UTC" in mixed.err  # of 1764388800 (date -u -d @...)
        one = watch(router, "--metrics", first)
        assert one.code == 0 and "counters of: started 2025-11-29 04:00:00 UTC" in one.out
        assert re.search(r"\b2[45]%", one.out), one.out
        both = watch(router, "--metrics", f"{first}/metrics", "--metrics", second)
        # 4 drafts each, 1 and 2 accepted: 3 of 8
        assert both.code == 0 and re.search(r"3[78]%", both.out), both.out


def test_a_stream_brings_twice_as_many_pieces_as_tokens_at_most() -> None:
    def pieces(count: int) -> Callable[["Handler"], None]:
        event = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
        return lambda handler: handler.send(200, event * count + b"data: [DONE]\n\n")

    with serve(pieces(4)) as (url, _):
        assert client.stream(url, {"max_tokens": 2}, 5.0).chunks == 4
    with serve(pieces(5)) as (url, _), pytest.raises(BadAnswer, match="twice as many"):
        client.stream(url, {"max_tokens": 2}, 5.0)
