"""The page for the tests of this folder."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from cli.serve.browser import browser, require, serve
from cli.serve.client import client
from starlette.testclient import TestClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def page() -> Iterator[TestClient]:
    """The page as a browser on this machine reaches it."""
    with client() as made:
        yield made


@pytest.fixture(scope="module")
def world() -> Iterator[tuple["Browser", str]]:
    """A browser, and the address of a server before it."""
    require()
    with serve() as address, browser() as made:
        yield made, address
