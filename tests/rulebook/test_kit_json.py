"""Broken JSON on a command line, and edits inside of it."""

import pytest

from advisor.domain.nouns import Case, Flag, Span
from advisor.rules.kit import fixes, json_text
from tests.rulecases import launch_case as case_of

WHOLE = '{"method": "mtp", "num_speculative_tokens": 2}'
BROKEN = {  # how it was written -> what was meant
    '{"method": "mtp", "num_speculative_tokens": 2,}': WHOLE,
    "{method: mtp, num_speculative_tokens: 2}": WHOLE,
    '{"method": "mtp", "num_speculative_tokens": 2': WHOLE,
    '{"method": "mtp", "num_speculative_tokens": 2}}': WHOLE,
    '{"method": "mtp, "num_speculative_tokens": 2}': WHOLE,
    '{\\"method\\": \\"mtp\\", \\"num_speculative_tokens\\": 2}': WHOLE,
    f"'{WHOLE}'": WHOLE,
    "{'method': 'mtp', 'num_speculative_tokens': 2}": WHOLE,
    '{"method"="mtp", "num_speculative_tokens"=2}': '{"method":"mtp", "num_speculative_tokens":2}',
    '{"method": "mtp" "num_speculative_tokens": 2}': WHOLE,
    '{"method":"mtp""num_speculative_tokens":2}': '{"method":"mtp","num_speculative_tokens":2}',
    "{\u201cmethod\u201d: \u201cmtp\u201d, \u201cnum_speculative_tokens\u201d: 2}": WHOLE,
    '"method": "mtp", "num_speculative_tokens": 2}': WHOLE,
    "{'a': True, 'b': False, 'c': None}": '{"a": true, "b": false, "c": null}',
    f"{{{WHOLE}}}": WHOLE,
    '{"method": "mtp"; "num_speculative_tokens": 2}': WHOLE,
    "a=1, b=2": '{"a": 1, "b": 2}',
    '{"a": [1, {"b": 2': '{"a": [1, {"b": 2}]}',
    '{"a": {"b": "{"}': '{"a": {"b": "{"}}',
    '{"a": "x\\"{", "b": [1}': None,
    '{"a": 1 "b": 2 "c": 3}': '{"a": 1, "b": 2, "c": 3}',
    "method mtp": None,
    "": None,
    "[1, 2]": None,
}


@pytest.mark.parametrize("text", BROKEN)
def test_how_broken_json_was_meant(text: str) -> None:
    meant = BROKEN[text]
    assert json_text.mend(text) == meant
    if meant is not None:
        assert json_text.problem(text) and json_text.problem(meant) is None


def test_what_is_too_long_is_not_mended() -> None:
    assert json_text.mend('{"a": 1,}' + " " * 3_991) is not None
    assert json_text.mend('{"a": 1,}' + " " * 3_992) is None


def test_what_is_wrong_is_said_with_its_place() -> None:
    assert json_text.problem("[1]") == "it holds a list, not an object"
    assert json_text.problem("3") == "it holds a number, not an object"
    assert json_text.problem('{"a" 1}') == "Expecting ':' delimiter at character 6"
    assert json_text.problem('{"a": 1}') is None


def flag(value: str | None, start: int | None = None, end: int | None = None) -> Flag:
    span = Span(start=start, end=end) if start is not None and end is not None else None
    return Flag(name="--x", raw="--x", value=value, value_span=span)


def test_quotes_that_the_shell_takes_away() -> None:
    assert json_text.loses_quotes(flag("{a:1}", 5, 12))  # two quotes stood in the file
    assert not json_text.loses_quotes(flag("{a:1}", 5, 10))  # none did
    assert not json_text.loses_quotes(flag("{a:1}", 5, 11))  # a backslash, it may be
    assert not json_text.loses_quotes(flag('{"a":1}', 5, 14))  # they are there
    assert not json_text.loses_quotes(flag("a:1", 5, 10))
    assert not json_text.loses_quotes(flag("{a:1}")) and not json_text.loses_quotes(flag(None))


def test_values_that_a_variable_left_empty() -> None:
    for text in ('{"a": }', '{"a":, "b": 1}', "[, 1]", "[1,]"):
        assert json_text.has_empty_values(flag(text))
    assert not json_text.has_empty_values(flag('{"a": }', 3, 10))  # it stands so in the file
    assert not json_text.has_empty_values(flag('{"a": 1}'))
    assert not json_text.has_empty_values(flag(None))


def apply(text: str, edits: tuple[object, ...]) -> str:
    for edit in sorted(edits, key=lambda one: one.start, reverse=True):  # type: ignore[attr-defined]
        text = text[: edit.start] + edit.text + text[edit.end :]  # type: ignore[attr-defined]
    return text


def spec(case: Case) -> Flag:
    return case.launch.flag("--speculative-config")


JSON = 'vllm serve m --speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'\n'
DOTTED = (
    "vllm serve m --speculative-config.method mtp --speculative-config.num_speculative_tokens 2\n"
)
K = "num_speculative_tokens"


def test_a_value_inside_json_is_replaced() -> None:
    for text, found in ((JSON, "--speculative-config"), (DOTTED, "--speculative-config.method")):
        case = case_of(text)
        made = fixes.json_fix(case, case.launch.flag(found), K, "4", "what", safe=True)
        assert apply(text, made.edits) == text.replace("2", "4")
        assert made.safe and made.text == "what" and made.edits[0].file == case.launch.file


def test_a_value_that_stands_twice_or_nowhere_is_left() -> None:
    case = case_of(JSON.replace('"method": "mtp"', f'"{K}": 3'))
    assert not fixes.json_fix(case, spec(case), K, "4", "what").edits
    assert not fixes.json_fix(case_of(JSON), spec(case_of(JSON)), "other", "4", "what").edits
    assert not fixes.json_fix(case_of(JSON), None, K, "4", "what").edits


def test_keys_are_named_anew_added_and_taken_away() -> None:
    case = case_of(JSON)
    renamed = fixes.json_rename_fix(case, spec(case), K, "k", "what")
    assert apply(JSON, renamed.edits) == JSON.replace(K, "k")
    added = fixes.json_add_fix(case, spec(case), "model", '"d"', "what")
    assert apply(JSON, added.edits) == JSON.replace("2}", '2,"model":"d"}')
    dropped = fixes.json_drop_fix(case, spec(case), K, "what")
    assert apply(JSON, dropped.edits) == JSON.replace(f', "{K}": 2', "")
    dotted = case_of(DOTTED)
    first = dotted.launch.flag("--speculative-config.method")
    renamed = fixes.json_rename_fix(dotted, first, K, "k", "what")
    assert apply(DOTTED, renamed.edits) == DOTTED.replace(K, "k")


def test_a_mapping_of_python_is_edited_in_its_own_words() -> None:
    text = (
        "from vllm import LLM\n"
        'llm = LLM("m", speculative_config={"method": "mtp", "num_speculative_tokens": 2})\n'
    )
    case = case_of(text)
    for key, new, was, now in (
        (K, "false", "2", "False"), ("method", '"ngram"', "mtp", "ngram"), (K, "4", "2", "4")
    ):  # fmt: skip
        made = fixes.json_fix(case, spec(case), key, new, "w")
        assert apply(text, made.edits) == text.replace(was, now)
