"""What a recommendation must not import: libraries that only training, reports and other commands
need.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = (
    "pandas",
    "sklearn",
    "scipy",
    "rich",
    "matplotlib",
    "ruamel",
    "jsonschema",
    "tree_sitter",
    "yaml",
    "email.parser",
    "asyncio",
    "threadpoolctl",
)
CALLS = {
    "recommend": ["recommend", "--hw", "gb10", "--concurrency", "16", "--ctx", "2048"],
    "json": ["recommend", "--hw", "gb10", "--format", "json"],
    "compose": ["compose", "--hw", "gb10"],
    "llama-server": ["recommend", "--hw", "3090", "--engine", "llama-server"],
}


@pytest.mark.parametrize("name", CALLS)
def test_no_heavy_library_is_imported(name: str) -> None:
    code = (
        "import sys\nfrom advisor.cli.app import main\n"
        f"try:\n    main({CALLS[name]!r})\nexcept SystemExit as stop:\n    assert not stop.code, "
        f"stop.code\n"
        f"print('IMPORTED', [m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "IMPORTED []"
