"""`bench run --check-quality`: the same small greedy tasks, with one right answer, to both arms."""

import hashlib
import json
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from advisor.domain.files import read_bytes_safely
from advisor.domain.nouns import AdvisorError
from advisor.readers import server as client
from advisor.readers.exchange import BadAnswer
from advisor.readers.results.quality import ArmAnswers, Kind, QualityCheck, TaskAnswer, compare

MAX_BYTES = 2**20
TOGETHER = 8  # requests at once in the second pass
_COUNT = {"arithmetic": 12, "copy": 6, "json": 6, "tool": 4}
_NAMES = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald")
_TOWNS = ("Lyon", "Porto", "Turin", "Bergen", "Gdansk", "Graz")
_SHAPE = {
    "type": "object",
    "properties": {name: {"type": kind} for name, kind in
                   (("name", "string"), ("age", "integer"), ("town", "string"))},
    "required": ["name", "age", "town"],
    "additionalProperties": False,
}  # fmt: skip
_TOOL = {
    "type": "function",
    "function": {
        "name": "set_timer",
        "description": "Set a timer.",
        "parameters": {
            "type": "object",
            "properties": {"minutes": {"type": "integer"}, "label": {"type": "string"}},
            "required": ["minutes", "label"],
        },
    },
}


class Task(NamedTuple):
    """A prompt, what else its request holds, and its right answer."""

    id: str
    kind: Kind
    prompt: str
    more: dict[str, Any]
    right: Any


def tasks() -> Iterator[Task]:
    """The fixed set: the same in every release of this format."""
    dice = random.Random(40)
    for i in range(_COUNT["arithmetic"]):
        a, b, c = dice.randrange(12, 99), dice.randrange(3, 30), dice.randrange(10, 500)
        ask = f"What is {a} * {b} + {c}? Answer with the number alone."
        yield Task(f"arithmetic-{i}", "arithmetic", ask, {}, a * b + c)
    for i in range(_COUNT["copy"]):
        text = " ".join(f"{dice.choice(_TOWNS)} {dice.randrange(1000)}" for _ in range(8))
        yield Task(f"copy-{i}", "copy", f"Repeat this line and nothing else: {text}", {}, text)
    schema = {"name": "person", "strict": True, "schema": _SHAPE}
    by_schema = {"response_format": {"type": "json_schema", "json_schema": schema}}
    for i in range(_COUNT["json"]):
        right = {"name": _NAMES[i], "age": dice.randrange(20, 90), "town": dice.choice(_TOWNS)}
        ask = f"{right['name']} is {right['age']} years old and lives in {right['town']}. "
        yield Task(f"json-{i}", "json", ask + "Write that as JSON.", by_schema, right)
    call = {"tools": [_TOOL], "tool_choice": "required"}
    for i in range(_COUNT["tool"]):
        minutes, label = dice.randrange(2, 60), dice.choice(("tea", "eggs", "bread", "rice"))
        ask = f"Set a timer of {minutes} minutes with the label {label}."
        yield Task(
            f"tool-{i}", "tool", ask, call, ["set_timer", {"minutes": minutes, "label": label}]
        )


def ask(server: client.ServerInfo, timeout_s: float = 120.0, key: str | None = None) -> ArmAnswers:
    """All answers of a server, twice: one by one, then together. Raises ServerGone or Refused."""

    def answer(task: Task) -> TaskAnswer:
        body = {
            "model": server.model, "messages": [{"role": "user", "content": task.prompt}],
            "temperature": 0, "seed": 0, "max_tokens": 200,
            "chat_template_kwargs": {"enable_thinking": False},
        }  # fmt: skip
        try:
            data = client.get_json(
                server.url, "/v1/chat/completions", key, body | task.more, timeout_s
            )
        except BadAnswer:
            return TaskAnswer(task=task.id, kind=task.kind, right=False, reading=None)
        value = _value_of(task.kind, data)
        text = json.dumps(value, sort_keys=True)
        reading = None if value is None else hashlib.sha256(text.encode()).hexdigest()[:16]
        return TaskAnswer(task=task.id, kind=task.kind, right=value == task.right, reading=reading)

    alone = tuple(map(answer, tasks()))
    with ThreadPoolExecutor(TOGETHER) as pool:
        together = tuple(pool.map(answer, tasks()))
    return ArmAnswers(
        engine=server.engine, engine_version=server.version, passes=(alone, together)
    )  # fmt: skip


def _value_of(kind: Kind, data: dict[str, Any]) -> Any:
    """What an answer says: its number, object or call where it has one, else its text."""
    choices = data.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    text = content.strip() if isinstance(content, str) else None
    if kind == "tool":
        calls = message.get("tool_calls")
        one = calls[0] if isinstance(calls, list) and len(calls) == 1 else None
        function = one.get("function") if isinstance(one, dict) else None
        if isinstance(function, dict):
            return [function.get("name"), _as_json(function.get("arguments"))]
        return text
    if kind == "json":
        return _as_json(text)
    numbers = re.findall(r"-?\d[\d,]{0,12}", text or "") if kind == "arithmetic" else ()
    return int(numbers[-1].replace(",", "")) if numbers else text


def _as_json(text: Any) -> Any:
    """JSON as its value, else the text itself."""
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text


def path_of(folder: Path, arm: str) -> Path:
    """Where the answers of an arm are kept."""
    return folder / f"quality-{arm}.json"


def of_folder(folder: Path, defects: tuple[str, ...] = ()) -> QualityCheck | None:
    """The check of both arms; None where one was not asked. Raises AdvisorError."""
    paths = [path_of(folder, arm) for arm in ("off", "on")]
    if not all(path.is_file() for path in paths):
        return None
    try:
        off, on = (
            ArmAnswers.model_validate_json(read_bytes_safely(path, MAX_BYTES)) for path in paths
        )
        return compare(off, on, defects)
    except (ValidationError, ValueError) as error:
        raise AdvisorError(
            f"the quality check in {folder} cannot be read: delete {paths[0].name} and "
            f"{paths[1].name}, and run again with --check-quality"
        ) from error
