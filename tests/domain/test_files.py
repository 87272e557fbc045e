"""What a user names is opened with guards, by every command that opens something."""

import json
import multiprocessing
import os
import resource
import sys
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from advisor.cli.app import COMMANDS as HOMES
from advisor.cli.app import main
from advisor.domain.files import (
    lines_safely,
    read_bytes_safely,
    read_text_safely,
    read_yaml_safely,
    yaml_safely,
)
from advisor.domain.nouns import AdvisorError
from advisor.domain.paths import knowledge_dir, models_dir, seal, unseal
from advisor.lab.training import train
from advisor.prediction import artefact, predict
from advisor.prediction.threads import VARIABLE

DEEP = {  # what the sentence says of the text
    "line 1: not YAML: exceeded maximum nesting": "{" * 40_000,  # libyaml's own bound
    "line 1: is nested deeper than 64 levels": "- " * 20_000,
    "line 2: is nested deeper than 64 levels": f"a: {'[' * 63}{']' * 63}\nb: {'[' * 64}",
    "line 65: is nested deeper than 64 levels": "".join(f"{' ' * n}a:\n" for n in range(300)),
    "has more than 100000 YAML nodes": "[" + "1," * 100_000 + "]",
    r"line 2: YAML aliases \(\*name\) are not allowed here": "a: &a [1,1]\nb: &b [*a,*a]\n",
    "line 1: not YAML: could not determine a constructor": "!!python/object:os.system {}",
    r"id: holds a character that cannot be shown \(m\\x1b\]0;x": 'id: "m\\e]0;x\\a"\n',
    r"id: holds a character that cannot be shown \(a\\u202eb\)": 'id: "a\\u202eb"\n',
    "line 2: not YAML: did not find expected node content": "id: [1,\n",
    "not YAML: month must be in": "id: 2026-13-45\n",
    "not YAML: Exceeds the limit": "id: " + "9" * 5000 + "\n",
    "is not UTF-8 text; save it as UTF-8": "\udcff",
}


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("problem", DEEP)
def test_hostile_yaml_is_one_sentence(problem: str, tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_bytes(DEEP[problem].encode("utf-8", "surrogateescape"))
    with pytest.raises(AdvisorError, match=f"^{path}: {problem}") as caught:
        read_yaml_safely(path, 300_000)
    assert str(caught.value).isprintable()


def test_a_page_of_facts_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfid: a\nlist: [1, {b: 2.5}]\ntext: |\n  two\n  lines\n")
    expected = {"id": "a", "list": [1, {"b": 2.5}], "text": "two\nlines\n"}
    assert (read_yaml_safely(path, 1000), yaml_safely("- 1\n", "x")) == (expected, [1])


@pytest.mark.parametrize("opened", [read_bytes_safely, read_text_safely, read_yaml_safely])
def test_only_regular_files_of_bounded_size_are_opened(opened, tmp_path: Path, pipe: Path) -> None:  # type: ignore[no-untyped-def]
    big = tmp_path / "big"
    big.write_bytes(b"a" * 2001)
    for path, said in (
        (pipe, "regular file"),
        ("/dev/zero", "regular file"),
        (tmp_path, "directory"),
        (big, "2 kB"),
        (tmp_path / "none", "no such file"),
        ("a\0b", "not valid"),
    ):
        with pytest.raises(AdvisorError, match=said):
            opened(path, 2000)


def test_what_grows_while_it_is_read_is_bounded() -> None:
    with pytest.raises(AdvisorError, match="up to"):
        read_bytes_safely("/proc/self/smaps", 10)  # says that it has no bytes


def test_a_pipe_that_the_shell_made_is_read() -> None:
    inner, outer = os.pipe()
    os.write(outer, b"id: a\n")
    os.close(outer)
    assert read_yaml_safely(f"/dev/fd/{inner}", 100) == {"id": "a"}
    os.close(inner)


def test_a_line_without_end_is_refused() -> None:
    with open("/dev/zero", encoding="latin-1") as stream, pytest.raises(AdvisorError, match="1 MB"):
        list(lines_safely(stream, "x"))


COMMANDS = (
    ["validate", "FILE"], ["hardware", "validate", "FILE"], ["models", "validate", "FILE"],
    ["results", "FILE"], ["ab", "FILE", "FILE"], ["calibrate", "FILE"],
    ["predict", "--rows", "FILE", "--out", "OUT"], ["data", "check", "FILE"],
    ["bench", "run", "FOLDER"],
    ["recommend", "--machine", "own", "--concurrency", "4", "--ctx", "2048"],
    ["recommend", "--hw", "own", "--concurrency", "4", "--ctx", "2048"],
)  # fmt: skip


SLOW_IMPORTS = ("numpy", "pydantic", "yaml", "advisor.advice.recommend", "advisor.lint.validate",
                "advisor.prediction.predict_table", "advisor.readers.results")  # fmt: skip


def start(words: list[str], env: dict[str, str], said: Path) -> None:
    """The command in a process of its own, with bounds that the system keeps."""
    resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    os.environ.update(env)
    with said.open("w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    sys.argv = ["advisor", *words]
    main()


@pytest.fixture(scope="module")
def processes() -> ForkServerContext:
    """Processes that start with the commands imported: 36 cold starts would be most of the time."""
    context = multiprocessing.get_context("forkserver")
    commands = {HOMES[command[0]].target for command in COMMANDS}
    context.set_forkserver_preload(["__main__", __name__, *sorted(commands), *SLOW_IMPORTS])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "1")  # as `main` sets it before numpy is imported
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))  # to import this module once
        forkserver.ensure_running()
    return context


