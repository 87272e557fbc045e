"""Readers: any form of launch commands -> `Launch` values with places. Nothing is executed."""

from advisor.domain.nouns import Launch
from advisor.domain.records import NamedTuple
from advisor.readers.dispatch import form_of, reader
from advisor.readers.images import diffusion_note
from advisor.readers.launches import LaunchMaker
from advisor.readers.reading import Reading, Told
from advisor.readers.secrets import Redactor
from advisor.readers.source import SourceText, decode, open_source

__all__ = ["FileRead", "read_bytes", "read_path", "read_source", "read_text"]


class FileRead(NamedTuple):
    """One file: its launches, what was not read, and what writers of fixes and output need."""

    source: SourceText
    form: str
    launches: tuple[Launch, ...]
    notes: tuple[str, ...]
    redactor: Redactor
    cut_short: bool = False  # a bound ended the reading: a part of the file was not judged


def read_path(path: str, form: str | None = None, *, version: Told = None) -> FileRead:
    """Read a file; `version`: its engine's release, or releases by engine. Raises AdvisorError."""
    return read_source(open_source(path), form, version=version)


def read_text(
    text: str, name: str = "-", form: str | None = None, *, version: Told = None
) -> FileRead:
    """Read a text, e.g. from standard input."""
    plain = text.replace("\ue000", "?").replace("\ue001", "?")
    return read_source(SourceText(plain, name), form, version=version)


def read_bytes(
    data: bytes, name: str = "-", form: str | None = None, *, version: Told = None
) -> FileRead:
    """Read bytes of unknown encoding."""
    return read_source(decode(data, name), form, version=version)


def read_source(source: SourceText, form: str | None = None, *, version: Told = None) -> FileRead:
    """Read an opened text."""
    reading = Reading(source, version=version)
    try:
        reader(form or form_of(source.name, source.text))(reading)
    except RecursionError:
        note = "the file refers to itself too deeply; the rest of it was not read"
        reading.note(note, cut_short=True)
    launches: list[Launch] = []
    for launch in LaunchMaker(reading).launches():
        if other := diffusion_note(launch):
            reading.note(f"line {launch.line}: {other}")
        else:
            launches.append(launch)
    notes, redactor = tuple(reading.notes), reading.redactor
    return FileRead(source, reading.form, tuple(launches), notes, redactor, reading.cut_short)
