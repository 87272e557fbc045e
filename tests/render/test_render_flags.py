"""Flags to append: one option a line, the same words as the launch."""

import shlex

import advice_cases as cases
import pytest

from advisor.cli.recommend import render_form
from advisor.render.deploy.serving import flags_text


@pytest.mark.parametrize("name", cases.ALL)
def test_the_lines_are_the_launch_without_its_program(name: str) -> None:
    advice = cases.ALL[name]()
    text = flags_text(advice)
    assert shlex.split(text) == list(advice.launch.argv[2:])
    assert text.splitlines()[0] == cases.REPOSITORY
    assert all(line.startswith("--") for line in text.splitlines()[1:])


@pytest.mark.parametrize(
    ("engine", "first"), [("sglang", "--model-path x/y"), ("llama-server", "-hf x/y")]
)
def test_each_engine_has_its_program(engine: str, first: str) -> None:
    plan = cases.plan(engine=engine, engine_version=None, model="x/y")
    advice = cases.on(plan=plan)
    assert flags_text(advice).startswith(first)


def test_the_environment_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    text = render_form(cases.on(launch=cases.launch(env={"A": "b c"})), "flags")
    assert "set first: A='b c'\n" in capsys.readouterr().err and "b c" not in text
