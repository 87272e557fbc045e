"""The folder of a plan: every file is accepted, and each class reaches its port through nginx."""

from __future__ import annotations

import http.client
import http.server
import json
import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ports import free_port

from advisor.advice.explore.layouts import MixPlan
from advisor.advice.explore.mix import WorkClass, WorkMix, read_mix
from advisor.advice.explore.mix_plan import plan_mix
from advisor.domain.nouns import AdvisorError
from advisor.lint.validate import validate
from advisor.render.deploy.front_ends import Route, nginx_conf
from advisor.render.explore.plan_folder import FORMS, folder

EXAMPLES = Path(__file__).parents[3] / "examples"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


@pytest.fixture(scope="module")
def spark() -> MixPlan:
    return plan_mix(read_mix((EXAMPLES / "plan-gb10" / "mix.yaml").read_text()))


@pytest.fixture(scope="module")
def two_gpus() -> MixPlan:
    return plan_mix(
        WorkMix(
            hardware="h100",
            gpus=2,
            interconnect="nvlink",
            model="qwen3.6-27b",
            engine="vllm",
            classes=(
                WorkClass(name="chat", concurrency=16, ctx_tokens=512, workload="chat"),
                WorkClass(name="docs", concurrency=32, ctx_tokens=16384, workload="rag"),
            ),
        )
    )


def layout(made: MixPlan, kind: str) -> int:
    return next(i for i, one in enumerate(made.layouts) if one.kind == kind and one.instances)


def files_of(made: MixPlan) -> list[tuple[str, dict[str, str]]]:
    out = []
    for form in FORMS:
        for kind in ("off", "on", "gpus"):
            try:
                out.append((f"{form}-{kind}", folder(made, form, layout(made, kind))))
            except (StopIteration, AdvisorError):
                continue
    return out


def test_every_launch_passes_validate_with_no_findings(spark: MixPlan, two_gpus: MixPlan) -> None:
    """Compose, Kubernetes and Ray files, and the bare commands at their release."""
    judged = 0
    for made in (spark, two_gpus):
        release = made.layouts[0].instances[0].plan.engine_version
        for form, files in files_of(made):
            for name, text in files.items():
                if name in ("README.md", "nginx.conf") or name.startswith("router"):
                    continue
                fixed = release if name.endswith((".sh", "serve.yaml")) else None
                hardware = made.mix.hardware
                report = validate(text=text, name=name, hw=hardware, engine_version=fixed)
                found = [(f.code, f.severity, f.message) for f in report.findings]
                assert not found, (form, name, found)
                judged += len(report.launches)
    assert judged > 20


def test_compose_has_both_servers_on_ports_and_gpus_of_their_own(two_gpus: MixPlan) -> None:
    apart = yaml.safe_load(
        folder(two_gpus, "compose", layout(two_gpus, "gpus"))["docker-compose.yml"]
    )
    services = apart["services"]
    assert list(services) == ["vllm-chat", "vllm-docs", "router"]
    assert set(services["router"]["depends_on"]) == {"vllm-chat", "vllm-docs"}
    ports = [service["ports"][0] for name, service in services.items() if name != "router"]
    assert len(set(ports)) == 2
    devices = [
        service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        for name, service in services.items()
        if name != "router"
    ]
    assert devices == [["0"], ["1"]]


def test_kubernetes_and_ray_name_what_they_hold(two_gpus: MixPlan) -> None:
    which = layout(two_gpus, "gpus")
    k8s = folder(two_gpus, "k8s", which)
    parts = list(yaml.safe_load_all(k8s["router.yaml"]))
    assert [part["kind"] for part in parts] == ["ConfigMap", "Deployment", "Service"]
    names = [
        part["metadata"]["name"]
        for name in ("deployment-chat.yaml", "deployment-docs.yaml")
        for part in yaml.safe_load_all(k8s[name])
        if part["kind"] == "Service"
    ]
    assert names == ["vllm-chat", "vllm-docs"]
    assert all(name in parts[0]["data"]["nginx.conf"] for name in names)
    ray = yaml.safe_load(folder(two_gpus, "ray", which)["serve.yaml"])
    assert [a["route_prefix"] for a in ray["applications"]] == ["/chat", "/docs"]


def test_readme_says_why_and_names_every_file(two_gpus: MixPlan) -> None:
    files = folder(two_gpus, "compose", layout(two_gpus, "gpus"))
    text = files["README.md"]
    assert all(f"`{name}`" in text for name in files if name != "README.md")
    assert "plit" in text and "/docs/v1/" in text


def test_a_layout_that_cannot_be_is_not_written() -> None:
    classes = (WorkClass(name="a", concurrency=2), WorkClass(name="b", concurrency=2))
    mix = WorkMix(hardware="h100", gpus=2, quant="bf16", model="llama-3.3-70b", classes=classes)
    full = plan_mix(mix)
    refused = next(i for i, one in enumerate(full.layouts) if one.refusal and one.kind == "gpus")
    with pytest.raises(AdvisorError, match="does not fit"):
        folder(full, "compose", refused)


def test_start_scripts_are_shell(two_gpus: MixPlan, tmp_path: Path) -> None:
    for name, text in folder(two_gpus, "compose", layout(two_gpus, "gpus")).items():
        if name.endswith(".sh"):
            (tmp_path / name).write_text(text)
            subprocess.run(["bash", "-n", str(tmp_path / name)], check=True)


# ---------------------------------------------------------------- a real nginx


class Paced(http.server.BaseHTTPRequestHandler):
    """A server that streams its own name, a word at a time: the rest once the first was read."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        asked = json.loads(self.rfile.read(length) or b"{}")
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
    seen = set()
    for made in (spark, two_gpus):
        for _, files in files_of(made):
            conf = files.get("nginx.conf")
            if conf is None or conf in seen:
                continue
            seen.add(conf)
            path = place_files(conf, tmp_path)
            done = subprocess.run(
                [str(NGINX), "-t", "-c", str(path)], capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr
    assert len(seen) >= 3
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
    path = place_files(nginx_conf(routes, f"127.0.0.1:{port}"), tmp_path)
    router = subprocess.Popen([str(NGINX), "-c", str(path)], stderr=subprocess.PIPE)
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
    finally:
        router.terminate()
        router.wait(60)
        chat.shutdown()
        documents.shutdown()
