"""Starting the servers: addresses and names, what is missing, what is taken."""

import socket
import sys
from unittest.mock import Mock

import pytest
from cli_run import run

from advisor.cli.serve import commands
from advisor.cli.serve.patience import Patient
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


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_a_server_is_bounded_and_says_where_it_is(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """uvicorn's own options: no header that names it, no log of who asks, no web sockets."""
    uvicorn, opened, local = Mock(), Mock(), host != "0.0.0.0"
    monkeypatch.setattr(commands.webbrowser, "open", opened)
    commands.run("app", uvicorn, host, 0, local)
    wanted = {"log_level": "warning", "access_log": False, "server_header": False, "ws": "none",
              "timeout_keep_alive": 10, "limit_concurrency": 100, "http": Patient}  # fmt: skip
    assert uvicorn.Config.call_args == (("app",), wanted)
    assert uvicorn.Server.call_args == ((uvicorn.Config(),), {})
    (listener,) = uvicorn.Server().run.call_args.kwargs["sockets"]
    with listener:
        port = listener.getsockname()[1]
        socket.create_connection(("::1" if ":" in host else "127.0.0.1", port)).close()
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"{address}   (Ctrl-C ends it)\n")
    assert ("Anyone who reaches this address can ask" in err) == (not local)
    assert [one.args for one in opened.call_args_list] == [(address,)] * local


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
