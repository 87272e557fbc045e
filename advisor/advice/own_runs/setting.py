"""What a user's benchmark files were measured on: the question that they answer.

Options come first, then the launch that ran, then the files themselves. Without hardware and a
known model there is no prediction to compare with, and the missing one is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

from advisor import engines, readers
from advisor.domain.nouns import (
    AdvisorError,
    DraftMethod,
    Method,
    Plan,
    Request,
    UnknownFact,
    Workload,
)
from advisor.knowledge import store as knowledge
from advisor.readers.results.run import BenchmarkRun

METHODS_BY_WORD = {
    "nextn": "mtp",
    "draft-mtp": "mtp",
    "qwen3_next_mtp": "mtp",
    "deepseek_mtp": "mtp",
}

TEXTS_BY_DATASET = {"sharegpt": "chat", "mtbench": "chat", "sonnet": "creative"}


class OwnSetting(NamedTuple):
    """The question behind the files, or why there is none."""

    request: Request | None
    method: Method
    k: int | None
    missing: tuple[str, ...] = ()


def plan_of_launch(path: Path, version: str | None = None) -> Plan:
    """The plan of the speculating launch of a file, else of its first. Raises AdvisorError where
    none is there.
    """
    return plan_in(readers.read_path(str(path), version=version), path.name)


def plan_in(read: readers.FileRead, name: str) -> Plan:
    """The same of a text that was read."""
    plans = [engines.get(launch.engine).to_plan(launch) for launch in read.launches]
    if not plans:
        raise AdvisorError(f"{name}: no launch of a server found in it")
    return next((plan for plan in plans if plan.method != "none"), plans[0])


def setting(
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
    asked: Mapping[str, Any],
    launch: Plan | None = None,
) -> OwnSetting:
    """The question that runs answer. `asked` are options by field of Request, plus `method` and
    `k`.
    """
    runs = [*on, *off]
    given = {key: value for key, value in asked.items() if value is not None}
    stated = {
        "model": launch.model if launch and launch.model else _first(runs, "model"),
        "engine": launch.engine if launch else _first(runs, "engine"),
        "engine_version": launch.engine_version if launch else _first(runs, "engine_version"),
        "hardware": _first(runs, "hardware"),
        "concurrency": round(_first(runs, "concurrency") or 0) or None,
        "ctx_tokens": round(_first(runs, "input_tokens") or 0) or None,
        "output_tokens": round(_first(runs, "output_tokens") or 0) or None,
        "workload": workload_of(_first(runs, "dataset")),
    }
    if launch and launch.tp > 1:
        stated |= {"tp": launch.tp, "gpus": launch.tp * max(launch.pp, 1)}
    k = given.pop("k", None) or (launch.k if launch else None) or _first(on, "k")
    launched = launch.method if launch and launch.method != "none" else None
    word: Any = _first(on, "method") or "mtp"
    method: Any = given.pop("method", None) or launched or METHODS_BY_WORD.get(word, word)
    fields = {key: value for key, value in (stated | given).items() if value is not None}
    missing = _resolve(fields, stated_version="engine_version" not in given)
    if missing:
        return OwnSetting(None, method, k, tuple(missing))
    drafts: Any = method if method in get_args(DraftMethod) else None
    return OwnSetting(Request(method=drafts, **fields), method, k)


def workload_of(dataset: str | None) -> str | None:
    """The kind of text of a benchmark's prompts by its dataset: `random`, `sharegpt`, or
    `code:1f00...` as `advisor bench run` writes it; None where that does not tell.
    """
    word = re.split(r"[:/\s_-]", (dataset or "").lower())[0]
    return TEXTS_BY_DATASET.get(word, word if word in get_args(Workload) else None)


def _first(runs: Sequence[BenchmarkRun], name: str) -> Any:
    return next((value for run in runs if (value := getattr(run, name)) is not None), None)


def _resolve(fields: dict[str, Any], stated_version: bool) -> list[str]:
    """Names as knowledge spells them, in place; what is missing or unknown."""
    missing = []
    if fields.get("engine") not in (None, *engines.ENGINES):
        missing.append(f"an engine that is predicted (--engine; '{fields['engine']}' is none)")
    if not fields.get("hardware"):
        missing.append("the hardware (--hw NAME)")
    else:
        try:
            fields["hardware"] = knowledge.hardware(fields["hardware"]).id
        except UnknownFact:
            missing.append(
                f"known hardware (--hw NAME; '{fields['hardware']}' is none: advisor hardware list)"
            )
    model = knowledge.llm_from_text(str(fields.get("model") or ""))
    if model is None:
        missing.append("the model (--model NAME)")
    else:
        fields["model"] = model.id
    if stated_version and fields.get("engine_version"):
        # a release that a file states and no catalogue has: the newest known
        adapter = engines.get(fields["engine"]) if fields.get("engine") and not missing else None
        if adapter is None or fields["engine_version"] not in adapter.versions:
            del fields["engine_version"]
    return missing
