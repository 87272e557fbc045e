"""No request opens a file: each field of each address and of each tool is given the path of a file
that is there and of one that is not, and nothing tells them apart.

The addresses and fields are read from the application and the tools, so that a new one is tried.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.serve.client import client
from fastapi.routing import APIRoute
from mcp import Client
from starlette.testclient import TestClient

from advisor.cli.serve import api, pages
from advisor.cli.serve.launch import LaunchQuestion
from advisor.cli.serve.mcp_server import server
from advisor.cli.serve.question import fields_of
from advisor.cli.serve.sheets import pages as sheets
from advisor.cli.serve.sheets.questions import Doubt, MixForm, PastedText, Sides
from advisor.cli.serve.sheets.uploads import RunOptions
from tests.tables import fields, spread

MODEL = fields(
    "model_type=qwen3 hidden_size=4096 num_hidden_layers=36 num_attention_heads=32 "
    "num_key_value_heads=8 head_dim=128 intermediate_size=12288 vocab_size=151936"
)
FILES = Path(__file__).resolve().parents[2] / "readers" / "results" / "files"
ARMS = {arm: (FILES / f"vllm-serve-{arm}.json").read_text() for arm in ("off", "on")}
SERVE = {"text": "vllm serve Qwen/Qwen3-8B --swap-space 2\n"}
# What a request needs beside the field that is tried, by the word of its address or tool: `hw`
# where none stands here.
GOOD: dict[str, dict[str, Any]] = {
    "compare": {"names": "gb10,h100"},
    "why_not": {"hw": "h100", "what": "k=2"},
    "sweep": {"hw": "h100", "vary": "concurrency=1,2"},
    "mix": {"hw": "h100", "name_1": "a", "concurrency_1": "2"},
    "plan": {"hw": "h100", "classes": [{"name": "a", "concurrency": 2}]},
    "check": SERVE,
    "validate": SERVE,
    "ab": ARMS,
    "calibrate": ARMS | {"machine": "desk", "hw": "gb10", "model": "qwen3.6-35b-a3b"},
    "results": {"off": ARMS["off"]},
    "known": {},
    "rules": {},
    "list_names": {"kind": "hardware"},
    "explain": {"code": "SD201"},
}
# How a path stands in a field: alone, as the value of an axis or of an option, in a text.
SHAPES = ("{}", "model={}", "{},qwen3.6-27b", "model={},qwen3.6-27b",
          "vllm serve {0} --config {0} --chat-template {0}",
          "hardware: {0}\nmodel: {0}\nmachine: {0}\nclasses:\n  - {{name: a, concurrency: 2}}\n"
          "  - {{name: b, concurrency: 4}}\n",
          "services:\n  a:\n    image: vllm/vllm-openai:v0.25.1\n    env_file: {0}\n"
          "    command: --model {0}\n")  # fmt: skip
TEXTS = ("text", "mix", "off", "vary", "names", "what")  # fields that hold names within
NAMES = (*TEXTS, "hw", "model", "quant", "engine", "machine", "name")
LETTERS = str.maketrans("xX", "yY")
WATCHED: list[str] = []
_opened: list[str] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir") and WATCHED:
        name = os.path.realpath(os.fsdecode(args[0])) if isinstance(args[0], str | bytes) else ""
        if any(name.startswith(folder) for folder in WATCHED):
            _opened.append(name)


sys.addaudithook(_hook)


@pytest.fixture
def there(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[tuple[str, str]]]:
    """(path of a file that is there, one as long that is not) in each way to write a path."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("own")))  # no machine yet
    pairs = []
    for folder in ("d", "d:d"):
        for name in ("xx", "yy"):
            (tmp_path / folder / name).mkdir(parents=True)
        place = tmp_path / folder / "xx"
        (place / "config.json").write_text(json.dumps(MODEL))
        (place / "m.gguf").write_bytes(b"no GGUF")
        (place / "box.yaml").write_text("id: box\nname: box\n")
    for folder, start, file in (
        ("d", f"{tmp_path}/", "config.json"),
        ("d:d", f"{tmp_path}/", "config.json"),
        ("d:d", f"{tmp_path}/", "m.gguf"),
        ("d", "./", ""),
        ("d", "~/", "box.yaml"),
    ):
        pairs.append((f"{start}{folder}/xx/{file}", f"{start}{folder}/yy/{file}"))
    (tmp_path / "a-folder-of-xx").mkdir()
    (tmp_path / "a-folder-of-xx" / "config.json").write_text(json.dumps(MODEL))
    pairs.append(("a-folder-of-xx", "a-folder-of-yy"))
    monkeypatch.chdir(tmp_path)
    WATCHED.append(os.path.realpath(tmp_path))
    yield pairs
    WATCHED.clear()
    _opened.clear()


