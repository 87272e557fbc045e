"""`validate` and its command: reports, formats, ignores, exit status, fixes and migration."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from advisor.cli.app import cli
from advisor.cli.validate import context_of
from advisor.domain.nouns import AdvisorError, Plan
from advisor.knowledge import detect, store
from advisor.lint import compare
from advisor.lint.report import Change
from advisor.lint.validate import validate
from advisor.render.findings.hosts import report_sarif
from advisor.render.findings.json_out import report_json, validate_schema
from advisor.render.findings.text import describe_launch
from tests.tables import load_yaml

CORPUS = Path(__file__).parents[1] / "corpus"
REMOVED = "llama-server -m /models/Qwen3.5-27B-Q4_K_M.gguf --draft-max 8\n"
BARE = "docker run ghcr.io/ggml-org/llama.cpp:server-cuda-b10236 -m /m/q.gguf -fa --jinja\n"


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(
        cli, ["validate", *arguments], input=text, standalone_mode=False, catch_exceptions=True
    )


def status(result: Result) -> int:
    return result.return_value if isinstance(result.return_value, int) else result.exit_code


def test_a_report_says_what_was_read() -> None:
    report = validate(str(CORPUS / "case-099.yaml"))
    (one,) = report.launches
    assert (one.launch.engine, one.launch.engine_version) == ("vllm", "0.26.0")
    assert (one.plan.method, one.plan.k) == ("mtp", 1)
    assert report.files[0].form == "kubernetes" and report.files[0].launches == 1
    assert all(
        finding.file.endswith("case-099.yaml") and finding.line > 0 and finding.sources
        for finding in report.findings
    )


def test_text_path_and_several_paths() -> None:
    assert [finding.code for finding in validate(REMOVED).findings] == [
        finding.code for finding in validate(text=REMOVED).findings
    ]
    both = validate([str(CORPUS / "case-014.sh"), str(CORPUS / "case-101.sh"), "missing.yaml"])
    assert len(both.launches) == 2 and both.failures
    assert "no such file" in (both.files[2].error or "") and len(validate(str(CORPUS)).files) >= 70
    with pytest.raises(AdvisorError):
        validate("missing.yaml")
    with pytest.raises(AdvisorError):
        validate([])


def test_the_callers_release_outweighs_the_files() -> None:
    report = validate(text=REMOVED, engine_version="0.5.0")
    (one,) = report.launches
    assert one.launch.version_pinned and one.launch.engine_version == "0.5.0"
    assert any(finding.severity == "error" for finding in report.findings)
    assert not any(finding.severity == "error" for finding in validate(text=REMOVED).findings)


def change_of(text: str, hw: str = "h200", concurrency: int = 1, **given: Any) -> Change:
    (one,) = validate(
        text + "\n", hw=hw, concurrency=concurrency, ctx=2048, changes=True, **given
    ).launches
    return one.change


def test_experts_moved_into_host_memory_are_named() -> None:
    """A gain of 3.28x stood beside "max_num_seqs default -> 4" alone."""
    moved = "llama-server -m Qwen3.6-35B-A3B-Q4_K_M.gguf -ngl 99 -c 16384 --n-cpu-moe 20"
    assert ("layers in host memory", 20, 0) in change_of(moved, "rtx3090").fields


def test_a_change_compares_speeds_not_speed_ups() -> None:
    """A plan without CUDA graphs gains more from MTP and is still slower."""
    off = "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 1 --no-enable-prefix-caching"
    mtp = off + ' --speculative-config \'{"method":"mtp","num_speculative_tokens":2}\''
    with_graphs, without, plain = (
        change_of(text, engine_version="0.25.1") for text in (mtp, f"{mtp} --enforce-eager", off)
    )
    assert "cuda_graphs off -> on" in without.lines[0]
    assert "cuda_graphs" not in {name for name, *_ in with_graphs.fields}
    assert dict(without.ratios)["output_tok_s"] > 1.2 * dict(with_graphs.ratios)["output_tok_s"]
    assert "method" in {name for name, *_ in plain.fields}
    # at one load each request's rate and its time a token are one thing
    rate, time = (dict(plain.ratios)[name] for name in ("output_tok_s", "tpot"))
    assert rate > 1 and time == pytest.approx(rate, rel=0.1)


CHANGES = load_yaml(Path(__file__).with_name("changes.yaml"))


@pytest.mark.parametrize("case", CHANGES["words"])
def test_a_change_in_words(case: dict[str, Any]) -> None:
    assert Change(**case["change"]).lines == [case["line"]]


@pytest.mark.parametrize(("present", "wanted", "fields"), CHANGES["fields"])
def test_what_differs_in_what_matters(present: Any, wanted: Any, fields: list[list[Any]]) -> None:
    extra = {"extra": tuple(map(tuple, present.get("extra", ())))}
    plans = (Plan(engine="vllm", **row) for row in (present | extra, wanted))
    assert [list(field) for field in compare._fields(*plans)] == fields


def test_a_drafter_that_recommend_does_not_know_is_kept_where_it_gains() -> None:
    text = (
        "vllm serve Qwen/Qwen2.5-72B-Instruct-FP8 --speculative-config "
        '\'{"method":"eagle3","model":"me/Qwen2.5-72B-eagle3","num_speculative_tokens":3}\''
    )
    change = change_of(text, engine_version="0.25.1")
    assert (change.decision, change.fields) == ("keep", ())
    assert "keep this file's drafter" in change.lines[0]
    assert "eagle3 is expected to give x" in change.lines[0]


def test_the_faster_of_two_drafters_is_kept() -> None:
    """DFlash at one request is priced above the model's own head."""
    text = (
        "vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config "
        '\'{"method":"dflash","model":"z-lab/Qwen3.6-27B-DFlash","num_speculative_tokens":7}\''
    )
    change = change_of(text, "rtx-pro-6000", workload="code")
    assert dict(change.ratios)["output_tok_s"] > 1
    assert "method" not in {name for name, *_ in change.fields}


