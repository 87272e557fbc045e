"""Run every folder of examples/ and compare with, or rewrite, what it expects: `python
tests/update_examples.py` rewrites.

A folder holds cmd.txt (shell-like lines: NAME=VALUE words, then `advisor ...`; a last `# exit N`
where it is not 0), its input files, expected.txt, .json or .yaml for what is printed, and
expected-FILE for each FILE that the command writes.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


class Outcome(NamedTuple):
    code: int
    printed: str
    errors: str
    files: dict[str, str]  # FILE -> its text, for each expected-FILE of the folder


def folders() -> list[Path]:
    return sorted(path.parent for path in EXAMPLES.glob("*/cmd.txt"))


def expected_exit(folder: Path) -> int:
    last = (folder / "cmd.txt").read_text(encoding="utf-8").strip().splitlines()[-1]
    return int(last.removeprefix("# exit ")) if last.startswith("# exit ") else 0


def printed_file(folder: Path) -> Path:
    """The file that holds what the folder's command prints."""
    return next((p for p in folder.glob("expected.*")), folder / "expected.txt")


def run(folder: Path) -> Outcome:
    """Run the commands in a copy of the folder, with a clean environment."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(shutil.copytree(folder, Path(place) / folder.name))
        code, printed, errors = 0, "", ""
        for line in (copy / "cmd.txt").read_text(encoding="utf-8").splitlines():
            words = shlex.split(line, comments=True)
            if words:
                done = _command(words, copy)
                code, printed, errors = (
                    max(code, done.returncode),
                    printed + done.stdout,
                    errors + done.stderr,
                )
        written = {p.name.removeprefix("expected-"): p.name for p in folder.glob("expected-*")}
        return Outcome(
            code,
            printed,
            errors,
            {name: (copy / name).read_text(encoding="utf-8") for name in written},
        )


def _command(words: list[str], place: Path) -> subprocess.CompletedProcess[str]:
    given = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        given[name] = value
    assert words[0] == "advisor", f"an example runs advisor, not {words[0]}"
    clean = {
        key: os.environ[key]
        for key in ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH")
        if key in os.environ
    }
    clean |= {"HOME": str(place), "PYTHONPATH": str(EXAMPLES.parent), "PYTHONIOENCODING": "utf-8"}
    clean["ADVISOR_TODAY"] = "2026-11-28"  # an example does not age
    call = [sys.executable, "-c", "from advisor.cli.app import main; main()", *words[1:]]
    return subprocess.run(
        call, cwd=place, env=clean | given, capture_output=True, text=True, check=False, timeout=600
    )


def update(folder: Path) -> None:
    """Rewrite what one folder expects. Raises SystemExit where a command ends otherwise."""
    outcome = run(folder)
    wanted = expected_exit(folder)
    if outcome.code != wanted or "Traceback" in outcome.errors:
        raise SystemExit(
            f"{folder.name}: exit {outcome.code} instead of {wanted}\n{outcome.errors}"
        )
    printed_file(folder).write_text(outcome.printed, encoding="utf-8")
    for name, text in outcome.files.items():
        (folder / f"expected-{name}").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for place in [EXAMPLES / name for name in sys.argv[1:]] or folders():
        update(place)
