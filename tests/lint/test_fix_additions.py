"""What a fix adds, in the manner of the place; how words are quoted; what a diff shows."""

import os
import shlex
from pathlib import Path

import pytest

from advisor.domain.nouns import AdvisorError, Edit, Finding, Fix
from advisor.lint import fixes
from advisor.readers.secrets import HIDDEN, Redactor
from advisor.readers.source import SourceText


def add(marked: str, new: str) -> str | None:
    """What is written at the mark "@" of the text; None: not without guessing."""
    at = marked.index("@")
    text = marked.replace("@", "", 1).replace("|", "", 1)
    at -= "|" in marked[:at]
    edit = fixes.shape_edit(text, Edit(file="-", start=at, end=at, text=new))
    return None if edit is None else fixes.apply(text, [edit])


EAGER, SEQS, JINJA = "--enforce-eager", "--max-num-seqs 4", "--jinja"
ADDED = [  # the text, "|" where something else than "@" is the place, what is new, what is written
    ("vllm serve m @--port 1\n", EAGER, "--enforce-eager "),
    ("vllm serve m \\\n  @--port 1 \\\n  --dtype auto\n", SEQS, "--max-num-seqs 4 \\\n  "),
    ("vllm serve m \\\n  @--port 1\n", SEQS, "--max-num-seqs 4 "),  # before the last line
    ("vllm serve m @--port 1", SEQS, "--max-num-seqs 4 "),
    ("llama-server ^\r\n  @-c 1 ^\r\n  -ngl 9\r\n", JINJA, "--jinja ^\r\n  "),
    ("llama-server `\n  @-c 1 `\n  -ngl 9\n", JINJA, "--jinja `\n  "),
    ("command:\n  - @--port\n  - '1'\n", EAGER, "--enforce-eager\n  - "),
    ("command:\n  - @--port\n  - '1'\n", SEQS, "--max-num-seqs\n  - '4'\n  - "),
    ('command:\n  - |"@--port"\n  - "1"\n', SEQS, '--max-num-seqs\n  - "4"\n  - '),
    ("command:\r\n  - @--port\r\n  - '1'\r\n", SEQS, "--max-num-seqs\r\n  - '4'\r\n  - "),
    ("a: {b: - @--port}\n", JINJA, None),  # an item that is no line's first
    ('args: ["--model", "m", |"@--port", "1"]\n', SEQS, '"--max-num-seqs", "4", '),
    ("args: ['--model', 'm', |'@--port']\n", JINJA, "'--jinja', "),
    ("[q]\nmodel = q.gguf\n@ctx-size = 4\n", "jinja = true\n", "jinja = true\n"),
    ("[q]\n  @ctx-size = 4\n", "jinja = true\n", "jinja = true\n  "),
    ("model = q; @ctx-size = 4\n", "jinja = true\n", None),
    ("LLM(model='m', @dtype='auto')\n", "seed=1, ", "seed=1, "),
    ("vllm serve m |'@--port' 1\n", JINJA, "--jinja "),  # before a quoted word
    ("ARGS='@--port' \n", JINJA, "--jinja "),  # inside a quoted value
    ('command: "@--port 1"\n', JINJA, "--jinja "),
]


@pytest.mark.parametrize(("marked", "new", "written"), ADDED)
def test_what_is_added_fits_its_place(marked: str, new: str, written: str | None) -> None:
    place = marked.replace("@", "") if "|" in marked else marked.replace("@", "|")
    assert add(marked, new) == (None if written is None else place.replace("|", written))


LIST = "args:\n  - --a\n  - --b\n"


@pytest.mark.parametrize(
    ("quote", "word", "written"),
    [*(("", word, word) for word in ("--port", "m/A.b-c_d", "a=b:c@d+e")),
     *(("", word, f"'{word}'") for word in ("key:", "8", "on", "OFF", "No", "true", "null")),
     ("", "it's", "'it''s'"), ("", '{"a":1}', "'{\"a\":1}'"),
     *(('"', word, f'"{word}"') for word in ("8", "on")),
     *(('"', word, f"'{word}'") for word in ('{"a":1}', "a\\b c"))],
)  # fmt: skip
def test_a_word_of_a_list_is_quoted_where_needed(quote: str, word: str, written: str) -> None:
    text = LIST.replace("--a", f"{quote}--a{quote}").replace("--b", f"{quote}--b{quote}")
    at = text.index("--a")
    new = f"--x {shlex.quote(word)}"
    edit = fixes.shape_edit(text, Edit(file="-", start=at, end=at + 3, text=new))
    expected = f"args:\n  - {quote}--x{quote}\n  - {written}\n  - {quote}--b{quote}\n"
    assert fixes.apply(text, [edit]) == expected


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
def test_edits_of_one_place(one: tuple[int, int], other: tuple[int, int], both: bool) -> None:
    source = SourceText("x=123456789\n", "-")

    def finding(place: tuple[int, int], text: str) -> Finding:
        edit = Edit(file="-", start=place[0], end=place[1], text=text)
        fix = Fix(text="t", safe=True, edits=(edit,))
        return Finding(code="SD101", severity="warning", message="m", file="-", fix=fix)

    change = fixes.apply_edits(source, [finding(one, "a"), finding(other, "b")])
    assert len(change.applied) == (2 if both else 1)


