"""What the API says of a bad request: the field by its own name, `error` alone, a page for people;
and that what is known does not wait for what is computed.
"""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cli.serve.browser import serve
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from advisor.cli.base import version
from advisor.cli.serve import answers, api
from advisor.cli.serve.question import question_from

ASKED = ("/api/recommend", "/api/launch/compose", "/api/compare", "/api/why-not", "/api/sweep")
MANY = [",".join(str(512 * n) for n in range(1, last)) for last in (21, 22)]
MORE = {"/api/compare": "&names=gb10,h100", "/api/why-not": "&what=off",
        "/api/sweep": "&vary=k=1,2"}  # fmt: skip


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("concurrency=abc", "concurrency: 'abc' is not a whole number from 1 to 100,000"),
        ("ctx=64.5", "ctx: '64.5' is not a whole number from 1 to 10,000,000"),
        ("conc=4", "there is no field 'conc'; did you mean 'concurrency'?"),
        ("goal=fast", "goal: 'fast' is none of 'throughput', 'tpot', 'ttft' or 'balanced'"),
        ("hw=h100", "hw is given twice: give it once"),
    ],
)
def test_a_bad_field_has_its_own_name(page: TestClient, path: str, query: str, said: str) -> None:
    got = page.get(f"{path}?hw=gb10&{query}{MORE.get(path, '')}")
    assert (got.status_code, got.json()) == (400, {"error": said})


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/api/validate", {"txt": "x"}, "there is no field 'txt'; did you mean 'text'?"),
        ("/api/validate", {"text": ""}, "the field 'text' is missing"),
        ("/api/validate", {"text": "x", "txt": "y"}, "there is no field 'txt'; did you mean"),
        ("/api/plan", {}, "the field 'hw' is missing"),
        ("/api/plan", {"hw": "gb10", "classes": []}, "classes: give at least 1, not 0"),
        ("/api/plan", {"hw": "gb10", "classes": [{}] * 99}, "classes: give at most 6, not 99"),
        ("/api/validate", {"text": "vllm x", "gpus": "0"}, "gpus: '0' is not a whole number"),
        ("/api/validate", {"text": "a" * 500_001}, "text: 'aaaaaaaaaaaaaaaaaaaaaaa ... aaaaaaaaaaaa"
         "': string should have at most 500000 characters"),
    ],
)  # fmt: skip
def test_so_has_one_of_a_body(page: TestClient, path: str, body: Any, said: str) -> None:
    got = page.post(path, json=body)
    assert got.status_code == 400 and got.json()["error"].startswith(said)


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("recommend?hw=hal9000", 404, "unknown hardware 'hal9000'"),
        ("sweep?hw=gb10&vary=k=1,2&model=nobody-1b", 404, "unknown model 'nobody-1b'"),
        ("launch/compose?hw=gb10&engine=vllm@0.1.99", 404, "unknown engine version"),
        ("compare?names=gb10,gb99x", 404, "'gb99x' is not a known hardware"),
        ("explain/SD999", 404, "unknown rule 'SD999'"),
        ("launch/paper?hw=gb10", 400, "form: 'paper' is none of 'json', 'flags'"),
        ("compare?names=gb10,%20", 400, "names: give at least 2, not 1"),
        ("compare?names=a,b,c,d", 400, "names: give at most 3, not 4"),
        (f"sweep?hw=gb10{'&vary=k=1' * 7}", 400, "vary: give at most 6, not 7"),
        (f"sweep?hw=gb10&vary=concurrency={MANY[0]}&vary=ctx={MANY[1]}", 409,
         "420 loads are more than the 400 of one request"),
        (f"recommend?hw={'a' * 201}", 400, "hw: 'aaaaaaaaaaaaaaaaaaaaaaa ... aaaaaaaaaaaa': string "
         "should have at most 200 characters"),
        (f"recommend?hw={'a' * 200}", 404, "unknown hardware"),
        ("sweep?hw=gb10", 400, "the field 'vary' is missing"),
        ("why-not?hw=gb10&what=%3F", 400, "what: '?' does not fit: on, off"),
        ("recommend?hw=gb10&gpus=2&tp=4", 409, "tp 4 needs at least as many GPUs: gpus is 2"),
        ("recommend?concurrency=2", 409, "which hardware?"),
        # as long as the description allows
        (f"recommend?hw=gb10&price={'9' * 198}.5", 409, "price: '999"),
    ],
)  # fmt: skip
def test_a_status_says_where_to_look(page: TestClient, path: str, status: int, said: str) -> None:
    got = page.get(f"/api/{path}")
    assert got.status_code == status and got.json()["error"].startswith(said)


def test_a_list_is_given_in_both_ways(page: TestClient) -> None:  # OpenAPI repeats the name
    path = "/api/recommend?hw=gb10&acceptance=0.8"
    assert page.get(f"{path},0.6").json() == page.get(f"{path}&acceptance=0.6").json()
    assert page.get(f"{path},0.6").json() != page.get(path).json()


def test_blank_lines_before_a_launch_are_lines_and_json_has_whole_floats(page: TestClient) -> None:
    asked = {"text": "\n\nvllm serve Qwen/Qwen3-8B --no-such-option", "ctx": 2048.0}
    assert page.post("/api/validate", json=asked).json()["findings"][0]["line"] == 3


@pytest.mark.parametrize("body", ["", "{", "[1]", "null", "\udcff"])
def test_a_body_that_is_none_is_not_quoted(page: TestClient, body: str) -> None:
    for path in ("/api/validate", "/api/plan"):
        got = page.post(path, content=body.encode("utf-8", "surrogateescape"))
        assert got.status_code == 400 and "the body is no JSON object" in got.json()["error"]