def fields_at(route: APIRoute) -> list[str]:
    """Those that an address takes, by its signature; a page without one reads the sheets'."""
    told = {
        name
        for kind in (LaunchQuestion, Sides, Doubt, MixForm, PastedText, RunOptions)
        for name in fields_of(kind)
    } | {"form", "machine", "off", "on", "launch"}
    flat = route.dependant
    own = {
        field.field_info.annotation
        for field in (*flat.query_params, *flat.body_params)
        if hasattr(field.field_info.annotation, "model_fields")
    }
    if not own:
        return sorted(told)
    return sorted(name for kind in own for name in fields_of(kind))


ROUTES = [
    route
    for router in (api.router, pages.router, sheets.router)
    for route in router.routes
    if isinstance(route, APIRoute)
]


def send(page: TestClient, route: APIRoute, more: dict[str, str]) -> tuple[int, str]:
    """A good request with other fields, in path, address or body, as the route takes them."""
    parts = {"form": "flags", "code": "SD201", "kind": "hardware"} | more
    address = re.sub(r"\{(\w+)\}", lambda m: parts[m[1]].replace("/", "%2F"), route.path)
    word = re.findall(r"/([\w-]*)(?:/\{|$)", route.path)[0].replace("-", "_")
    values = {
        name: value
        for name, value in (GOOD.get(word, {"hw": "h100"}) | more).items()
        if name not in route.param_convertors
    }
    sent = {name: values.pop(name) for name in ("off", "on", "launch", "files") if name in values}
    if "GET" in (route.methods or ()):
        got = page.get(address, params=values | sent)
    elif route.dependant.body_params:
        got = page.post(address, json=values | sent)
    else:
        one_field = "files" if route.path == "/api/results" else None
        files = [(one_field or name, (more.get(name, name), ARMS.get(name, "{}"))) for name in sent]
        got = page.post(address, data=values, files=files or None)
    return got.status_code, got.text


def alike(real: tuple[Any, str], fake: tuple[Any, str]) -> bool:
    """Whether two answers differ in nothing but the letter that the two paths differ in, and in
    which known name is spelt a little like it.
    """
    one, other = (
        re.sub(r"; did you mean [^?]*\?", "", text).translate(LETTERS) for _, text in (real, fake)
    )
    return real[0] == fake[0] and one == other


def texts_for(
    field: str, pairs: list[tuple[str, str]], part: int, turn: int
) -> list[tuple[str, str]]:
    """A sixth of a field's texts, another at the next address: (path is there, is not)."""
    shaped = [
        (shape.format(real), shape.format(fake))
        for i, shape in enumerate(SHAPES[1:] if field in TEXTS else ())
        for real, fake in [pairs[1 if i % 2 else -1]]
    ]
    texts = [*pairs, *shaped] if field in NAMES else pairs[-1:]
    return texts[(part + turn) % 6 :: 6]


@pytest.mark.parametrize("part", spread(range(6), 6))
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{min(route.methods)} {route.path}")
def test_no_field_opens_a_file(route: APIRoute, part: int, there: list[tuple[str, str]]) -> None:
    with client() as page:
        status, said = send(page, route, {})
        assert status == 200, said
        for field in (*fields_at(route), *route.param_convertors):
            for real, fake in texts_for(field, there, part, ROUTES.index(route)):
                seen = [send(page, route, {field: text}) for text in (real, fake)]
                assert not _opened, (field, real, _opened)
                assert alike(*seen) and seen[0][0] < 500, (field, real, seen)


@pytest.mark.parametrize("part", spread(range(6), 6))
def test_no_argument_of_a_tool_opens_a_file(part: int, there: list[tuple[str, str]]) -> None:
    async def go() -> None:
        async with Client(server()) as one:
            for number, tool in enumerate((await one.list_tools()).tools):
                good = GOOD.get(tool.name, {"hw": "h100"})
                assert not (got := await one.call_tool(tool.name, good)).is_error, got.content
                for field in tool.input_schema["properties"]:
                    many = tool.input_schema["properties"][field].get("type") == "array"
                    for pair in texts_for(field, there, part, number):
                        told = []
                        for text in pair:
                            value: Any = [text] if many else text
                            got = await one.call_tool(tool.name, good | {field: value})
                            told.append((got.is_error, got.content[0].text))
                        assert not _opened, (tool.name, field, pair, _opened)
                        assert alike(*told), (tool.name, field, told)

    asyncio.run(asyncio.wait_for(go(), 600))


def test_every_address_of_the_application_is_tried() -> None:
    with client() as page:
        described = page.get("/api/openapi.json").json()["paths"]
    assert set(described) <= {route.path for route in ROUTES}
