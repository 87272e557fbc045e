"""Tools for agents, through the protocol's own client: listed, called, refused in a sentence."""

import asyncio
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cli_run import run
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from advisor.cli.base import version
from advisor.cli.serve.mcp_server import server
from advisor.render.objects import SCHEMAS, named_schema

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "tests" / "readers" / "results" / "files"
START = "import sys; from advisor.cli.app import main; main(sys.argv[1:])"
LAUNCH = "llama-server -hf x/y:Q4_K_M --draft-max 8\n"


def calls() -> dict[str, dict[str, Any]]:
    """A good call of each tool."""
    arms = {arm: (FILES / f"vllm-serve-{arm}.json").read_text() for arm in ("off", "on")}
    arms["hw"] = "gb10"
    return {
        "recommend": {"hw": "gb10", "concurrency": 16, "ctx": 2048},
        "launch": {"hw": "gb10"},
        "list_names": {"kind": "hardware", "match": "rtx"},
        "results": {"off": arms["off"]},
        "calibrate": {**arms, "machine": "desk", "model": "qwen3.6-35b-a3b"},
        "sweep": {"hw": "gb10", "vary": ["concurrency=1,4,16", "k=0..3"]},
        "compare": {"names": ["gb10", "h100"], "users_within": "tpot=50ms", "price": "2.10/h"},
        "why_not": {"what": "k=4", "hw": "gb10"},
        "plan": {
            "hw": "gb10",
            "classes": [
                {"name": "chat", "concurrency": 4, "goal": "tpot"},
                {"name": "docs", "concurrency": 4, "prompt": "8k"},
            ],
        },
        "validate": {"text": LAUNCH, "name": "start.sh"},
        "explain": {"code": "SD201"},
        "ab": arms,
    }


KEYS = {  # of what has no schema of the command line
    "launch": "form file text", "list_names": "kind rows rows_left_out", "explain": "code text",
    "calibrate": "machine added runs",
}  # fmt: skip


def with_client(target: Any, use: Callable[[Client], Awaitable[None]]) -> None:
    async def go() -> None:
        async with Client(target) as client:
            await use(client)

    asyncio.run(asyncio.wait_for(go(), 600))


def ask(tool: str, /, **arguments: Any) -> Any:
    """One call of a tool by a client in this process."""
    answers: list[Any] = []

    async def use(client: Client) -> None:
        answers.append(await client.call_tool(tool, arguments))

    with_client(server(), use)
    return answers[0]


async def use_tools(client: Client, some: tuple[str, ...] = ()) -> None:
    """List the tools, call each or some, and hold input against its schema and answers against
    what an agent can read: 25 kB of tools, 600 tokens (some 2,400 characters) of text, three
    digits.
    """
    tools = await client.list_tools()
    assert len(tools.model_dump_json(by_alias=True, exclude_none=True)) <= 25_000
    listed = {tool.name: tool for tool in tools.tools}
    wanted = calls()
    assert set(listed) == set(wanted)
    for name in some or wanted:
        tool, arguments = listed[name], wanted[name]
        assert tool.description and len(tool.description) > 40
        assert tool.annotations and tool.annotations.read_only_hint == (name != "calibrate")
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.validate(arguments, tool.input_schema)
        kinds = {
            key: one.keys() & {"type", "enum", "$ref"}
            for key, one in tool.input_schema["properties"].items()
        }
        assert all(kinds.values()), (name, kinds)
        got = await client.call_tool(name, arguments)
        assert not got.is_error, got.content
        assert len(got.content[0].text) <= 2400 or name == "launch"  # a file is whole
        if (command := name.replace("_", "-")) in SCHEMAS:
            whole = await client.call_tool(name, {**arguments, "full": True})
            jsonschema.validate(whole.structured_content, named_schema(command))
        else:
            assert set(got.structured_content) <= set(KEYS[name].split()), name
        assert all(value == float(f"{value:.3g}") for value in floats(got.structured_content))
        assert len(json.dumps(got.structured_content)) < 30_000, name


