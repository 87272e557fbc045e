"""Twelve tasks that people come with, done in a real browser at two widths: what each takes.

    python -m pytest -n 0 tests/cli/serve/test_tasks.py

docs/page-tasks.md is the table of what was counted; with ADVISOR_WRITE_TASKS=1 it is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cli.serve.browser import WIDTHS, Visit, browser, require, serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "docs" / "page-tasks.md"
FILES = ROOT / "tests" / "readers" / "results" / "files"
COMPOSE = "\n".join(
    ("services:", "  llm:", "    image: vllm/vllm-openai:v0.25.1", "    command: >-",
     "      --model Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config",
     """      '{"method": "mtp", "num_speculative_tokens": 9}'""")
)  # fmt: skip
HEAD = """<!-- Written by tests/cli/serve/test_tasks.py with ADVISOR_WRITE_TASKS=1; do not edit. -->
# Twelve tasks on the page

Each is done in Chromium at 1280 x 900 and at 390 x 844 (phone), from the page that a visitor has
open, until the answer is in the window. A click or tap is one, also on a field before it is typed
in; a choice from a list is two; a paste is one key. Scroll is in pixels. Before: the same at the
commit of 2026-11-25 (1009ba93), as a reviewer counted it.

| task | before | clicks | keys | scroll | scroll, phone |
|---|---|---|---|---|---|
"""


class Hand:
    """Does a task as a person does, and counts what it takes."""

    def __init__(self, visit: Visit, path: str) -> None:
        self.visit, self.page = visit, visit.open(path)
        self.clicks = self.keys = self.scroll = 0

    def field(self, label: str) -> Locator:
        """A field by its label; what hides it is opened."""
        field = self.page.get_by_label(label, exact=True).first
        for hidden in field.locator("xpath=ancestor::details[not(@open)]").all():
            self.press(hidden.locator("summary").first)
        self.clicks += 1
        return field

    def enter(self, label: str, text: str, pasted: bool = False) -> None:
        self.field(label).fill(text)
        self.keys += 1 if pasted else len(text)
        self.visit.settle()

    def choose(self, label: str, value: str) -> None:
        self.field(label).select_option(value)
        self.clicks += 1
        self.visit.settle()

    def press(self, target: Locator) -> None:
        """Scroll to what is clicked, and click it."""
        self.look(target)
        target.click()
        self.clicks += 1
        self.visit.settle()

    def link(self, name: str) -> None:
        self.press(self.page.get_by_role("link", name=name).first)

    def look(self, target: Locator, most: float = 60) -> None:
        """Scroll until the first lines of it are in the window."""
        target.wait_for()
        place = target.bounding_box()
        assert place, target
        high = WIDTHS[self.visit.width][1]
        down = place["y"] + min(place["height"], most) - high
        by = down if down > 0 else min(place["y"], 0)
        self.page.evaluate("by => scrollBy({top: by, behavior: 'instant'})", by)
        self.scroll += round(abs(by))

    def see(self, selector: str, *words: str) -> None:
        place = self.page.locator(selector)
        for word in words:
            place = place.filter(has_text=word)
        self.look(place.first)


def two_cards(hand: Hand) -> None:
    hand.enter("Hardware", "2x 3090")
    hand.choose("Quantisation", "awq-int4")
    hand.enter("Requests", "4")
    hand.page.locator(".setting", has_text="4 requests").wait_for()
    hand.see("#launch-text", "vllm serve")
    hand.press(hand.page.locator("#launch .copy").first)
    assert hand.scroll == 0  # the command is in the first window
    cards = hand.page.locator("#answer article .card").all()
    tops = [place["y"] for place in (one.bounding_box() for one in cards) if place]
    assert len(tops) <= 6 and (hand.visit.width == "phone" or tops[2] < 800), tops


def spark(hand: Hand) -> None:
    hand.link("DGX Spark")
    hand.enter("Requests", "16")
    hand.page.locator(".setting", has_text="16 requests").wait_for()
    hand.see(".verdict h1", "MTP")


def engines(hand: Hand) -> None:
    hand.enter("Hardware", "h100")
    hand.link("Compare with sglang")
    hand.see("#sides-h")


def my_file(hand: Hand) -> None:
    hand.link("Check")
    hand.enter("Configuration", COMPOSE, pasted=True)
    hand.press(hand.page.get_by_role("button", name="Check"))
    hand.see("#result .finding")


def users(hand: Hand) -> None:
    hand.link("How many within 50 ms?")
    hand.see(".verdict", "50 ms met", "users")


def objective(hand: Hand) -> None:
    hand.enter("Max TPOT", "5")
    hand.see(".verdict", "5 ms missed")


def why_not(hand: Hand) -> None:
    hand.link("Why not k = 4?")
    hand.see("#doubt-h")


def price(hand: Hand) -> None:
    hand.enter("Price an hour", "3")
    hand.see(".verdict", "A million output tokens")


def results(hand: Hand) -> None:
    hand.link("Results")
    for label, name in (("Without speculation", "off"), ("With speculation", "on")):
        box = hand.page.get_by_label(label, exact=name == "on").first
        box.set_input_files(FILES / f"vllm-serve-{name}.json")
        hand.clicks += 2  # the button, and the file in the window that it opens
    hand.press(hand.page.get_by_role("button", name="Read"))
    hand.see("#ab-h")


def workloads(hand: Hand) -> None:
    hand.link("Several workloads?")
    hand.press(hand.page.get_by_role("button", name="Plan"))
    hand.see("#plan-h")


def unknown_card(hand: Hand) -> None:
    hand.enter("Hardware", "rtx 9999")
    hand.see("#answer [role=alert]", "rtx 9999", "your-hardware")


def share(hand: Hand) -> None:
    hand.press(hand.page.get_by_role("button", name="Copy the link"))
    hand.see("button:has-text('Copied')")


H100 = "/?hw=h100&concurrency=16"
TASKS: dict[str, tuple[str, Callable[[Hand], None], str]] = {
    "2 x 3090, AWQ, 4 people: copy the launch": ("/", two_cards, "6 controls, 3 hidden; 1,248 px"),
    "DGX Spark, 16 users": ("/", spark, "1 click, 1 field"),
    "SGLang or vLLM on an H100": ("/", engines, "another tab, all typed again"),
    "is my compose file fine": (H100, my_file, "a paste, 1 click"),
    "how many users within 50 ms": (H100, users, "not possible"),
    "TPOT at most 5 ms": (H100, objective, "a hidden field; the verdict hid that it fails"),
    "why not k = 4": (H100, why_not, "another tab, its second field, the right button"),
    "price of a million tokens": (H100, price, "only in a comparison of two names"),
    "my two benchmark files": (H100, results, "2 files, 1 click"),
    "two workloads": (H100, workloads, "YAML"),
    "a card that is not listed": ("/", unknown_card, "a dead end"),
    "share it with a colleague": (H100, share, "copy the address"),
}


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[Browser, str]]:
    require()
    with serve() as address, browser() as made:
        yield made, address


def test_what_twelve_tasks_take(world: tuple[Browser, str]) -> None:
    made, address = world
    counted: dict[str, list[Hand]] = {}
    for width, (wide, high) in WIDTHS.items():
        for name, (path, task, _) in TASKS.items():
            context = made.new_context(
                viewport={"width": wide, "height": high}, permissions=["clipboard-write"]
            )
            context.set_default_timeout(120_000)
            hand = Hand(Visit(context, address, width), path)
            task(hand)
            assert not hand.visit.complaints and not hand.visit.strangers, name
            counted.setdefault(name, []).append(hand)
            context.close()
    rows = []
    for name, hands in counted.items():
        desk, phone = sorted(hands, key=lambda hand: hand.visit.width)
        assert (desk.clicks, desk.keys) == (phone.clicks, phone.keys), name
        # a line more or less of a font moves what follows by some 20 px
        scroll, far = (round(hand.scroll, -2) for hand in (desk, phone))
        before = TASKS[name][2]
        rows.append(f"| {name} | {before} | {desk.clicks} | {desk.keys} | {scroll:,} | {far:,} |\n")
    table = HEAD + "".join(rows)
    print(table)
    if os.environ.get("ADVISOR_WRITE_TASKS"):
        TABLE.write_text(table, encoding="utf-8")
    assert TABLE.read_text(encoding="utf-8") == table
