"""A download that fails is tried again; one that never comes is told from a check that fails."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from advisor.engines.extract import releases

CI = Path(__file__).resolve().parents[2] / ".ci"
# fails until it was called often enough, as the lines in its file say
CALL = 'echo x >> "$0"; [ "$(wc -l < "$0")" -ge {enough} ]'


def tries(folder: Path) -> int:
    return (folder / "calls").read_text().count("x")


def words(folder: Path, enough: int) -> list[str]:
    return ["bash", "-c", CALL.format(enough=enough), str(folder / "calls")]


@pytest.mark.parametrize(("enough", "status", "calls"), [(1, 0, 1), (3, 0, 3), (9, 75, 4)])
def test_a_stage_tries_four_times(enough: int, status: int, calls: int, tmp_path: Path) -> None:
    env = os.environ | {"ADVISOR_PAUSES": "0 0 0"}
    done = subprocess.run(
        [CI / "again", *words(tmp_path, enough)], env=env, capture_output=True, check=False
    )
    assert (done.returncode, tries(tmp_path)) == (status, calls)


@pytest.mark.parametrize(("enough", "calls"), [(3, 3), (9, 4)])
def test_a_release_is_fetched_four_times(
    enough: int, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(releases, "PAUSES_S", (0, 0, 0))
    try:
        releases._download(words(tmp_path, enough))
    except SystemExit as ended:
        assert ended.code == 75 and enough == 9
    assert tries(tmp_path) == calls


@pytest.mark.parametrize(("ends_with", "status"), [(0, 0), (75, 0), (1, 1)])
def test_only_what_could_not_be_downloaded_is_left_out(
    ends_with: int, status: int, tmp_path: Path
) -> None:
    """The function of `.ci/run` that calls such a stage, and its last line."""
    lines = (CI / "run").read_text().splitlines()
    start = lines.index("unchecked=()")
    head = lines[start : lines.index("}", start) + 1]
    script = ["set -euo pipefail", *head, f'try bash -c "exit {ends_with}"', "echo next"]
    done = subprocess.run(
        ["bash", "-c", "\n".join([*script, lines[-1]])], capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert ("next" in done.stdout) == (status == 0)
    assert ("NOT CHECKED" in done.stderr) == (ends_with == 75)