def floats(data: Any) -> Iterator[float]:
    """Every number with a point."""
    if isinstance(data, float):
        yield data
    for item in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from floats(item)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_a_client_in_this_process_lists_and_calls_every_tool() -> None:
    with_client(server(), use_tools)
    about = server()
    assert (about.name, about.title, about.version) == ("advisor", "advisor", version())
    assert all(f"`{word}`" in (about.instructions or "") for word in ("recommend", "objective"))


def test_a_client_over_standard_input_lists_and_calls_tools() -> None:
    env = {x: os.environ[x] for x in ("PATH", "XDG_CONFIG_HOME")} | {"PYTHONPATH": str(ROOT)}
    started = StdioServerParameters(command=sys.executable, args=["-c", START, "mcp"], env=env)
    with_client(stdio_client(started), partial(use_tools, some=("recommend", "launch", "ab")))


def test_the_answers_are_those_of_the_command_line() -> None:
    asked = {"hw": "gb10", "concurrency": 16}
    got = ask("recommend", **asked, full=True).structured_content
    ran = run("recommend", "--hw", "gb10", "--concurrency", "16", "--format", "json")
    assert got == json.loads(ran.out)
    short = ask("recommend", **asked, full=False).structured_content
    assert short and short["decision"] == got["decision"] and "evidence" not in short
    assert len(json.dumps(short)) < len(json.dumps(got)) / 2
    file = ask("launch", hw="gb10", form="compose").content[0].text
    assert file == run("recommend", "--hw", "gb10", "--format", "compose").out.rstrip("\n")
    got = ask("sweep", hw="gb10", vary=["concurrency=1,8"], full=True).structured_content
    ran = run("sweep", "--hw", "gb10", "--vary", "concurrency=1,8", "--format", "json")
    assert got == json.loads(ran.out)
    assert ask("explain", code="SD102").content[0].text == run("explain", "SD102").out.rstrip("\n")


def test_runs_are_remembered_as_the_command_line_remembers_them(tmp_path: Path) -> None:
    off, on = FILES / "vllm-serve-off.json", FILES / "vllm-serve-on.json"
    setting = ("--hw", "gb10", "--model", "qwen3.6-35b-a3b")
    assert run("calibrate", str(off), str(on), "--name", "cli", *setting).code == 0
    asked = calls()["calibrate"]
    assert "1 runs added to machine desk, 1 in total" in ask("calibrate", **asked).content[0].text
    folder = tmp_path / "advisor" / "machines"
    one, other = ((folder / f"{name}.yaml").read_text() for name in ("cli", "desk"))
    assert one.replace("name: cli", "name: desk") == other
    assert not ask("recommend", machine="desk").is_error
    for name in ("../evil", "/etc/passwd", "a/b", "UPPER"):
        got = ask("calibrate", **{**asked, "machine": name})
        assert got.is_error and "not a valid machine name" in got.content[0].text
    assert sorted(path.name for path in tmp_path.rglob("*.yaml")) == ["cli.yaml", "desk.yaml"]


