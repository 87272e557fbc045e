"""JSON of `advisor results` and `advisor ab`, with their schemas: those of the models themselves,
every key always there, null where a file does not state a value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from advisor.advice.own_runs.ab_test import AbReport
from advisor.readers.results.run import BenchmarkRun
from advisor.render import schema_parts as part
from advisor.render.schema_parts import Schema

RESULTS_ID = "advisor/results/1"
AB_ID = "advisor/ab/1"
# what the names and units of a run's keys do not say themselves
_MEANINGS = {
    "part": "which run of the file, where it holds several",
    "method": "speculative method; none where the file states that nothing was drafted",
    "concurrency": "requests in flight, as limited by the client",
    "request_rate": "requests per second, where the load is open",
    "input_tokens": "per request, mean",
    "depth_tokens": "cached before the prompt, per request",
    "output_tokens": "per request, mean",
    "output_tok_s": "of the server",
    "request_tok_s": "of one stream after its first token",
    "output_tok_s_sd": "standard deviation between repeats within the file",
    "tpot_ms": "time per output token after the first",
    "itl_ms": "between stream chunks: a step, not a token, under speculation",
    "sha256": "of the file as given",
}


def runs_json(runs: Iterable[BenchmarkRun]) -> dict[str, Any]:
    """What benchmark files contain, as plain dicts and lists."""
    return {"schema": RESULTS_ID, "runs": [run.model_dump(mode="json") for run in runs]}


def runs_json_text(runs: Iterable[BenchmarkRun]) -> str:
    """The same as indented JSON that ends in a line feed."""
    return json.dumps(runs_json(runs), indent=2) + "\n"


def ab_json(report: AbReport) -> dict[str, Any]:
    """The verdict on an A/B, as plain dicts and lists."""
    return {"schema": AB_ID, **report.model_dump(mode="json")}


def ab_json_text(report: AbReport) -> str:
    """The same as indented JSON that ends in a line feed."""
    return json.dumps(ab_json(report), indent=2) + "\n"


def results_schema() -> Schema:
    """What `advisor results --format json` prints."""
    run = BenchmarkRun.model_json_schema(mode="serialization")
    parts = run.pop("$defs")
    for name, meaning in _MEANINGS.items():
        run["properties"][name]["description"] = meaning
    body = part.object_of({"schema": {"const": RESULTS_ID}, "runs": part.list_of(part.ref("run"))})
    head = {"$schema": part.DIALECT, "$id": RESULTS_ID, "title": "advisor results --format json"}
    return head | body | {"$defs": {**parts, "run": run}}


def ab_schema() -> Schema:
    """What `advisor ab --format json` prints."""
    report = AbReport.model_json_schema(mode="serialization")
    parts = report.pop("$defs")
    body = part.object_of({"schema": {"const": AB_ID}, **report["properties"]})
    head = {"$schema": part.DIALECT, "$id": AB_ID, "title": "advisor ab --format json"}
    return head | body | {"$defs": parts}
