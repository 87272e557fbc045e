"""Loads other than so many requests at a time: conversations, shared prefixes, fixed rates; and
whether answers stay the same under speculation.
"""

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_run import run
from readers.results.test_bench_run import QUICK, serve, take_the_servers_clock

from advisor.lab import bench_plan as plans
from advisor.lab import load, quality
from advisor.readers.results.formats import read_results
from advisor.readers.results.own_runs import Header, RequestRecord
from advisor.readers.results.quality import ArmAnswers, compare


def measure(folder: Path, requests: int, pace: dict[str, Any], **more: Any) -> list[RequestRecord]:
    """The requests of one run of a plan against the paced server, in the order of the file."""
    with serve(**QUICK | pace) as url:
        plan = {"hardware": "h100", "model": "qwen3.6-35b-a3b", "engine": "vllm", "url": url,
                "concurrency": 4, "input_tokens": 100, "output_tokens": 8, "requests": requests,
                "warmup": 0, "arms": [{"name": "off", "argv": ["-"]}]}  # fmt: skip
        plan |= {"seeds": [1]} | more
        (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
        done = run("bench", "run", str(folder), "--url", url, "--arm", "off")
    assert done.code == 0, done.err
    (path,) = folder.glob("off-seed*.jsonl")
    lines = path.read_text().splitlines()
    return [RequestRecord.model_validate_json(line) for line in lines if '"i"' in line]


def test_each_turn_is_sent_with_what_was_said(tmp_path: Path) -> None:
    rows = {row.i: row for row in measure(tmp_path, 7, {}, turns=3)}
    assert sorted(rows) == list(range(7))
    for first in (0, 3):
        for before, after in ((first, first + 1), (first + 1, first + 2)):
            told, asked = rows[before], rows[after]
            assert (asked.input_tokens or 0) > (told.input_tokens or 0) + told.output_tokens
            assert asked.start_s >= told.end_s, "a turn waits for the answer before it"
    assert (rows[3].input_tokens or 0) < (rows[2].input_tokens or 0)


def test_a_conversation_that_broke_off_begins_anew(tmp_path: Path) -> None:
    rows = measure(tmp_path, 6, {}, turns=3)
    path = tmp_path / "off-seed1.jsonl"
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    rest = [row for row in kept if row.get("i") not in (1, 2)]  # as a kill in its third turn
    path.write_text("".join(json.dumps(row) + "\n" for row in rest) + '{"i": 2, "start_s": 0.')
    again = measure(tmp_path, 6, {}, turns=3)
    assert sorted(row.i for row in again[4:]) == [0, 1, 2] and len(rows) == 6
    assert read_results(path)[0].requests == 6, "a turn that was asked twice counts once"


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_shared_prefix_is_that_share_of_every_prompt(share: float) -> None:
    prompts = plans.make_prompts(8, 2000, "chat", 1, prefix_share=share)
    others = plans.make_prompts(8, 2000, "chat", 2, prefix_share=share)
    common = len(os.path.commonprefix([*prompts, *others]))  # noqa: RUF071
    mean = sum(map(len, prompts)) / len(prompts)
    assert common / mean == pytest.approx(share, abs=0.05)
    assert mean == pytest.approx(len(plans.make_prompts(1, 2000, "chat", 1)[0]), rel=0.1)


def test_a_rate_is_kept_however_long_answers_take(tmp_path: Path) -> None:
    """Requests start when they are due, though each takes longer than the time between two."""
    rows = measure(tmp_path, 24, {"ttft_ms": 200.0}, rate=40.0, seeds=[3])
    dice, due = random.Random(3), 0.0
    for row in sorted(rows, key=lambda one: one.i):
        due += dice.expovariate(40.0)
        assert row.start_s >= due - 1e-3
    starts = [row.start_s for row in rows]
    together = max(sum(row.start_s <= at < row.end_s for row in rows) for at in starts)
    assert together > 4, "as many at a time as --concurrency: the rate was not kept"
    (made,) = read_results(tmp_path / "off-seed3.jsonl")
    assert made.request_rate == 40.0 and made.concurrency is None


@pytest.mark.parametrize(("limit", "share"), [(1.0, 0.0), (10_000.0, 1.0)])
def test_goodput_is_what_kept_to_the_objectives(limit: float, share: float, tmp_path: Path) -> None:
    measure(tmp_path, 8, {"ttft_ms": 20.0}, max_ttft_ms=limit)
    (made,) = read_results(tmp_path / "off-seed1.jsonl")
    assert made.goodput_rps == pytest.approx(share * 8 / (made.duration_s or 0), rel=1e-6)
    assert ("goodput" in run("results", str(tmp_path / "off-seed1.jsonl")).out) is True


def test_a_plan_takes_all_of_them(tmp_path: Path) -> None:
    words = ("--hw", "h100", "--model", "qwen3.6-35b-a3b", "--turns", "3", "--rate", "2.5",
             "--prefix-share", "0.4", "--max-ttft-ms", "900", "--out", str(tmp_path))  # fmt: skip
    assert run("bench", "plan", *words).code == 0
    made = plans.read(tmp_path)
    assert (made.turns, made.rate, made.prefix_share, made.max_ttft_ms) == (3, 2.5, 0.4, 900)
    script = (tmp_path / "run.sh").read_text()
    sent = [line for line in script.splitlines() if "--save-result" in line]
    assert all("--request-rate 2.5" in line and "--max-conc" not in line for line in sent) and sent
    assert "Conversations of several turns: `advisor bench run` only" in script


def test_files_of_before_these_loads_go_on(tmp_path: Path) -> None:
    old = Header(arm="off", seed=1, concurrency=1, requests=2, input_tokens=1, output_tokens=1,
                 workload="chat", date="2026-11-01", prompts_sha256="0")  # fmt: skip
    names = {"turns", "prefix_share", "request_rate", "max_ttft_ms", "max_tpot_ms"}
    path = tmp_path / "off.jsonl"
    path.write_text(old.model_dump_json(exclude=names) + "\n")
    assert load.resume(path, old.model_copy(update={"date": "2026-11-02"})) == (set(), 0)
    with pytest.raises(load.AdvisorError, match=r"off\.jsonl is of another run \(seed differ\)"):
        load.resume(path, old.model_copy(update={"seed": 2}))


Message = dict[str, Any]
TASKS = {task.prompt: task for task in quality.tasks()}
TIMED = {**QUICK, "rounds_of": 2}  # of the requests at once: on the server's clock
ARMS = (("off", TIMED), ("on", {**TIMED, "k": 2, "rates": (0.75, 0.53)}))


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
        with serve(**pace, answer=answer) as url, pytest.MonkeyPatch.context() as patch:
            take_the_servers_clock(patch)
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
def test_a_wrong_engine_is_an_alarm(kind: str, share: float, broken: bool, tmp_path: Path) -> None:
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
    assert "run again with --check-quality" in run("receipt", str(tmp_path)).err


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
