"""What the rules' fixes write: the expected text in each form, safe ones only by default, nothing
left to do after.
"""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rulecases import doc_cases, yaml_cases

from advisor.domain.nouns import Edit, Finding, Fix
from advisor.lint import fixes
from advisor.lint.apply_fixes import apply_rounds, worse
from advisor.lint.report import Given, Report
from advisor.lint.validate import validate
from advisor.readers.source import SourceText
from tests.tables import load_yaml, spread

HERE = Path(__file__).parents[1]
ROWS: list[dict[str, Any]] = load_yaml(HERE / "fixes" / "cases.yaml")
FILES = sorted((HERE / "corpus").glob("case-*")) + sorted((HERE / "corpus2").glob("case-*"))
TOLD = {"version": "engine_version", "concurrency": "concurrency", "hw": "hw"}


def judge(text: str, name: str, **told: Any) -> Report:
    return validate(text=text, name=name, **told)


def fix(text: str, name: str, unsafe: bool, **told: Any) -> fixes.FileChange:
    """The change that --fix (or --unsafe-fixes) makes of a text."""
    report = judge(text, name, **told)
    return apply_rounds(report.reads[0].source, report, partial(judge, **told), unsafe)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['code']} {row['name']}")
def test_a_fix_writes_what_it_says(row: dict[str, Any], newline: str) -> None:
    text, fixed = (row[part].replace("\n", newline) for part in ("text", "fixed"))
    name, told = row.get("file", "-"), {TOLD[word]: row[word] for word in TOLD if word in row}
    told["select"] = [row["code"]]
    change = fix(text, name, not row["safe"], **told)
    assert change.text == fixed and not judge(fixed, name, **told).findings
    assert fix(fixed, name, True, **told).text == fixed
    assert row["safe"] or fix(text, name, False, **told).text == text


@pytest.mark.parametrize("part", spread(range(3), 3))
def test_an_edit_alone_takes_its_finding_away_and_adds_no_error(part: int) -> None:
    for case in [*doc_cases(), *yaml_cases()][part::3]:
        told = {key: value for key, value in case.given.items() if key in Given._fields}
        before, code = judge(case.text, "-", **told), case.name[:5].upper()
        for one in before.findings:
            change = fixes.apply_edits(before.reads[0].source, [one], unsafe=True).text
            if one.code == code and change != case.text:
                after = judge(change, "-", **told).findings
                left = [f for f in after if f.message == one.message and f.fix and f.fix.edits]
                errors, had = (
                    [f for f in x if f.severity == "error"] for x in (after, before.findings)
                )
                assert not left and len(errors) <= len(had), f"{case.name}: {change}"


@pytest.mark.parametrize("unsafe", [False, True])
@pytest.mark.parametrize("path", spread(FILES, 3), ids=lambda path: path.stem)
def test_real_files_get_better_or_stay(path: Path, unsafe: bool, tmp_path: Path) -> None:
    copy = tmp_path / path.name
    copy.write_bytes(path.read_bytes())
    before = validate(str(copy))
    change = apply_rounds(before.reads[0].source, before, judge, unsafe)
    assert fixes.write(change) == (change.text != before.reads[0].source.text)
    after = validate(str(copy))
    assert not worse(before, after)
    was, now = ([one.launch for one in report.launches] for report in (before, after))
    assert [(one.engine, one.model) for one in now] == [(one.engine, one.model) for one in was]
    assert not fixes.write(apply_rounds(after.reads[0].source, after, judge, unsafe))
    old, new = (text.splitlines() for text in (before.reads[0].source.text, change.text))
    assert [one.strip() for one in new if one.strip().startswith("#")] == [
        one.strip() for one in old if one.strip().startswith("#")
    ]


def test_a_fix_that_makes_things_worse_is_not_made() -> None:
    text = "vllm serve m/A --max-num-seqs 4 --port 1\n"
    source = SourceText(text, "-")
    breaks = Edit(file="-", start=0, end=len("vllm serve"), text="echo")
    works = Edit(file="-", start=text.index("4"), end=text.index("4") + 1, text="8")
    findings = tuple(
        Finding(
            code=code,
            severity="warning",
            message=code,
            file="-",
            fix=Fix(text="t", safe=True, edits=(edit,)),
        )
        for code, edit in (("SD101", breaks), ("SD102", works))
    )
    change = apply_rounds(source, validate(text=text)._replace(findings=findings), judge)
    assert change.text == text.replace("4", "8")
    assert [one.code for one in change.applied] == ["SD102"]


