"""A download that fails is tried again; one that never comes fails the check."""

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


@pytest.mark.parametrize(("enough", "status", "calls"), [(1, 0, 1), (3, 0, 3), (9, 1, 4)])
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
        assert "could not be downloaded" in str(ended.code) and enough == 9
    assert tries(tmp_path) == calls
