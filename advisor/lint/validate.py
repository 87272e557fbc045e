"""The second half of the story: files -> launches -> plans -> findings.

`validate` reads configurations in any form, judges each launch by the same rules that `recommend`
uses, and says what it could not judge. Hardware and load are what the caller says; the rest comes
from the file.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TypeVar

from advisor import rules
from advisor.advice.launch_facts import launch_facts
from advisor.domain.nouns import AdvisorError, Case, Finding, Launch, Skipped
from advisor.domain.patterns import lazy_re
from advisor.knowledge import heads
from advisor.knowledge import store as knowledge
from advisor.lint.project import Judging, with_settings
from advisor.lint.report import (
    FAILED,
    Change,
    CheckedLaunch,
    Failure,
    FileReport,
    Given,
    Report,
    drop_ignored,
    fair,
    merge_reports,
)
from advisor.readers import FileRead, read_bytes, read_path, read_text
from advisor.rules.checking import select_rows

T = TypeVar("T")
_Judged = tuple[CheckedLaunch, tuple[Finding, ...], tuple[Skipped, ...]]
SUFFIXES = (
    *(".yaml", ".yml", ".sh", ".bash", ".service", ".container", ".ini", ".cmd", ".bat", ".nix"),
    *(".ps1", ".py", ".json", ".env", ".zsh", ".sbatch", ".slurm", ".just", ".mk"),
)
_NAMED = lazy_re(r"(?i)(docker|container)file|(gnu)?makefile$|\.?justfile$")
_PASSED_OVER = ("node_modules", "__pycache__")
MAX_FILES = 20_000
LEAST_FILES = 48  # fewer are judged before a second process has begun


def validate(
    source: str | os.PathLike[str] | Sequence[str] | None = None,
    *,
    text: str | None = None,
    name: str = "-",
    hw: str | None = None,
    gpus: int | None = None,
    concurrency: int | None = None,
    ctx: int | None = None,
    output_tokens: int | None = None,
    workload: str | None = None,
    engine_version: str | None = None,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
    changes: bool = False,
    project: bool = False,
    jobs: int = 1,
) -> Report:
    """Judge configurations: a path, several paths, "-" for standard input, or the text itself.

    hw, gpus, concurrency, ctx (prompt tokens per request), output_tokens and workload are what the
    file cannot say; `changes=True` also asks `recommend` what it would do instead.
    `project=True` follows the settings of the files' projects, and `jobs` processes share many
    files. Raises AdvisorError for one file that cannot be read (of several, each unreadable one is
    reported in `files`) and for names that are not known.
    """
    given = Given(hw, gpus, concurrency, ctx, output_tokens, workload, engine_version)
    if text is None and isinstance(source, str) and source != "-":
        is_text = "\n" in source or (" " in source and not os.path.exists(source))
        text = source if is_text else None
    asked = Judging(given, select, ignore)
    check = partial(_check_paths, asked=asked, changes=changes, project=project)
    if text is not None:
        return check((name,), text=text)
    paths = [source] if isinstance(source, str | os.PathLike) else list(source or ())
    if not paths:
        raise AdvisorError("no file given: pass a path, or - for standard input")
    files = list(expand(os.fspath(path) for path in paths))
    check = partial(check, alone=len(files) == 1 and len(paths) == 1)
    return merge_reports(_map(check, files, jobs))


def _map(check: Callable[[Sequence[str]], Report], files: Sequence[str], jobs: int) -> list[Report]:
    """The reports in the order of the files; by several processes where that pays."""
    if jobs < 2 or len(files) < LEAST_FILES:
        return [check(files)]
    from concurrent.futures import ProcessPoolExecutor  # start-up: only for many files

    size = -(-len(files) // jobs)  # alike launches are priced once in each
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(check, [files[i : i + size] for i in range(0, len(files), size)]))


def expand(paths: Iterable[str]) -> Iterable[str]:
    """Directories become their configuration files, without hidden and linked folders."""
    count = 0
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            yield path
            continue
        for folder, inner, names in os.walk(path):
            inner[:] = sorted(x for x in inner if not x.startswith(".") and x not in _PASSED_OVER)
            for name in sorted(x for x in names if x.endswith(SUFFIXES) or _NAMED.match(x)):
                count += 1
                if count > MAX_FILES:
                    what = f"holds more than {MAX_FILES} configuration files"
                    raise AdvisorError(f"{path}: {what}; name a smaller folder")
                yield os.path.join(folder, name)


def _check_paths(
    paths: Sequence[str],
    asked: Judging,
    changes: bool,
    project: bool,
    text: str | None = None,
    alone: bool = False,
) -> Report:
    """Read and judge files, or a text of that name."""
    report = merge_reports([_check_path(path, asked, project, text, alone) for path in paths])
    return with_changes(report) if changes and asked.given.hw else report


def _check_path(path: str, asked: Judging, project: bool, text: str | None, alone: bool) -> Report:
    asked = with_settings(asked, path) if project else asked
    version = asked.given.engine_version

    def read() -> FileRead:
        if text is not None:
            return read_text(text, path, version=version)
        if path == "-":
            return read_bytes(sys.stdin.buffer.read(5_000_001), "-", version=version)
        return read_path(path, version=version)

    found = fence(read, alone or text is not None)
    if isinstance(found, str):
        return Report(files=(FileReport(path, error=found),))
    return check_launch(found, *asked)


def check_launch(
    read: FileRead,
    given: Given,
    select: Sequence[str] | None = None,
    ignore: Sequence[str] | None = None,
) -> Report:
    """Judge every launch of one file. Raises AdvisorError for unknown hardware and rules."""
    if given.hw:
        knowledge.hardware(given.hw)
    tuple(select_rows(select, ignore) if select or ignore else ())
    judge = partial(_judge, asked=Judging(given, select, ignore))
    report = fence(partial(_check_file, read, judge))
    if isinstance(report, str):
        about = FileReport(read.source.name, read.form, len(read.launches), error=report)
        return Report((about,), reads=(read,))
    return report


def _check_file(read: FileRead, judge: Callable[..., _Judged]) -> Report:
    launches = read.launches
    findings: list[Finding] = []
    skipped: list[Skipped] = []
    told: list[CheckedLaunch] = []
    failed: list[Failure] = []
    for number, launch in enumerate(launches):
        judged = fence(partial(judge, launch, launches[:number] + launches[number + 1 :]))
        if isinstance(judged, str):
            failed.append(Failure(read.source.name, "not checked", judged, launch.line))
        else:
            told.append(judged[0])
            findings += judged[1]
            skipped += judged[2]
    findings = fair(read, findings)
    kept = drop_ignored(read, launches, findings)
    about = FileReport(
        read.source.name,
        read.form,
        len(launches),
        read.notes,
        suppressed=len(findings) - len(kept),
        cut_short=read.cut_short,
        not_checked=tuple(failed),
    )
    if any(finding.code == "SD126" for finding in kept):
        from advisor.lint.apply_fixes import continue_line  # start-up: only for this finding

        kept = [continue_line(read.source, finding) for finding in kept]
    cleaned = tuple(_redact(finding, read) for finding in kept)
    return Report((about,), cleaned, tuple(dict.fromkeys(skipped)), tuple(told), (read,))


def _judge(
    launch: Launch,
    siblings: tuple[Launch, ...],
    asked: Judging,
) -> _Judged:
    """What the rules say of one launch."""
    one = understand(launch, asked.given)
    plan = one.plan
    if plan.method == "none" and plan.k:  # nothing is drafted
        plan = plan.replace(k=0)
    case = Case.model_construct(
        facts=one.facts, plan=plan, estimate=None, launch=launch, siblings=siblings
    )
    findings, skipped = rules.check(case, asked.select, asked.ignore)
    if asked.given.hw and asked.given.concurrency and one.not_taken:
        skipped = (*skipped, Skipped("estimate", one.not_taken, launch.file))
    return one, findings, skipped


def with_changes(report: Report) -> Report:
    """The report with what `recommend` would change in each launch that a server starts with."""
    from advisor.lint import compare  # start-up: only with hardware given

    prices = fence(partial(compare.price, [one for one in report.launches if not one.not_taken]))
    batch = {} if isinstance(prices, str) else prices  # each is asked alone, where one fails

    def compare_one(one: CheckedLaunch) -> CheckedLaunch:
        change = fence(partial(compare.change_for, one, batch))
        failed = Change(FAILED, problem=change) if isinstance(change, str) else change
        return one._replace(change=failed)

    told = (one if one.not_taken else compare_one(one) for one in report.launches)
    return report._replace(launches=tuple(told))


def fence(call: Callable[[], T], alone: bool = False) -> T | str:
    """The answer of the call, or one sentence where it fails, so that one launch or file takes no
    other with it. What is wrong with the only file is raised.
    """
    try:
        return call()
    except AdvisorError as error:
        if alone:
            raise
        return str(error)
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = ""
        if trace is not None:
            place = f" in {os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"
        return f"an error of advisor itself ({type(error).__name__}{place}); please report it"


def understand(launch: Launch, given: Given) -> CheckedLaunch:
    """What a launch means, and what is known of it."""
    from advisor import engines  # start-up: only where a launch is judged

    adapter = engines.get(launch.engine)
    plan = adapter.to_plan(launch, own_mtp=_own_mtp)
    facts = launch_facts(
        launch,
        plan,
        hw=given.hw,
        gpus=given.gpus,
        concurrency=given.concurrency,
        ctx_tokens=given.ctx,
        output_tokens=given.output_tokens,
        workload=given.workload,
    )
    made = CheckedLaunch(launch, plan, facts, adapter.not_taken(launch, plan))
    lacks = () if made.speculates is not None else ("whether it speculates",)
    return made._replace(not_taken=(*made.not_taken, *lacks))


@cache
def _own_mtp(model: str) -> bool:
    """Whether a model has its own MTP head: by its shape where we have it, else by its name."""
    from advisor.engines import names  # start-up: only where a launch is judged

    found = knowledge.llm_from_text(model)
    has = heads.head(found).has if found is not None else None
    return names.own_mtp(model) if has is None else has


def _redact(finding: Finding, read: FileRead) -> Finding:
    """The finding without secrets."""
    clean = read.redactor.clean
    fix = finding.fix
    if fix is not None and clean(fix.text) != fix.text:
        fix = fix.replace(text=clean(fix.text))
    return finding.replace(message=clean(finding.message), fix=fix)
