"""What is wanted of a launch, in the page, the API and the downloads; and what people ask beside
it: cost, energy, users within limits, which drafter.
"""

import html
import json
import re

import pytest
import yaml
from cli.serve.client import argv
from cli_run import run
from starlette.testclient import TestClient

BASE = "hw=h100&concurrency=4"


def launch(page: TestClient, query: str) -> str:
    got = page.get(f"/?{query}")
    assert got.status_code == 200, got.text
    return html.unescape(re.search(r'<pre id="launch-text"[^>]*>(.*?)</pre>', got.text, re.S)[1])


@pytest.mark.parametrize(
    ("wanted", "has", "lacks"),
    [
        ("k=1", '"num_speculative_tokens":1', '"num_speculative_tokens":3'),
        ("k=5", '"num_speculative_tokens":5', '"num_speculative_tokens":3'),
        ("speculation=off", "vllm serve", "--speculative-config"),
        ("speculation=on", '"method":"mtp"', "ngram"),
        ("parsers=off", "--speculative-config", "-parser"),
        ("parsers=off", "--speculative-config", "--enable-auto-tool-choice"),
        ("host=10.0.0.7", "--host 10.0.0.7", "127.0.0.1"),
        ("port=9123", "--port 9123", "8000"),
        ("key=on", '"${VLLM_API_KEY:?', "--api-key"),
        ("key=on&engine=sglang", '--api-key "${SGLANG_API_KEY:?', "VLLM"),
        ("key=on&engine=llama-server", '"${LLAMA_API_KEY:?', "--api-key"),
        ("engine=sglang&k=1", "--speculative-num-draft-tokens 2", "tokens 4"),
        ("engine=llama-server&k=1", "--spec-draft-n-max 1", "n-max 3"),
    ],
)
def test_a_launch_is_as_wanted_all_over(
    page: TestClient, wanted: str, has: str, lacks: str
) -> None:
    query = f"{BASE}&{wanted}"
    told = page.get(f"/api/recommend?{query}").json()
    shown = launch(page, query)
    assert argv(shown) == argv(told["launch"]["text"]) and has in shown and lacks not in shown
    engine = "".join(re.findall("&engine=.*", query))
    assert told["estimate"] == page.get(f"/api/recommend?{BASE}{engine}").json()["estimate"]


@pytest.mark.parametrize("form", ["compose", "docker-run", "k8s", "systemd", "quadlet"])
def test_a_download_is_as_set_on_the_command_line(page: TestClient, form: str) -> None:
    words = {"host": "0.0.0.0", "port": "9001", "image": "registry.local/vllm@sha256:" + "a" * 64}
    query = BASE + "".join(f"&{key}={value}" for key, value in words.items())
    sets = [part for pair in words.items() for part in ("--set", "=".join(pair))]
    ran = run("recommend", "--hw", "h100", "--concurrency", "4", "--format", form, *sets)
    assert ran.code == 0 and page.get(f"/api/launch/{form}?{query}").text == ran.out
    text = page.get(f"/?{query}&form={form}").text
    assert launch(page, f"{query}&form={form}") == ran.out
    again = html.unescape(re.findall(r'<pre id="command-text"[^>]*>(.*?)</pre>', text, re.S)[0])
    assert run(*argv(again)[1:]).out == ran.out
    (download,) = re.findall(r'<a href="(/api/launch/[^"]+)" download', text)
    assert page.get(html.unescape(download)).text == ran.out


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("k=0", "k"), ("k=many", "k"), ("k=2&speculation=off", "k"),
        ("speculation=maybe", "speculation"), ("host=a b", "host"), ("port=70000", "port"),
        ("port=80x", "port"), ("image=a;b", "image"), ("key=sesame", "key"),
        ("parsers=hermes", "parsers"), ("price=dear", "price"), ("watts=-3", "watts"),
        ("engine=sglang&key=on&form=compose", "key"),
    ],
)  # fmt: skip
def test_a_refusal_names_and_marks_its_field(page: TestClient, query: str, wrong: str) -> None:
    got = page.get(f"/?{BASE}&{query}")
    assert got.status_code == 400 and f'data-wrong="{wrong}"' in got.text
    assert re.search(rf'id="f-{wrong}"[^>]*aria-invalid="true"', got.text)
    form = re.search("form=([^&]+)", query)
    asked = f"/api/launch/{form[1]}" if form else "/api/recommend"
    told = page.get(f"{asked}?{BASE}&{query.partition('&form')[0]}")
    assert told.status_code in (400, 409) and re.match(rf"{wrong}\b", told.json()["error"])


