"""The text for a terminal: what the first screen carries, at every width, in every encoding."""

import re
import shlex
from pathlib import Path

import advice_cases as cases
import pytest

from advisor.cli.recommend import render_form
from advisor.domain.nouns import Advice, Interval, LaunchText, Reason, Source
from advisor.lint.validate import validate
from advisor.render.findings.text import report_text
from advisor.render.layout import Paper, number, option_units, pack_command, pack_launch
from advisor.render.text import (
    SCREEN_LINES,
    advice_text,
    first_screen,
    screen_height,
    two_digits,
)

ALL = [pytest.param(make(), id=name) for name, make in cases.ALL.items()]
ESCAPE = "\x1b["


@pytest.mark.parametrize("advice", ALL)
def test_first_screen_fits_22_lines_of_80(advice: Advice) -> None:
    lines = first_screen(advice, Paper(80))
    assert screen_height(lines, 80) < SCREEN_LINES  # and one more line, which names --explain
    text = advice_text(advice).splitlines()
    assert text[: len(lines)] == lines
    assert len(text) == len(lines) + 1 and text[-1].startswith("--explain: ")
    assert advice_text(advice, explain=True).splitlines()[: len(lines)] == lines


def test_a_k_schedule_is_told_by_batch_size() -> None:
    plan = cases.plan(3, k_schedule=((1, 4, 3), (5, 32, 1)))
    advice = cases.on(candidate=plan, plan=plan)
    assert "k by batch size 1-4: 3, 5-32: 1" in " ".join(advice_text(advice).split())


def test_a_long_launch_squeezes_the_words_and_never_the_launch() -> None:
    argv = (*cases.launch().argv, *(f"--extra-option-number-{i}={i}" for i in range(10)))
    lines = first_screen(cases.on(launch=LaunchText(argv=argv)), Paper(80))
    assert screen_height(lines, 80) <= SCREEN_LINES
    assert shell_words(
        lines[1 + next(i for i, line in enumerate(lines) if line.startswith("Run ")) :]
    ) == list(argv)


@pytest.mark.parametrize("width", [40, 57, 76, 80, 100])
@pytest.mark.parametrize("advice", ALL)
def test_prose_keeps_to_the_width(advice: Advice, width: int) -> None:
    for line in advice_text(advice, Paper(width), explain=True).splitlines():
        # an option and its value are never parted, and a command of the engine is given as it is
        assert len(line) <= width or "--" in line or "serve" in line, line


@pytest.mark.parametrize("width", [1, 40, 80])
@pytest.mark.parametrize("advice", ALL)
def test_the_launch_can_be_pasted_at_every_width(advice: Advice, width: int) -> None:
    assert shell_words(pack_launch(advice.launch, width)) == list(advice.launch.argv)


def test_the_environment_stands_before_the_launch() -> None:
    launch = cases.launch(env={"SGLANG_ENABLE_SPEC_V2": "1", "X": "a b"})
    assert shell_words(pack_launch(launch, 80))[:2] == ["SGLANG_ENABLE_SPEC_V2=1", "X=a b"]


@pytest.mark.parametrize(
    "name", ["a b", "x'; rm -rf /", 'q"', "$HOME", "`id`", "é😀", "-dash", "\\"]
)
def test_hostile_names_stay_one_word(name: str) -> None:
    advice = cases.hostile(name)
    assert shell_words(pack_launch(advice.launch, 80)) == list(advice.launch.argv)


@pytest.mark.parametrize("advice", ALL)
def test_plain_without_color_and_the_same_words_with_it(advice: Advice) -> None:
    plain, colored = advice_text(advice), advice_text(advice, Paper(color=True))
    assert ESCAPE not in plain and ESCAPE in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == plain


def test_no_text_can_bring_its_own_escapes() -> None:
    text = advice_text(cases.on(reasons=(Reason(text="red \x1b[31m and \u202e reversed"),)))
    assert ESCAPE not in text and "\u202e" not in text and "\\x1b[31m" in text and "\\u202e" in text


