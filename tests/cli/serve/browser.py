"""A real Chromium before a real `advisor serve`: fixtures of the journeys. Not a test itself.

Chromium is Debian's, driven by playwright; axe-core comes from its npm package (`.ci/browser`
installs both). Where one is missing the journeys are skipped, unless ADVISOR_EXPECT_BROWSER is set,
as in CI: then they fail.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.tables import words

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).resolve().parents[3]
AXE_VERSION = "4.14.1"
FLAGS = words(
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
START = "import sys; from advisor.cli.app import main; main(sys.argv[1:])"
WIDTHS = {"phone": (390, 844), "desk": (1280, 900)}


def chromium() -> str | None:
    return os.environ.get("ADVISOR_CHROMIUM") or shutil.which("chromium")


def axe_path() -> Path:
    root = os.environ.get("ADVISOR_CACHE")
    cache = Path(root) if root else Path.home() / ".cache" / "advisor"
    return cache / "axe-core" / AXE_VERSION / "axe.min.js"


def missing_parts() -> str:
    """What the journeys lack here, "" where all is there."""
    lacks = [] if chromium() else ["chromium"]
    lacks += [] if axe_path().is_file() else [f"axe-core {AXE_VERSION}"]
    try:
        import playwright  # noqa: F401
    except ModuleNotFoundError:
        lacks.append("playwright")
    return " and ".join(lacks)


def require() -> None:
    """Skip, or fail where a browser is expected."""
    if lacks := missing_parts():
        if os.environ.get("ADVISOR_EXPECT_BROWSER"):
            pytest.fail(f"{lacks} is missing: run .ci/browser")
        pytest.skip(f"{lacks} is not here; .ci/browser installs it")


@contextmanager
def serve() -> Iterator[str]:
    """The address of a running `advisor serve` on a free port."""
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    call = [sys.executable, "-c", START, "serve", "--port", "0"]
    with subprocess.Popen(call, stderr=subprocess.PIPE, text=True, env=env) as process:
        line = process.stderr.readline()
        found = re.match(r"(http://127\.0\.0\.1:\d+)/", line)
        assert found, line
        try:
            yield found[1]
        finally:
            process.terminate()


@contextmanager
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield made
        made.close()


class Visit:
    """One visitor: a fresh profile, a page, and what it must never do."""

    def __init__(
        self, context: BrowserContext, address: str, width: str, scripted: bool = True
    ) -> None:
        self.context, self.address, self.width, self.scripted = context, address, width, scripted
        self.page: Page = context.new_page()
        self.strangers: list[str] = []
        self.complaints: list[str] = []
        context.route("**/*", self._pass)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, message: Any) -> None:
        if message.type == "error" and "400 (Bad Request)" not in message.text:
            self.complaints.append(message.text)

    def _pass(self, route: Any) -> None:
        url = urlsplit(route.request.url)
        ours = urlsplit(self.address)
        if url.scheme in ("data", "blob", "file") or url.netloc == ours.netloc:
            route.continue_()
        else:
            self.strangers.append(route.request.url)
            route.abort()

    def open(self, path: str) -> Page:
        """Go to a path and wait for what the script loads."""
        self.page.goto(self.address + path)
        self.settle()
        return self.page

    def settle(self) -> None:
        """Wait until nothing is under way."""
        self.page.wait_for_load_state("load")
        if not self.scripted:
            return
        self.page.locator(".busy, [data-load]").first.wait_for(state="detached")

    def check(self, name: str) -> None:
        """Nothing from elsewhere, no complaint, no sideways scroll, no serious finding of axe."""
        self.settle()
        self.page.evaluate(  # transitions end, on a machine of any pace
            "Promise.allSettled(document.getAnimations().map(one => one.finished)).then(() => 0)"
        )
        shot(self.page, f"{name}-{self.width}")
        assert not self.strangers, self.strangers
        assert not self.complaints, self.complaints
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{wide} px wider than the window"
        assert not serious(self.page)


def serious(page: Page) -> list[str]:
    """axe-core's serious and critical findings, by rule and place."""
    page.evaluate(axe_path().read_text(encoding="utf-8"))
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("tags => axe.run({runOnly: tags, preload: false})", tags)
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def shot(page: Page, name: str) -> None:
    """A picture for people, kept where ADVISOR_SHOTS says."""
    if folder := os.environ.get("ADVISOR_SHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)
