"""A mix of workloads on one machine, from YAML: checked, with units in words (`50ms`, `2s`).

A question's `hardware` and `model`, and `classes`, each with its own requests at once: `name`,
`concurrency`, `prompt`, `output`, `goal` and `objective`, such as `{tpot: 60ms}`.
"""

import re
from typing import Any

from advisor.advice.recommend import valid_request
from advisor.domain.files import yaml_safely
from advisor.domain.frozen import Frozen
from advisor.domain.nouns import AdvisorError, Goal, Request, Workload
from advisor.domain.printable import printable

MOST_BYTES = 65_536
MOST_CLASSES = 6
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?\Z")
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s)\s*\Z")


class WorkClass(Frozen):
    """One kind of requests."""

    name: str
    concurrency: int  # requests at once
    ctx_tokens: int = 2048
    output_tokens: int = 512
    prefix_share: float = 0.0
    workload: Workload = "mixed"
    goal: Goal = "balanced"
    max_tpot_ms: float | None = None
    max_ttft_ms: float | None = None


class WorkMix(Request):
    """Workloads and the machine that serves them: what a request has and a class has not."""

    classes: tuple[WorkClass, ...] = ()

    def request(self, work: WorkClass, concurrency: int, **more: Any) -> Request:
        """The question of one class at a load, on all GPUs unless `more` says otherwise."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in _OF_MACHINE}
        fields |= {name: getattr(work, name) for name in _OF_CLASS}
        return Request(**(fields | {"concurrency": concurrency} | more))


_OF_CLASS = ("ctx_tokens", "output_tokens", "prefix_share", "workload", "goal", "max_tpot_ms",
             "max_ttft_ms")  # fmt: skip
_OF_MACHINE = tuple(x for x in Request.model_fields if x not in (*_OF_CLASS, "concurrency"))
MIX = (*_OF_MACHINE, "classes")
_FIELDS = {"prompt": "ctx_tokens", "output": "output_tokens"}  # which a file calls otherwise
_CLASS = ("name", "concurrency", *_FIELDS, "prefix_share", "workload", "goal", "objective")


def read_mix(text: str) -> WorkMix:
    """A mix from the text of a file. Raises AdvisorError in one sentence that names the place."""
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise AdvisorError(f"a mix of more than {MOST_BYTES:,} bytes is not read")
    table = _table(yaml_safely(text, "the mix"), MIX, "the mix")
    rows = table.pop("classes", None)
    if not isinstance(rows, list) or not rows:
        raise AdvisorError("the mix needs classes, a list with at least one class")
    if len(rows) > MOST_CLASSES:
        raise AdvisorError(f"{len(rows)} classes are more than {MOST_CLASSES}")
    for name in ("hardware", "model", "quant", "engine"):
        if isinstance(table.get(name), int | float):  # a name that YAML takes for a number
            table[name] = str(table[name])
    if isinstance(table.get("engine"), str):
        engine, _, version = table["engine"].partition("@")
        table |= {"engine": engine} | ({"engine_version": version} if version else {})
    frame = _request(table, "the mix")
    return check_mix(
        WorkMix(
            classes=tuple(_class(row, frame, f"class {i}") for i, row in enumerate(rows, 1)),
            **{name: getattr(frame, name) for name in _OF_MACHINE},
        )
    )


def check_mix(mix: WorkMix) -> WorkMix:
    """The mix, where names differ. Raises AdvisorError otherwise."""
    names = [work.name for work in mix.classes]
    if len(set(names)) < len(names):
        raise AdvisorError("two classes have the same name")
    return mix


def _class(data: Any, frame: Request, where: str) -> WorkClass:
    table = _table(data, _CLASS, where)
    name = str(table.pop("name", ""))
    if not _NAME.match(name):
        raise AdvisorError(
            f"{where} needs a name of lower-case letters, digits and dashes, at most 32 "
            f"characters, not {_value_text(name)}"
        )
    if "concurrency" not in table:
        raise AdvisorError(f"{name} needs its concurrency: requests at once")
    objective = _table(table.pop("objective", {}), ("tpot", "ttft"), f"objective of {name}")
    fields = {_FIELDS.get(key, key): value for key, value in table.items()}
    for key, value in objective.items():
        fields[f"max_{key}_ms"] = milliseconds(str(value))
        if fields[f"max_{key}_ms"] is None:
            raise AdvisorError(
                f"{name}: {key} is a time such as 50ms or 2s, not {_value_text(value)}"
            )
    request = _request({"hardware": frame.hardware, **fields}, name)
    return WorkClass(
        name=name,
        concurrency=request.concurrency,
        **{field: getattr(request, field) for field in _OF_CLASS},
    )


def _request(fields: dict[str, Any], where: str) -> Request:
    try:
        return valid_request(fields, {field: key for key, field in _FIELDS.items()})
    except AdvisorError as error:
        raise AdvisorError(f"{where}: {error}") from None


def milliseconds(text: str) -> float | None:
    """`50ms` or `2s` in milliseconds, None for anything else."""
    time = _TIME.match(text)
    return float(time[1]) * (1000.0 if time[2] == "s" else 1.0) if time is not None else None


def _table(data: Any, known: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise AdvisorError(f"{where} is a table of names and values, not {_value_text(data)}")
    for key in data:
        if key not in known:
            names = "classes and options of recommend" if known is MIX else ", ".join(known)
            raise AdvisorError(f"{where} has no {_value_text(key)}; it may have {names}")
    return {key: value for key, value in data.items() if value is not None}


def _value_text(value: object) -> str:
    return "nothing" if value is None else f"'{printable(str(value), 40)}'"
