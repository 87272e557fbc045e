"""CI on a bare machine: a download that fails is tried again, and one that never comes fails the
check; a missing program is named with the command that installs it; versions are pinned.
"""

import json
import os
import random
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from advisor.engines.extract import releases
from tests.benchmarks import bench_cold_start

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


def test_a_missing_program_is_named_with_its_command(tmp_path: Path) -> None:
    """Where neither root nor sudo can install it: nothing here but the shell's own tools."""
    for name in ("dirname", "id", "bash"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    bash = ["/usr/bin/bash", str(CI / "needs"), "bash=bash", "no-such=first second"]
    hidden = 'command() { [ "$2" = bash ]; }; export -f command; exec "$@"'
    done = subprocess.run(["/usr/bin/bash", "-c", hidden, "sh", *bash],
                          env={"PATH": str(tmp_path)}, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 1
    assert "this stage needs no-such:" in done.stderr and "first second" in done.stderr
    assert "sudo apt-get update && sudo apt-get install" in done.stderr


def test_a_misspelt_skip_is_refused() -> None:
    env = os.environ | {"ADVISOR_SKIP": "docker brwoser"}
    done = subprocess.run([CI / "run"], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split()[-1]) == (2, "brwoser")


def test_docker_that_cannot_be_had_fails_unless_it_is_skipped(tmp_path: Path) -> None:
    env = os.environ | {"ADVISOR_CACHE": str(tmp_path), "DOCKER_COMPOSE": "x"}
    hidden = 'docker() { return 1; }; id() { echo 7; }; export -f docker id; exec "$@"'
    words = ["bash", "-c", hidden, "sh", str(CI / "with-docker"), "echo", "ran"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "") and "ADVISOR_SKIP=docker" in done.stderr
    env["ADVISOR_SKIP"] = "docker"
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ran\n")


def test_every_library_of_ci_is_pinned_as_the_package_allows() -> None:
    lines = (CI / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines)  # a path or an address has no such sign
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    assert all(re.fullmatch(r"[\w.-]+", name) for name in pins)
    project = tomllib.loads((CI.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    for text in [*project["dependencies"], *(one for extra in extras for one in extra)]:
        wanted = Requirement(text)
        if wanted.name != project["name"]:
            assert pins[canonicalize_name(wanted.name)] in wanted.specifier, text


@pytest.mark.parametrize("slower", [1.0, 1.5])
@pytest.mark.parametrize("seed", range(50))
def test_a_busy_machine_hides_no_slower_program(
    slower: float, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time is the true one and what other programs add, a quarter of it in the mean."""
    monkeypatch.setattr(bench_cold_start, "RECORDED", tmp_path / "recorded.json")
    bench_cold_start.RECORDED.write_text(json.dumps({"warm_cpu": 0.2}))
    draw = random.Random(seed)
    spent: dict[str, list[float]] = {"bare": [], "warm_cpu": []}

    def measure() -> dict[str, float]:
        for _ in range(10):
            spent["bare"].append(200 * (1 + draw.expovariate(4)))
            spent["warm_cpu"].append(40 * slower * (1 + draw.expovariate(4)))
        return bench_cold_start.least_ratios(spent)

    if slower == 1:
        bench_cold_start.judge(measure, record=False)
        return
    with pytest.raises(SystemExit, match="warm_cpu is"):
        bench_cold_start.judge(measure, record=False)
    assert len(spent["bare"]) == 10 * bench_cold_start.ATTEMPTS
