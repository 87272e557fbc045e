"""Fixes: the right characters, layout kept, written in one step, nothing left the second time."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.domain.nouns import AdvisorError, Edit, Finding, Fix
from advisor.lint import fixes
from advisor.lint.apply_fixes import continue_line, worse
from advisor.lint.report import Report
from advisor.lint.validate import validate
from advisor.readers import FileRead, read_path, read_text
from advisor.readers.source import SourceText

MTP = '{"method":"mtp","num_speculative_tokens":2}'


def finding(source: SourceText, *edits: Edit, safe: bool = True) -> Finding:
    return Finding(
        code="SD101",
        severity="warning",
        message="m",
        file=source.name,
        fix=Fix(text="t", safe=safe, edits=edits),
    )


def edit(read: FileRead, name: str, new: str) -> fixes.FileChange:
    """The flag `name` is replaced by `new` ("" takes it away)."""
    flag = next(flag for launch in read.launches for flag in launch.flags if flag.name == name)
    source = read.source
    edit = Edit(file=source.name, start=flag.span.start, end=flag.span.end, text=new)
    return fixes.apply_edits(source, [finding(source, edit)])


def change(text: str, name: str, new: str, file: str = "-") -> str:
    return edit(read_text(text, file), name, new).text


LIST = (
    "services:\n  a:\n    image: vllm/vllm-openai:v0.25.1  # why\n    command:\n"
    '      - --model\n      - m/A\n      - --max-num-seqs\n      - "4"  # four\n'
    "      - --enforce-eager\n"
)
SHELL = (
    "exec vllm serve m/A \\\n  --max-num-seqs 4 \\\n  --enforce-eager --port 1 \\\n"
    "  --dtype auto\n\necho done\n"
)
INI = "[q]\nmodel = q.gguf\nno-mmap = true\njinja = true\n"
FLOW = "services:\n  a:\n    image: x/vllm\n    command: {}\n"
ITEMS = FLOW.format("['--model', 'm/A', '--enforce-eager', '--port', '1']")
FOLDED = FLOW.format(">-\n      --model m/A\n      --enforce-eager\n      --port 1")
PAIR = FLOW.format('["--model", "m/A", "--port", "1"]')
DEFAULT = "vllm serve m/A --port ${P:-1} --dtype auto\n"
CASES = [  # text, option, what takes its place, and what changes in the text
    (LIST, "--max-num-seqs", "--max-num-seqs 8", '"4"', '"8"'),
    (LIST, "--enforce-eager", "", "      - --enforce-eager\n", ""),
    (LIST, "--max-num-seqs", "", '      - --max-num-seqs\n      - "4"  # four\n', ""),
    (LIST, "--enforce-eager", "--port 8", "- --enforce-eager", '- --port\n      - "8"'),
    (SHELL, "--max-num-seqs", "", "  --max-num-seqs 4 \\\n", ""),
    (SHELL, "--enforce-eager", "", "  --enforce-eager --port", "  --port"),
    (SHELL, "--dtype", "", " \\\n  --dtype auto", ""),
    (SHELL, "--port", "--port 2", "--port 1", "--port 2"),
    (INI, "--mmap", "", "no-mmap = true\n", ""),
    (ITEMS, "--enforce-eager", "", " '--enforce-eager',", ""),
    (PAIR, "--port", "--port 2", '"1"', '"2"'),
    (PAIR, "--port", "", ', "--port", "1"', ""),
    (FOLDED, "--enforce-eager", "", "      --enforce-eager\n", ""),
    (DEFAULT, "--dtype", "--dtype half", "auto", "half"),
]


@pytest.mark.parametrize(("text", "flag", "new", "was", "now"), CASES)
def test_an_edit_fits_its_form(text: str, flag: str, new: str, was: str, now: str) -> None:
    file, expected = "a.ini" if text.startswith("[") else "-", text.replace(was, now)
    assert expected != text and change(text, flag, new, file) == expected
    read_text(expected, file)


def test_windows_newlines_and_marks_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + LIST.replace("\n", "\r\n").encode())
    os.chmod(path, 0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    assert fixes.write(edit(read_path(str(link)), "--enforce-eager", "--port 8"))
    expected = LIST.replace("- --enforce-eager", '- --port\n      - "8"').replace("\n", "\r\n")
    assert path.read_bytes() == b"\xef\xbb\xbf" + expected.encode()
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_a_file_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_text(SHELL)
    change = edit(read_path(str(path)), "--port", "--port 2")
    path.write_text("other\n")
    with pytest.raises(AdvisorError, match="changed while"):
        fixes.write(change)
    assert path.read_text() == "other\n"


def test_unsafe_fixes_wait_and_overlaps_are_left() -> None:
    source = SourceText("vllm serve m/A --port 1 --dtype auto\n", "-")
    first = finding(source, Edit(file="-", start=15, end=23, text="--port 2"))
    same = finding(source, Edit(file="-", start=15, end=23, text="--port 2"))
    other = finding(source, Edit(file="-", start=20, end=28, text="x"))
    unsafe = finding(source, Edit(file="-", start=23, end=36, text=""), safe=False)
    change = fixes.apply_edits(source, [first, same, other, unsafe])
    assert change.text == "vllm serve m/A --port 2 --dtype auto\n"
    assert change.applied == (first, same)
    assert fixes.apply_edits(source, [unsafe], unsafe=True).text != source.text
    assert "-vllm serve m/A --port 1" in fixes.diff(change)


def test_edits_outside_the_text_are_refused() -> None:
    with pytest.raises(AdvisorError, match="outside"):
        fixes.apply("abc", [Edit(file="-", start=2, end=9, text="")])


FLAGS = (
    "--max-num-seqs 4",
    "--enforce-eager",
    "--port 8000",
    f"--speculative-config '{MTP}'",
    "--dtype auto",
    "--trust-remote-code",
)


@st.composite
def configurations(draw: st.DrawFn) -> str:
    """A command in one of several layouts."""
    flags = draw(st.lists(st.sampled_from(FLAGS), min_size=1, max_size=6, unique=True))
    if draw(st.booleans()):
        parts = [draw(st.sampled_from((" ", " \\\n  "))) + flag for flag in flags]
        return f"vllm serve m/A{''.join(parts)}\n"
    words = ["--model", "m/A", *(word for flag in flags for word in flag.split(" ", 1))]
    quote = draw(st.booleans())
    items = [word if word.startswith("'") else f'"{word}"' if quote else word for word in words]
    if draw(st.booleans()):
        return (
            f"services:\n  a:\n    image: x/vllm:v0.25.1\n"
            f"    command: "
            f"[{', '.join(item if item[0] in QUOTES else repr(item) for item in items)}]\n"
            f"    ipc: host\n"
        )
    return (
        "services:\n  a:\n    image: x/vllm:v0.25.1\n    command:\n"
        + "".join(f"      - {item}\n" for item in items)
        + "    ipc: host\n"
    )


QUOTES = "\"'"


@settings(max_examples=400)
@given(
    configurations(),
    st.data(),
    st.sampled_from(("", "--seed 7", "--swap-space 4 --seed 1", "--disable-log-stats")),
)
def test_others_or_none_in_its_place(text: str, data: st.DataObject, new: str) -> None:
    before = read_text(text).launches[0].flags
    taken = data.draw(st.sampled_from([flag.name for flag in before if flag.name != "--model"]))
    after = read_text(change(text, taken, new)).launches[0].flags
    names = {word for word in new.split() if word.startswith("--")}
    assert names <= {f.name for f in after}
    assert [(f.name, f.value) for f in after if f.name not in names] == [
        (f.name, f.value) for f in before if f.name != taken
    ]


def test_a_quote_that_is_never_closed_is_not_written() -> None:
    """Found by tests/fuzz/fuzz_readers.py: it ended in a traceback."""
    item = "--reasoning-parser - '{\"enable_thinking\": false}'"  # YAML ends the key at the colon
    text = (
        "services:\n  vllm:\n    image: vllm/vllm-openai:v0.25.1\n    command:\n"
        f"      - --model\n      - Qwen/Qwen3-8B\n      - {item}\n"
    )
    report = validate(text=text, name="compose.yaml")
    assert "SD129" in {found.code for found in report.findings}
    changed = fixes.apply_edits(report.reads[0].source, report.findings, unsafe=True).text
    assert '"enable_thinking"' in changed and "--reasoning-parser" in changed


def test_an_edit_with_an_open_quote_fits_no_form() -> None:
    for text, start in (("a:\n- --x 1\n", 5), ('a: ["--x", "1"]\n', 5), ("srv --x 1\n", 4)):
        for end in (start, start + 3):
            whole, broken = (
                Edit(file="-", start=start, end=end, text=word) for word in ("--y 2", "--y '2")
            )
            assert fixes.shape_edit(text, whole) is not None
            assert fixes.shape_edit(text, broken) is None


@pytest.mark.parametrize(
    ("before", "after", "is_worse"),
    [
        ([], ["error"], True), (["warning"], ["error"], True),  # as many findings, one error more
        (["error"], ["error", "error"], True), (["error"], ["warning"], False),
        (["warning"], ["warning", "warning"], True), (["info"], ["warning"], True),
        (["warning"], ["warning", "info"], True), (["error", "info"], ["info"], False),
        ([], [], False), (["error"], ["warning", "info"], False),  # what the error hid
    ],
)  # fmt: skip
def test_an_error_more_is_refused(before: list[str], after: list[str], is_worse: bool) -> None:
    def report(severities: list[str]) -> Report:
        found = [Finding(code="SD101", severity=one, message="m") for one in severities]  # type: ignore[arg-type]
        return Report(findings=tuple(found))

    assert worse(report(before), report(after)) is is_worse


@pytest.mark.parametrize(
    ("text", "sign", "joined"),
    [
        ("serve m\n  --a 1\n", "\\", "serve m \\\n  --a 1\n"),
        ("serve m \\ \n  --a 1\n", "\\", "serve m \\\n  --a 1\n"),  # a blank behind the sign
        ("serve m \\  # why\n  --a 1\n", "\\", "serve m \\\n  --a 1\n"),
        ("serve m \\\n\n  --a 1\n", "\\", "serve m \\\n  --a 1\n"),  # an empty line
        ("serve m /\n  --a 1\n", "\\", "serve m \\\n  --a 1\n"),
        ("serve m \\\\\n  --a 1\n", "\\", "serve m \\\n  --a 1\n"),
        ("serve m \\\r\n  --a 1\r\n", "^", "serve m ^\r\n  --a 1\r\n"),  # cmd.exe's sign
        ("serve m # why\n  --a 1\n", "\\", None),
        ("serve m \\\n  --a 1\n", "\\", None),  # it does go on
    ],
)
def test_the_line_above_lost_options_goes_on(text: str, sign: str, joined: str | None) -> None:
    source = SourceText(text, "-")
    line = text[: text.index("--a")].count("\n") + 1
    about = {"code": "SD126", "severity": "error", "message": "m", "file": "-", "line": line}
    lost = Finding(**about, fix=Fix(text=f"end with {sign}"))
    written = [fixes.apply(text, [one]) for one in continue_line(source, lost).fix.edits]
    assert written == ([] if joined is None else [joined])
