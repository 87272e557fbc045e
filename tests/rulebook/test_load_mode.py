"""Several switches of llama.cpp that became one option: --load-mode."""

import pytest

from advisor.lint import fixes
from advisor.lint.validate import validate

HEAD = "llama-server -m q.gguf "


def fix(options: str) -> tuple[str, list[str]]:
    """The options after all fixes for 0.5.0, and what the fixes of SD102 say."""
    text = f"{HEAD}{options} --jinja\n"
    report = validate(text=text, name="a.sh", engine_version="0.5.0", select=["SD102"])
    change = fixes.apply_edits(report.reads[0].source, report.findings, unsafe=True)
    told = [finding.fix.text for finding in report.findings if finding.fix is not None]
    return change.text.removeprefix(HEAD).removesuffix(" --jinja\n"), told


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--no-mmap", "--load-mode none"),
        ("--mlock", "--load-mode mmap+mlock"),
        ("--no-mmap --mlock", "--load-mode mlock"),
        ("--mlock --no-mmap", "--load-mode mlock"),
        ("--mmap --mlock", "--load-mode mmap+mlock"),
        ("--direct-io --mlock", "--load-mode dio"),
        ("--direct-io", "--load-mode dio"),
        ("--direct-io --no-mmap", "--load-mode dio"),
    ],
)
def test_they_become_one(options: str, expected: str) -> None:
    found, told = fix(options)
    assert found == expected, told


def test_what_is_said_names_them_all() -> None:
    _, told = fix("--no-mmap --mlock")
    assert set(told) == {"Write --load-mode mlock instead of --no-mmap, --mlock."}
