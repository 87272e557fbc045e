"""Every file of the corpus is read as its index says, and the linter's figures on it hold."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from advisor.lint.validate import validate
from tests.corpus_figures import differences, judge_folder, missed, on_good_files, read_rows

CORPUS = Path(__file__).parents[1] / "corpus"
ROWS = read_rows(CORPUS / "index.csv")


def test_the_corpus_is_complete() -> None:
    assert len(ROWS) == 70
    assert {row["file"] for row in ROWS} == {path.name for path in CORPUS.glob("case-*")}


@pytest.mark.parametrize("row", ROWS, ids=[row["case"] for row in ROWS])
def test_engine_model_method_and_k_are_read(row: dict[str, str]) -> None:
    assert differences(validate(str(CORPUS / row["file"])), row) == []


def test_most_visible_problems_are_found_by_the_matching_rule() -> None:
    visible = sum(one.is_visible for one in judge_folder(CORPUS))
    assert len(missed(CORPUS)) <= 0.2 * visible, missed(CORPUS)


def test_no_error_and_few_warnings_on_a_known_good_file() -> None:
    assert not any(on_good_files(CORPUS, "error"))
    assert median(map(len, on_good_files(CORPUS, "warning"))) <= 1


def test_every_literal_flag_stands_where_it_says() -> None:
    for row in ROWS:
        report = validate(str(CORPUS / row["file"]))
        text = report.reads[0].source.text
        for one in report.launches:
            for flag in one.launch.flags:
                if flag.span is not None and flag.raw:
                    assert text[flag.span.start : flag.span.start + len(flag.raw)] == flag.raw, (
                        row["case"],
                        flag,
                    )
                    assert report.reads[0].source.place(flag.span.start) == (flag.line, flag.column)
                switch = flag.value in (None, "true", "false")
                if flag.value_span is not None and not switch and " " not in str(flag.value):
                    assert text[flag.value_span.start : flag.value_span.end] == flag.value, (
                        row["case"],
                        flag,
                    )
