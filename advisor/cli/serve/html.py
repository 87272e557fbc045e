"""Templates: escaped by default, strict about names, one set for the server and the static copy."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from advisor.cli.base import version
from advisor.domain.paths import read_data
from advisor.knowledge import store as knowledge
from advisor.knowledge.age import facts_line
from advisor.render import own_runs
from advisor.render.explore.plan import server_words, ttft_words
from advisor.render.layout import number, percent

TABS = (
    ("answer", "/", "Answer"),
    ("compare", "/compare", "Compare"),
    ("check", "/check", "Check"),
    ("results", "/results", "Results"),
    ("mix", "/mix", "Workloads"),
)
ASSETS = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
AREAS = ("answer", "base", "compare", "reference", "sheets", "site")  # files of templates/


@cache
def templates() -> dict[str, str]:
    """The templates by name. A file holds those of one area, each below a line that names it."""
    found = {}
    for area in AREAS:
        file = read_data(f"advisor/cli/serve/templates/{area}.html").decode("utf-8")
        for part in file.split("{# template ")[1:]:
            name, _, text = part.partition(" #}\n")
            found[name] = text.rstrip("\n") + "\n"
    return found


@cache
def asset_bytes(name: str) -> bytes:
    """One of ASSETS. Raises OSError where the package is damaged."""
    return read_data(f"advisor/cli/serve/static/{name}")


@cache
def environment() -> Environment:
    """The templates of this package. What is not marked as HTML is escaped."""
    made = Environment(
        loader=DictLoader(templates()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "figure": own_runs.number,
        "number": number,
        "percent": percent,
        "server": server_words,
        "sources": sources,
        "ttft": ttft_words,
    }
    made.globals["metric_names"] = own_runs.LABELS
    return made


def sources(names: Iterable[str]) -> Iterator[dict[str, str]]:
    """Sources with title and, where it is a web address, the link; both "" where it has none."""
    for name in names:
        entry = knowledge.source_of(name)
        title = ", ".join(filter(None, (entry.title, entry.date))) if entry is not None else ""
        address = entry.address if entry is not None else ""
        link = address.split()[0] if address.startswith("https://") else ""
        yield {"name": name, "title": title, "link": link}


def render(name: str, tab: str = "", **values: Any) -> str:
    """One template as text."""
    shared = {"root": "/", "home": "/", "tabs": TABS, "tab": tab, "carried": "", "wrong": ""}
    shared |= {"policy": "", "version": version(), "facts": facts_line()}
    return environment().get_template(name).render(shared | values)
