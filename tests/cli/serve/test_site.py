"""The static copy: answers of the page, links that lead somewhere, nothing from elsewhere."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from cli.serve.client import argv
from cli_run import run

from advisor.cli.serve import html as templates

NAMES = ("--hw", "gb10", "--hw", "DGX Spark", "--hw", "rtx3090",
         "--model", "qwen3.6-35b-a3b", "--model", "deepseek-v3.2")  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "copy"
    ran = run("page", "--out", str(out), *NAMES)
    assert ran.code == 0, ran.err
    return out


def test_every_link_leads_to_a_file(place: Path) -> None:
    pages = sorted(place.rglob("*.html"))
    assert len(pages) >= 8
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text("utf-8")):
            if link.startswith(("https://", "#")):
                continue
            assert not link.startswith("/"), f"{page.name}: {link} needs a server"
            assert (page.parent / link).resolve().is_file(), f"{page.name}: {link}"


def test_an_answer_of_the_copy_is_that_of_the_command_line(place: Path) -> None:
    ran = run("recommend", "--hw", "gb10", "--concurrency", "16", "--format", "json")
    text = (place / "answers" / "qwen3.6-35b-a3b-gb10-16.html").read_text("utf-8")
    launch = re.search(r'<pre id="launch-text"[^>]*>(.*?)</pre>', text, re.S)
    assert launch and argv(html.unescape(launch[1])) == argv(json.loads(ran.out)["launch"]["text"])
    compose = run("recommend", "--hw", "gb10", "--concurrency", "16", "--format", "compose").out
    assert compose in html.unescape(text)
    assert "svg" in text and "data-load" not in text


def test_what_does_not_run_has_no_page_but_a_reason(place: Path) -> None:
    index = (place / "index.html").read_text("utf-8")
    refused = re.findall(r'<span class="note" title="([^"]+)">does not run', index)
    assert refused and all("does not fit" in why for why in refused)
    assert not (place / "answers" / "deepseek-v3.2-gb10-1.html").exists()


def test_a_folder_with_files_and_unknown_names_are_refused(place: Path, tmp_path: Path) -> None:
    again = run("page", "--out", str(place), *NAMES)
    assert again.code == 2 and "not empty" in again.err
    ran = run("page", "--out", str(tmp_path / "new"), "--hw", "gb11")
    assert ran.code == 2 and "did you mean" in ran.err and not (tmp_path / "new").exists()


def test_every_file_of_templates_is_read() -> None:
    folder = Path(templates.__file__).parent / "templates"
    assert sorted(path.stem for path in folder.iterdir()) == sorted(templates.AREAS)
