"""The server of the tools, over the Model Context Protocol: short texts, the JSON beside them."""

from collections.abc import Callable
from math import isfinite
from typing import Any, get_type_hints

import anyio
from anyio.to_thread import run_sync
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

from advisor.cli.base import version
from advisor.cli.serve import answers, tools
from advisor.cli.serve.launch import LaunchQuestion
from advisor.cli.serve.question import (
    NAMES,
    FormFields,
    Question,
    check_fields,
    fields_of,
    own_words,
)
from advisor.cli.serve.tools import Told
from advisor.domain.nouns import AdvisorError

TEXT_CHARACTERS = 2_000  # of an answer: at most 600 tokens
FULL = {"type": "boolean", "description": "All of the text, and of the command line's JSON"}
_LONG = ("candidate", "drafter", "runners_up", "evidence", "launch_off", "launch_on", "terms")
_POINT = ("method", "k", "p_objective", "predictable", "gain", "p_gain", "decision", "basis")
MOST_ROWS = 24  # of a list in the JSON of an answer that is not asked for in full
INSTRUCTIONS = (
    "Configuration advice for serving LLMs with speculative decoding on vLLM, SGLang and "
    "llama-server. Ask `recommend` first; the other tools are about its answer, launches and "
    "benchmarks of the user's, and names that are known. A speed-up above 1 is faster, for "
    "latencies too; intervals are p10 to p90; what is not predictable is null. Latency limits are "
    "answered first, in `objective`."
)
_OFFERED = (
    tools.recommend, tools.launch, tools.sweep, tools.compare, tools.why_not, tools.plan,
    tools.validate, tools.explain, tools.list_names, tools.results, tools.ab, tools.calibrate,
)  # fmt: skip
TOOLS: dict[str, Callable[[Any], Told]] = {tool.__name__: tool for tool in _OFFERED}


def _question_type(tool: Callable[[Any], Told]) -> type[FormFields]:
    """The model of what a tool is asked."""
    return next(iter(get_type_hints(tool).values()))  # type: ignore[no-any-return]


def _as_tool(name: str, tool: Callable[[Any], Told]) -> Tool:
    """The tool as a client is told of it."""
    kind, reads = _question_type(tool), tool is not tools.calibrate
    schema = _plain(kind.model_json_schema())
    if issubclass(kind, Question) and tool is not tools.recommend:
        for field in set(fields_of(LaunchQuestion)) & set(schema["properties"]):
            for word in ("description", "minimum", "maximum"):  # as of `recommend`
                schema["properties"][field].pop(word, None)
    schema["properties"]["full"] = FULL
    return Tool(
        name=name,
        description=" ".join((tool.__doc__ or "").split()),
        input_schema={**schema, "type": "object"},
        annotations=ToolAnnotations(
            read_only_hint=reads, idempotent_hint=reads, open_world_hint=False
        ),
    )


def _answer(tool: Callable[[Any], Told], given: dict[str, Any]) -> CallToolResult:
    """The answer, or the sentence why there is none."""
    try:
        text, data = tool(check_fields(_question_type(tool), {**given, "full": None}))
    except (AdvisorError, answers.Busy) as error:
        return _refusal(own_words(str(error), NAMES))
    if not given.get("full"):
        data, text = _round(data), text if tool is tools.launch else _cap(text)
    content = TextContent(type="text", text=text.rstrip("\n"))
    return CallToolResult(content=[content], structured_content=data)


def _refusal(sentence: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=sentence)], is_error=True)


def _plain(schema: Any, within: str = "") -> Any:
    """A schema without titles or null for what may be left out; whole numbers may be "8k"."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if within != "properties":
        kinds = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
        schema = {**schema, **kinds[0]} if len(kinds) == 1 else schema
        left = ("title", "anyOf", "maxLength", "examples", "additionalProperties")
        schema = {key: value for key, value in schema.items() if key not in left}
        schema = {k: v for k, v in schema.items() if k != "default" or v not in (None, "", [])}
        if schema.get("type") == "integer":
            schema |= {"type": ["integer", "string"]}
    return {key: _plain(value, key) for key, value in schema.items()}


def _round(value: Any) -> Any:
    """Three significant digits, and lists cut with a sentence on what is left out."""
    if isinstance(value, float):
        return float(f"{value:.3g}") if isfinite(value) else None
    if isinstance(value, dict):
        if "p_objective" in value and "basis" in value:  # a point of a sweep
            value = {key: value[key] for key in _POINT}
        made = {key: _round(item) for key, item in value.items() if key not in _LONG}
        for key, item in value.items():
            if isinstance(item, list | tuple) and len(item) > MOST_ROWS:
                made[f"{key}_left_out"] = f"{len(item) - MOST_ROWS} more: ask in full, or for less"
        return made
    rows = isinstance(value, list | tuple)
    return [_round(item) for item in value[:MOST_ROWS]] if rows else value


def _cap(text: str) -> str:
    """Whole lines up to what an agent should read, and a sentence on the rest."""
    lines, size = text.splitlines(), 0
    for count, line in enumerate(lines):
        size += len(line) + 1
        if size > TEXT_CHARACTERS:
            lines[count:] = [f"... {len(lines) - count} more lines: see the JSON beside"]
            return "\n".join(lines)
    return text


async def _list(_context: Any, _params: Any) -> ListToolsResult:
    return ListToolsResult(tools=[_as_tool(*offered) for offered in TOOLS.items()])


async def _call(_context: Any, params: Any) -> CallToolResult:
    tool = TOOLS.get(params.name)
    if tool is None:
        return _refusal(f"there is no tool of this name; there are {', '.join(TOOLS)}")
    try:
        return await run_sync(_answer, tool, params.arguments or {})
    except Exception:  # a defect of ours: its words may hold anything
        return _refusal(f"Error executing tool {params.name}")


def server() -> Server[Any]:
    """The server with its tools."""
    about: dict[str, Any] = {"title": "advisor", "instructions": INSTRUCTIONS, "version": version()}
    return Server("advisor", **about, on_list_tools=_list, on_call_tool=_call)


def serve_stdio() -> None:
    """Serve on standard input and output until the client ends."""

    async def go() -> None:
        made = server()
        async with stdio_server() as (read, write):
            await made.run(read, write, made.create_initialization_options())

    anyio.run(go)
