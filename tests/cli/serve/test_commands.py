"""Starting the servers: addresses and names, what is missing, what is taken."""

import socket
import sys

import pytest
from cli_run import run

from advisor.cli.serve import commands
from advisor.domain.nouns import AdvisorError


@pytest.mark.parametrize(
    ("host", "more", "names"),
    [
        ("127.0.0.1", (), ("127.0.0.1",)),
        ("::1", (), ("[::1]",)),
        ("192.168.1.5", ("Box.lan", " "), ("box.lan", "192.168.1.5")),
        ("0.0.0.0", ("box.lan",), ("box.lan", "0.0.0.0")),
        ("box.lan", (), ("box.lan",)),
    ],
)
def test_the_names_of_an_address(host: str, more: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert commands.names(host, more) == names


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_every_address_needs_a_name(host: str) -> None:
    with pytest.raises(AdvisorError, match="--allow-host"):
        commands.names(host, ())
    assert run("serve", "--host", host).code == 2


def test_an_address_that_is_taken_is_said() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(AdvisorError, match="choose another --port"),
    ):
        commands.listen("127.0.0.1", taken.getsockname()[1])


def test_only_the_loopback_is_local() -> None:
    assert all(map(commands.is_local, ("127.0.0.1", "::1", "localhost", "127.9.9.9")))
    assert not any(map(commands.is_local, ("192.168.1.5", "0.0.0.0", "box.lan")))


@pytest.mark.parametrize(
    ("command", "module", "lacks"),
    [
        (("serve",), "advisor.cli.serve.commands", "uvicorn"),
        (("page", "--out", "no-such-folder"), "advisor.cli.serve.html", "jinja2"),
        (("mcp",), "advisor.cli.serve.mcp_server", "mcp.server"),
    ],
)
def test_what_is_not_installed_is_named(
    command: tuple[str, ...], module: str, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("advisor.cli.serve.")]:
        if name != "advisor.cli.serve.commands":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, lacks, None)
    ran = run(*command)
    assert ran.code == 2 and f"{lacks} is not installed: pip install 'mtp-advisor[" in ran.err
