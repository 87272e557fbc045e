"""The page for the tests of this folder."""

from collections.abc import Iterator

import pytest
from cli.serve.client import client
from starlette.testclient import TestClient


@pytest.fixture(scope="module")
def page() -> Iterator[TestClient]:
    """The page as a browser on this machine reaches it."""
    with client() as made:
        yield made
