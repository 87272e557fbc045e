"""What the pages show of hand-made nouns, each field once: by_hand.yaml, figures by hand."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import advice_cases as cases
import pytest

from advisor.advice.explore.compare import Comparison
from advisor.advice.explore.values import Rate
from advisor.cli import bench
from advisor.cli.serve import controls, site, views
from advisor.cli.serve.curve import curve_view
from advisor.cli.serve.launch import LaunchQuestion
from advisor.cli.serve.question import Question, check_fields
from advisor.cli.serve.sheets import pages
from advisor.cli.serve.sheets import questions as sheets
from advisor.readers.server import ServerInfo
from tests.render import test_curves_by_hand as curves
from tests.render import test_screens_by_hand as screens
from tests.tables import cells, fields, load_yaml

BY_HAND = load_yaml(Path(__file__).with_name("by_hand.yaml"))
ASKED = "hw=gb10 concurrency=16"
WANTED = f"{ASKED} k=3 speculation=on key=on port=9000 price=3.6 watts=360"


def question_of(words: str) -> LaunchQuestion:
    return check_fields(LaunchQuestion, cells(words))


def plain(made: Any) -> Any:
    """Lists and words alone; a noun by what it is known by."""
    if isinstance(made, dict):
        return {name: plain(value) for name, value in made.items()}
    if isinstance(made, list | tuple):
        return [plain(value) for value in made]
    known = (getattr(made, name, None) for name in ("weight", "code", "static_k", "setting"))
    return next((value for value in known if value), made)


def answer(name: str, words: str = ASKED, form: str = "", **changes: Any) -> dict[str, Any]:
    """A view, without what the command line prints too."""
    shown = views.answer_view(cases.ALL[name]().replace(**changes), question_of(words), form)
    first, *_, last = shown.pop("launch").splitlines()
    return {key: value for key, value in shown.items() if key != "basis"} | {"ends": [first, last]}


def curve() -> dict[str, Any]:
    """Lines and words, in the wide drawing alone."""
    shown = curve_view(curves.SWEEP, 16)
    wide, narrow = shown.pop("drawings")
    return shown | wide | {"narrow": narrow["box"]}


def sides() -> dict[str, Any]:
    arms = curves.arm("a", cases.on()), curves.arm("b", cases.no_method())
    return sheets.sides_view(Comparison(arms=arms, differences=("so",)), Rate(per_hour=3.6))


SERVER = ServerInfo("http://h", "vllm", "0.28.0", "org/m", 8, 3)
LOAD = fields("hw=None model=None k=None concurrency=8 ctx=100 output_tokens=20 workload=chat "
              "requests=None warmup=1 seeds=2")  # fmt: skip
FILE = "# as it is\nllama-server -hf x/y:Q4_K_M --draft-max 8\n"
MADE: dict[str, Callable[[], Any]] = {
    **{name: partial(answer, name) for name in cases.ALL},
    "wanted": lambda: answer("on", WANTED, cost_per_million=(3.5, 2.25)),
    "curl": partial(answer, "on", f"{ASKED} port=9000 key=on", "curl"),
    "fields": lambda: controls.fields(cells("engine=vllm@0.9 goal=tpot"), ("gpus", "concurrency",
              "goal", "thinking", "prefix_share"), Question, "goal"),
    "sheet": lambda: controls.fields({}, ("gpus", "goal"), sheet="not stated"),
    "curve": curve,
    "cells": lambda: [site._entry(site.Cell(question_of(ASKED), "a.html", made, "no room"))
                      for made in (*(of() for of in cases.ALL.values()), None)],
    "sides": sides,
    "check": lambda: pages.check_view(
        sheets.checkup(sheets.PastedText(text=FILE, name="a.sh"))),
    "runs": lambda: pages.results_view([screens.FULL], screens.REPORT),
    "running": lambda: bench._plan_of(SERVER, "on", None, Path("ab"), LOAD).model_dump(),
    "commands": lambda: [
        bench._calibrate_command([Path("a"), Path("b")], [Path("c"), Path("d e")],
                                 {"hardware": "h", "model": "m", "k": 2}),
        *(question_of(f"{ASKED} thinking={word}").command() for word in ("true", "false"))],
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_a_page_shows_each_field_of_a_noun_once(name: str) -> None:
    wanted, before = BY_HAND[name], {"wanted": ["on"], "curl": ["on"], "off": ["on"]}
    for other in before.get(name, ["off", "on"] if "headline" in wanted and name != "on" else []):
        wanted = BY_HAND[other] | wanted
    assert plain(MADE[name]()) == wanted
