"""Readers: any form of launch commands -> `Launch` values with places. Nothing is executed."""

from __future__ import annotations

from typing import NamedTuple

from advisor.domain.nouns import Launch
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
    return read_source(
        SourceText(text.replace("\ue000", "?").replace("\ue001", "?"), name), form, version=version
    )


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
        reading.note(
            "the file refers to itself too deeply; the rest of it was not read", cut_short=True
        )
    launches = _known_launches(LaunchMaker(reading).launches(), reading)
    return FileRead(
        source, reading.form, launches, tuple(reading.notes), reading.redactor, reading.cut_short
    )


def _known_launches(launches: tuple[Launch, ...], reading: Reading) -> tuple[Launch, ...]:
    """The launches of servers that we know; of the others it is said that they are there."""
    others = {id(launch): said for launch in launches if (said := diffusion_note(launch))}
    for launch in launches:
        if id(launch) in others:
            reading.note(f"line {launch.line}: {others[id(launch)]}")
    return tuple(launch for launch in launches if id(launch) not in others)
