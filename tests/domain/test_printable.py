"""Nothing that came from outside reaches a terminal as anything but visible characters."""

import csv
import io
import json
import string
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from cli_run import run
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from advisor.domain.nouns import AdvisorError
from advisor.domain.printable import (
    LIMIT,
    csv_cell,
    cut,
    excerpt,
    json_text,
    printable,
    printable_data,
    printable_lines,
)
from advisor.lint.validate import validate
from advisor.render.findings.hosts import report_github, report_sarif
from advisor.render.findings.json_out import report_json
from advisor.render.findings.text import report_text

# what is looked for is told by Unicode's own categories, not by the code under test
KEPT = "\n\t\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
INVISIBLE = "\u034f\u115f\u1160\u3164\ufe0f\u2800\u180e"
DANGEROUS = st.sampled_from(
    "\x00\x07\x08\x0b\x1b\x7f\x80\x85\x90\x9b\x9c\x9d\u061c\u200b\u200d\u200e\u202a\u202e"
    "\u2028\u2029\u2060\u2066\u2069\ufeff\ufff9\U000e0041\ue000" + INVISIBLE
)
WORDS = st.sampled_from(
    ["m\x1b]0;pwned\x07A", "\x1b[31m", "\u202egnp.exe", "\x9b2J", "Qwen/Qwen3.6-27B", "\r\nOK",
     "a b"]
)  # fmt: skip
TEXT = st.lists(st.one_of(DANGEROUS, WORDS, st.characters()), max_size=12).map("".join)


def bad(text: str, kept: str = KEPT) -> list[str]:
    """The characters that a terminal obeys or does not draw."""
    odd = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    return [
        ascii(ch)
        for ch in text
        if ch not in kept and (unicodedata.category(ch) in odd or ch in INVISIBLE)
    ]


@given(TEXT)
def test_a_shown_value_is_one_visible_line(text: str) -> None:
    assert bad(printable(text), "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}") == []
    assert len(printable(text, 20)) <= 20 * 10  # each character is at most an escape of ten


@given(TEXT)
def test_shown_lines_keep_only_line_feeds_and_tabs(text: str) -> None:
    assert bad(printable_lines(text)) == []
    assert printable_lines(printable_lines(text)) == printable_lines(text)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_is_as_it_was(text: str) -> None:
    assert (printable_lines(text), printable(text)) == (text, text)


def test_what_is_seen_of_a_control_is_its_escape() -> None:
    assert printable("m\x1b]0;pwned\x07A") == r"m\x1b]0;pwned\x07A"
    assert json_text({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}'
    assert (printable("a\u202eb\n\tc"), printable("é 漢字 🙂")) == (r"a\u202eb c", "é 漢字 🙂")
    assert printable("e" + "\u0301" * 40) == "e" + "\u0301" * 4


def test_long_values_lose_their_middle() -> None:
    long = printable("a" * 115_000 + "z")
    assert len(long) == LIMIT and long.startswith("aaa") and long.endswith("z") and " ... " in long
    assert excerpt("a" * 80) == "a" * 80 and len(excerpt("a" * 81)) == 80 > len(excerpt(12))
    assert cut("abc", 3) == "abc" and len(cut("a" * 100, 10)) == 10
    assert cut(string.ascii_lowercase, 20) == "abcdefghij ... vwxyz"  # two thirds before the gap


@settings(max_examples=50)
@given(
    st.recursive(TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=6)
)
def test_json_is_harmless_before_and_after_it_is_read(data: Any) -> None:
    text = json_text(data)
    assert bad(text) == [] and _texts_are_fine(json.loads(text))
    assert json.loads(text) == printable_data(data)


def _texts_are_fine(data: Any) -> bool:
    if isinstance(data, str):
        return bad(data) == []
    if isinstance(data, dict):
        return all(_texts_are_fine(key) and _texts_are_fine(one) for key, one in data.items())
    return all(map(_texts_are_fine, data)) if isinstance(data, list) else True


FILES = (
    ("a.yaml", "model: {}\nspeculative-config: {{method: mtp, num_speculative_tokens: "
               "99}}\ngpu-memory-utilization: 7\n"),
    ("a.yaml", "services:\n  a:\n    image: {}\n    command: [--model, {}, --max-num-sqes, {}]\n  "
               "  environment: {{A: {}}}\n"),
    ("a.yaml", "services:\n  {}:\n    image: vllm/vllm-openai:v0.25.1\n    env_file: {}\n    "
               "command: [--modell, {}]\n"),
    ("a.json", '["vllm", "serve", {}, "--max-num-sqes", {}, {}]'),
)  # fmt: skip


@settings(max_examples=50)
@given(st.sampled_from(FILES), st.lists(TEXT, min_size=4, max_size=4), TEXT)
def test_no_form_prints_one(file: tuple[str, str], values: list[str], name: str) -> None:
    quoted = [json.dumps(value.encode("utf-8", "ignore").decode()) for value in values]
    try:
        report = validate(text=file[1].format(*quoted), name=name + file[0])
    except AdvisorError:
        reject()  # YAML has no pairs of escapes for one character
    _sound(report)


def _sound(report: Any) -> None:
    assert (bad(report_text(report)), bad(report_github(report))) == ([], [])
    assert bad(report_text(report, color=True).replace("\x1b[", "[")) == []
    for data in (report_json(report), report_sarif(report)):
        assert bad(json_text(data)) == [] and _texts_are_fine(data)


@given(TEXT)
def test_no_cell_is_a_formula(text: str) -> None:
    cell = csv_cell(text)
    assert bad(cell) == []
    if cell.lstrip()[:1] in ("=", "@"):
        pytest.fail(cell)
    if cell.lstrip()[:1] in ("+", "-") and cell.strip() != "-":
        float(cell.replace(",", "").replace("_", "").rstrip("% \t\n") or "x")


@pytest.mark.parametrize("cell", ["-1.5", "+3", "1e-9", "-", "", "-1,000.5", "12 %", "a=b", "-5%"])
def test_numbers_and_words_pass(cell: str) -> None:
    assert csv_cell(cell) == cell


def test_formulas_of_a_table_come_out_as_words(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows.csv", tmp_path / "out.csv"
    with rows.open("w", newline="") as handle:
        csv.writer(handle).writerows(
            [
                ["model", "spec_method", "k", "=note"],
                ["qwen3.6-27b", "mtp", "=2+2", "=cmd|' /C calc'!A0"],
                ["@SUM(1)", "mtp", "2", "\x1b]0;x\x07"],
            ]
        )
    run("predict", "--rows", str(rows), "--out", str(out))
    made = list(csv.reader(io.StringIO(out.read_text())))
    assert made[0][3] == "'=note" and made[1][3] == "'=cmd|' /C calc'!A0"
    assert not [cell for row in made for cell in row if cell[:1] in ("=", "@", "\t", "\r")]
    assert bad(out.read_text()) == []


def test_what_a_terminal_obeys_is_an_escape_and_a_tab_stays() -> None:
    assert printable_lines("a\tb\x7fc\x07\r\nd") == "a\tb\\u007fc\\x07\nd"
