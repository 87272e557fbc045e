"""A client of the application without a socket. Not a test itself."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.testclient import TestClient

from advisor.cli.serve.app import create_app

ADDRESS = "http://127.0.0.1:8765"


@contextmanager
def client(*hosts: str) -> Iterator[TestClient]:
    """The page as a browser on this machine reaches it."""
    with TestClient(create_app(hosts), base_url=ADDRESS, raise_server_exceptions=True) as made:
        yield made


def argv(launch: str) -> list[str]:
    """The words of a launch, however its lines are broken."""
    return shlex.split(launch.replace("\\\n", ""))