TASKS: list[tuple[str, dict[str, Any], str]] = [
    # what a person asks an agent -> one call, and what its text has to say
    ("recommend", {"hardware": "2x 3090", "quantization": "awq", "users": 4}, "vllm serve"),
    ("recommend", {"hardware": "dgx spark", "users": "16 users", "ctx": "8k"}, "16"),
    ("compare", {"hardware": "h100", "names": "vllm, sglang"}, "sglang"),
    ("validate", {"text": LAUNCH, "hardware": "gb10", "users": 4, "ctx": "2k"}, "SD102"),
    ("recommend", {"hardware": "h100", "users": 8, "max_tpot_ms": 50}, "users"),
    ("recommend", {"hardware": "h100", "users": 64, "max_tpot_ms": 1}, "missed"),
    ("recommend", {"hardware": "h100", "users": "1..32"}, "1 to 32 requests"),
    ("why_not", {"hardware": "gb10", "what": "k=4"}, "k=4"),
    ("compare", {"names": "gb10, h100", "price": "2.10/h"}, "per 1M tokens"),
    ("plan", {"hardware": "gb10", "classes": [
        {"name": "chat", "concurrency": 4, "prompt": "2k", "objective": {"tpot": "60ms"}},
        {"users": 1, "context": "8k", "output_tokens": 256},
    ]}, "class-2"),
    ("list_names", {"kind": "hardware", "match": "arc"}, "arc"),
    ("list_names", {"kind": "hardware", "match": "zzz"}, "none: match other words"),
    ("sweep", {"hardware": "gb10", "vary": "concurrency=1..16 k=0..3"}, "16"),
    ("launch", {"hardware": "dgx spark", "form": "k8s"}, 'kind: "Deployment"'),
]  # fmt: skip


def test_what_people_ask_takes_one_call_each() -> None:
    """The tasks as an agent words them, through the official client: each is answered at once."""
    for name, arguments, said in TASKS:
        got = ask(name, **arguments)
        assert not got.is_error and said in got.content[0].text, (name, got.content[0].text)


def test_a_long_list_is_cut_with_a_sentence() -> None:
    got = ask("list_names", kind="hardware")
    assert re.search(r"\.\.\. \d+ more lines", got.content[0].text)
    told = got.structured_content
    assert len(told["rows"]) == 24 and "more: ask" in told["rows_left_out"]
    assert len(ask("list_names", kind="hardware", full=True).structured_content["rows"]) > 100


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("recommend", {"hw": "gb11"}, "did you mean"),
        ("recommend", {}, "which hardware? give hw NAME"),
        ("recommend", {"hw": "gb10", "concurrency": 0}, "whole number from 1 to 100,000"),
        ("recommend", {"hw": "gb10", "concurency": 4}, "did you mean 'concurrency'?"),
        ("recommend", {"hw": "gb10", "engine": "ollama"}, "Ollama has no documented"),
        ("sweep", {"hw": "gb10", "vary": ["colour=1..3"]}, "cannot be varied"),
        ("sweep", {"hw": "gb10", "vary": []}, "vary"),
        (
            "sweep",
            {"hw": "gb10", "vary": ["concurrency=1..999 ctx=1..999 output_tokens=1..999"]},
            "400 of one request",
        ),
        ("validate", {"text": "hello"}, "nothing was checked"),
        ("validate", {"text": "  "}, "the field 'text' is missing"),
        ("explain", {"code": "SD999"}, "SD999"),
        ("ab", {"off": "{}", "on": "{}"}, "off"),
        ("ab", {"off": "x"}, "the field 'on' is missing"),
    ],
)
def test_bad_input_is_an_error_in_one_sentence(name: str, arguments: Any, said: str) -> None:
    got = ask(name, **arguments)
    text = got.content[0].text
    assert got.is_error and said in text, text
    assert "\n" not in text.strip() and "Traceback" not in text and len(text) < 1000


def test_a_defect_of_ours_says_nothing_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.cli.serve import answers

    def fail(_: Any) -> Any:
        raise RuntimeError("/home/me/secret")

    monkeypatch.setattr(answers, "advice", fail)
    got = ask("recommend", hw="gb10")
    assert got.is_error and got.content[0].text == "Error executing tool recommend"


def test_the_clients_in_the_documentation_start_what_there_is() -> None:
    text = (ROOT / "docs" / "agents.md").read_text()
    blocks = [json.loads(found) for found in re.findall(r"```json\n(.*?)```", text, re.S)]
    assert len(blocks) >= 4
    for block in blocks:
        (servers,) = block.values()
        assert servers["advisor"]["args"] == ["mcp"]
    assert run("mcp", "--help").code == 0
    assert set(re.findall(r"`(\w+)`", text.split("options")[0])) >= set(calls())
