"""What reaches the application: own names, own origin, bounded bodies; what leaves it: nothing."""

import re
import socket
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from cli.serve.client import ADDRESS, client
from starlette.testclient import TestClient

from advisor.cli.serve.app import FORM_BYTES
from tests.tables import words

QUESTION = "/api/recommend?hw=gb10&concurrency=4"


@pytest.fixture(scope="module")
def page() -> Iterator[TestClient]:
    with client("box.lan") as made:
        yield made


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "", "192.168.1.9",
     "[::2]", "box.lan.evil.example", "evil.example@127.0.0.1", "127.0.0.1\t.evil"],
)  # fmt: skip
def test_a_name_that_is_not_ours_is_not_answered(page: TestClient, host: str) -> None:
    got = page.get(QUESTION, headers={"host": host})
    assert got.status_code == 421 and "gb10" not in got.text and list(got.json()) == ["error"]
    assert page.get(QUESTION, headers=[("host", "localhost"), ("host", host)]).status_code == 421


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8765", "localhost", "LOCALHOST:9", "[::1]:8765", "box.lan", "box.lan:80"]
)
def test_our_own_names_are_answered(page: TestClient, host: str) -> None:
    assert page.get("/api/known/engines", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1:8766",
     "https://127.0.0.1:8765", "http://localhost:8765", "http://127.0.0.1:8765.evil.example"],
)  # fmt: skip
def test_another_origin_is_refused(page: TestClient, origin: str) -> None:
    for send in (page.get, page.post):
        assert send("/api/validate", headers={"origin": origin}).status_code == 403


def test_the_own_origin_may_send(page: TestClient) -> None:
    got = page.post("/part/check", data={"text": "vllm serve x/y"}, headers={"origin": ADDRESS})
    assert got.status_code == 200


def test_a_link_from_another_site_may_be_followed_but_not_fetched(page: TestClient) -> None:
    cross = {"sec-fetch-site": "cross-site"}
    assert page.get("/?hw=gb10", headers={**cross, "sec-fetch-mode": "navigate"}).status_code == 200
    assert page.get("/?hw=gb10", headers={**cross, "sec-fetch-mode": "no-cors"}).status_code == 403
    assert page.post("/check", headers={**cross, "sec-fetch-mode": "navigate"}).status_code == 403


def test_bodies_are_bounded_whether_their_length_is_told_or_not(page: TestClient) -> None:
    large = b"x" * (FORM_BYTES + 1)
    got = page.post("/api/validate", content=large)
    assert (got.status_code, got.json()) == (413, {"error": "more than the 2 MiB that are read"})

    def pieces() -> Iterator[bytes]:
        for _ in range(FORM_BYTES // 2**16 + 2):
            yield b"y" * 2**16

    kind = {"content-type": "application/json"}
    assert page.post("/api/validate", content=pieces(), headers=kind).status_code == 413
    form = {"content-type": "multipart/form-data; boundary=x"}
    for mebibytes, status in ((48, 400), (49, 413)):
        large = (b"y" * 2**20 for _ in range(mebibytes))
        assert page.post("/api/results", content=large, headers=form).status_code == status
    for address in ("/part/check", "/check", "/part/mix"):
        assert page.post(address, content=pieces(), headers=form).status_code == 413
    for address, kind_of in (
        ("/", "text/plain; charset=utf-8"),
        ("/api/known/engines", "application/json"),
    ):
        got = page.get(f"{address}?x=" + "y" * 40_000)
        assert (got.status_code, got.headers["content-type"]) == (414, kind_of)


def test_a_form_has_a_bounded_number_of_files_and_fields(page: TestClient) -> None:
    got = page.post("/api/results", files=[("off", (f"{n}.json", b"{}")) for n in range(25)])
    assert got.status_code == 400 and "many files" in got.text.lower()


@pytest.mark.parametrize(
    "path", ["/", "/check", "/api/known/engines", "/static/page.css", "/no-such", "/?hw=x"]
)
def test_every_answer_has_a_strict_policy(page: TestClient, path: str) -> None:
    headers = page.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy and headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path",
    words(
        "/static/../app.py /static/%2e%2e/app.py /static//etc/passwd /static/..%2fapp.py "
        "/rules/../../etc/passwd /rules/%2e%2e%2f%2e%2e%2fetc%2fpasswd"
    ),
)
def test_no_file_outside_is_served(page: TestClient, path: str) -> None:
    got = page.get(path)
    assert got.status_code in (400, 404) and "root:" not in got.text and "import" not in got.text


def handlers(text: str) -> list[str]:
    """Attributes that would run a script."""
    found: list[str] = []

    class Look(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.extend(f"{tag} {name}" for name, _ in attrs if name.startswith("on"))

    Look().feed(text)
    return found


HOSTILE = """<script>alert(1)</script>"><img src=x onerror=alert(2)>{{1787*1789}}${1787*1789}'"""


@pytest.mark.parametrize(
    "path",
    words(
        "/?hw=%s /?hw=gb10&model=%s /?hw=gb10&engine=%s /?hw=gb10&form=%s /?%s=1 "
        "/?hw=gb10&goal=%s /part/answer?hw=%s /curve?hw=%s /rules/%s /check?text=%s&name=%s "
        "/results?engine_version=%s /?hw=gb10&machine=%s"
    ),
)
def test_what_comes_from_outside_is_escaped(page: TestClient, path: str) -> None:
    from urllib.parse import quote

    text = page.get(path.replace("%s", quote(HOSTILE))).text
    assert "<script>alert" not in text and "<img src=x" not in text and "3196943" not in text
    assert not handlers(text)


def test_a_hostile_text_and_hostile_files_are_escaped(page: TestClient) -> None:
    launch = f"vllm serve 'x/{HOSTILE.replace(chr(39), '')}' --draft-max 8 --no-such-{HOSTILE}"
    text = page.post("/part/check", data={"text": launch, "name": HOSTILE}).text
    assert "<script>alert" not in text and "<img src=x" not in text
    text = page.post("/part/results", files={"off": (HOSTILE, b'{"a": "<script>alert(1)"}')}).text
    assert "<script>alert" not in text and "<img src=x" not in text


def test_no_request_leaves_the_machine(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **named: Any) -> Any:
        raise AssertionError(f"a connection was tried: {args}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for path in ("/?hw=h100&concurrency=3", "/curve?hw=h100", "/rules/SD201", "/check"):
        assert page.get(path).status_code == 200
    sent = page.post("/part/check", data={"text": "docker run vllm/vllm-openai:v0.25.1 -m a"})
    assert sent.status_code == 200


def test_pages_load_nothing_from_elsewhere(page: TestClient) -> None:
    for path in ("/", "/?hw=gb10", "/check", "/results", "/rules/SD201"):
        text = page.get(path).text
        loaded = re.findall(
            r"""<(?:script|link|img|iframe|source)[^>]*(?:src|href)="([^"]+)""", text
        )
        assert loaded and all(address.startswith("/static/") for address in loaded), loaded
        assert " style=" not in text and "<style" not in text
    css = page.get("/static/page.css").text
    assert "url(" not in css and "@import" not in css


def test_openapi_is_there_and_its_page_from_elsewhere_is_not(page: TestClient) -> None:
    described = page.get("/api/openapi.json").json()
    assert {"/api/recommend", "/api/sweep", "/api/validate", "/api/ab"} <= set(described["paths"])
    assert page.get("/docs").status_code == page.get("/redoc").status_code == 404