def test_places_that_cannot_be_edited_are_left() -> None:
    text = "vllm serve m/A --port ${P:-1} --dtype auto\n"
    start = text.index("--port")
    gone = fixes.shape_edit(text, Edit(file="-", start=start, end=text.index("1}") + 1, text=""))
    assert gone is not None and fixes.apply(text, [gone]) == "vllm serve m/A --dtype auto\n"
    inner = "vllm serve m/A --port ${P:-${Q:-1}}\n"
    start = inner.index("--port")
    assert (
        fixes.shape_edit(inner, Edit(file="-", start=start, end=inner.index("1}") + 1, text=""))
        is None
    )


SGLANG = "python -m sglang.launch_server --model-path m"
FIXES = f"""
SD133: vllm serve m [max-model-len -> --max-model-len] 8192
SD133: vllm serve m [\u2014max-num-seqs -> --max-num-seqs] 4
SD133: vllm serve m [max-model-len=8192 -> --max-model-len=8192] --port 1
SD101: vllm serve m [--gpu-memory-utilisation -> --gpu-memory-utilization] 0.9
SD101: {SGLANG} [--context-lenght -> --context-length] 4096
SD101: llama-server -m q.gguf [--context-size -> --ctx-size] 4096
SD101: llama-server -m q.gguf [--temp=0.7 -> --temp 0.7]
SD116: vllm serve m [--ctx-size -> --max-model-len] 4096
SD116: vllm serve m [--parallel -> --max-num-seqs] 4
SD116: {SGLANG} [--gpu-memory-utilization -> --mem-fraction-static] 0.8
SD116: llama-server -m q.gguf [--max-model-len -> --ctx-size] 4096
SD107: vllm serve m --kv-cache-dtype [q8_0 -> fp8]
SD107: vllm serve m --dtype [bf16 -> bfloat16]
SD107: vllm serve m --max-num-seqs [four -> 4]
SD107: vllm serve m --gpu-memory-utilization [90% -> 0.9]
SD107: vllm serve m --reasoning-parser [qwen-3 -> qwen3]
SD107: {SGLANG} --attention-backend [flash-infer -> flashinfer]
SD107: llama-server -m q.gguf --cache-type-k [fp8 -> q8_0]
SD107: llama-server -m q.gguf --device [cuda:0,cuda:1 -> CUDA0,CUDA1]
SD107: llama-server -m q.gguf -c [32k -> 32768]
SD107: llama-server -m q.gguf --split-mode [rows -> row]
SD130: vllm serve m [--enable-prefix-caching true -> --enable-prefix-caching]
SD130: vllm serve m [--enforce-eager=true -> --enforce-eager]
SD102: llama-server -m q.gguf [--no-mmap=true -> --load-mode none]
SD110: vllm serve m --speculative-config '{{"[num_spec_tokens -> num_speculative_tokens]": 2}}'
SD111: vllm serve m --speculative-config '{{"method": ["mpt" -> "mtp"]}}'
SD127: {SGLANG} --speculative-algorithm [EAGEL3 -> EAGLE3]
SD127: {SGLANG} --speculative-algorithm [MTP -> NEXTN]
SD113: llama-server -m q.gguf --spec-type [mtp -> draft-mtp]
SD114: llama-server -m q.gguf --spec-type [draft-mpt -> draft-mtp]
SD135: [VLLM_LOGING_LEVEL -> VLLM_LOGGING_LEVEL]=DEBUG vllm serve m
SD135: VLLM_USE_DEEP_GEMM=[no -> 0] vllm serve m
SD135: [LLAMA_ARG_NGL -> LLAMA_ARG_N_GPU_LAYERS]=99 llama-server -m q.gguf
SD135: [NCCL_P2P_DISABLED -> NCCL_P2P_DISABLE]=1 vllm serve m
"""


@pytest.mark.parametrize("line", FIXES.strip().splitlines())
def test_a_fix_writes_what_the_engine_reads(line: str) -> None:
    code, marked = line.split(": ", 1)
    text, mended = (re.sub(r"\[(.+?) -> (.+?)\]", rf"\{part}", marked) for part in (1, 2))
    (finding,) = [one for one in validate(text=text, name="a.sh").findings if one.code == code]
    (edit,) = finding.fix.edits
    assert text[: edit.start] + edit.text + text[edit.end :] == mended
