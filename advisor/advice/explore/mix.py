"""A mix of workloads on one machine, from YAML: checked, with units in words (`50ms`, `2s`).

```yaml
hardware: gb10
model: qwen3.6-35b-a3b
concurrency: 16          # requests at once, where classes give shares
classes:
  - {name: chat, share: 0.75, prompt: 2048, output: 256, goal: tpot, objective: {tpot: 60ms}}
  - {name: documents, share: 0.25, prompt: 8192, output: 256, goal: throughput}
```

A class says how much of it there is by its `share` (of `concurrency`) or by `concurrency` (requests
at once of its own).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from advisor.domain.files import yaml_safely
from advisor.domain.frozen import Frozen
from advisor.domain.nouns import LIMITS, AdvisorError, Goal, Interconnect, Request, Workload
from advisor.domain.printable import printable
from advisor.domain.question import USUAL_OUTPUT, USUAL_PROMPT
from advisor.domain.sourced import sourced

MOST_BYTES = 65_536
MOST_CLASSES = 6
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?\Z")
_TIME = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s)\s*\Z")
ROUNDED = sourced(0.001, "share", "own choice: shares of a mix as people round them", "chosen")


class WorkClass(Frozen):
    """One kind of requests. Exactly one of `share` and `concurrency` is set."""

    name: str
    share: float | None = None  # of the mix's requests at once
    concurrency: int | None = None
    ctx_tokens: int = 2048
    output_tokens: int = 512
    prefix_share: float = 0.0
    workload: Workload = "mixed"
    goal: Goal = "balanced"
    max_tpot_ms: float | None = None
    max_ttft_ms: float | None = None


class WorkMix(Frozen):
    """Workloads and the machine that serves them."""

    hardware: str
    classes: tuple[WorkClass, ...]
    gpus: int = 1
    interconnect: Interconnect | None = None
    model: str = Request.model_fields["model"]
    quant: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    concurrency: int | None = None  # requests at once of all classes that give a share

    def request(self, work: WorkClass, concurrency: int, **more: Any) -> Request:
        """The question of one class at a load, on all GPUs unless `more` says otherwise."""
        fields: dict[str, Any] = {name: getattr(self, name) for name in _OF_MACHINE}
        fields |= {name: getattr(work, name) for name in _OF_CLASS}
        return Request(**(fields | {"concurrency": concurrency} | more))

    def loads(self, group: Sequence[int]) -> tuple[float, ...]:
        """Requests at once of some classes."""
        several = [self.classes[i] for i in group]
        return tuple(
            float(work.concurrency or (work.share or 0.0) * (self.concurrency or 1))
            for work in several
        )


_OF_MACHINE = ("hardware", "gpus", "interconnect", "model", "quant", "engine", "engine_version")
_OF_CLASS = ("ctx_tokens", "output_tokens", "prefix_share", "workload", "goal", "max_tpot_ms",
             "max_ttft_ms")  # fmt: skip
_MIX = ("hardware", "gpus", "interconnect", "model", "quant", "engine", "concurrency", "classes")
_CLASS = ("name", "share", "concurrency", "prompt", "output", "prefix_share", "workload", "goal",
          "objective")  # fmt: skip


def read_mix(text: str) -> WorkMix:
    """A mix from the text of a file. Raises AdvisorError in one sentence that names the place."""
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise AdvisorError(f"a mix of more than {MOST_BYTES:,} bytes is not read")
    data = yaml_safely(text, "the mix")
    table = _table(data, _MIX, "the mix")
    classes = table.get("classes")
    if not isinstance(classes, list) or not classes:
        raise AdvisorError("the mix needs classes, a list with at least one class")
    if len(classes) > MOST_CLASSES:
        raise AdvisorError(f"{len(classes)} classes are more than {MOST_CLASSES}")
    engine, _, version = _text(table, "engine", "the mix").partition("@")
    mix = WorkMix(
        hardware=_text(table, "hardware", "the mix", needed=True),
        classes=tuple(_class(row, f"class {i + 1}") for i, row in enumerate(classes)),
        gpus=_whole(table, "gpus", "the mix") or 1,
        interconnect=_word(table, "interconnect", get_args(Interconnect), "the mix"),
        model=_text(table, "model", "the mix") or Request.model_fields["model"],
        quant=_text(table, "quant", "the mix") or None,
        engine=engine or None,
        engine_version=version or None,
        concurrency=_whole(table, "concurrency", "the mix"),
    )
    return check_mix(mix)


def check_mix(mix: WorkMix) -> WorkMix:
    """The mix, where names differ and amounts go together. Raises AdvisorError otherwise."""
    names = [work.name for work in mix.classes]
    if len(set(names)) < len(names):
        raise AdvisorError("two classes have the same name")
    for work in mix.classes:
        if (work.share is None) == (work.concurrency is None):
            raise AdvisorError(f"class {work.name} needs one of share and concurrency")
    shares = [work.share for work in mix.classes if work.share is not None]
    if shares and mix.concurrency is None:
        raise AdvisorError("classes give shares: give the total as concurrency: N")
    if shares and not abs(sum(shares) - 1) <= ROUNDED:
        raise AdvisorError(f"the shares add up to {sum(shares):g}, not to 1")
    if not shares and mix.concurrency is not None:
        raise AdvisorError("concurrency needs classes with a share, and no class has one")
    return mix


def _class(data: Any, where: str) -> WorkClass:
    table = _table(data, _CLASS, where)
    name = _text(table, "name", where, needed=True)
    if not _NAME.match(name):
        raise AdvisorError(
            f"{where}: a name has lower-case letters, digits and dashes, at most 32 "
            f"('{name[:32]!s}')"
        )
    goals = _table(table.get("objective", {}), ("tpot", "ttft"), f"objective of {name}")
    return WorkClass(
        name=name,
        share=_number(table, "share", name, (0.0, 1.0)),
        concurrency=_whole(table, "concurrency", name),
        ctx_tokens=_whole(table, "prompt", name, "ctx_tokens") or USUAL_PROMPT,
        output_tokens=_whole(table, "output", name, "output_tokens") or USUAL_OUTPUT,
        prefix_share=_number(table, "prefix_share", name, (0.0, 1.0)) or 0.0,
        workload=_word(table, "workload", get_args(Workload), name) or "mixed",
        goal=_word(table, "goal", get_args(Goal), name) or "balanced",
        max_tpot_ms=_milliseconds(goals, "tpot", name),
        max_ttft_ms=_milliseconds(goals, "ttft", name),
    )


def milliseconds(text: str) -> float | None:
    """`50ms` or `2s` in milliseconds, None for anything else."""
    time = _TIME.match(text)
    return float(time[1]) * (1000.0 if time[2] == "s" else 1.0) if time is not None else None


def _milliseconds(table: Mapping[str, Any], key: str, where: str) -> float | None:
    if key not in table:
        return None
    limit = milliseconds(str(table[key]))
    low, high = LIMITS[f"max_{key}_ms"]
    if limit is None or not low <= limit <= high:
        raise AdvisorError(
            f"{where}: {key} is a time such as 50ms or 2s, not {_value_text(table[key])}"
        )
    return limit


def _table(data: Any, known: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise AdvisorError(f"{where} is a table of names and values, not {_value_text(data)}")
    for key in data:
        if key not in known:
            raise AdvisorError(
                f"{where} has no '{_value_text(key)}'; it may have {', '.join(known)}"
            )
    return {str(key): value for key, value in data.items() if value is not None}


def _text(table: Mapping[str, Any], key: str, where: str, needed: bool = False) -> str:
    value = table.get(key)
    if value is None and not needed:
        return ""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    if not plain or not str(value).strip():
        raise AdvisorError(f"{where} needs {key}, a name")
    return str(value).strip()


def _number(
    table: Mapping[str, Any], key: str, where: str, limits: tuple[float, float]
) -> float | None:
    value, (low, high) = table.get(key), limits
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        text = _value_text(value)
        raise AdvisorError(f"{where}: {key} is a number from {low:g} to {high:g}, not {text}")
    return float(value)


def _whole(table: Mapping[str, Any], key: str, where: str, field: str = "") -> int | None:
    value, (low, high) = table.get(key), map(int, LIMITS[field or key])
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        span = f"whole number from {low:,} to {high:,}"
        raise AdvisorError(f"{where}: {key} is a {span}, not {_value_text(value)}")
    return value


def _word(table: Mapping[str, Any], key: str, known: tuple[str, ...], where: str) -> Any:
    value = table.get(key)
    if value is not None and value not in known:
        raise AdvisorError(f"{where}: {key} is one of {', '.join(known)}, not {_value_text(value)}")
    return value


def _value_text(value: object) -> str:
    return f"'{printable(str(value), 40)}'"