def test_what_tokens_cost_and_draw(page: TestClient) -> None:
    """Money: price / 3600 s / (tokens a second) * 10^6; energy: watts / 3.6 MJ a kWh likewise."""
    told = page.get(f"/api/recommend?{BASE}&price=2.10&watts=700").json()
    speeds = told["estimate"]["output_tok_s"]
    for arm, speed in enumerate((speeds["baseline"], speeds["value"])):
        assert told["cost_per_million"][arm] == pytest.approx(2.10 * 1e6 / 3600 / speed)
        assert told["kwh_per_million"][arm] == pytest.approx(700 * 1e6 / 3.6e6 / speed)
    text = page.get(f"/?{BASE}&price=2.10&watts=700").text
    assert f"A million output tokens: {told['cost_per_million'][0]:.2f} without, " in text
    ran = run("recommend", "--hw", "h100", "--concurrency", "4", "--price", "2.10/h",
              "--format", "json")  # fmt: skip
    assert json.loads(ran.out)["cost_per_million"] == told["cost_per_million"]
    swept = page.get(f"/api/sweep?{BASE}&vary=concurrency=4&price=2.10&watts=700").json()
    point = swept["loads"][0]["points"][0]
    assert point["kwh_per_million"] == pytest.approx(told["kwh_per_million"][0])


def test_limits_in_one_text_are_the_limits_in_two_fields(page: TestClient) -> None:
    one = page.get(f"/api/recommend?{BASE}&within=tpot=50ms,ttft=2s").json()
    two = page.get(f"/api/recommend?{BASE}&max_tpot_ms=50&max_ttft_ms=2000").json()
    assert one == two and one["objective"]["users"] > 0
    ran = run("sweep", "--hw", "rtx3060", "--model", "qwen3-8b", "--vary", "concurrency=4",
              "--users-within", "tpot=50ms", "--format", "json")  # fmt: skip
    asked = "hw=rtx3060&model=qwen3-8b&vary=concurrency=4&users_within=tpot=50ms"
    got = page.get(f"/api/sweep?{asked}").json()
    assert got == json.loads(ran.out) and got["within"]


def test_which_drafter_is_each_method_asked_for(page: TestClient) -> None:
    query = "hw=h100&model=qwen3.6-27b"
    reasons = page.get(f"/api/why-not?{query}&what=drafter").json()["reasons"]
    for method, name in (("mtp", "MTP"), ("dflash", "DFlash"), ("ngram", "n-gram")):
        told = page.get(f"/api/recommend?{query}&method={method}").json()
        gain = f"{100 * (told['gain']['p50'] - 1):+.0f} %"
        (row,) = [row for row in reasons if row.startswith(f"{name}, k = {told['candidate']['k']}")]
        assert gain in row and row.endswith(told["decision"])
    gains = [int(row[1]) for text in reasons if (row := re.search(r": ([+-]\d+) %", text))]
    assert gains == sorted(gains, reverse=True) and len(gains) >= 3


def test_every_link_of_an_answer_is_answered(page: TestClient) -> None:
    text = page.get(f"/?{BASE}&k=2&port=9000&price=2.1").text
    links = re.findall(
        r'<a href="([^"]+)"', re.findall(r'<nav class="asks".*?</nav>', text, re.S)[0]
    )
    assert len(links) >= 7
    for link in links:
        assert page.get(html.unescape(link)).status_code == 200, link


RANGE = ("--hw", "h100", "--gpus", "4", "--model", "llama-3.3-70b", "--engine", "vllm")


@pytest.mark.parametrize(
    "load", ["concurrency=1..32", "concurrency=1-32", "concurrency_from=1&concurrency=32"]
)
def test_a_range_of_loads_is_one_launch_everywhere(page: TestClient, load: str) -> None:
    """The policy of the command line, its launch in a file and on the page."""
    asked = f"hw=h100&gpus=4&model=llama-3.3-70b&engine=vllm&{load}"
    ran = run("recommend", *RANGE, "--concurrency", "1..32", "--format", "json")
    policy = page.get(f"/api/recommend?{asked}").json()
    assert policy == json.loads(ran.out) and policy["decision"] == "on"
    written = run("compose", *RANGE, "--concurrency", "1..32").out
    assert page.get(f"/api/launch/compose?{asked}").text == written
    given = policy["launch"]["argv"]
    config = given[given.index("--speculative-config") + 1]
    assert config in [x for s in yaml.safe_load(written)["services"].values() for x in s["command"]]
    shown = page.get(f"/?{asked}").text
    assert "One launch for 1 to 32 requests" in shown and "concurrency=1..32" in shown.replace(
        "%2E", "."
    )
    refused = page.get("/api/recommend?hw=gb10&concurrency=9..3")
    assert refused.status_code == 409 and "smaller number" in refused.json()["error"]