@pytest.mark.parametrize("path", ["/api/nothing", "/api/recommend/x", "/api/validate"])
def test_an_address_that_is_none_says_error(page: TestClient, path: str) -> None:
    got = page.get(path)
    assert got.status_code in (404, 405) and list(got.json()) == ["error"]
    assert ("allow" in got.headers) == (got.status_code == 405)  # RFC 9110, 15.5.6


@pytest.mark.parametrize("path", ["/nothing", "/part/nothing", "/static/none.js"])
def test_or_is_a_page(page: TestClient, path: str) -> None:
    got = page.get(path)
    assert got.status_code == 404 and "<h1>" in got.text and "detail" not in got.text


def test_openapi_promises_what_is_sent(page: TestClient) -> None:
    described = page.get("/api/openapi.json").json()["paths"]
    assert set(described) == {x.path for x in api.router.routes if isinstance(x, APIRoute)}
    answers_of = {" ".join(x["responses"]) for path in described.values() for x in path.values()}
    assert answers_of == {"200 400 404 409 4XX 503"}


FILES = Path(__file__).resolve().parents[2] / "readers" / "results" / "files"
ANSWERED: dict[str, Any] = {
    **{path: f"hw=gb10{MORE.get(path, '')}" for path in ASKED[2:]},
    "/api/recommend": "hw=h100&k=2&port=9001&key=on&price=2&watts=700",
    "/api/plan": {"hw": "gb10", "classes": [{"name": "chat", "concurrency": 2}]},
    "/api/validate": {"text": "vllm serve Qwen/Qwen3-8B"},
    **{f"/api/{name}": name for name in ("results", "ab")},
}


@pytest.mark.parametrize("path", ANSWERED)
def test_an_answer_is_as_openapi_describes_it(page: TestClient, path: str) -> None:
    told, asked = page.get("/api/openapi.json").json(), ANSWERED[path]
    how = "get" if "=" in asked else "post"
    if isinstance(asked, dict):
        got = page.post(path, json=asked)
    elif how == "get":
        got = page.get(f"{path}?{asked}")
    else:
        arms = {arm: (FILES / f"vllm-serve-{arm}.json").read_bytes() for arm in ("off", "on")}
        names = (
            {"off": "files", "on": "files"} if asked == "results" else {"off": "off", "on": "on"}
        )
        got = page.post(path, files=[(names[arm], (f"{arm}.json", x)) for arm, x in arms.items()])
    schema = told["paths"][path][how]["responses"]["200"]["content"]["application/json"]["schema"]
    Draft202012Validator(schema).validate(got.json())
    kinds = schema.get("anyOf", [schema])
    assert set(got.json()) <= set(kinds[0]["properties"])
    assert path != "/api/recommend" or (len(kinds) == 2 and "kwh_per_million" in got.json())
    about = [told["info"][name] for name in ("title", "version", "description")]
    assert about[:2] == ["advisor", version()] and about[2].startswith("The command line's JSON")


def test_openapi_says_what_is_needed(page: TestClient) -> None:
    """What each method refuses for lack of it is needed by its description too."""
    described = page.get("/api/openapi.json").json()
    bodies = {
        path: next(iter(one["post"]["requestBody"]["content"].values()))["schema"]
        for path, one in described["paths"].items()
        if "post" in one
    }
    assert bodies["/api/ab"]["required"] == ["off", "on"]
    assert bodies["/api/results"]["required"] == ["files"]
    schema = described["components"]["schemas"][bodies["/api/validate"]["$ref"].rpartition("/")[2]]
    assert schema["required"] == ["text"] and schema["properties"]["text"]["pattern"] == r"\S"


def test_what_is_known_does_not_wait_and_only_so_many_do(page: TestClient) -> None:
    """Assets, rules and known answers come meanwhile; the 41st question does not wait."""
    known = "/api/recommend?hw=gb10&concurrency=2"
    assert page.get(known).status_code == 200
    unknown = question_from({"hw": "gb10", "concurrency": "77", "ctx": "12321"})
    with ThreadPoolExecutor(answers.MOST_WAITING) as others, answers.turn():
        for path in (known, "/static/page.css", "/rules/SD201"):
            start = time.monotonic()
            assert page.get(path).status_code == 200
            assert time.monotonic() - start < 5  # a lock would hold it for good
        for _ in range(answers.MOST_WAITING - 1):
            others.submit(answers.advice, unknown)
        for _ in range(6000 * bool(answers._places._value)):  # a minute, if they do not come
            time.sleep(0.01 * bool(answers._places._value))
        for path in ("/api/recommend?hw=gb10&concurrency=79", "/?hw=gb10&concurrency=79"):
            got = page.get(path)
            assert got.status_code == 503 and int(got.headers["retry-after"]) > 0
            assert "ask again" in got.text
    assert page.get("/api/recommend?hw=gb10&concurrency=79").status_code == 200


@pytest.mark.slow  # a server of its own, and its patience
def test_a_connection_that_says_nothing_ends() -> None:
    with serve() as address:
        port = int(address.rpartition(":")[2])
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        held[1].sendall(b"GET / HTTP/1.1\r\nHost: 127")
        held[2].sendall(b"GET /static/icon.svg HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert held[2].recv(65536).startswith(b"HTTP/1.1 200")
        held[2].sendall(b"GET / HTTP/1.1\r\n")
        for one in held:
            one.settimeout(60)
            while one.recv(65536):
                pass
            one.close()
