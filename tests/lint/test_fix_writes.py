"""What `--fix` writes is the same file with another text, or it is not written at all."""

import os
import stat
from pathlib import Path

import pytest
from cli_run import Result, run

TEXT = "#!/bin/sh\nvllm serve m --max-num-sqes 4 --gpu-memory-utilisation 0.9\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "a.sh"
    path.write_text(TEXT)
    path.chmod(0o751)
    return path


def fix(path: Path) -> Result:
    return run("validate", str(path), "--unsafe-fixes", "--engine-version", "0.25.1")


def leftovers(path: Path) -> list[str]:
    return [one.name for one in path.parent.iterdir() if one.name.startswith(".advisor-")]


def test_mode_and_link_stay(script: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.sh"
    link.symlink_to(script.name)
    fix(link)
    assert script.read_text() != TEXT and link.is_symlink()
    assert stat.S_IMODE(script.stat().st_mode) == 0o751 and not leftovers(script)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away; .ci/run is root")
def test_owner_stays(script: Path) -> None:
    os.chown(script, 1234, 4321)
    script.chmod(0o6755)
    fix(script)
    about = script.stat()
    assert script.read_text() != TEXT
    assert (about.st_uid, about.st_gid, stat.S_IMODE(about.st_mode)) == (1234, 4321, 0o6755)


def test_extended_attributes_stay(script: Path) -> None:
    try:
        os.setxattr(script, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no extended attributes; .ci/run's has")
    fix(script)
    assert script.read_text() != TEXT and os.getxattr(script, "user.note") == b"mine"


def test_an_owner_that_is_lost_is_refused(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = os.stat_result((*script.stat()[:4], 4242, *script.stat()[5:]))
    true_stat = os.stat
    monkeypatch.setattr(os, "stat", lambda x, **k: other if x == str(script) else true_stat(x, **k))

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    told = fix(script)
    assert told.code == 2 and "operation not permitted" in told.err
    assert script.read_text() == TEXT and not leftovers(script)


def test_a_write_protected_file_is_left_alone(script: Path) -> None:
    script.chmod(0o444)
    told = fix(script)
    assert told.code == 2 and "write-protected" in told.err and script.read_text() == TEXT


def test_a_file_with_another_hard_link_is_left_alone(script: Path, tmp_path: Path) -> None:
    os.link(script, tmp_path / "b.sh")
    told = fix(script)
    assert told.code == 2 and "2 hard links" in told.err
    assert script.read_text() == TEXT and script.samefile(tmp_path / "b.sh")