@pytest.mark.parametrize("kind", ["pipe", "zero", "braces"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c[:2]))
def test_no_command_hangs_crashes_or_eats_memory(
    command: list[str], kind: str, tmp_path: Path, processes: ForkServerContext
) -> None:
    folder = tmp_path / "own" / "hardware"
    folder.mkdir(parents=True)
    (tmp_path / "config" / "advisor" / "machines").mkdir(parents=True)
    for path in (tmp_path / "plan.yaml", folder / "own.yaml",
                 tmp_path / "config" / "advisor" / "machines" / "own.yaml"):  # fmt: skip
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "zero":
            path.symlink_to("/dev/zero")
        else:
            path.write_text("{" * 40_000)
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}
    if "--hw" in command:
        env["ADVISOR_KNOWLEDGE"] = str(tmp_path / "own")
    words = {"FILE": f"{tmp_path}/plan.yaml", "OUT": f"{tmp_path}/out", "FOLDER": str(tmp_path)}
    printed = tmp_path / "printed"
    process = processes.Process(
        target=start, args=([words.get(word, word) for word in command], env, printed)
    )
    process.start()
    process.join(300)
    ended = process.exitcode
    process.kill()
    said = printed.read_text().strip()
    assert "Traceback" not in said and ended == 2, said[-500:]
    assert said and ("\n" not in said or "Usage" in said or command[0] == "data"), said


TEXT = '{\n"generated": "by us",\n"a": 1,\n"b": [2]\n}\n'


def test_what_was_sealed_is_read() -> None:
    made = seal(TEXT)
    assert unseal(made.encode(), "x", "") == {"a": 1, "b": [2]}
    assert json.loads(made)["crc32"] and made.splitlines()[1] == '"generated": "by us",'


@pytest.mark.parametrize(
    "change", [("1", "3"), ("[2]", "[2,2]"), ("}\n", ""), ("b", "c"), ('"crc32"', '"crc"')]
)
def test_any_change_is_told(change: tuple[str, str]) -> None:
    made = seal(TEXT)
    at = made.rindex(change[0])
    with pytest.raises(AdvisorError, match=r"x is damaged.*: do this"):
        unseal((made[:at] + change[1] + made[at + len(change[0]) :]).encode(), "x", "do this")


def test_a_changed_coefficient_or_layout_of_the_model_is_refused(tmp_path: Path) -> None:
    text = (models_dir() / artefact.ARTEFACT).read_text()
    path = tmp_path / "speedup.json"
    path.write_text(text)
    predict.load(path)
    for number, other in enumerate((text[:-1000], text.replace("0.1", "0.9"), "")):
        broken = tmp_path / f"{number}.json"
        broken.write_text(other)
        with pytest.raises(AdvisorError, match=rf"{number}\.json is damaged.*advisor train"):
            predict.load(broken)
    state = json.loads(text) | {"schema": 999}
    state.pop("crc32")
    path = tmp_path / "other.json"
    path.write_text(train.text(state))
    with pytest.raises(AdvisorError, match="has layout 999, this release reads layout"):
        predict.load(path)


def test_the_shipped_files_are_sealed() -> None:
    for path in (models_dir() / "speedup.json", knowledge_dir() / "index.json"):
        whole = json.loads(path.read_text())
        del whole["generated"], whole["crc32"]
        assert unseal(path.read_bytes(), path.name, "") == whole