def change(old: str, new: str, name: str = "/srv/a.sh") -> fixes.FileChange:
    return fixes.FileChange(SourceText(old, name), new, ())


def test_a_diff_names_the_file_on_both_sides() -> None:
    assert fixes.diff(change("a\nb\n", "a\nc\n")) == (
        "--- a/srv/a.sh\n+++ b/srv/a.sh\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"
    )
    assert fixes.diff(change("a\n", "a\n")) == ""


def test_a_diff_says_where_the_last_newline_lacks() -> None:
    assert fixes.diff(change("a\nb", "a\nc\n")).endswith("-b\n\\ No newline at end of file\n+c\n")


def test_a_diff_holds_no_secret_of_the_lines_around() -> None:
    old = "API_KEY=Zk4trT9wq\nvllm serve m --port 1\n"
    told = fixes.redacted_diff(change(old, old.replace("1\n", "2\n")), Redactor())
    assert "Zk4trT9wq" not in told and f"API_KEY={HIDDEN}" in told
    assert "+vllm serve m --port 2" in told


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


TAKEN = [
    ('args:\n  - "<<--a>> --b"\n', "", 'args:\n  -  --b"\n'),
    ("args:\n  - <<--a>>  # why\n  - --b\n", "", "args:\n  - --b\n"),
    ("args:\n  - --b\n  - <<--a>>", "", "args:\n  - --b\n"),
    ("args:\r\n  - <<--a>>\r\n", "--x 8", "args:\r\n  - --x\r\n  - '8'\r\n"),
    ('args: [\n  "--m",\n  "<<--a>>",\n  "--b"\n]\n', "", 'args: [\n  "--m",\n\n  "--b"\n]\n'),
    ('args: [\r\n\t"<<--a>>",\r\n  "--b"\r\n]\r\n', "", 'args: [\r\n\r\n  "--b"\r\n]\r\n'),
    ('args: ["<<--a>>", "--b"]\n', "", 'args: ["--b"]\n'),
    ('args: ["<<--a>>"]\n', "", "args: []\n"),
    ("x ^\n  <<--a>> ^\n  --b\n", "", "x ^\n  --b\n"),
    ("x `\n  <<--a>> `\n  --b\n", "", "x `\n  --b\n"),
    ("x ^\n  <<--a>>\n", "", "x\n"),
    ("x `\n  <<--a>>", "", "x"),
    ("  <<--a>>\n  --b\n", "", "  --b\n"),
    ("x \t <<--a>> --b\n", "", "x --b\n"),
    ("<<--a>> --b\n", "", " --b\n"),
    ("x '<<--a>>' --b\n", "", "x --b\n"),
]


@pytest.mark.parametrize(("marked", "new", "expected"), TAKEN)
def test_what_is_taken_away_leaves_its_place_in_order(marked: str, new: str, expected: str) -> None:
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
    assert fixes.write(change("x\n", "y\n", str(path))) is True and path.read_text() == "y\n"


def test_the_new_file_is_beside_the_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.sh"
    path.write_text("x\n")
    made: list[Path] = []
    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (made.append(Path(a)), replace(a, b)))
    fixes.write(change("x\n", "y\n", str(path)))
    assert [one.parent for one in made] == [tmp_path]
    assert made[0].name.startswith(".advisor-") and os.listdir(tmp_path) == ["a.sh"]


def test_the_unwritable_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.sh"
    path.write_text("x\n")

    def fails(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(AdvisorError, match=r"a\.sh: cannot be written \(error\)$"):
        fixes.write(change("x\n", "y\n", str(path)))
    assert path.read_text() == "x\n" and os.listdir(tmp_path) == ["a.sh"]
