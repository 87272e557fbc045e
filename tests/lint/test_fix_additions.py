"""What a fix adds, in the manner of the place; how words are quoted; what a diff shows."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from advisor.domain.nouns import AdvisorError, Edit, Finding, Fix
from advisor.lint import fixes
from advisor.readers.secrets import HIDDEN, Redactor
from advisor.readers.source import SourceText


def add(marked: str, new: str) -> str | None:
    """The text with something new at the mark "@", shaped for its place; None: not without
    guessing.
    """
    at = marked.index("@")
    text = marked.replace("@", "", 1)
    edit = fixes.shape_edit(text, Edit(file="-", start=at, end=at, text=new))
    return None if edit is None else fixes.apply(text, [edit])


ADDED = {
    "a word in a command": (
        "vllm serve m @--port 1\n",
        "--enforce-eager",
        "vllm serve m --enforce-eager --port 1\n",
    ),
    "a line of its own": (
        "vllm serve m \\\n  @--port 1 \\\n  --dtype auto\n",
        "--max-num-seqs 4",
        "vllm serve m \\\n  --max-num-seqs 4 \\\n  --port 1 \\\n  --dtype auto\n",
    ),
    "before the last line": (
        "vllm serve m \\\n  @--port 1\n",
        "--max-num-seqs 4",
        "vllm serve m \\\n  --max-num-seqs 4 --port 1\n",
    ),
    "before the last line without a newline": (
        "vllm serve m @--port 1",
        "--max-num-seqs 4",
        "vllm serve m --max-num-seqs 4 --port 1",
    ),
    "a line of cmd": (
        "llama-server ^\r\n  @-c 1 ^\r\n  -ngl 9\r\n",
        "--jinja",
        "llama-server ^\r\n  --jinja ^\r\n  -c 1 ^\r\n  -ngl 9\r\n",
    ),
    "a line of PowerShell": (
        "llama-server `\n  @-c 1 `\n  -ngl 9\n",
        "--jinja",
        "llama-server `\n  --jinja `\n  -c 1 `\n  -ngl 9\n",
    ),
    "an item": (
        "command:\n  - @--port\n  - '1'\n",
        "--enforce-eager",
        "command:\n  - --enforce-eager\n  - --port\n  - '1'\n",
    ),
    "two items": (
        "command:\n  - @--port\n  - '1'\n",
        "--max-num-seqs 4",
        "command:\n  - --max-num-seqs\n  - '4'\n  - --port\n  - '1'\n",
    ),
    "two items in a file with double quotes": (
        'command:\n  - "@--port"\n  - "1"\n',
        "--max-num-seqs 4",
        'command:\n  - --max-num-seqs\n  - "4"\n  - "--port"\n  - "1"\n',
    ),
    "items with Windows newlines": (
        "command:\r\n  - @--port\r\n  - '1'\r\n",
        "--max-num-seqs 4",
        "command:\r\n  - --max-num-seqs\r\n  - '4'\r\n  - --port\r\n  - '1'\r\n",
    ),
    "an item that is no line's first": ("a: {b: - @--port}\n", "--jinja", None),
    "items of a flow": (
        'args: ["--model", "m", "@--port", "1"]\n',
        "--max-num-seqs 4",
        'args: ["--model", "m", "--max-num-seqs", "4", "--port", "1"]\n',
    ),
    "items of a flow in single quotes": (
        "args: ['--model', 'm', '@--port']\n",
        "--jinja",
        "args: ['--model', 'm', '--jinja', '--port']\n",
    ),
    "a key of its own line": (
        "[q]\nmodel = q.gguf\n@ctx-size = 4\n",
        "jinja = true\n",
        "[q]\nmodel = q.gguf\njinja = true\nctx-size = 4\n",
    ),
    "an indented key": (
        "[q]\n  @ctx-size = 4\n",
        "jinja = true\n",
        "[q]\n  jinja = true\n  ctx-size = 4\n",
    ),
    "a key behind another": ("model = q; @ctx-size = 4\n", "jinja = true\n", None),
    "an argument of Python": (
        "LLM(model='m', @dtype='auto')\n",
        "seed=1, ",
        "LLM(model='m', seed=1, dtype='auto')\n",
    ),
    "before a quoted word": (
        "vllm serve m '@--port' 1\n",
        "--jinja",
        "vllm serve m --jinja '--port' 1\n",
    ),
    "inside a quoted value": (
        "ARGS='@--port' \n",
        "--jinja",
        "ARGS='--jinja --port' \n",
    ),
    "inside a quoted text": (
        'command: "@--port 1"\n',
        "--jinja",
        'command: "--jinja --port 1"\n',
    ),
}


@pytest.mark.parametrize("name", ADDED)
def test_what_is_added_fits_its_place(name: str) -> None:
    marked, new, expected = ADDED[name]
    assert add(marked, new) == expected


LIST = "args:\n  - --a\n  - --b\n"


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("--port", "--port"),
        ("m/A.b-c_d", "m/A.b-c_d"),
        ("a=b:c@d+e", "a=b:c@d+e"),
        ("key:", "'key:'"),
        ("8", "'8'"),
        ("on", "'on'"),
        ("OFF", "'OFF'"),
        ("yes", "'yes'"),
        ("No", "'No'"),
        ("true", "'true'"),
        ("FALSE", "'FALSE'"),
        ("null", "'null'"),
        ("it's", "'it''s'"),
        ('{"a":1}', "'{\"a\":1}'"),
    ],
)
def test_a_word_of_a_list_is_quoted_where_yaml_needs_it(word: str, written: str) -> None:
    at = LIST.index("--a")
    text = f"--x {shlex.quote(word)}"
    edit = fixes.shape_edit(LIST, Edit(file="-", start=at, end=at + 3, text=text))
    assert edit is not None
    assert fixes.apply(LIST, [edit]) == f"args:\n  - --x\n  - {written}\n  - --b\n"


@pytest.mark.parametrize(
    ("word", "written"),
    [("8", '"8"'), ('{"a":1}', "'{\"a\":1}'"), ("a\\b c", "'a\\b c'"), ("on", '"on"')],
)
def test_double_quotes_where_the_file_has_them(word: str, written: str) -> None:
    text = 'args:\n  - "--a"\n  - "--b"\n'
    at = text.index("--a")
    edit = fixes.shape_edit(
        text, Edit(file="-", start=at, end=at + 3, text=f"--x {shlex.quote(word)}")
    )
    assert edit is not None
    assert fixes.apply(text, [edit]) == f'args:\n  - "--x"\n  - {written}\n  - "--b"\n'


def test_as_many_of_both_quotes_are_single_ones() -> None:
    text = "args:\n  - \"--a\"\n  - '--b'\n"
    at = text.index("--a")
    edit = fixes.shape_edit(text, Edit(file="-", start=at, end=at + 3, text="--x 8"))
    assert edit is not None and fixes.apply(text, [edit]).splitlines()[2] == "  - '8'"


# ---------------------------------------------------------------- overlaps


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((2, 4), (4, 6), True),  # they touch
        ((2, 5), (4, 6), False),
        ((4, 6), (2, 5), False),
        ((2, 6), (3, 4), False),
        ((3, 3), (3, 3), False),  # two additions at one place
        ((3, 3), (4, 4), True),
        ((3, 3), (2, 5), False),  # an addition inside
        ((2, 5), (3, 3), False),
        ((2, 2), (2, 5), False),  # at the beginning
        ((5, 5), (2, 5), True),  # at the end
    ],
)
def test_edits_of_one_place_are_not_made_together(
    one: tuple[int, int], other: tuple[int, int], both: bool
) -> None:
    source = SourceText("x=123456789\n", "-")

    def finding(place: tuple[int, int], text: str) -> Finding:
        edit = Edit(file="-", start=place[0], end=place[1], text=text)
        fix = Fix(text="t", safe=True, edits=(edit,))
        return Finding(code="SD101", severity="warning", message="m", file="-", fix=fix)

    change = fixes.apply_edits(source, [finding(one, "a"), finding(other, "b")])
    assert (len(change.applied), len(change.conflicting)) == ((2, 0) if both else (1, 1))


# ---------------------------------------------------------------- the diff


def change(old: str, new: str, name: str = "/srv/a.sh") -> fixes.FileChange:
    return fixes.FileChange(SourceText(old, name), new, (), ())


def test_a_diff_names_the_file_on_both_sides() -> None:
    assert fixes.diff(change("a\nb\n", "a\nc\n")) == (
        "--- a/srv/a.sh\n+++ b/srv/a.sh\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    )
    assert fixes.diff(change("a\n", "a\n")) == ""


def test_a_diff_says_where_the_last_newline_lacks() -> None:
    told = fixes.diff(change("a\nb", "a\nc\n"))
    assert told.endswith("-b\n\\ No newline at end of file\n+c\n")


def test_a_diff_holds_no_secret_of_the_lines_around() -> None:
    old = "API_KEY=Zk4trT9wq\nvllm serve m --port 1\n"
    told = fixes.redacted_diff(change(old, old.replace("1\n", "2\n")), Redactor())
    assert "Zk4trT9wq" not in told and f"API_KEY={HIDDEN}" in told
    assert "+vllm serve m --port 2" in told


# ---------------------------------------------------------------- what is taken away


def take(marked: str, new: str = "") -> str | None:
    """The text without what stands between the marks "<<" and ">>"."""
    start = marked.index("<<")
    end = marked.index(">>") - 2
    text = marked.replace("<<", "", 1).replace(">>", "", 1)
    edit = fixes.shape_edit(text, Edit(file="own.name", start=start, end=end, text=new))
    if edit is None:
        return None
    assert edit.file == "own.name"
    return fixes.apply(text, [edit])


TAKEN = {
    "two options on an item's line": (
        'args:\n  - "<<--a>> --b"\n',
        "",
        'args:\n  -  --b"\n',
    ),
    "an item with a remark behind": (
        "args:\n  - <<--a>>  # why\n  - --b\n",
        "",
        "args:\n  - --b\n",
    ),
    "the last item, without a newline": ("args:\n  - --b\n  - <<--a>>", "", "args:\n  - --b\n"),
    "an item that is replaced keeps its newlines": (
        "args:\r\n  - <<--a>>\r\n",
        "--x 8",
        "args:\r\n  - --x\r\n  - '8'\r\n",
    ),
    "an item of a flow over lines": (
        'args: [\n  "--m",\n  "<<--a>>",\n  "--b"\n]\n',
        "",
        'args: [\n  "--m",\n\n  "--b"\n]\n',
    ),
    "an item of a flow over lines of Windows": (
        'args: [\r\n  "--m",\r\n\t"<<--a>>",\r\n  "--b"\r\n]\r\n',
        "",
        'args: [\r\n  "--m",\r\n\r\n  "--b"\r\n]\r\n',
    ),
    "the first item of a flow": ('args: ["<<--a>>", "--b"]\n', "", 'args: ["--b"]\n'),
    "the only item of a flow": ('args: ["<<--a>>"]\n', "", "args: []\n"),
    "a line of cmd": ("x ^\n  <<--a>> ^\n  --b\n", "", "x ^\n  --b\n"),
    "a line of PowerShell": ("x `\n  <<--a>> `\n  --b\n", "", "x `\n  --b\n"),
    "the last line of cmd": ("x ^\n  <<--a>>\n", "", "x\n"),
    "the last line of PowerShell, without a newline": ("x `\n  <<--a>>", "", "x"),
    "a line of a text alone": ("  <<--a>>\n  --b\n", "", "  --b\n"),
    "a word behind blanks and a tab": ("x \t <<--a>> --b\n", "", "x --b\n"),
    "a word at the beginning": ("<<--a>> --b\n", "", " --b\n"),
    "a word with its quotes": ("x '<<--a>>' --b\n", "", "x --b\n"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken_away_leaves_its_place_in_order(name: str) -> None:
    marked, new, expected = TAKEN[name]
    assert take(marked, new) == expected


def test_the_default_of_a_variable_is_edited_whole_or_not() -> None:
    assert take("x ${A:-<<--b 1>>} --c\n") is not None
    assert take("x <<--b ${A:-1>>} --c\n") == "x --c\n"
    assert take("x <<--b ${A:-${C:-1>>}} --c\n") is None
    assert take("x <<--b ${A:-1>> 2} --c\n") is None


def test_nothing_is_written_where_nothing_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.sh"
    path.write_text("x\n")
    assert fixes.write(change("x\n", "x\n", str(path))) is False
    assert fixes.write(change("x\n", "y\n", str(path))) is True
    assert path.read_text() == "y\n"


def test_the_new_file_is_made_beside_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.sh"
    path.write_text("x\n")
    made: list[Path] = []
    replace = os.replace
    monkeypatch.setattr(
        os, "replace", lambda one, other: (made.append(Path(one)), replace(one, other))
    )
    fixes.write(change("x\n", "y\n", str(path)))
    assert [one.parent for one in made] == [tmp_path]
    assert made[0].name.startswith(".advisor-") and os.listdir(tmp_path) == ["a.sh"]


def test_what_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.sh"
    path.write_text("x\n")

    def fails(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(AdvisorError, match=r"a\.sh: cannot be written \(error\)$"):
        fixes.write(change("x\n", "y\n", str(path)))
    assert path.read_text() == "x\n" and os.listdir(tmp_path) == ["a.sh"]
