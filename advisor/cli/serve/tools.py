"""The tools for agents, over the Model Context Protocol: recommend, sweep, compare, plan, ...

A tool takes the options of the command of the same name; contents of files come as text, never as a
path. Bad input is a tool error in one sentence, so that a model can correct itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools.base import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, create_model
from starlette.types import ASGIApp

from advisor import rules as rulebook
from advisor.advice.explore.mix import MOST_BYTES
from advisor.cli.serve import answers
from advisor.cli.serve.api import Variation, swept_for
from advisor.cli.serve.app import LOOPBACK, Guard
from advisor.cli.serve.html import version
from advisor.cli.serve.question import NAMES, FormFields, Question, check_fields, own_words
from advisor.cli.serve.sheets import uploads
from advisor.cli.serve.sheets.questions import (
    Doubt,
    MixForm,
    PastedText,
    Sides,
    checkup,
    compare_choices,
    explain_why_not,
    make_plan,
)
from advisor.domain.nouns import AdvisorError
from advisor.render.explore.compare import comparison_json, why_not_json
from advisor.render.explore.json_out import sweep_json
from advisor.render.explore.plan import mix_plan_json
from advisor.render.findings.json_out import report_json
from advisor.render.json_out import advice_json
from advisor.render.own_runs import ab_json
from advisor.render.schema import named_schema

FILE_CHARACTERS = 4_000_000
INSTRUCTIONS = (
    "Configuration advice for serving LLMs with speculative decoding on vLLM, SGLang and "
    "llama-server. Ask `recommend` whether to turn it on for a setup, `sweep` how that depends on "
    "the load, `compare` how two or three choices differ, `why_not` why the answer has another, "
    "`plan` how to serve several workloads on one machine, `validate` what is wrong with a launch "
    "command or compose file, `explain` what a rule code (SD201) means, and `ab` for the verdict "
    "on two benchmark runs. A speed-up above 1 is faster, for latencies too; intervals are p10 to "
    "p90; what is not predictable is null. Latency limits are answered first, in `objective`."
)
_LONG = ("candidate", "drafter", "runners_up", "evidence", "launch_off", "launch_on")
_POINT = ("method", "k", "p_objective", "predictable", "gain", "p_gain", "decision", "basis")
_FULL = Field(False, description="Everything that the command line's JSON has")


class RecommendArguments(Question):
    """The options of `recommend`."""

    hw: str = Field(max_length=200, description="Hardware: an id, an alias, or auto")
    full: bool = _FULL


class Swept(Variation):
    """The options of `sweep`."""

    hw: str = Field(max_length=200, description="Hardware: an id, an alias, or auto")
    full: bool = _FULL


class Beside(Sides):
    """The options of `compare`."""

    full: bool = _FULL


class Mix(FormFields):
    """The mix of `plan`."""

    mix: str = Field(
        max_length=MOST_BYTES,
        description="YAML: hardware, model, and classes with name, concurrency or rate, prompt, "
        "output, and if known workload, goal, max_tpot_ms, max_ttft_ms",
    )


class ExplainArguments(FormFields):
    """The options of `explain`."""

    code: str = Field(max_length=80, description="Code or name of a rule, e.g. SD201")


def _file(text: str) -> Any:
    return Field(max_length=FILE_CHARACTERS, description=text)


class AbArguments(uploads.RunOptions):
    """The options of `ab`."""

    off: str = _file("Contents of the benchmark's output without speculation")
    on: str = _file("Contents of the benchmark's output with speculation")


def recommend(asked: RecommendArguments) -> dict[str, Any]:
    """Whether speculative decoding pays for a setup, with which k, how sure that is and why, and
    the launch command.
    """
    alone = check_fields(
        Question, asked.as_options()
    )  # its answer is kept for page and tools alike
    told = advice_json(answers.advice(alone))
    return told if asked.full else {key: told[key] for key in told if key not in _LONG}


def sweep(asked: Swept) -> dict[str, Any]:
    """Gain against load for each k: where speculation pays and where it stops to."""
    told = sweep_json(swept_for(asked))
    if not asked.full:
        for load in told["loads"]:
            load["points"] = [{key: point[key] for key in _POINT} for point in load["points"]]
    return told


def compare(asked: Beside) -> dict[str, Any]:
    """Two or three choices of one kind side by side, and what makes the difference: hardware,
    models, quantisations, engines, or releases of an engine.
    """
    told = comparison_json(*compare_choices(asked))
    if not asked.full:
        for arm in told["arms"]:
            arm["answer"] = {k: v for k, v in arm["answer"].items() if k not in _LONG}
    return told


def why_not(asked: Doubt) -> dict[str, Any]:
    """Why the answer is another than this k, engine, quantisation, model or hardware."""
    return why_not_json(explain_why_not(asked))


def plan(asked: Mix) -> dict[str, Any]:
    """How to serve several workloads on one machine: one server or two, with or without
    speculation, with the gain, memory and objectives of each layout.
    """
    return mix_plan_json(make_plan(check_fields(MixForm, {"text": asked.mix})))


def validate(pasted: PastedText) -> dict[str, Any]:
    """What will crash, slow down or silently not happen in a launch command, script, compose file
    or manifest, with a diff of the safe fixes. Tell hardware and load for a full judgement.
    """
    found = checkup(pasted)
    return report_json(found.report) | {"diff": found.safe_diff}


def explain(asked: ExplainArguments) -> str:
    """What a rule reports, why, and an example of each way."""
    return rulebook.explain(asked.code)


def ab(asked: AbArguments) -> dict[str, Any]:
    """The verdict on two benchmark runs, without and with speculation: gains with their noise,
    whether the runs compare, and what to try next.
    """
    off, on = (
        [uploads.Upload(name, text.encode())]
        for name, text in (("off", asked.off), ("on", asked.on))
    )
    given = {
        name: value for name, value in asked if name not in ("off", "on") and value is not None
    }
    return ab_json(uploads.verdict(off, on, (), given))


def loosen(schema: Any) -> Any:
    """A schema of which parts may be left out."""
    if isinstance(schema, dict):
        return {key: loosen(value) for key, value in schema.items() if key != "required"}
    return [loosen(item) for item in schema] if isinstance(schema, list) else schema


def _answers(name: str) -> dict[str, Any] | None:
    """The schema of what a tool answers; None where that is a text."""
    if name == "explain":
        return None
    schema = loosen(named_schema(name.replace("_", "-")))
    if name == "validate":
        schema["properties"]["diff"] = {"type": "string"}
    return schema  # type: ignore[no-any-return]


class OneSentence(Tool):
    """A tool whose input is checked by its own model, and refused in one sentence."""

    async def run(
        self, arguments: dict[str, Any], context: Any, convert_result: bool = False
    ) -> Any:
        """Check, answer on a worker thread, and give text and data. Raises ToolError."""
        parsed = self.fn_metadata.pre_parse_json(arguments)
        try:
            return await self.fn_metadata.call_fn(self.fn, False, {"given": parsed})
        except ToolError:
            raise
        except Exception as error:  # a defect of ours: its words may hold anything
            raise UnexpectedToolError(f"Error executing tool {self.name}") from error


def _tool(answer: Callable[[Any], Any], takes: type[BaseModel], title: str) -> Tool:
    def run(given: Mapping[str, Any]) -> CallToolResult:
        try:
            told = answer(check_fields(takes, given))
        except (AdvisorError, answers.Busy) as error:
            raise ToolError(own_words(str(error), NAMES)) from None
        text = told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)
        data = None if isinstance(told, str) else told
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=data
        )

    names: dict[str, Any] = {
        field.alias or name: (field.annotation, None) for name, field in takes.model_fields.items()
    }
    return OneSentence(
        fn=run,
        name=answer.__name__,
        title=title,
        description=" ".join((answer.__doc__ or "").split()),
        parameters=takes.model_json_schema(),
        fn_metadata=FuncMetadata(
            arg_model=create_model("Arguments", __base__=ArgModelBase, **names),
            output_schema=_answers(answer.__name__),
        ),
        is_async=False,
        context_kwarg=None,
        annotations=ToolAnnotations(
            title=title, read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    )  # fmt: skip


def server() -> MCPServer:
    """The server with its tools; `run("stdio")` starts it on standard input and output."""
    return MCPServer(
        "advisor",
        title="advisor",
        instructions=INSTRUCTIONS,
        version=version(),
        tools=[
            _tool(recommend, RecommendArguments, "Recommend"),
            _tool(sweep, Swept, "Sweep"),
            _tool(compare, Beside, "Compare"),
            _tool(why_not, Doubt, "Why not"),
            _tool(plan, Mix, "Plan several workloads"),
            _tool(validate, PastedText, "Check a configuration"),
            _tool(explain, ExplainArguments, "Explain a rule"),
            _tool(ab, AbArguments, "Judge an A/B"),
        ],
        log_level="ERROR",
    )


def http_app(hosts: Iterable[str] = ()) -> ASGIApp:
    """Streamable HTTP at /mcp, behind the guard of the page."""
    names = (*LOOPBACK, *hosts)
    allowed = [place for name in names for place in (name, f"{name}:*")]
    security = TransportSecuritySettings(
        allowed_hosts=allowed, allowed_origins=[f"http://{place}" for place in allowed]
    )
    app = server().streamable_http_app(
        stateless_http=True,
        json_response=True,
        transport_security=security,
        max_request_body_size=3 * FILE_CHARACTERS,
    )
    return Guard(app, names, files=("/mcp",))
