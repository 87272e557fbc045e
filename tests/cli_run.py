"""Run the command line in this process: exit status, output, errors. Not a test itself."""

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from advisor.cli.app import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


def run(*argv: str) -> Result:
    """`advisor ARGV`; any exception but SystemExit passes through and fails the test."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(list(argv))
        except SystemExit as stop:
            code = stop.code
    return Result(
        int(code) if isinstance(code, int) else 0 if code is None else 1,
        out.getvalue(),
        err.getvalue(),
    )