DRAFTERS = {
    "dflash": ("z-lab/Qwen3.6-27B-DFlash", 7),
    "dspark": ("someone/Qwen3.6-27B-DSpark", 7),
    "ngram": (None, 3),
    "draft_model": ("Qwen/Qwen3-0.6B", 3),
}


@pytest.mark.parametrize("method", DRAFTERS)
@pytest.mark.parametrize(("hw", "concurrency"), [("rtx-pro-6000", 1), ("h100", 1), ("h100", 32)])
def test_no_drafter_is_advised_that_is_slower(method: str, hw: str, concurrency: int) -> None:
    model, k = DRAFTERS[method]
    config = {"method": method, "num_speculative_tokens": k} | ({"model": model} if model else {})
    text = f"vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config '{json.dumps(config)}'"
    change = change_of(text, hw, concurrency, workload="code")
    other = {new for name, _, new in change.fields if name == "method"} - {"none"}
    assert not change.problem and (not other or dict(change.ratios)["output_tok_s"] > 1)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (REMOVED, True),
        (REMOVED.rstrip() + "  # advisor: ignore=SD102 old build\n", False),
        ("# advisor: ignore=SD102 old build\n" + REMOVED, False),
        ("# advisor: ignore=SD1\n" + REMOVED, False),
        ("# advisor: ignore=removed-flag\n" + REMOVED, False),
        ("# advisor: ignore=SD201,SD102 two\n" + REMOVED, False),
        ("# advisor: ignore=SD201 other\n" + REMOVED, True),
        ("# advisor: ignore-file=SD102 all of it\n\n\necho a\n" + REMOVED, False),
        ("# advisor: ignore=SD102 too far\n\n\n" + REMOVED, True),
        (
            "# advisor: ignore=SD102\nllama-server \\\n  -m /models/Qwen3.5-27B-Q4_K_M.gguf \\\n "
            " --draft-max 8\n",
            False,
        ),
        (
            "[q]\nmodel = /m/Qwen3.5-27B-Q4_K_M.gguf\n; advisor: ignore=SD102 "
            "reason\ndraft-max = 8\n",
            False,
        ),
    ],
)
def test_inline_ignores(text: str, kept: bool) -> None:
    report = validate(text=text, name="a.ini" if text.startswith("[") else "-")
    assert any(finding.code == "SD102" for finding in report.findings) == kept
    assert kept or report.files[0].suppressed >= 1


@pytest.mark.parametrize(
    "name", ["case-075.yaml", "case-101.sh", "case-012.yaml", "case-118.ini", "case-103.sh"]
)
def test_json_follows_its_schema(name: str) -> None:
    told = json.loads(run(str(CORPUS / name), "--format", "json", "--fail-on", "never").output)
    jsonschema.Draft202012Validator(validate_schema()).validate(told)
    assert told["launches"][0]["engine"] and told["findings"]


def test_sarif_and_json_carry_fixes() -> None:
    report = validate(text=BARE, name="a.sh")
    result = next(x for x in report_sarif(report)["runs"][0]["results"] if x["ruleId"] == "SD120")
    (replacement,) = result["fixes"][0]["artifactChanges"][0]["replacements"]
    assert replacement["insertedContent"]["text"] == "-fa on"
    assert replacement["deletedRegion"]["startLine"] == 1
    assert (
        next(f for f in report_json(report)["findings"] if f["code"] == "SD120")["fix"]["safe"]
        is True
    )


def test_github_annotates_lines() -> None:
    """GitHub's commands are error, warning and notice (workflow-commands in its documentation)."""
    result = run(str(CORPUS / "case-084.sh"), "--format", "github")
    heads = [line.split(" ")[0] for line in result.output.splitlines()]
    assert heads == ["::error", "::warning", "::notice", "::warning"]
    assert ",line=3,col=" in result.output and status(result) == 1


