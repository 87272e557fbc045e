"""What the pages show of hand-made nouns, each field once: by_hand.yaml, figures by hand."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import advice_cases as cases
import pytest

from advisor.advice.explore.compare import Comparison
from advisor.advice.explore.values import Rate
from advisor.advice.explore.why_not import WhyNot
from advisor.cli import bench
from advisor.cli.serve import answers, controls, site, views
from advisor.cli.serve.curve import _ticks, curve_view
from advisor.cli.serve.launch import LaunchQuestion, command_lines
from advisor.cli.serve.question import Question, check_fields
from advisor.cli.serve.sheets import pages
from advisor.cli.serve.sheets import questions as sheets
from advisor.domain.nouns import Finding
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


def fields_in(rows: list[dict[str, Any]], key: str) -> dict[str, Any]:
    return {row["name"]: row[key] for row in rows if row[key]}


def blind() -> dict[str, Any]:
    """The first token's time where only a pair of runs knows it."""
    ttft = cases.estimate().ttft_ms.replace(predictable=False)
    return views.metrics(cases.on(estimate=cases.estimate().replace(ttft_ms=ttft)))[-1]


def edges_of(engine: str, key: bool) -> list[str]:
    """First and last lines of a command."""
    plan = cases.plan(0, engine=engine, engine_version=None)
    made = command_lines(cases.text_of(plan), plan, key)
    return [made[0].partition(" ")[0], *made[-2:]]


def show_mix(hw: str) -> list[Any]:
    """Whether the best layout stands first, how its file begins, a word of why there is none."""
    rows = ({"concurrency": 4}, {"concurrency": 1, "prompt": 8192})
    made = sheets.make_plan(check_fields(sheets.MixForm, {"hw": hw, "classes": rows}))
    shown = sheets.mix_view(made)
    assert {*shown["layouts"]} == {*made.layouts} and len(shown["layouts"]) == len(made.layouts)
    return [shown["layouts"][0] is made.best, shown["file"][:1],
            "compose" * ("compose" in shown["refused"])]  # fmt: skip


def drafters(model: str, **asked: str) -> WhyNot:
    """Which drafter gains most, by the expected gain alone."""
    told = {"hw": "h200", "model": model, "what": "drafter"} | asked
    return sheets.explain_why_not(check_fields(sheets.Doubt, told))


MIX = {"concurrency": "9", "ctx": "100", "workload": "code"}
# what stands beside those of a page, or is shown only where something is missing
SHORT: dict[str, tuple[Callable[[], Any], Any]] = {
    "untold": (lambda: [blind()[key] for key in ("words", "tone")],
               ["not predictable; measured here 2.31x, k=2", "untold"]),
    "key by option": (lambda: edges_of("sglang", True), [
        "python3", "  --mem-fraction-static 0.85 --reasoning-parser qwen3 --disable-radix-cache \\",
        '  --api-key "${SGLANG_API_KEY:?set it first}"']),
    "key by variable": (lambda: edges_of("vllm", True)[0], 'VLLM_API_KEY="${VLLM_API_KEY:?set'),
    "typed": (lambda: controls.fields({"engine": "vllm@0.9"}, ("engine",))[0]["options"], [
        ("vllm@0.9", "vllm@0.9"), ("", "by hardware"), ("vllm", "vllm"), ("sglang", "sglang"),
        ("llama-server", "llama-server")]),
    "open": (lambda: [[made["more_open"], made["launch_open"]] for made in (
        controls.controls({}), controls.controls({"temperature": "1"}), controls.controls({}, "tp"),
        controls.controls({"port": "9"}), controls.controls({}, "k"))],
        [[False, False], [True, False], [True, False], [False, True], [False, True]]),
    "no ranges": (lambda: [curve_view(curves.SWEEP.replace(k_ranges=()), 16)[key]
                           for key in ("ranges", "range_words", "arguments")], [None, "", ""]),
    "check form": (lambda: [fields_in(pages._check_controls({"ctx": "x"}, "ctx")["fields"], key)
                            for key in ("value", "wrong")], [{"ctx": "x"}, {"ctx": True}]),
    "results form": (lambda: fields_in(pages._results_controls({}, "k")["fields"], "hint"),
                     dict.fromkeys(pages.AB_FIELDS, "as the files state")),
    "mix form": (lambda: [fields_in(row, key) for row in pages._mix_controls(MIX, "tpot_2")["rows"]
                          for key in ("value", "wrong")], [
        cells("name_1=chat concurrency_1=9 prompt_1=100 output_1=256 workload_1=code goal_1=tpot"),
        {}, cells("name_2=documents concurrency_2=4 prompt_2=8192 output_2=256 workload_2=rag "
                  "goal_2=throughput"), {"tpot_2": True}, {}, {}]),
    **{f"mix on {hw}": (lambda hw=hw: show_mix(hw), wanted) for hw, wanted in (  # type: ignore[misc]
        ("gb10", [True, "#", ""]), ("apple-m3-ultra", [True, "", "compose"]))},
    "no answer": (lambda: [[one.name, one.question.gpus, one.advice, "GiB short" in one.problem]
        for one in (site._cell("gb10", 1, "deepseek-r1", "", 4),
                    site._cell("rtx3060", 2, "deepseek-r1", "awq-int4", 16))], [
        ["deepseek-r1-gb10-4.html", None, None, True],
        ["deepseek-r1-awq-int4-2x-rtx3060-16.html", 2, None, True]]),
    "worst first": (lambda: [one.code for one in views.findings([
        Finding(code=code, severity=how, message="") for code, how in (  # type: ignore[arg-type]
            ("a", "info"), ("c", "warning"), ("b", "warning"), ("d", "error"))])],
        ["d", "b", "c", "a"]),
    "ticks": (lambda: [_ticks(*ends) for ends in ((0.25, 1.0), (0.95, 1.8), (1.0, 5.0))], [
        [0.25, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], [1.0, 1.1, 1.25, 1.5, 1.75],
        [1.0, 1.25, 1.75, 2.5, 4.0]]),
    "loads of a curve": (
        lambda: [one.request.concurrency for one in answers.curve(question_of(ASKED)).loads],
        [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]),
    "loads of the copy": (
        lambda: re.findall(r">(\d+) req", dict(site.site(["gb10"], ["deepseek-r1"]))["index.html"]),
        ["1", "4", "16", "64"]),
    "clean": (lambda: pages.check_view(sheets.checkup(sheets.PastedText(text="vllm serve a/b\n")))
              ["summary"], "No findings in 1 launch of 1 file"),
    "drafters": (lambda: [one.partition(", k")[0] for one in drafters("qwen3-8b").reasons][:4],
                 ["DSpark", "EAGLE-3", "suffix", "n-gram"]),
    "best drafter": (lambda: drafters("qwen3-8b").head, "DSpark is expected to gain most"),
    "one reason": (lambda: len(drafters("qwen3-8b", hw="apple-m3-ultra", engine="sglang").reasons),
                   3),
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_what_is_shown_in_a_special_case(name: str) -> None:
    make, wanted = SHORT[name]
    assert make() == wanted
