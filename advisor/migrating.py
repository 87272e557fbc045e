"""`--target-version`: the launches of a file as another release of their engine wants them.

The new command is always printed whole. Flags that stand literally in the file can also be rewritten in place; what only
variables hold, and options that are new, are said in words.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from advisor import engines, fixes
from advisor.readers import FileRead
from advisor.types import AdvisorError, Edit, Finding, Fix, Flag, Launch
from advisor.validating import Given, expand, read_one


class Migrated(NamedTuple):
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
        moved = migrated(read, options["target_version"])
        found += len(moved)
        if options["diff"] or options["fix"] or options["unsafe_fixes"]:
            _rewrite(read, moved, options)
        else:
            click.echo(_told(read, moved, options["form"]))
    if not found:
        raise AdvisorError(f"{', '.join(files)}: starts no engine that {options['target_version']} is a release of")
    return 0


def migrated(read: FileRead, target: str) -> list[Migrated]:
    """The launches whose engine has the release `target`. Raises AdvisorError if no launch's engine has it."""
    moved: list[Migrated] = []
    problems: list[AdvisorError] = []
    for launch in read.launches:
        adapter = engines.get(launch.engine)
        try:
            after, notes = adapter.migrate(launch, target)
        except AdvisorError as error:
            problems.append(error)
            continue
        moved.append(Migrated(launch, after, adapter.render(after).text, notes, tuple(edits(launch, after))))
    if problems and not moved:
        raise problems[0]
    return moved


def edits(launch: Launch, after: Launch) -> list[Edit]:
    """What to rewrite in the file: renamed spellings, changed values, dropped flags."""
    places = {(flag.span.start, flag.span.end) for flag in launch.flags if flag.span is not None}
    kept = {(flag.span.start, flag.span.end): flag for flag in after.flags if flag.span is not None}
    before = {(flag.raw, flag.value) for flag in launch.flags}
    added = [flag for flag in after.flags if flag.span is None and (flag.raw, flag.value) not in before]
    added += [flag for place, flag in kept.items() if place not in places]
    changes: list[Edit] = []
    for flag in launch.flags:
        if flag.span is None or flag.raw == "":
            continue
        new = kept.get((flag.span.start, flag.span.end))
        if new is not None:
            changes += _changed(launch, after, flag, new)
            continue
        text = " ".join(
            _words(one, flag) for one in added
        )  # what replaces dropped flags stands where the first one stood
        changes.append(Edit(file=launch.file, start=flag.span.start, end=flag.span.end, text=text))
        added = []
    return changes


def _words(new: Flag, old: Flag) -> str:
    """A new flag as it is written where an old one stood."""
    name = written(new, old)
    if old.origin in ("ini", "env"):
        return f"{name} = {new.value or 'true'}"
    if old.origin in ("yaml", "python"):
        return f"{name}{': ' if old.origin == 'yaml' else '='}{new.value or 'true'}"
    return name if new.value in (None, "false") else f"{name} {shlex.quote(new.value or '')}"


def _changed(launch: Launch, after: Launch, old: Flag, new: Flag) -> list[Edit]:
    if old.span is None:
        return []
    file, spelling, found = launch.file, written(new, old), []
    if old.origin != "cli" and _still_known(launch, after, old):
        spelling = old.raw
    if spelling != old.raw and not old.raw.isupper():
        found.append(Edit(file=file, start=old.span.start, end=old.span.start + len(old.raw), text=spelling))
    if new.value != old.value and new.value is not None and old.value_span is not None:
        found.append(Edit(file=file, start=old.value_span.start, end=old.value_span.end, text=new.value))
    return found


def _still_known(launch: Launch, after: Launch, old: Flag) -> bool:
    """Whether a key (without dashes) is an option of the new release under its old name."""
    catalogue, key = engines.get(launch.engine).catalogue, old.raw.replace("_", "-")
    options = [catalogue.find(dashes + key, after.engine_version) for dashes in ("--", "-")]
    return any(option is not None and not option.removed and option.name == old.name for option in options)


def written(new: Flag, old: Flag) -> str:
    """The new spelling in the manner of the old one: keys have no dashes, Python has underscores."""
    if old.origin == "python":
        return new.raw.lstrip("-").replace("-", "_")
    return new.raw if old.raw.startswith("-") else new.raw.lstrip("-")


def _rewrite(read: FileRead, moved: Sequence[Migrated], options: Mapping[str, Any]) -> None:
    changes = tuple(dict.fromkeys(edit for one in moved for edit in one.edits))
    fix = Fix(text="migrate", safe=True, edits=changes)
    finding = Finding(code="SD000", severity="info", message="", file=read.source.name, fix=fix)
    change = fixes.planned(read.source, [finding] if changes else [])
    clean = read.redactor.clean
    if options["diff"]:
        click.echo(fixes.shown_diff(change, read.redactor), nl=False)
    elif read.source.name == "-":
        click.echo(change.text, nl=False)
    elif fixes.write(change):
        click.echo(f"{read.source.name}: {len(changes)} changes", err=True)
    for one in moved:
        for note in one.notes:
            click.echo(clean(f"note: {note}"), err=True)


def _told(read: FileRead, moved: Sequence[Migrated], form: str) -> str:
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
        return json.dumps(rows, indent=2, ensure_ascii=False)
    lines: list[str] = []
    for one in moved:
        before = one.launch.engine_version or one.launch.version_text or "an unpinned version"
        lines.append(
            f"# {one.launch.file or '-'}:{one.launch.line} {one.launch.engine} {before} -> {one.after.engine_version}"
        )
        lines += [f"# {clean(note)}" for note in one.notes]
        lines.append(clean(one.text))
    return "\n".join(lines)
