"""The text of a report: the marked line of the file, links, what was not asked, shared fixes."""

import re
from pathlib import Path

from advisor.lint.validate import validate
from advisor.render.findings.hosts import report_sarif
from advisor.render.findings.text import link, report_text

CORPUS = sorted(Path(__file__).parents[1].glob("corpus/case-*"))[::3]
HYBRID = (
    "docker run --gpus all --ipc=host vllm/vllm-openai:v0.28.0 --model Qwen/Qwen3.8-27B-FP8 "
    '--max-num-seqs 4 --enable-prefix-caching --speculative-config \'{"method":"mtp",'
    '"num_speculative_tokens":3}\''
)
MARKED = re.compile(r"^\S*:(\d+):(\d+): .*\n    \| (.*)\n    \| ( *)\^$", re.M)


def test_the_mark_stands_below_the_character_of_the_place() -> None:
    texts = [(path, report_text(validate(str(path)))) for path in CORPUS]
    marks = [(path, mark) for path, text in texts for mark in MARKED.findall(text)]
    assert len(marks) >= len(CORPUS) / 2
    for path, (line, column, shown, blanks) in marks:
        lines = path.read_bytes().decode("utf-8", "replace").split("\n")
        assert shown[len(blanks)] == lines[int(line) - 1].replace("\t", " ")[int(column) - 1]
        assert len(shown) <= 100


def test_the_mark_is_there_and_a_secret_is_not() -> None:
    text = "vllm serve Qwen/Qwen3-8B --max-num-sqes 4"
    shown = report_text(validate(text=text, name="a.sh"))
    assert f"    | {text}\n    | {' ' * text.index('--max')}^\n" in shown
    for secret in ("--api-key Secr3tSecr3t", '--api-key "Secr3t\\"Secr3t"', "--api-key 'a'Secr3t"):
        shown = report_text(validate(text=f"{text} {secret}", name="a.sh"))
        assert "SD101" in shown and "Secr3t" not in shown


def test_what_was_not_asked_is_said_in_words_and_in_codes_where_they_are_wanted() -> None:
    report = validate(text="vllm serve Qwen/Qwen3-8B")
    short, long = (report_text(report, verbose=verbose) for verbose in (False, True))
    assert "skipped: pass --hw, --concurrency, --ctx" in short
    assert not re.search(r"SD\d{3}", short)
    for one in report.skipped:
        assert one.code in long


def test_two_findings_of_one_decision_are_one_entry() -> None:
    report = validate(text=HYBRID, name="a.sh")
    edits = {one.code: one.fix.edits for one in report.findings if one.fix}
    assert edits["SD202"] == edits["SD203"] != ()
    short, long = (report_text(report, verbose=verbose) for verbose in (False, True))
    assert "same fix: info SD203" in short and short.count("fix (--unsafe-fixes)") == 1
    assert "same fix" not in long and long.count("fix (--unsafe-fixes)") == 2
    assert {one["ruleId"] for one in report_sarif(report)["runs"][0]["results"]} >= {*edits}


def test_sources_are_addresses() -> None:
    assert link("vllm-project/vllm#40756") == "https://github.com/vllm-project/vllm/issues/40756"
    assert link("vllm 0.19.1 parser") == "vllm 0.19.1 parser"
    report = validate(text=HYBRID, name="a.sh")
    assert "https://github.com/vllm-project/vllm/issues/43559" in report_text(report)
    for rule in report_sarif(report)["runs"][0]["tool"]["driver"]["rules"]:
        assert rule["helpUri"].startswith("https://github.com/vllm-project/vllm/issues/")
