"""A wheel in an empty environment: works from any folder, offline, with its data inside."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from tests.tables import words

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
# Any look-up of a name or connection fails: what needs the network would show.
NO_NETWORK = """
import socket

def refuse(*args, **named):
    raise OSError("offline")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a build environment (hatchling comes with the dev tools)."""
    pytest.importorskip("hatchling", reason="no hatchling to build the wheel; .ci/run has it")
    out = tmp_path_factory.mktemp("wheel")
    call = [sys.executable, *words("-m build --wheel --no-isolation --outdir"), str(out), str(ROOT)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an empty environment with the wheel, and the dependencies of this one."""
    place = tmp_path_factory.mktemp("env")
    venv.create(place, with_pip=False, symlinks=True)
    site = (
        place / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    )
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    # dependencies by name, so that an editable install of this checkout is not on the path
    libraries = Path(sysconfig.get_paths()["purelib"])
    for name in dependencies(libraries):
        (site / name).symlink_to(libraries / name)
    (site / "no_network.py").write_text(NO_NETWORK)
    (site / "no_network.pth").write_text("import no_network\n")  # Debian has a sitecustomize
    return place / "bin" / "python"


def dependencies(libraries: Path) -> list[str]:
    """Everything installed beside this checkout, but for this package and path files."""
    skip = ("advisor", "mtp_advisor", "__editable__", "_editable", "sitecustomize", "__pycache__")
    return [
        p.name for p in libraries.iterdir() if not p.name.startswith(skip) and p.suffix != ".pth"
    ]


def advisor(python: Path, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    call = [str(python), "-c", "from advisor.cli.app import main; main()", *argv]
    return subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_the_data_travels_inside_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"advisor"}
    assert {"advisor/_data.zip", "advisor/py.typed"} <= {*names}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_every_shipped_file_is_read_from_the_package(python: Path, tmp_path: Path) -> None:
    """What the code asks `read_data` for is in the packed file, byte for byte."""
    folders = ("engines/*.json", "rules/[!s]*.json")
    found = [path for one in folders for path in (ROOT / "knowledge").glob(one)]
    page = ROOT / "advisor/cli/serve"
    found += [*(page / "static").iterdir(), *(page / "templates").iterdir()]
    found += [ROOT / "knowledge/index.json", ROOT / "knowledge/measurements/index.jsonl"]
    hashes = {
        path.relative_to(ROOT).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in (*found, ROOT / "models/speedup.json")
    }
    code = (
        "import json, sys; from hashlib import sha256; from advisor.domain.paths import read_data\n"
        "print(json.dumps({n: sha256(read_data(n)).hexdigest() for n in json.load(sys.stdin)}))"
    )
    done = subprocess.run(
        [str(python), "-c", code],
        cwd=tmp_path,
        input=json.dumps(list(hashes)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == hashes


def test_a_damaged_package_is_told(wheel: Path, python: Path, tmp_path: Path) -> None:
    """A packed file that was cut off gives one sentence."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "site")
    data = tmp_path / "site" / "advisor" / "_data.zip"
    data.write_bytes(data.read_bytes()[:100_000])
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    call = [str(python), "-c", "from advisor.cli.app import main; main()", "recommend", "--hw=h100"]
    done = subprocess.run(call, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("Error: ") and "reinstall" in done.stderr, done.stderr


def test_the_wheel_is_small(wheel: Path) -> None:
    """Only what an answer reads: no measurements, no research, no training."""
    with zipfile.ZipFile(wheel) as packed:
        entries = packed.infolist()
    assert sum(entry.file_size for entry in entries) <= 4_000_000
    assert not [e.filename for e in entries if re.search("/lab/(training|bench)/", e.filename)]


def test_a_command_that_needs_a_checkout_says_so(python: Path, tmp_path: Path) -> None:
    for asked in (["train", "--check"], ["data", "check"]):
        done = advisor(python, tmp_path, *asked)
        assert done.returncode == 2 and "needs a checkout" in done.stderr, asked
        assert f"`advisor {asked[0]}" in done.stderr
    assert advisor(python, tmp_path, "bench", "--help").returncode == 0
    assert advisor(python, tmp_path, "--help").returncode == 0


def test_it_recommends_from_any_folder_and_offline(python: Path, tmp_path: Path) -> None:
    asked = words("recommend --hw gb10 --concurrency 16 --ctx 2048 --format json")
    done = advisor(python, tmp_path, *asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["decision"] in ("on", "off", "measure")
    assert list(tmp_path.iterdir()) == []  # nothing is written where it runs


def test_it_validates_and_explains(python: Path, tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text("llama-server -hf x/y:Q4_K_M --draft-max 8\n")
    done = advisor(python, tmp_path, "validate", "start.sh", "--fail-on", "warning")
    assert done.returncode == 1, done.stderr
    assert advisor(python, tmp_path, "explain", "SD102").returncode == 0


def test_it_reads_misspelt_keys(python: Path, tmp_path: Path) -> None:
    text = "services:\n  a:\n    image: vllm/vllm-openai:v0.25.1\n    comand: --model m/A\n"
    (tmp_path / "compose.yml").write_text(text)
    done = advisor(python, tmp_path, "validate", "compose.yml", "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    assert "comand" in done.stdout


def test_it_runs_from_the_wheel_and_not_from_the_checkout(python: Path, tmp_path: Path) -> None:
    call = [str(python), "-c", "import advisor; print(advisor.__file__)"]
    where = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert str(python.parent.parent) in where
    for name in ("knowledge", "models"):
        gone = subprocess.run(
            [str(python), "-c", f"import {name}"], cwd=tmp_path, capture_output=True, check=False
        )
        assert gone.returncode != 0, f"a top-level module '{name}' is in site-packages"


def test_the_network_is_off_in_this_test(python: Path, tmp_path: Path) -> None:
    call = [str(python), "-c", "import socket; socket.create_connection(('127.0.0.1', 9))"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "offline" in done.stderr
