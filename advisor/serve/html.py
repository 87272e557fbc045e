"""Templates: escaped by default, strict about names, one set for the server and the static copy."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

TABS = (
    ("answer", "/", "Answer"),
    ("check", "/check", "Check a configuration"),
    ("results", "/results", "Your results"),
    ("mix", "/mix", "Several workloads"),
    ("rules", "/rules", "Rules"),
    ("api", "/api", "API"),
)


@cache
def environment() -> Environment:
    """The templates of this package. What is not marked as HTML is escaped."""
    return Environment(
        loader=PackageLoader("advisor.serve"),
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
    shared = {"root": "/", "home": "/", "tabs": TABS, "tab": tab, "version": version()}
    return environment().get_template(name).render(shared | values)