def test_ascii_where_the_output_takes_no_more() -> None:
    advice = cases.on(reasons=(Reason(text="k ≥ 2 → “slower” – by 3 × 中"),))
    assert 'k >= 2 -> "slower" - by 3 x ?' in advice_text(advice, Paper(unicode=False))
    assert advice_text(advice, Paper(unicode=False)).isascii()
    assert "k ≥ 2 → “slower” – by 3 × 中" in advice_text(advice)


def test_sources_are_resolved_where_they_are_known() -> None:
    entry = Source(
        id="seed000", title="Qwen3.6 on GB10", address="https://docai.hu", date="2026-04-18"
    )
    text = advice_text(cases.on(), source_of={"seed000": entry}.get, explain=True)
    assert "[seed000] Qwen3.6 on GB10, https://docai.hu, 2026-04-18" in text
    assert text.count("[gpu_notes]") == 1  # a citation of its own has no entry


@pytest.mark.parametrize(
    ("value", "told"),
    [(1.236, "1.24"), (0.9, "0.90"), (16.0, "16"), (1234.5, "1,234"), (61.23, "61.2")],
)
def test_numbers_for_people(value: float, told: str) -> None:
    assert (number(value), number(float("nan"))) == (told, "unknown")


def test_options_keep_their_values() -> None:
    assert option_units(["p", "x", "--a", "1", "-1", "-b", "--c=2"]) == [
        ("p", "x"),
        ("--a", "1", "-1"),
        ("-b",),
        ("--c=2",),
    ]


@pytest.mark.parametrize("command", ["a --b 'c d' \\\n  --e", "a | b", "a\nb", "X=$Y a"])
def test_commands_are_packed_only_where_that_keeps_them(command: str) -> None:
    lines = pack_command(command, 80)
    assert shell_words(lines) == shell_words([command])
    assert len(lines) == len(command.replace("\\\n", " ").splitlines())


def shell_words(lines: list[str]) -> list[str]:
    return shlex.split("\n".join(lines).replace("\\\n", "\n"))


def test_long_times_are_told_in_seconds() -> None:
    """A queue of hours would not keep to the page in milliseconds."""
    advice = cases.on()
    slow = advice.estimate.ttft_ms.model_copy(update={"baseline": 20412807.0, "value": 162725727.0})
    made = cases.on(estimate=advice.estimate.model_copy(update={"ttft_ms": slow}))
    line = next(line for line in advice_text(made).splitlines() if line.startswith("TTFT"))
    assert line.split()[-4:] == ["20,000", "s", "160,000", "s"] and len(line) <= 80


def test_what_tokens_cost_is_told_of_both_runs_as_far_as_it_is_known() -> None:
    text = advice_text(cases.on(cost_per_million=(None, 2.25)))
    assert "\nPer million output tokens: ? without, 2.25 with k = 2\n" in text


def test_a_first_token_that_cannot_be_told_is_not_told() -> None:
    """It holds 1 and spans more than half again: what was measured stands there instead."""
    advice = cases.on()
    vague = advice.estimate.ttft_ms.model_copy(
        update={"speedup": Interval(p10=0.5, p50=0.95, p90=1.8), "predictable": False}
    )
    text = advice_text(cases.on(estimate=advice.estimate.model_copy(update={"ttft_ms": vague})))
    line = next(line for line in text.splitlines() if line.startswith("TTFT"))
    assert line == "TTFT           not predictable        4.0 s"
    assert "\n  TTFT scatters too widely; one run here: 2.31x (16 x 2,048 tokens, k=2)\n" in text


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (216.3, "220"), (61.2, "61"), (3989.0, "4,000"), (0.0123, "0.012"), (9.96, "10"),
        (1.0, "1.0"),
    ],
)  # fmt: skip
def test_levels_have_two_digits(value: float, told: str) -> None:
    assert two_digits(value) == told


def test_the_environment_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    text = render_form(cases.on(launch=cases.launch(env={"A": "b c"})), "flags")
    assert "set first: A='b c'\n" in capsys.readouterr().err and "b c" not in text


CORPUS = sorted(Path(__file__).parents[1].glob("corpus/case-*"))[::3]
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
    assert "skipped: pass --hw, --concurrency, --ctx" in short and not re.search(r"SD\d{3}", short)
    for one in report.skipped:
        assert one.code in long