@pytest.mark.parametrize(
    ("arguments", "text", "expected"),
    [
        (("-",), "vllm serve Qwen/Qwen3.6-27B --max-num-seqs 4\n", 0),
        (("-",), REMOVED, 0),
        (("--fail-on", "warning", "-"), REMOVED, 1),
        (("--fail-on", "info", "-"), "docker run vllm/vllm-openai --model m\n", 1),
        (("--fail-on", "warning", "-"), "docker run vllm/vllm-openai --model m\n", 0),  # SD238
        (("--fail-on", "never", "--engine-version", "0.5.0", "-"), REMOVED, 0),
        (("--engine-version", "0.5.0", "-"), REMOVED, 1),
        (("--engine-version", "0.5.0", "--ignore", "SD102", "-"), REMOVED, 0),
        (("--skip-unrelated", "-"), "echo hello\n", 0),
    ],
)
def test_exit_status(arguments: tuple[str, ...], text: str, expected: int) -> None:
    assert status(run(*arguments, text=text)) == expected


@pytest.mark.parametrize("arguments", [("missing.yaml",), ("-",), ("--hw", "nothing-like-it", "-")])
def test_what_cannot_be_judged_is_one_sentence(arguments: tuple[str, ...]) -> None:
    text = "vllm serve Qwen/Qwen3.6-27B --port 1\n" if "--hw" in arguments else "echo hello\n"
    failed = run(*arguments, text=text).exception
    assert isinstance(failed, AdvisorError) and "\n" not in str(failed)


def test_one_unreadable_file_of_several(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.sh").write_text("vllm serve Qwen/Qwen3.6-27B --max-num-seqs 4\n")
    result = run(str(tmp_path))
    assert status(result) == 2 and "unreadable" in result.output and "Qwen3.6-27B" in result.output


def test_fix_applies_safe_fixes_once(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_text(BARE)
    shown = run(str(path), "--diff")
    assert (
        "+docker run ghcr.io/ggml-org/llama.cpp:server-cuda-b10236 -m /m/q.gguf -fa on --jinja"
        in shown.output
    )
    assert status(shown) == 1 and path.read_text() == BARE
    run(str(path), "--fix")
    fixed = path.read_text()
    assert fixed == BARE.replace("-fa --jinja", "-fa on --jinja")
    run(str(path), "--fix")
    assert (path.read_text(), status(run(str(path), "--diff"))) == (fixed, 0)


def test_the_hook_file_calls_a_command_that_is_there() -> None:
    import yaml

    (hook,) = yaml.safe_load((CORPUS.parents[1] / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"].split()[:2] == ["advisor", "validate"]
    assert status(run(*hook["entry"].split()[2:], str(CORPUS / "case-082.sh"))) == 0


def test_githubs_commands_take_what_ends_their_parts_as_percent_codes(tmp_path: Path) -> None:
    """GitHub's toolkit, command.ts (`escapeProperty`): %, line ends, colons, commas."""
    (tmp_path / "a,b:100%.sh").write_text("vllm serve m --max-num-sqes 4\n")
    result = run(str(tmp_path / "a,b:100%.sh"), "--format", "github")
    assert f"::error file={tmp_path}/a%2Cb%3A100%25.sh,line=1,col=14,title=SD101" in result.output


def test_a_given_number_of_cards_comes_before_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "detect", lambda: (store.hardware("h100"), 8))
    options = dict.fromkeys(("concurrency", "ctx", "output_tokens", "workload"))
    options |= {"engine_version": None, "select": (), "ignore": (), "hw": "auto"}
    assert context_of(options | {"gpus": 4}) == {"hw": "h100-sxm", "gpus": 4}
    assert context_of(options | {"gpus": None}) == {"hw": "h100-sxm", "gpus": 8}


UNREAD = (
    'vllm serve m/A --speculative-config "$SPEC"', "vllm serve $ARGS", 'llama-server -m a "$@"',
    'vllm serve m/A --speculative-config "$(cat spec.json)"', "llama-server -m a --spec-type $SPEC",
    "sglang serve --model-path m/A --speculative-algorithm $A",
    "docker run --env-file a.env ghcr.io/ggml-org/llama.cpp:server-cuda-b9235 -m a.gguf",
)  # fmt: skip


@pytest.mark.parametrize("text", ("vllm serve --config 10.yaml", *UNREAD))
def test_what_is_not_read_leaves_speculation_open(text: str) -> None:
    report, why = validate(text=f"{text}\n"), "a variable" if text in UNREAD else "--config"
    assert describe_launch(report.launches[0]).endswith(f"speculation not known ({why})")
    assert report_json(report)["launches"][0]["plan"]["method"] is None


def test_a_file_is_compared_with_its_own_pipeline_stages() -> None:
    text = "vllm serve zai-org/GLM-4.5-Air-FP8 -tp 2 -pp 2 --max-model-len 8192"
    assert "does not fit" not in change_of(text, "l40s", 8, gpus=4).problem
