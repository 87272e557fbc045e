"""One launch or file at which the program fails takes no other with it, and no number of a file
makes it fail: zero, negative, no number, or more than there can be.
"""

import importlib
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from advisor import engines, rules
from advisor.advice import judge as judging
from advisor.cli.validate import validate as command
from advisor.lint.report import Report
from advisor.lint.validate import validate
from advisor.perf import memory
from advisor.render.findings.json_out import report_json
from tests.tables import spread

lint = importlib.import_module("advisor.lint.validate")

HEADS = {
    "vllm": "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config "
    '\'{"method":"mtp","num_speculative_tokens":2}\'',
    "sglang": "python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 "
    "--speculative-algorithm EAGLE",
    "llama-server": "llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp",
}
DEPTHS = {
    "vllm": HEADS["vllm"].replace("{", "{{").replace(":2}", ":{k}}}"),
    "sglang": HEADS["sglang"] + " --speculative-num-steps {k} --speculative-eagle-topk 1"
    " --speculative-num-draft-tokens {tokens}",
    "llama-server": HEADS["llama-server"] + " --spec-draft-n-max {k}",
}
LOAD: dict[str, Any] = {"hw": "h100", "concurrency": 4, "ctx": 2048, "changes": True}
VALUES = ("0", "-1", "nan", "inf", str(10**20), "1e308", "", "9" * 5000, "1024", "2147483647")


def options(engine: str) -> list[str]:
    """The options whose number a plan reads."""
    adapter = engines.get(engine)
    read = [name for name, field in adapter.FIELDS.items() if field.bounds is not None]
    read += [name for name in adapter.COUNTS if "." not in name]
    assert len(read) > 5 and set(read) <= set(adapter.catalogue.names())
    return read


def judge(text: str) -> Report:
    return validate(text=text, name="a.sh", **LOAD)


@pytest.mark.parametrize("engine", HEADS)
@pytest.mark.parametrize("beside", spread(("", " --enable-dp-attention --tp-size 8"), 2))
def test_no_number_of_a_file_makes_it_fail(engine: str, beside: str) -> None:
    failed = []
    for value in VALUES:
        lines = [f"{HEADS[engine]}{beside} {name} {shlex.quote(value)}" for name in options(engine)]
        report = judge("\n".join(lines) + "\n")
        assert sum(one.launches for one in report.files) == len(lines)
        failed += [(lines[one.line - 1], one.reason) for one in report.failures]
    assert not failed


@pytest.mark.parametrize("engine", HEADS)
@pytest.mark.parametrize("value", ["0", "nan", str(10**20)])
def test_a_number_that_no_server_takes_is_a_finding_alone(engine: str, value: str) -> None:
    names = {
        "vllm": ("--tensor-parallel-size", "--data-parallel-size", "--gpu-memory-utilization"),
        "sglang": ("--tp-size", "--dp-size", "--mem-fraction-static"),
        "llama-server": ("--batch-size",),
    }[engine]
    for name in names:
        report = judge(f"{HEADS[engine]} {name} {value}\n")
        (one,) = report.launches
        assert {"SD107", "SD314"} & {found.code for found in report.findings}, name
        assert "estimate" not in report_json(report)["launches"][0] and one.change is None
        assert any(left.code == "estimate" and left.needs == (name,) for left in report.skipped)


def test_more_devices_in_all_than_there_can_be() -> None:
    words = "--tensor-parallel-size 1000 --pipeline-parallel-size 1000 --data-parallel-size 1000"
    (one,) = judge(f"{HEADS['vllm']} {words}\n").launches
    assert set(one.not_taken) == set(words.split()[::2]) and one.facts.gpus == 1


def test_the_work_does_not_grow_with_a_number_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    work = []
    for k in (1_000, 100_000):
        count = Mock(wraps=memory.max_requests)
        monkeypatch.setattr(memory, "max_requests", count)
        validate(text=HEADS["vllm"].replace(":2}", f":{k}}}"), hw="h100", concurrency=512, ctx=2048)
        work.append(count.call_count)
        monkeypatch.undo()
    assert 0 < work[1] == work[0] < 50


BROKEN = "vllm serve Qwen/Qwen3-8B --port 1\n"
OTHERS = "vllm serve Qwen/Qwen3-14B --enforce-eager --port banana\n"


@pytest.mark.parametrize("engine, option", DEPTHS.items())
def test_no_speed_is_said_of_a_draft_longer_than_any_measured(engine: str, option: str) -> None:
    for k, priced in ((8, True), (64, True), (65, False), (10_000_000, False)):
        one = judge(option.format(k=k, tokens=k + 1)).launches[0]
        assert one.plan.k == k and one.change is not None
        assert bool(one.change.ratios) == priced, (k, one.change)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, arguments)
    return result.exit_code, result.output


