"""Twelve tasks that people come with, done in a real browser at two widths: what each takes.

    python -m pytest -n 0 tests/cli/serve/test_tasks.py

docs/page-tasks.md is the table of what was counted; with ADVISOR_WRITE_TASKS=1 it is written.
"""

from __future__ import annotations

import os
import re
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cli.serve.browser import WIDTHS, Visit

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

    def enter(self, label: str, text: str) -> None:
        self.paste(label, text)
        self.keys += len(text) - 1

    def paste(self, label: str, text: str) -> None:
        self.field(label).fill(text)
        self.keys += 1
        self.visit.settle()

    def choose(self, label: str, value: str) -> None:
        self.field(label).select_option(value)
        self.clicks += 1
        self.visit.settle()

    def press(self, target: Locator | str) -> None:
        """Scroll to what is clicked, and click it."""
        target = self.page.locator(target).first if isinstance(target, str) else target
        self.look(target)
        target.click()
        self.clicks += 1
        self.visit.settle()

    def link(self, name: str) -> None:
        self.press(self.page.get_by_role("link", name=name).first)

    def button(self, name: str) -> None:
        self.press(self.page.get_by_role("button", name=name))

    def wait(self, words: str) -> None:
        self.page.locator(".setting", has_text=words).wait_for()

    def upload(self, label: str, name: str) -> None:
        box = self.page.get_by_label(label, exact=name == "on").first
        box.set_input_files(FILES / f"vllm-serve-{name}.json")
        self.clicks += 2  # the button, and the file in the window that it opens

    def look(self, target: Locator, most: float = 60) -> None:
        """Scroll until the first lines of it are in the window."""
        target.wait_for()
        place = target.bounding_box()
        assert place, target
        down = place["y"] + min(place["height"], most) - WIDTHS[self.visit.width][1]
        by = down if down > 0 else min(place["y"], 0)
        self.page.evaluate("by => scrollBy({top: by, behavior: 'instant'})", by)
        self.scroll += round(abs(by))

    def see(self, selector: str, *words: str) -> None:
        place = self.page.locator(selector)
        for word in words:
            place = place.filter(has_text=word)
        self.look(place.first)

    def is_in_the_first_window(self) -> None:
        assert self.scroll == 0
        cards = self.page.locator("#answer article .card").all()
        tops = [place["y"] for place in (one.bounding_box() for one in cards) if place]
        assert len(tops) <= 6 and (self.visit.width == "phone" or tops[2] < 800), tops


H100 = "/?hw=h100&concurrency=16"
# from a page: the steps, each with its words; what it took before
TASKS: dict[str, tuple[str, list[tuple[str, ...]], str]] = {
    "2 x 3090, AWQ, 4 people: copy the launch": (
        "/", [("enter", "Hardware", "2x 3090"), ("choose", "Quantisation", "awq-int4"),
              ("enter", "Requests", "4"), ("wait", "4 requests"),
              ("see", "#launch-text", "vllm serve"), ("press", "#launch .copy"),
              ("is_in_the_first_window",)], "6 controls, 3 hidden; 1,248 px"),
    "DGX Spark, 16 users": (
        "/", [("link", "DGX Spark"), ("enter", "Requests", "16"), ("wait", "16 requests"),
              ("see", ".verdict h1", "MTP")], "1 click, 1 field"),
    "SGLang or vLLM on an H100": (
        "/", [("enter", "Hardware", "h100"), ("link", "Compare with sglang"), ("see", "#sides-h")],
        "another tab, all typed again"),
    "is my compose file fine": (
        H100, [("link", "Check"), ("paste", "Configuration", COMPOSE), ("button", "Check"),
               ("see", "#result .finding")], "a paste, 1 click"),
    "how many users within 50 ms": (
        H100, [("link", "How many within 50 ms?"), ("see", ".verdict", "50 ms met", "users")],
        "not possible"),
    "TPOT at most 5 ms": (
        H100, [("enter", "Max TPOT", "5"), ("see", ".verdict", "5 ms missed")],
        "a hidden field; the verdict hid that it fails"),
    "why not k = 4": (H100, [("link", "Why not k = 4?"), ("see", "#doubt-h")],
                      "another tab, its second field, the right button"),
    "price of a million tokens": (
        H100, [("enter", "Price an hour", "3"), ("see", ".verdict", "A million output tokens")],
        "only in a comparison of two names"),
    "my two benchmark files": (
        H100, [("link", "Results"), ("upload", "Without speculation", "off"),
               ("upload", "With speculation", "on"), ("button", "Read"), ("see", "#ab-h")],
        "2 files, 1 click"),
    "two workloads": (
        H100, [("link", "Several workloads?"), ("button", "Plan"), ("see", "#plan-h")], "YAML"),
    "a card that is not listed": (
        "/", [("enter", "Hardware", "rtx 9999"),
              ("see", "#answer [role=alert]", "rtx 9999", "your-hardware")], "a dead end"),
    "share it with a colleague": (
        H100, [("button", "Copy the link"), ("see", "button:has-text('Copied')")],
        "copy the address"),
}  # fmt: skip


def test_what_twelve_tasks_take(world: tuple[Browser, str]) -> None:
    made, address = world
    counted: dict[str, list[Hand]] = {}
    for width, (wide, high) in WIDTHS.items():
        for name, (path, steps, _) in TASKS.items():
            context = made.new_context(
                viewport={"width": wide, "height": high}, permissions=["clipboard-write"]
            )
            context.set_default_timeout(120_000)
            hand = Hand(Visit(context, address, width), path)
            for step, *told in steps:
                getattr(hand, step)(*told)
            assert not hand.visit.complaints and not hand.visit.strangers, name
            counted.setdefault(name, []).append(hand)
            context.close()
    rows = []
    for name, hands in counted.items():
        desk, phone = sorted(hands, key=lambda hand: hand.visit.width)
        assert (desk.clicks, desk.keys) == (phone.clicks, phone.keys), name
        scroll, far = (round(hand.scroll, -2) for hand in (desk, phone))
        before = TASKS[name][2]
        rows.append(f"| {name} | {before} | {desk.clicks} | {desk.keys} | {scroll:,} | {far:,} |\n")
    table = HEAD + "".join(rows)
    print(table)
    if os.environ.get("ADVISOR_WRITE_TASKS"):
        TABLE.write_text(table, encoding="utf-8")
    both, pixels = (TABLE.read_text("utf-8"), table), re.compile(r"([\d,]+) \| ([\d,]+) \|$", re.M)
    assert len({pixels.sub("", text) for text in both}) == 1
    rows = (chain.from_iterable(pixels.findall(text)) for text in both)
    kept, now = ([float(x.replace(",", "")) for x in row] for row in rows)
    assert now == pytest.approx(kept, abs=100)  # a line of a font moves what follows by some 20 px
