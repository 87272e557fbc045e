"""Speculation must not change answers: engines that answer rightly, wrongly, and with noise."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_run import run
from readers.results.test_bench_run import QUICK, serve

from advisor.lab import quality
from advisor.readers.results.quality import ArmAnswers, compare

Message = dict[str, Any]
TASKS = {task.prompt: task for task in quality.tasks()}
ARMS = (("off", QUICK), ("on", {**QUICK, "k": 2, "rates": (0.75, 0.53)}))


def rightly(body: Message) -> Message:
    task = TASKS[body["messages"][0]["content"]]
    assert body["temperature"] == 0
    if task.kind == "tool":
        assert body["tools"] and body["tool_choice"] == "required"
        name, arguments = task.right
        return {"tool_calls": [{"function": {"name": name, "arguments": json.dumps(arguments)}}]}
    if task.kind == "json":
        assert body["response_format"]["json_schema"]["schema"]["required"]
        return {"content": f"\n{json.dumps(task.right)}"}
    return {
        "content": f"The answer is {task.right:,}." if task.kind == "arithmetic" else task.right
    }


def wrongly(kind: str, share: float = 1.0) -> Callable[[Message], Message]:
    """An engine that breaks that share of the answers of one kind, the same ones each time."""

    def answer(body: Message) -> Message:
        task = TASKS[body["messages"][0]["content"]]
        same = [one.prompt for one in TASKS.values() if one.kind == task.kind]
        if task.kind != kind or same.index(task.prompt) >= share * len(same):
            return rightly(body)
        if kind == "tool":
            return {"content": '<tool_call>{"name": "set_tim'}
        return {"content": '{"name": "Ada", "age' if kind == "json" else "The answer is 7."}

    return answer


def noisily(body: Message) -> Message:
    """Two of a hundred answers end in another word, whoever asks."""
    made = rightly(body)
    if "content" in made and random.random() < 0.1 and "answer" not in made["content"]:
        return {"content": made["content"] + " indeed"}
    return made


def ab(folder: Path, *engines: Callable[[Message], Message]) -> tuple[int, str]:
    """Exit status of the on run, and what it printed on one line."""
    words = ["bench", "run", str(folder), "--check-quality", "--concurrency", "2", "--ctx", "32"]
    words += ["--requests", "8", "--output-tokens", "8", "--seeds", "1", "--warmup", "0"]
    for (arm, pace), answer in zip(ARMS, engines, strict=True):
        with serve(**pace, answer=answer) as url:
            done = run(*words, "--url", url, "--arm", arm, "--hw", "h100", "--model",
                       "qwen3.6-35b-a3b", *(("--k", "2") if arm == "on" else ()))  # fmt: skip
        assert done.code == 0 or arm == "on", done.err
    return done.code, " ".join((done.out + done.err).split())


def test_the_same_answers_are_no_alarm(tmp_path: Path) -> None:
    status, said = ab(tmp_path, rightly, rightly)
    assert status == 0
    assert "same answers within the engine's own noise: 0 of 56 answers differ" in said
    assert "right: 56 off, 56 on" in said


@pytest.mark.parametrize(
    ("kind", "share", "broken"),
    [("arithmetic", 0.25, False), ("copy", 1.0, True), ("json", 1.0, True), ("tool", 1.0, True)],
)  # fmt: skip
def test_an_engine_that_answers_wrongly_is_an_alarm(
    kind: str, share: float, broken: bool, tmp_path: Path
) -> None:
    status, said = ab(tmp_path, rightly, wrongly(kind, share))
    assert status == 1 and "QUALITY ALARM, speculation changes answers" in said
    assert (f"{kind} answers broke" in said) == broken
    setting = ("--hw", "h100", "--model", "qwen3.6-35b-a3b")
    done = run("receipt", str(tmp_path), *setting, "--out", str(tmp_path / "out"))
    assert done.code == 0, done.err
    (path,) = (tmp_path / "out").glob("*.json")
    assert json.loads(path.read_text())["quality"]["alarm"] is True
    assert "QUALITY ALARM" in path.with_suffix(".html").read_text()


def test_an_engine_that_is_as_wrong_without_speculation_is_no_alarm(tmp_path: Path) -> None:
    assert ab(tmp_path, wrongly("json"), wrongly("json"))[0] == 0


def test_the_engines_own_noise_is_no_alarm(tmp_path: Path) -> None:
    random.seed(3)
    status, said = ab(tmp_path, noisily, noisily)
    assert status == 0 and "0 between repeats" not in said, said


def test_servers_that_answer_nothing_are_no_proof(tmp_path: Path) -> None:
    status, said = ab(tmp_path, lambda _: {}, lambda _: {})
    assert status == 0 and "right: 0 off, 0 on; no answer was right" in said


def test_one_that_refuses_tools_only_with_speculation_is_an_alarm(tmp_path: Path) -> None:
    status, said = ab(tmp_path, rightly, lambda body: {} if "tools" in body else rightly(body))
    assert status == 1 and "tool answers broke" in said


def test_the_set_is_fixed_and_each_task_is_right_for_its_own_answer() -> None:
    tasks = list(quality.tasks())
    assert len({task.prompt for task in tasks}) == len(tasks) == 28
    assert tasks[0].prompt == next(iter(TASKS))
    for task in tasks:
        if task.kind == "arithmetic":
            a, b, c = map(int, re.findall(r"\d+", task.prompt))
            assert a * b + c == task.right


def test_a_damaged_check_is_one_sentence(tmp_path: Path) -> None:
    ab(tmp_path, rightly, rightly)
    (tmp_path / "quality-on.json").write_text('{"passes": [[], []]}' + "x")
    said = run("receipt", str(tmp_path)).err
    assert "run again with --check-quality" in said


def test_differences_are_weighed_against_the_noise_of_both() -> None:
    """By hand: with 3 of 56 between repeats a share of 0.061 is usual; 6 of 56 differ by a chance
    of one in six, 14 by less than one in a million.
    """

    def answers(changes: int, second: int = 0) -> Any:
        rows = [
            tuple({"task": f"t{i}", "kind": "copy", "right": True, "reading": "b" if i < n else "a"}
                  for i in range(28))
            for n in (changes, changes + second)
        ]  # fmt: skip
        return ArmAnswers.model_validate({"passes": rows})

    assert not compare(answers(0, 3), answers(3, 0)).alarm
    assert compare(answers(0, 3), answers(7, 0)).alarm
