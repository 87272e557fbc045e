"""A report for people: a finding a line with place, code and fix, then what was not judged."""

from collections import Counter
from collections.abc import Callable

from advisor.domain.nouns import Case, Edit, Finding
from advisor.domain.patterns import lazy_re
from advisor.lint.report import CheckedLaunch, Report, merge_repeats
from advisor.readers import FileRead
from advisor.rules.kit.case import k_words
from advisor.rules.kit.releases import possible_label

_COLOURS = {"error": "31", "warning": "33", "info": "36"}
_RANK = {"info": 0, "warning": 1, "error": 2}
_WIDTH = 90  # characters of a line of the file that are shown
_SHOWN = 3  # sources of a finding
_SECRETIVE = lazy_re(r"(?i)key|token|secret|pass|auth")
_THREAD = lazy_re(r"([\w.-]+/[\w.-]+)#(\d+)")


def report_text(report: Report, color: bool = False, verbose: bool = False) -> str:
    """The whole report as text, without a trailing newline. `verbose`: all sources, the codes of
    skipped rules, and what shares a fix with another finding in full.
    """
    lines: list[str] = []
    show = report.printer()
    for one in report.failures:
        where = show(one.file) + (f":{one.line}" if one.line else "")
        reason = show(one.reason).removeprefix(f"{show(one.file)}:").strip()
        lines.append(f"{where}: {_paint(one.kind, 'error', color)}: {reason}")
    reads = {read.source.name: read for read in report.reads}
    for finding, others, also in _by_fix(report, verbose):
        lines += _finding(finding, show, color, reads.get(finding.file), verbose)
        more = f" and {len(also) - 12} more" if len(also) > 12 else ""
        places = f"line{'s' if len(also) > 1 else ''} {', '.join(map(str, also[:12]))}{more}"
        plain = [f"    also on {places}"] if also else []
        plain += [f"    same fix: {one.severity} {one.code} {one.message}" for one in others]
        lines += map(show, plain)
    if lines:
        lines.append("")
    plain = _launches(report) + skipped_lines(report, verbose)
    plain += [f"note: {one.file}: {note}" for one in report.files for note in one.notes]
    lines += map(show, [*plain, summary(report)])
    return "\n".join(lines)


def _paint(text: str, severity: str, color: bool) -> str:
    return f"\x1b[{_COLOURS[severity]}m{text}\x1b[0m" if color else text


def place(finding: Finding) -> str:
    """file:line:column, as far as known."""
    parts = (finding.file or "-", finding.line, finding.line and finding.column)
    return ":".join(str(part) for part in parts if part)


def _by_fix(report: Report, verbose: bool) -> list[tuple[Finding, list[Finding], list[int]]]:
    """The findings, each with those of no more weight that ask for the very same edits."""
    rows: list[tuple[Finding, list[Finding], list[int]]] = []
    first: dict[tuple[str, tuple[Edit, ...]], tuple[Finding, list[Finding]]] = {}
    for finding, also in merge_repeats(report.findings):
        edits = () if finding.fix is None or verbose or also else finding.fix.edits
        known = first.get((finding.file, edits)) if edits else None
        if known is not None and _RANK[finding.severity] <= _RANK[known[0].severity]:
            known[1].append(finding)
            continue
        row = finding, list[Finding](), also
        first.setdefault((finding.file, edits), row[:2])
        rows.append(row)
    return rows


def _finding(
    finding: Finding, show: Callable[[str], str], color: bool, read: FileRead | None, verbose: bool
) -> list[str]:
    """The lines of one finding; coloured after cleaning, so that no text brings its own."""
    severity = _paint(finding.severity, finding.severity, color)
    head = f"{show(place(finding))}: {severity} {finding.code} {show(finding.message)}"
    lines = []
    if finding.fix is not None:
        option = " (--fix)" if finding.fix.safe else " (--unsafe-fixes)"
        lines.append(f"    fix{option if finding.fix.edits else ''}: {finding.fix.text}")
    lines += [f"    but: {text}" for text in finding.conflicts]
    sources = finding.sources if verbose else finding.sources[:_SHOWN]
    more = len(finding.sources) - len(sources)
    if sources:
        said = "; ".join(map(link, sources)) + (f" and {more} more" if more else "")
        lines.append(f"    source: {said}")
    return [head, *_source_line(finding, show, read), *map(show, lines)]


def link(source: str) -> str:
    """A thread of a public repository as an address; any other source as it stands."""
    thread = _THREAD.fullmatch(source)
    return source if thread is None else f"https://github.com/{thread[1]}/issues/{thread[2]}"


