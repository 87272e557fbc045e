"""The compose file of a plan: its launches are sound, each class reaches its port through nginx."""

import http.client
import http.server
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from ports import free_port

from advisor.advice.explore.mix import WorkClass, WorkMix, read_mix
from advisor.advice.explore.mix_plan import MixPlan, plan_mix
from advisor.lint.validate import validate
from advisor.render.deploy.router import Route, nginx_conf
from advisor.render.explore.plan import plan_compose
from tests.tables import fields

EXAMPLES = Path(__file__).parents[3] / "examples"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@pytest.fixture(scope="module")
def spark() -> MixPlan:
    return plan_mix(read_mix((EXAMPLES / "plan-gb10" / "mix.yaml").read_text()))


@pytest.fixture(scope="module")
def two_gpus() -> MixPlan:
    chat = fields("name=chat concurrency=16 ctx_tokens=512 workload=chat")
    docs = fields("name=docs concurrency=32 ctx_tokens=16384 workload=rag")
    server = fields("hardware=h100 gpus=2 interconnect=nvlink model=qwen3.6-27b engine=vllm")
    return plan_mix(WorkMix(**server, classes=(WorkClass(**chat), WorkClass(**docs))))


def with_layout(made: MixPlan, kind: str) -> MixPlan:
    """The plan as if a layout of this kind were chosen."""
    which = next(i for i, one in enumerate(made.layouts) if one.kind == kind and one.instances)
    return made.model_copy(update={"chosen": which})


def files_of(made: MixPlan) -> list[str]:
    """The file of each layout that can be."""
    kinds = dict.fromkeys(one.kind for one in made.layouts if one.instances)
    return [plan_compose(with_layout(made, kind)) for kind in kinds]


def test_every_launch_passes_validate_with_no_findings(spark: MixPlan, two_gpus: MixPlan) -> None:
    judged = 0
    for made in (spark, two_gpus):
        for text in files_of(made):
            report = validate(text=text, name="docker-compose.yml", hw=made.mix.hardware)
            found = [(f.code, f.message) for f in report.findings if f.severity != "info"]
            assert not found, found
            judged += len(report.launches)
    assert judged >= 5


def test_both_servers_have_ports_and_gpus_of_their_own(two_gpus: MixPlan) -> None:
    services = yaml.safe_load(plan_compose(with_layout(two_gpus, "gpus")))["services"]
    assert list(services) == ["vllm-chat", "vllm-docs", "router"]
    assert set(services.pop("router")["depends_on"]) == set(services)
    ports = {service["ports"][0] for service in services.values()}
    assert ports == {"127.0.0.1:8000:8000", "127.0.0.1:8001:8001"}
    devices = [
        service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        for service in services.values()
    ]
    assert devices == [["0"], ["1"]]


class Paced(http.server.BaseHTTPRequestHandler):
    """A server that streams its own name, a word at a time: the rest once the first was read."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        words = [self.server.name, self.path, str(asked.get("model"))]
        for word in words:
            data = f"data: {word}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
            self.server.arrived.wait(60)
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self) -> None:
        key = self.headers.get("Authorization", "no key")
        body = f"{self.server.name} {self.path} {key}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def server(name: str, arrived: threading.Event) -> http.server.ThreadingHTTPServer:
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Paced)
    made.name, made.arrived = name, arrived
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return made


def request_words(
    port: int, path: str, arrived: threading.Event, **headers: str
) -> tuple[list[str], str]:
    """The words of an answer, and what came of it before the server sent the rest."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    body = json.dumps({"model": "m"})
    arrived.clear()
    connection.request("POST", path, body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    first = answer.read1()
    arrived.set()
    text = (first + answer.read()).decode()
    connection.close()
    return [line.removeprefix("data: ") for line in text.splitlines() if line], first.decode()


needs_nginx = pytest.mark.skipif(NGINX is None, reason="no nginx; .ci/deploy-tools installs it")


def place_files(conf: str, folder_at: Path) -> Path:
    """The configuration with its own files in a folder that the test may write."""
    head = f'pid "{folder_at}/nginx.pid";\nerror_log "{folder_at}/error.log";\ndaemon off;\n'
    if "\nuser " not in conf:
        body = f'client_body_temp_path "{folder_at}/body";'
        conf = conf.replace("http {", f"http {{\n    {body}", 1)
    path = folder_at / "nginx.conf"
    path.write_text(head + conf)
    return path


@needs_nginx
def test_nginx_accepts_every_router(spark: MixPlan, two_gpus: MixPlan, tmp_path: Path) -> None:
    files = {text for made in (spark, two_gpus) for text in files_of(made)}
    for conf in {yaml.safe_load(text)["configs"]["router"]["content"] for text in files}:
        path = place_files(conf.replace("$$", "$"), tmp_path)  # as compose hands it on
        done = subprocess.run(
            [str(NGINX), "-t", "-c", str(path)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    broken = place_files(nginx_conf([Route("a", ("a",), "127.0.0.1", 1)]) + "}", tmp_path)
    done = subprocess.run(
        [str(NGINX), "-t", "-c", str(broken)], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0  # it judges


@needs_nginx
def test_each_class_reaches_its_port_and_answers_stream(tmp_path: Path) -> None:
    arrived = threading.Event()
    chat, documents = server("chat", arrived), server("documents", arrived)
    port = free_port()
    routes = [
        Route("chat", ("chat", "voice"), "127.0.0.1", chat.server_address[1]),
        Route("documents", ("documents",), "127.0.0.1", documents.server_address[1]),
    ]
    conf = place_files(nginx_conf(routes, f"127.0.0.1:{port}"), tmp_path)
    router = subprocess.Popen([str(NGINX), "-c", str(conf)], stderr=subprocess.PIPE)
    try:
        for _ in range(2400):  # two minutes
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert router.poll() is None, router.communicate()[1]
            time.sleep(0.05)
        place = "/v1/chat/completions"
        for prefix, headers, name in (
            ("/chat", {}, "chat"),
            ("/voice", {}, "chat"),
            ("/documents", {}, "documents"),
            ("", {"X-Class": "documents"}, "documents"),
            ("", {"X-Class": "voice"}, "chat"),
            ("", {}, "chat"),
            ("", {"X-Class": "unknown"}, "chat"),
        ):
            words, first = request_words(port, prefix + place, arrived, **headers)
            assert words == [name, place, "m"], (prefix, headers)
            assert first.strip() == f"data: {name}"  # it came before the next one was sent
        for path, expected in (
            ("/healthz", "ok\n"),
            ("/chat/metrics", "chat /metrics Bearer k"),
            ("/documents/metrics", "documents /metrics Bearer k"),
            ("/documents/health", "documents /health Bearer k"),
        ):
            headers = {"Authorization": "Bearer k"}  # one key for all of them goes through
            asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
            with urllib.request.urlopen(asked, timeout=60) as answer:
                assert answer.read().decode() == expected
    finally:
        router.terminate()
        router.wait(60)
        chat.shutdown()
        documents.shutdown()