@pytest.fixture(params=[ZeroDivisionError, MemoryError, RecursionError, KeyError])
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Exception]:
    """Rules that fail at one launch."""
    real: Callable[..., Any] = rules.check

    def check(case: Any, *arguments: Any) -> Any:
        if case.launch.model == "Qwen/Qwen3-8B":
            raise request.param("hf_SecretSecretSecret")
        return real(case, *arguments)

    monkeypatch.setattr(rules, "check", check)
    kind: type[Exception] = request.param
    return kind


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
def test_a_launchs_failure_is_a_line(broken: type[Exception], form: str, tmp_path: Path) -> None:
    one, two = tmp_path / "one.sh", tmp_path / "two.sh"
    one.write_text(OTHERS + BROKEN)
    two.write_text(OTHERS)
    status, shown = run(str(one), str(two), "--format", form)
    assert status == 2 and "Traceback" not in shown and "hf_Secret" not in shown
    assert shown.count(broken.__name__) == 1 and shown.count("SD107") >= 2
    if form == "json":
        (first, second) = json.loads(shown)["files"]
        assert [row["line"] for row in first["not_checked"]] == [2] and not second["not_checked"]
    elif form == "sarif":
        (told,) = json.loads(shown)["runs"][0]["invocations"]
        place = told["toolExecutionNotifications"][0]["locations"][0]["physicalLocation"]
        assert place["region"] == {"startLine": 2} and not told["executionSuccessful"]
    elif form == "text":
        assert f"{one}:2: not checked: " in shown
    else:
        assert "one.sh,line=2::not checked" in shown


def test_a_comparison_that_fails_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = judging._plain_plans
    plans = Mock(side_effect=lambda x: 1 / 0 if x.model.id == "qwen3-8b" else real(x))
    monkeypatch.setattr(judging, "_plain_plans", plans)
    report = judge(HEADS["sglang"] + "\n" + BROKEN)
    (failed,), (good, _) = report.failures, report.launches
    assert failed.line == 2 and "ZeroDivisionError" in failed.text and good.change.fields


def test_a_failure_in_reading_is_one_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("bad.sh", "good.sh"):
        (tmp_path / name).write_text(OTHERS)
    real: Callable[..., Any] = lint.read_path

    def read(path: str, **options: Any) -> Any:
        if path.endswith("bad.sh"):
            raise IndexError
        return real(path, **options)

    monkeypatch.setattr(lint, "read_path", read)
    status, shown = run(str(tmp_path))
    assert status == 2 and "IndexError" in shown and "SD107" in shown
    assert run(str(tmp_path / "bad.sh"))[0] == 2


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github"])
def test_a_named_file_without_a_launch_is_named(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    bad, good = tmp_path / "g.yaml", tmp_path / "good.sh"
    for path in (bad, folder / "h.yaml"):
        path.write_text("garbage")
    good.write_text("vllm serve Qwen/Qwen3-8B\n")
    status, shown = run(str(bad), str(good), "--format", form)
    assert status == 2 and "g.yaml" in shown and "no launch" in shown
    assert run(str(bad), str(good), "--skip-unrelated")[0] == 0
    assert run(str(folder), str(good))[0] == 0  # what a folder holds need not be a launch


FILES = "\n".join(HEADS.values()) + f"\n{HEADS['vllm']} --tensor-parallel-size 0\n{OTHERS}"


@pytest.mark.parametrize("fails", ["", "sglang"])
def test_a_launch_is_priced_alone_on_demand(fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = judging.estimate_questions

    def engines_of(asked: Any) -> list[str]:
        return [plans[0].engine for _, plans, _ in asked]

    price = Mock(side_effect=lambda asked: real(asked) if fails not in engines_of(asked) else 1 / 0)
    monkeypatch.setattr(judging, "estimate_questions", price)
    report = validate(text=FILES, name="a.sh", hw="h100", concurrency=4, ctx=2048)
    assert not price.called  # no finding needs one
    told = report_json(report)
    asked = [engine for call in price.call_args_list for engine in engines_of(call.args[0])]
    assert asked == list(HEADS) * (2 if fails else 1)  # together, and alone where one fails
    priced = [one["engine"] for one in told["launches"] if "estimate" in one]
    assert priced == [engine for engine in HEADS if engine != fails]
    lost = [one["needs"][0] for one in told["skipped"] if "ZeroDivisionError" in one["needs"][0]]
    assert len(lost) == bool(fails)
