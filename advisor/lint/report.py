"""What `validate` answers: files, launches with what they mean, findings, and what was not judged.

And what only the whole file tells of a finding: that a comment takes it away, that it is said of
twenty services in the same words, or that what it misses stands elsewhere in the file.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from advisor.domain.nouns import SPECULATION, Facts, Finding, Launch, Plan, Skipped
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import printable
from advisor.domain.records import NamedTuple
from advisor.readers import FileRead
from advisor.readers.secrets import Redactor


class Given(NamedTuple):
    """What the caller tells beside the file. None = not told."""

    hw: str | None = None
    gpus: int | None = None
    concurrency: int | None = None
    ctx: int | None = None
    output_tokens: int | None = None
    workload: str | None = None
    # a release whatever the file says, or by engine for files that name none
    engine_version: str | Mapping[str, str] | None = None


FAILED = "failed"  # of a comparison: the program itself


class Change(NamedTuple):
    """The recommendation beside the launch. `ratios`: new / present p50, above 1 is faster."""

    decision: str
    fields: tuple[tuple[str, Any, Any], ...] = ()
    ratios: tuple[tuple[str, float], ...] = ()
    problem: str = ""
    why: str = ""  # the strongest reason, where the decision goes against the estimate

    @property
    def lines(self) -> list[str]:
        """The change in words."""
        if self.problem:
            return [f"recommend: {self.problem}"]
        heads = {
            "measure": "recommend: measure both first",
            "keep": "recommend: keep this file's drafter",
        }
        head = heads.get(self.decision, f"recommend: speculation {self.decision}")
        if self.decision == "keep" or not self.fields:
            return [f"{head}; {self.why if self.decision == 'keep' else 'nothing to change here'}"]
        replicas = any(name == "dp" for name, _, _ in self.fields)
        said = ", ".join(
            f"{name} {_value_text(old)} -> {_value_text(new)}"
            + (" per replica" if replicas and name in _OF_A_REPLICA else "")
            for name, old, new in self.fields
        )
        gains = ", ".join(speed_text(*one) for one in self.ratios if f"{one[1]:.2f}" != "1.00")
        than = f"{gains or 'no other speed'} than the current file"
        if self.ratios and self.why:
            return [f"{head}; with {said}: {self.why} (the estimate alone: {than})"]
        return [f"{head}; with {said}" + (f": expected {than}" if self.ratios else "")]

    def as_dict(self) -> dict[str, Any]:
        """Return the recommendation in the form of the JSON report."""
        return {
            "decision": self.decision,
            "changes": [{"field": name, "from": old, "to": new} for name, old, new in self.fields],
            "speed_ratio": dict(self.ratios),
            "why": self.why or None,
            "problem": self.problem or None,
        }


_OF_A_REPLICA = ("max_num_seqs", "max_num_batched_tokens")
_METRICS = {"output_tok_s": "output tok/s", "tpot": "TPOT", "ttft": "TTFT"}


def speed_text(metric: str, ratio: float) -> str:
    """A ratio of speeds in words: 0.5 of TPOT is "TPOT 2.00x slower"."""
    slow, fast = ("fewer", "more") if metric == "output_tok_s" else ("slower", "faster")
    word = slow if round(ratio, 2) < 1 else fast
    return f"{_METRICS.get(metric, metric)} {max(ratio, 1 / ratio):.2f}x {word}"


def _value_text(value: Any) -> str:
    if value is None:
        return "default"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


class CheckedLaunch(NamedTuple):
    """One launch, what it means and, with hardware and load known, what should change."""

    launch: Launch
    plan: Plan
    facts: Facts
    not_taken: tuple[str, ...] = ()  # options whose number no server starts with
    change: Change | None = None

    @property
    def speculates(self) -> bool | None:
        """Whether it speculates; None where what was not read may say so."""
        unread = {flag.name for flag in self.launch.flags if flag.unresolved}
        sure = self.plan.method != "none" and "--speculative-algorithm" not in unread
        return sure or (None if self.launch.open_end or unread & {*SPECULATION} else False)


class Failure(NamedTuple):
    """What could not be judged, a file or one launch of it, and why."""

    file: str
    kind: str  # "unreadable", "not checked"
    reason: str
    line: int = 0  # of the launch

    @property
    def text(self) -> str:
        """Both in words."""
        return f"{self.kind}: {self.reason}"


class FileReport(NamedTuple):
    """One file: form, number of launches, what was not read, or why it could not be read."""

    file: str
    form: str = ""
    launches: int = 0
    notes: tuple[str, ...] = ()
    error: str | None = None
    suppressed: int = 0
    cut_short: bool = False  # a bound ended the reading: what stands behind it was not judged
    not_checked: tuple[Failure, ...] = ()  # launches at which the program itself failed
    kind: str = "unreadable"  # of the error


class Report(NamedTuple):
    """The answer of `validate`. `reads` are the opened files, for fixes."""

    files: tuple[FileReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    launches: tuple[CheckedLaunch, ...] = ()
    reads: tuple[FileRead, ...] = ()

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The files that could not be read and the launches that could not be judged."""
        failures: list[Failure] = []
        for one in self.files:
            failures += [Failure(one.file, one.kind, one.error)] if one.error else []
            failures += one.not_checked
        for launch, *_, change in self.launches:
            if change is not None and change.decision == FAILED:
                failures.append(Failure(launch.file, "not compared", change.problem, launch.line))
        return tuple(failures)

    @property
    def cut_short(self) -> bool:
        """Whether a part of a file was not judged, so that its silence is no pass."""
        return any(one.cut_short for one in self.files)

    def cleaner(self) -> Callable[[str], str]:
        """The function that takes the secrets of all files out of a text for output."""
        alone, every = len(self.reads) == 1, Redactor()
        for read in self.reads:
            every.values |= read.redactor.values
        return lambda text: every.clean(text, words=alone)

    def printer(self) -> Callable[[str], str]:
        """Makes a text fit for one line of output: no secrets or control characters, cut."""
        clean = self.cleaner()
        return lambda text: printable(clean(text))


