"""`--target-version`: the launches of a file as another release of their engine wants them.

The new command is always printed whole. Flags that stand literally in the file can also be
rewritten in place; what only variables hold, and options that are new, are said in words.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import click

from advisor import engines
from advisor.domain.nouns import AdvisorError, Edit, Finding, Fix, Flag, Launch
from advisor.domain.printable import json_text, printable, printable_lines
from advisor.lint import fixes
from advisor.lint.report import Given
from advisor.lint.validate import expand, read_one
from advisor.readers import FileRead
from advisor.rules.kit.fixes import addition


class Migration(NamedTuple):
    """One launch before and after."""

    launch: Launch
    after: Launch
    text: str
    notes: tuple[str, ...]
    edits: tuple[Edit, ...]


def migrate_files(files: Sequence[str], options: Mapping[str, Any]) -> int:
    """Migrate every launch of the files, and print, show or write the result; the exit status."""
    given = Given(engine_version=options["engine_version"])
    found = 0
    for path in expand(files):
        read = read_one(path, given)
        moved = migrate_launches(read, options["target_version"])
        found += len(moved)
        if options["diff"] or options["fix"] or options["unsafe_fixes"]:
            _rewrite(read, moved, options)
        else:
            click.echo(_summary(read, moved, options["form"]))
    if not found:
        raise AdvisorError(
            f"{', '.join(files)}: starts no engine that {options['target_version']} is a release of"
        )
    return 0


def migrate_launches(read: FileRead, target: str) -> list[Migration]:
    """The launches whose engine has release `target`. Raises AdvisorError where none has it."""
    moved: list[Migration] = []
    problems: list[AdvisorError] = []
    for launch in read.launches:
        adapter = engines.get(launch.engine)
        try:
            after, notes = adapter.migrate(launch, target)
        except AdvisorError as error:
            problems.append(error)
            continue
        moved.append(
            Migration(launch, after, adapter.render(after).text, notes, tuple(edits(launch, after)))
        )
    if problems and not moved:
        raise problems[0]
    return moved


def _unmoved_lines(read: FileRead, moved: Sequence[Migration]) -> list[str]:
    """Launches of the same engine that the release cannot say: they stay as they are."""
    engine, done = {one.launch.engine for one in moved}, [one.launch for one in moved]
    stayed = [one for one in read.launches if one.engine in engine and one not in done]
    return [
        f"{one.file or '-'}:{one.line}: left as it is: the release cannot say it" for one in stayed
    ]


def edits(launch: Launch, after: Launch) -> list[Edit]:
    """What to rewrite in the file: renamed spellings, changed values, dropped and new flags,
    variables.

    Nothing in Python: its keywords need values of their own types, which a command line does not
    tell.
    """
    if any(flag.origin == "python" for flag in launch.flags):
        return []
    places = {(flag.span.start, flag.span.end) for flag in launch.flags if flag.span is not None}
    kept = {(flag.span.start, flag.span.end): flag for flag in after.flags if flag.span is not None}
    before = {(flag.raw, flag.value) for flag in launch.flags}
    # without a place but with a line: a variable of the file holds it, so that it is there already
    made = [flag for flag in after.flags if flag.span is None and not flag.line]
    added = [flag for flag in made if (flag.raw, flag.value) not in before]
    added += [flag for place, flag in kept.items() if place not in places]
    changes: list[Edit] = []
    for flag in launch.flags:
        if flag.span is None or flag.raw == "":
            continue
        new = kept.get((flag.span.start, flag.span.end))
        if new is not None:
            changes += _launch_edits(launch, after, flag, new)
            continue
        # what replaces dropped flags stands where the first one stood
        words = [] if flag.origin == "env" else added
        text = " ".join(_words(one, flag) for one in words)
        changes.append(Edit(file=launch.file, start=flag.span.start, end=flag.span.end, text=text))
        added = added if flag.origin == "env" else []
    still = kept.keys() - {(edit.start, edit.end) for edit in changes}
    busy = {edit.start for edit in changes}
    return (
        changes
        + _new(launch, [place for place in still if place[0] not in busy], added)
        + _variables(launch, after)
    )


def _new(launch: Launch, kept: Collection[tuple[int, int]], added: Sequence[Flag]) -> list[Edit]:
    """New options before the last one that stays where it stands."""
    stays = [
        one
        for one in launch.flags
        if one.span and (one.span.start, one.span.end) in kept and one.origin != "env"
    ]
    beside = next((one for one in reversed(stays) if not one.unresolved and one.raw), None)
    found = (
        addition(launch.file, beside, one.raw, None if one.value == "false" else one.value)
        for one in added
    )
    return [edit for edit in found if edit is not None]


def _variables(launch: Launch, after: Launch) -> list[Edit]:
    """Variables that the release no longer reads."""
    left = {var.name for var in after.env}
    gone = [var.span for var in launch.env if var.name not in left and var.span is not None]
    return [Edit(file=launch.file, start=span.start, end=span.end, text="") for span in gone]


def _words(new: Flag, old: Flag) -> str:
    """A new flag as it is written where an old one stood."""
    name = spell_like(new, old)
    if old.origin in ("ini", "env"):
        return f"{name} = {new.value or 'true'}"
    if old.origin in ("yaml", "python"):
        return f"{name}{': ' if old.origin == 'yaml' else '='}{new.value or 'true'}"
    return name if new.value in (None, "false") else f"{name} {shlex.quote(new.value or '')}"


def _launch_edits(launch: Launch, after: Launch, old: Flag, new: Flag) -> list[Edit]:
    if old.span is None:
        return []
    file, spelling, found = launch.file, spell_like(new, old), []
    if old.origin != "cli" and _is_still_known(launch, after, old):
        spelling = old.raw
    if old.raw.isupper():
        spelling = _variable(launch, after, old, new)
    if old.value is None and new.value not in (None, "false") and old.origin == "cli":
        # a switch that takes a value now
        text = f"{spelling} {shlex.quote(new.value or '')}"
        return [Edit(file=file, start=old.span.start, end=old.span.end, text=text)]
    if (
        new.value is None
        and old.value not in (None, "false")
        and old.value_span
        and old.origin == "cli"
    ):
        return [Edit(file=file, start=old.span.start, end=old.span.end, text=spelling)]
    if spelling != old.raw:
        found.append(
            Edit(file=file, start=old.span.start, end=old.span.start + len(old.raw), text=spelling)
        )
    if new.value != old.value and new.value is not None and old.value_span is not None:
        found.append(
            Edit(file=file, start=old.value_span.start, end=old.value_span.end, text=new.value)
        )
    return found


def _variable(launch: Launch, after: Launch, old: Flag, new: Flag) -> str:
    """The variable that sets the same option at the new release, else the old one."""
    catalogue = engines.get(launch.engine).catalogue
    option = catalogue.option(new.name, after.engine_version)
    still = catalogue.env_option(old.raw)
    if option is None or option.env is None or (still is not None and still[0] == new.name):
        return old.raw
    return option.env


def _is_still_known(launch: Launch, after: Launch, old: Flag) -> bool:
    """Whether a key (without dashes) is an option of the new release under its old name."""
    catalogue, key = engines.get(launch.engine).catalogue, old.raw.replace("_", "-")
    options = [catalogue.find(dashes + key, after.engine_version) for dashes in ("--", "-")]
    return any(
        option is not None and not option.removed and option.name == old.name for option in options
    )


def spell_like(new: Flag, old: Flag) -> str:
    """The new spelling in the manner of the old: keys have no dashes, Python has underscores."""
    if old.origin == "python":
        return new.raw.lstrip("-").replace("-", "_")
    return new.raw if old.raw.startswith("-") else new.raw.lstrip("-")


def _rewrite(read: FileRead, moved: Sequence[Migration], options: Mapping[str, Any]) -> None:
    changes = tuple(dict.fromkeys(edit for one in moved for edit in one.edits))
    change = rewrite_file(read, moved)
    clean = read.redactor.clean
    hand = sorted(
        {
            read.source.place(edit.start)[0]
            for edit in changes
            if fixes.shape_edit(read.source.text, edit) is None
        }
    )
    if options["diff"]:
        click.echo(printable_lines(fixes.redacted_diff(change, read.redactor)), nl=False)
    elif read.source.name == "-":
        click.echo(read.source.bom + change.text.encode(read.source.encoding), nl=False)
    elif fixes.write(change):
        click.echo(f"{printable(read.source.name)}: {len(changes)} changes", err=True)
    for one in moved:
        for note in one.notes:
            click.echo(printable(clean(f"note: {note}")), err=True)
    for text in _unmoved_lines(read, moved):
        click.echo(printable(clean(f"note: {text}")), err=True)
    lines = [f"{line}: not rewritten" for line in hand] + [
        text for one in moved for text in _of_variables(one)
    ]
    for text in lines:
        click.echo(
            printable(clean(f"note: {read.source.name}:{text}, change it by hand")), err=True
        )


def _of_variables(one: Migration) -> list[str]:
    """Options whose spelling changes, but which do not stand in the file as they are read."""
    spelled = {flag.raw for flag in one.after.flags}
    old = [
        flag
        for flag in one.launch.flags
        if flag.span is None and flag.origin == "cli" and flag.line and flag.raw
    ]
    return [f"{flag.line}: {flag.raw} not rewritten" for flag in old if flag.raw not in spelled]


def rewrite_file(read: FileRead, moved: Sequence[Migration]) -> fixes.FileChange:
    """The file with the edits of its launches; those that its form does not take are left out."""
    findings = [
        Finding(
            code="SD000",
            severity="info",
            message="",
            file=edit.file,
            fix=Fix(text="", safe=True, edits=(edit,)),
        )
        for one in moved
        for edit in _merge_additions(one.edits)
    ]
    return fixes.apply_edits(read.source, findings)


def _merge_additions(edits: Sequence[Edit]) -> list[Edit]:
    """The edits with additions at one place as one."""
    found: dict[int, Edit] = {}
    rest: list[Edit] = []
    for edit in edits:
        if edit.start != edit.end:
            rest.append(edit)
        elif edit.start in found:
            gap = "" if edit.text[-1:] in "\n " else " "
            found[edit.start] = edit.model_copy(
                update={"text": found[edit.start].text + gap + edit.text}
            )
        else:
            found[edit.start] = edit
    return [*rest, *found.values()]


def _summary(read: FileRead, moved: Sequence[Migration], form: str) -> str:
    clean = read.redactor.clean
    if form == "json":
        rows = [
            {
                "file": one.launch.file,
                "line": one.launch.line,
                "engine": one.launch.engine,
                "from": one.launch.engine_version,
                "to": one.after.engine_version,
                "command": clean(one.text),
                "notes": [clean(note) for note in one.notes],
            }
            for one in moved
        ]
        return json_text(rows)
    lines: list[str] = []
    for one in moved:
        before = one.launch.engine_version or one.launch.version_text or "an unpinned version"
        lines.append(
            f"# {printable(one.launch.file or '-')}:{one.launch.line} {one.launch.engine} "
            f"{before} -> {one.after.engine_version}"
        )
        lines += [f"# {printable(clean(note))}" for note in one.notes]
        lines.append(clean(one.text))
    lines += [f"# {text}" for text in _unmoved_lines(read, moved)]
    return printable_lines("\n".join(lines))
