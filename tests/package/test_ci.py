"""CI on a bare machine: a download that fails is tried again, and one that never comes fails the
check; a missing program is named with the command that installs it; versions are pinned.
"""

import json
import os
import random
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from mutation import run
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


TESTS = Path(__file__).resolve().parents[1]
DRAW = """
import pathlib
from hypothesis import given, settings, strategies as st
{before}

@settings(max_examples=60)
@given(st.text(), st.floats(), st.integers())
def test_draw(text, real, whole):
    with pathlib.Path("drawn").open("a") as out:
        print(ascii((text, real, whole)), file=out)
"""


def draw_examples(folder: Path, before: str = "", *options: str) -> str:
    """What a property test draws under the settings of all tests, `before` having been run."""
    (folder / "test_draw.py").write_text(DRAW.format(before=before))
    call = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "--rootdir", str(folder)]
    call += [*options, "test_draw.py"]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(call, cwd=folder, env=clean | {"PYTHONPATH": path}, capture_output=True,
                          text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    drawn = (folder / "drawn").read_text()
    (folder / "drawn").unlink()
    return drawn


@pytest.mark.slow
def test_examples_follow_from_the_test_alone_unless_others_are_asked_for(tmp_path: Path) -> None:
    first = draw_examples(tmp_path)
    assert first.count("\n") >= 50
    assert draw_examples(tmp_path, "import advisor.lint.validate, advisor.cli.app") == first
    assert draw_examples(tmp_path, "", "--hypothesis-profile=random") != first


ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "research" / "mutation.md"


def test_each_room_is_above_its_floor() -> None:
    scores = run.read_page(PAGE.read_text(encoding="utf-8"))
    assert len(scores) >= 11 and list(scores) == [room for room in run.ROOMS if room in scores]
    for one in scores.values():
        assert one.share >= run.FLOOR or one.tried < run.ENOUGH, one.room
        assert one.noticed + len(one.alive) == one.tried


def test_the_page_is_read_as_it_is_written() -> None:
    made = run.Score("memory", "2026-11-25", 7, 300, 12, 10, 1, ("a.b__mutmut_1", "a.c__mutmut_2"))
    other = made._replace(room="rules SD1", alive=(), noticed=12)
    assert run.read_page(run.page([made, other])) == {"memory": made, "rules SD1": other}
    assert "83.3%" in run.page([made]) and run.FLOOR == 0.85


def test_every_module_is_in_a_room_whose_files_exist() -> None:
    for name, room in run.ROOMS.items():
        assert all(run.files([pattern]) for pattern in (*room.modules, *room.tests)), name
    reached = {path for room in run.ROOMS.values() for path in run.files(room.modules)}
    left_out = set((ROOT / "advisor").rglob("*.py")) - reached
    shipped = {path.name for path in left_out if path.parent.name != "extract"}
    assert shipped <= {"__init__.py", "_index.py"}


def test_a_number_of_a_module_is_doubled(tmp_path: Path) -> None:
    module = tmp_path / "advisor" / "a.py"
    module.parent.mkdir()
    module.write_text(
        'É = "3"; LATE = (1.5, 0)\nPIECE = 9  # pragma: no mutate\ndef f():\n    return 7\n'
    )
    room = run.Room(("advisor/a.py",), ())
    made = []
    before = module.read_text()
    for number in run.numbers(tmp_path, room):
        number.double()
        made.append((str(number).partition(": ")[2], module.read_text().splitlines()[0]))
        module.write_text(before)
    assert made == [
        ("1.5 doubled", 'É = "3"; LATE = (3.0, 0)'),
        ("0 doubled", 'É = "3"; LATE = (1.5, 1)'),
    ]


def test_the_decorators_of_rules_are_called_below() -> None:
    text = (
        "@rule(\n    severity='info',\n)\ndef one(case):\n    yield 1\n\n\ndef two():\n    pass\n"
    )
    made = run.strip_decorators(text)
    assert re.search(r"^def one\(case\):\n    yield 1\n", made, re.M)
    assert "one = rule(\n    severity='info',\n)(one)" in made and "@" not in made
    assert made.index("(one)") < made.index("def two")