def merge_reports(reports: Sequence[Report]) -> Report:
    """Several reports as one."""
    files, findings, skipped, launches, reads = (
        tuple(chain.from_iterable(parts)) for parts in zip(Report(), *reports, strict=True)
    )
    return Report(files, findings, skipped, launches, reads)


def no_launch_message(report: Report) -> str | None:
    """One sentence where no launch was found, None where there is one."""
    if any(one.launches for one in report.files):
        return None
    names = ", ".join(one.file for one in report.files[:3]) or "the folder"
    return f"{names}: {_no_launch(report.files[:3])}"


def _no_launch(files: Iterable[FileReport]) -> str:
    notes = "".join(f"; {note}" for one in files for note in one.notes[:3])
    return f"no launch of vLLM, SGLang or llama-server was found; nothing was checked{notes}"


def with_unread(report: Report, named: Collection[str]) -> Report:
    """The report with an error for each file that the caller named and that holds no launch."""
    files = (
        one._replace(error=_no_launch([one]), kind="not checked")
        if one.file in named and not one.launches and not one.error
        else one
        for one in report.files
    )
    return report._replace(files=tuple(files))


_SHM = lazy_re(r"shm[-_]?size[\"']?\s*[:=]?\s*[\"']?\d|/dev/shm", re.I)
_PROFILES = lazy_re(r"^\s+profiles:", re.M)
_NUMBERS = lazy_re(r"[\d.,]*\d")
_IGNORE = lazy_re(
    r"advisor:[ \t]*ignore(-file)?[ \t]*=[ \t]*([A-Za-z0-9][\w,\- \t]*?)(?=$|[ \t]+[^,\s]|[\"'])",
    re.M,
)
LEAST = 3  # alike from so many on


def fair(read: FileRead, findings: Iterable[Finding]) -> list[Finding]:
    """The findings without those that the file answers elsewhere: shared memory that is given in
    another part of it, services of which a profile starts one at a time.
    """
    answers = {"SD240": _SHM, "SD306": _PROFILES}
    answered = {code for code, part in answers.items() if part.search(read.source.text)}
    return [finding for finding in findings if finding.code not in answered]


def merge_repeats(findings: Sequence[Finding]) -> list[tuple[Finding, list[int]]]:
    """The findings in their order, those that say the same of several places of a file as one with
    the lines of the others.
    """
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_key(finding), []).append(finding)
    told: list[tuple[Finding, list[int]]] = []
    for finding in findings:
        first, *others = groups[_key(finding)]
        if len(others) + 1 < LEAST:
            told.append((finding, []))
        elif finding is first:
            told.append((finding, sorted({one.line for one in others})))
    return told


def _key(finding: Finding) -> tuple[str, ...]:
    said = finding.fix.text if finding.fix is not None else ""
    return (
        finding.file,
        finding.code,
        finding.severity,
        "" if finding.code == "SD306" else _NUMBERS.sub("#", finding.message),
        _NUMBERS.sub("#", said),
    )


def drop_ignored(
    read: FileRead, launches: Sequence[Launch], findings: Sequence[Finding]
) -> list[Finding]:
    """The findings that no `# advisor: ignore=CODE reason` takes away.

    It holds for its own line, for the line below it, for the whole launch that begins there, and
    with `ignore-file` for the file.
    """
    text = read.source.text
    if "advisor:" not in text:
        return list(findings)
    whole: set[str] = set()
    lines: dict[int, set[str]] = {}
    for found in _IGNORE.finditer(text):
        codes = {code.upper() for code in re.split(r"[,\s]+", found.group(2)) if code}
        if found.group(1):
            whole |= codes
        else:
            line = read.source.place(found.start())[0]
            lines.setdefault(line, set()).update(codes)
            before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()].strip()
            if not before.strip("#;/- \t") or before.upper() in ("REM", "::"):
                lines.setdefault(line + 1, set()).update(codes)

    def is_ignored(finding: Finding) -> bool:
        begun = [launch.line for launch in launches if launch.line <= finding.line]
        at = lines.get(finding.line, set()) | lines.get(max(begun, default=finding.line), set())
        return any(finding.code.startswith(x) or finding.slug.upper() == x for x in whole | at)

    return [finding for finding in findings if not is_ignored(finding)]
