"""Settings of a project: which rules, hardware, load and releases its files are judged by."""

from pathlib import Path

import pytest

from advisor.domain.nouns import AdvisorError
from advisor.lint import project
from advisor.lint.report import Report
from advisor.lint.validate import LEAST_FILES, validate
from advisor.render.findings.json_out import report_json
from advisor.render.findings.text import report_text

LAUNCH = (
    "vllm serve Qwen/Qwen3.6-27B-FP8 --max-num-sqes 8 --speculative-config "
    '\'{"method":"mtp","num_speculative_tokens":2}\'\n'
)


def judge(folder: Path, settings: str, name: str = "pyproject.toml", **asked: object) -> Report:
    project._read.cache_clear()
    for path in ("a.sh", "deploy/b.sh"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(LAUNCH)
    (folder / name).write_text(settings)
    return validate(str(folder), project=True, **asked)  # type: ignore[arg-type]


def codes(report: Report, name: str) -> set[str]:
    return {one.code for one in report.findings if one.file.endswith(name)}


def test_keys_hold_for_all_files_and_for_those_of_a_path(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    settings = """[tool.advisor]
ignore = ["SD201"]
engine-version = {vllm = "0.25.1", sglang = "0.5.13"}
[tool.advisor.per-path."deploy/*"]
ignore = ["SD101"]
hw = "l4"
"""
    report = judge(tmp_path, settings)
    for name, gone, hw in (("a.sh", "SD201", None), ("b.sh", "SD101", "l4")):
        (launch,) = (one for one in report.launches if one.launch.file.endswith(name))
        hardware = launch.facts.hardware
        assert (hardware.id if hardware else None) == hw
        assert (launch.launch.engine_version, launch.launch.version_pinned) == ("0.25.1", True)
        assert gone not in codes(report, name) and "SD201" not in codes(report, name)
    assert "SD101" in codes(report, "a.sh") and "SD301" in codes(report, "b.sh")


def test_the_caller_wins_and_a_release_in_the_file_stands(tmp_path: Path) -> None:
    report = judge(
        tmp_path, '[tool.advisor]\nhw = "l4"\nengine-version = {vllm = "0.20.2"}', hw="h200"
    )
    assert {one.facts.hardware.id for one in report.launches if one.facts.hardware} == {"h200"}
    (tmp_path / "c.sh").write_text("docker run --gpus all vllm/vllm-openai:v0.25.1 --model a/b\n")
    report = judge(tmp_path, 'engine-version = {vllm = "0.20.2"}', "advisor.toml")  # comes first
    assert [one.launch.engine_version for one in report.launches] == ["0.20.2", "0.25.1", "0.20.2"]


def test_settings_of_others_and_above_the_repository_do_not_count(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / ".git").mkdir()
    (tmp_path / "advisor.toml").write_text('ignore = ["SD101"]')
    for text in ("[tool.other]\nhw = 1", "not [ toml"):
        assert "SD101" in codes(judge(inner, text), "a.sh")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ('harware = "l4"', "harware"),
        ("gpus = 0", "whole number"),
        ("gpus = true", "whole number"),
        ('ignore = "SD201"', "list"),
        ('engine-version = "0.25.1"', "releases"),
        ('engine-version = {vlm = "0.25.1"}', "releases"),
        ("[per-path.'*']\nhw = 3", "hw"),
        ("[per-path.'*'.per-path]", "per-path"),
        ("per-path = 3", "per-path"),
        ("x = [", "TOML"),
        ('hw = "no such thing"', "no such thing"),
        ('ignore = ["SD999"]', "SD999"),
    ],
)
def test_what_is_no_setting_is_said(tmp_path: Path, settings: str, words: str) -> None:
    with pytest.raises(AdvisorError, match=words):
        judge(tmp_path, settings, "advisor.toml")


def test_several_processes_give_the_same_answer(tmp_path: Path) -> None:
    for number in range(LEAST_FILES):
        (tmp_path / f"{number:03}.sh").write_text(LAUNCH.replace("seqs 8", f"seqs {number}"))
    (tmp_path / "bad.sh").write_bytes(b"\0\1\2")
    alone, shared = (validate(str(tmp_path), jobs=jobs, hw="l4") for jobs in (1, 3))
    assert report_text(alone) == report_text(shared) and report_json(alone) == report_json(shared)
    assert len(shared.launches) == LEAST_FILES and shared.failures
