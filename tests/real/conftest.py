"""The real llama-server and its tiny model, for every test here that asks for them."""

import os
from pathlib import Path

import pytest

from tests.real.tiny_server import binary


@pytest.fixture(scope="session")
def server() -> Path:
    found = binary()
    if not found.is_file():
        message = f"no llama-server at {found}: .ci/llama-server builds it"
        if os.environ.get("ADVISOR_EXPECT_LLAMA_SERVER"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf", reason="the gguf package writes the model; .ci/llama-server has it")
    from tests.real import tiny_gguf

    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny-mtp.gguf")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say by what each emitted file was started."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "way":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")
