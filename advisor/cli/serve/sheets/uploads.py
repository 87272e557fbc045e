"""Benchmark files that are sent, not named: their runs, the verdict on an A/B, a machine file."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from starlette.datastructures import UploadFile
from starlette.requests import Request

from advisor import readers
from advisor.advice.own_runs import setting as settings
from advisor.advice.own_runs.ab_test import AbReport, judge_ab
from advisor.advice.own_runs.calibration import Addition, add_runs
from advisor.cli.options import SETTING
from advisor.cli.serve.question import check_fields, form_base, once
from advisor.domain.nouns import AdvisorError
from advisor.domain.printable import excerpt
from advisor.readers.results.document import parse
from advisor.readers.results.formats import read_document
from advisor.readers.results.run import BenchmarkRun

MOST_FILES = 24
LAUNCH_BYTES = 2 * 2**20


class Upload(NamedTuple):
    """One file of a request."""

    name: str
    data: bytes


class Form(NamedTuple):
    """A form with files: its words and its files by field, empty ones left out."""

    words: dict[str, str]
    files: dict[str, list[Upload]]

    def of(self, name: str) -> list[Upload]:
        """The files of one field."""
        return self.files.get(name, [])


class RunOptions(form_base(SETTING.values())):  # type: ignore[misc]
    """What the files were measured on: the options of `advisor ab` beside its files."""


async def form_of(request: Request) -> Form:
    """A form of bounded size. Raises InvalidField for a field told twice."""
    words: list[tuple[str, str]] = []
    files: dict[str, list[Upload]] = {}
    async with request.form(max_files=MOST_FILES, max_fields=60, max_part_size=2**21) as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                data = await value.read()
                if value.filename or data:
                    last = excerpt((value.filename or "").replace("\\", "/").rsplit("/", 1)[-1])
                    files.setdefault(name, []).append(Upload(last[:120] or "file", data))
            else:
                words.append((name, value))
    return Form(once(words), files)


def runs_in(files: Iterable[Upload]) -> list[BenchmarkRun]:
    """The runs of all files, in order. Raises Unreadable in one sentence."""
    return [run for one in files for run in read_document(parse(one.name, one.data))]


def verdict(
    off: Iterable[Upload], on: Iterable[Upload], launch: Iterable[Upload], given: Mapping[str, Any]
) -> AbReport:
    """What `advisor ab` says. Raises AdvisorError where a file cannot be read."""
    left, right = runs_in(off), runs_in(on)
    if not left or not right:
        raise AdvisorError("an A/B needs a run without speculation and one with it")
    asked = dict(check_fields(RunOptions, given))
    return judge_ab(left, right, settings.setting(left, right, asked, _plan(launch)))


def add_uploaded_runs(
    name: str,
    off: Iterable[Upload],
    on: Iterable[Upload],
    launch: Iterable[Upload],
    given: Mapping[str, Any],
) -> Addition:
    """Add runs to a machine's private file, all that the page writes. Raises AdvisorError."""
    runs = [runs_in(files) for files in (off, on)]
    counters = [run for arm in runs for run in arm if run.kind == "counters"]
    left, right = ([run for run in arm if run.kind != "counters"] for arm in runs)
    if not left:
        raise AdvisorError("to calibrate, choose a run without speculation")
    asked = dict(check_fields(RunOptions, given))
    return add_runs(name, left, right, counters, asked, _plan(launch))


def _plan(launch: Iterable[Upload]) -> Any:
    for one in launch:
        if len(one.data) > LAUNCH_BYTES:
            raise AdvisorError(f"{one.name}: more than the {LAUNCH_BYTES >> 20} MiB that are read")
        return settings.plan_in(readers.read_bytes(one.data, one.name), one.name)
    return None
