"""Templates: escaped by default, strict about names, one set for the server and the static copy."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined

from advisor.domain.paths import read_data
from advisor.knowledge.age import facts_line

TABS = (
    ("answer", "/", "Answer"),
    ("compare", "/compare", "Compare"),
    ("check", "/check", "Check"),
    ("results", "/results", "Results"),
    ("mix", "/mix", "Workloads"),
    ("rules", "/rules", "Rules"),
    ("api", "/api", "API"),
)
CARRYING = ("answer", "compare", "check", "results", "mix")  # tabs that take the question along

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
    return Environment(
        loader=DictLoader(templates()),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


@cache
def version() -> str:
    """The package's version."""
    try:
        return package_version("mtp-advisor")
    except PackageNotFoundError:
        return "development"  # a checkout that is not installed


def render(name: str, tab: str = "", **values: Any) -> str:
    """One template as text."""
    shared = {"root": "/", "home": "/", "tabs": TABS, "tab": tab, "carried": "", "wrong": ""}
    shared |= {"policy": ""}
    shared["carrying"] = CARRYING
    shared |= {"version": version(), "facts": facts_line()}
    return environment().get_template(name).render(shared | values)