def _source_line(finding: Finding, show: Callable[[str], str], read: FileRead | None) -> list[str]:
    """The line of the file with a mark below the word; nothing where it cannot stand as it is."""
    line = read.source.line_text(finding.line).replace("\t", " ") if read is not None else ""
    at = finding.column - 1
    start = max(0, at - _WIDTH // 2)
    part = line[start : start + _WIDTH]
    if read is None or at < 0 or not part.isascii() or not part.isprintable():
        return []
    near = line[max(0, start - _WIDTH) : start + 2 * _WIDTH]  # a secret may be cut off in the part
    if show(near) != near or (read.redactor.values and _SECRETIVE.search(near)):
        return []
    lead = len(part) - len(part.lstrip())
    dots = "..." if start else ""
    shown = dots + part[0 if start else lead :].rstrip()
    place = at - start + (len(dots) if start else -lead)
    return [f"    | {shown}", f"    | {' ' * place}^"] if 0 <= place < len(shown) else []


def _launches(report: Report) -> list[str]:
    lines: list[str] = []
    for one in report.launches:
        lines.append(f"{one.launch.file or '-'}:{one.launch.line}: {describe_launch(one)}")
        lines += [f"    note: {note}" for note in one.launch.notes]
        if one.change is not None:
            lines += [f"    {line}" for line in one.change.lines]
    return lines


def describe_launch(one: CheckedLaunch) -> str:
    """One launch in one line: engine, version, model, speculation."""
    version = one.launch.engine_version or one.launch.version_text
    case = Case(launch=one.launch, plan=one.plan, facts=one.facts)
    version = version or f"version not pinned{possible_label(case)}"
    if one.launch.engine_version and not one.launch.version_pinned:
        version += " (not pinned)"
    fork = f", {one.launch.fork}" if one.launch.fork else ""
    plan, config = one.plan, one.launch.flag("--config")
    spec = "no speculation" if plan.method == "none" else f"{plan.method}{k_words(plan)}"
    if one.speculates is None:
        spec = f"speculation not known ({'a variable' if config is None else '--config'})"
    if plan.method == "none" and plan.k:
        spec += f" ({plan.k} draft tokens are set, but no method)"
    named = one.launch.container is not None and one.launch.container.gpu_kind
    host = f", on {case.hardware_name}" if named and one.facts.hardware is not None else ""
    return (
        f"{one.launch.engine} {version}{fork}, "
        f"{one.launch.model or 'model not in the file'}, {spec}{host}"
    )


_OPTIONS = {
    "hardware": "--hw",
    "concurrency": "--concurrency",
    "ctx_tokens": "--ctx",
    "output_tokens": "--output-tokens",
    "workload": "--workload",
    "version": "--engine-version",
}
_LACKS = {
    "model": "a known model",
    "quant": "the quantisation",
    "shape": "the model's shape",
    "interconnect": "how the GPUs are linked",
    "prefix_share": "how much of the prompts is shared",
}


def skipped_lines(report: Report, verbose: bool = False) -> list[str]:
    """How many rules lacked an input: first what an option tells, then what only the file could."""
    by_needs: dict[tuple[str, ...], set[str]] = {(): set()}
    options: set[str] = set()
    for one in report.skipped:
        lacking = tuple(name for name in one.needs if name not in _OPTIONS)
        by_needs.setdefault(lacking, set()).add(one.code)
        if not lacking:
            options |= {_OPTIONS[name] for name in one.needs}
    by_option = by_needs.pop(())
    by_file = set().union(*by_needs.values()) - by_option
    lines = []
    if by_option:
        wanted = ", ".join(option for option in _OPTIONS.values() if option in options)
        lines.append(f"{_rules(by_option)} skipped: pass {wanted}{_codes(by_option, verbose)}")
    if by_file:
        lacks = ", ".join(sorted({_LACKS.get(name, name) for needs in by_needs for name in needs}))
        lines.append(f"{_rules(by_file)} skipped, not known: {lacks}{_codes(by_file, verbose)}")
    return lines


def _rules(codes: set[str]) -> str:
    return f"{len(codes)} rule{'s' if len(codes) != 1 else ''}"


def _codes(codes: set[str], verbose: bool) -> str:
    return f" ({', '.join(sorted(codes))})" if verbose else ""


def summary(report: Report) -> str:
    """How many findings of which severity, in how many launches."""
    counts = Counter(finding.severity for finding in report.findings)
    said = ", ".join(
        f"{counts[name]} {name}{'s' if counts[name] != 1 and name != 'info' else ''}"
        for name in ("error", "warning", "info")
        if counts[name]
    )
    suppressed = sum(one.suppressed for one in report.files)
    tail = f" ({suppressed} ignored in the file)" if suppressed else ""
    launches, files = len(report.launches), len(report.files)
    where = (
        f"{launches} launch{'es' if launches != 1 else ''} of {files} "
        f"file{'s' if files != 1 else ''}"
    )
    end = "; the rest was not checked" if report.cut_short else ""
    return f"{said or 'no findings'}{tail} in {where}{end}"
