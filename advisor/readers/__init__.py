"""Readers: any form in which people keep launch commands -> `Launch` values with line numbers.

`read_path` and `read_text` detect the form by themselves. Nothing that is read is ever executed,
what cannot be resolved
is marked so, and secrets are taken out before anyone sees them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from advisor.domain.nouns import AdvisorError, Launch
from advisor.readers.reading import Reading
from advisor.readers.secrets import Redactor
from advisor.readers.source import Source, decode, open_source
from advisor.readers.syntax.mapped import Mapped, literal

if TYPE_CHECKING:
    from advisor.readers.syntax.yamlnodes import Node

__all__ = ["FileRead", "read_bytes", "read_inside", "read_path", "read_source", "read_text"]


class FileRead(NamedTuple):
    """What one file holds: its launches, what was not read, and what the writer of fixes and output
    needs.
    """

    source: Source
    form: str
    launches: tuple[Launch, ...]
    notes: tuple[str, ...]
    redactor: Redactor


def read_path(path: str, form: str | None = None, *, version: str | None = None) -> FileRead:
    """Read a file. Raises AdvisorError where it cannot be read; a file without an engine has no
    launches.

    `form` skips the detection; `version` is the engine's release, whatever the file says.
    """
    return read_source(open_source(path), form, version=version)


def read_text(
    text: str, name: str = "-", form: str | None = None, *, version: str | None = None
) -> FileRead:
    """Read a text, e.g. from standard input."""
    return read_source(
        Source(text.replace("\ue000", "?").replace("\ue001", "?"), name), form, version=version
    )


def read_bytes(
    data: bytes, name: str = "-", form: str | None = None, *, version: str | None = None
) -> FileRead:
    """Read bytes of unknown encoding."""
    return read_source(decode(data, name), form, version=version)


def read_source(source: Source, form: str | None = None, *, version: str | None = None) -> FileRead:
    """Read an opened text."""
    reading = Reading(source, version=version)
    try:
        read_form(form or _form(source), source, reading)
    except RecursionError:
        reading.note("the file refers to itself too deeply; the rest of it was not read")
    launches = _judged(reading.launches(), reading)
    return FileRead(source, reading.form, launches, tuple(reading.notes), reading.redactor)


def _judged(launches: tuple[Launch, ...], reading: Reading) -> tuple[Launch, ...]:
    """The launches of servers that we know; of the others it is said that they are there."""
    from advisor.readers.diffusion import said_of

    others = {id(launch): said for launch in launches if (said := said_of(launch))}
    for launch in launches:
        if id(launch) in others:
            reading.note(f"line {launch.line}: {others[id(launch)]}")
    return tuple(launch for launch in launches if id(launch) not in others)


def _form(source: Source) -> str:
    from advisor.readers.detect import form_of

    return form_of(source.name, source.text)


def read_form(form: str, source: Source, reading: Reading) -> None:
    """Run the reader of one form."""
    if form == "yaml":
        _read_yaml(reading)
    elif form == "unit":
        from advisor.readers.forms.systemd import read_unit

        read_unit(reading)
    elif form in ("ini", "env"):
        from advisor.readers.forms.presets import read_env_file, read_presets

        (read_presets if form == "ini" else read_env_file)(reading)
    elif form == "python":
        from advisor.readers.forms.python_calls import read_python

        read_python(reading)
    elif form == "batch":
        from advisor.readers.forms.batch import read_batch

        read_batch(reading)
    elif form == "powershell":
        from advisor.readers.forms.powershell import read_powershell

        read_powershell(reading)
    elif form == "dockerfile":
        from advisor.readers.forms.dockerfile import read_dockerfile

        read_dockerfile(reading)
    elif form == "makefile":
        from advisor.readers.forms.makefiles import read_makefile

        read_makefile(reading)
    elif form == "justfile":
        from advisor.readers.forms.justfiles import read_justfile

        read_justfile(reading)
    elif form == "nix":
        from advisor.readers.forms.nix import read_nix

        read_nix(reading)
    elif form in ("markdown", "rst"):
        from advisor.readers.forms.documents import read_document

        read_document(reading, form)
    else:
        _read_blocks_or_shell(form, source, reading)


def _read_blocks_or_shell(form: str, source: Source, reading: Reading) -> None:
    if form == "hcl":
        from advisor.readers.forms.hcl import read_hcl

        read_hcl(reading)
    else:
        _read_shell(literal(source.text), reading)


def _read_shell(text: Mapped, reading: Reading, depth: int = 0) -> None:
    from advisor.readers.images import said_image
    from advisor.readers.reading import Surroundings
    from advisor.readers.syntax.shell import Shell

    reading.form = "shell" if "\n" in text.text.strip() else "command"
    around = None
    said = said_image(text.text)
    if said is not None:
        around = Surroundings(
            image=literal(said[0], said[1]) if not depth else None, kind="comment"
        )
    Shell(text, reading, around=around, depth=depth).run()
    if not reading.found and not depth:
        _bare_options(text, reading)


def _bare_options(text: Mapped, reading: Reading) -> None:
    """Arguments without a program: told by whose options they are."""
    from advisor.readers.containers import engine_by_options
    from advisor.readers.reading import Found
    from advisor.readers.syntax.words import split_words

    if len(text) > 20_000 or ("--" not in text.text and " -" not in text.text):
        return
    words = split_words(text, dollars=False)
    engine = engine_by_options(words) if words and words[0].text.startswith("-") else None
    if engine is not None:
        reading.add(Found(engine, words, {}, words[0].first(), "command"))


def _read_yaml(reading: Reading) -> None:
    from advisor.readers.syntax.yamlnodes import compose_all

    try:
        documents = compose_all(reading.source)
    except AdvisorError:
        if reading.source.name.endswith((".yaml", ".yml", ".json")) or not _is_command(
            reading.source.text
        ):
            raise
        _read_shell(literal(reading.source.text), reading)
        return
    read_documents(documents, reading)


def read_documents(documents: list[Node], reading: Reading) -> None:
    """YAML documents by their kind."""
    if "vars:" in reading.source.text and "{{" in reading.source.text:
        from advisor.readers.forms.ansible import play_values

        reading.values = play_values(documents, reading)
    flattened = [item for document in documents for item in _listed(document)]
    kubernetes = [
        node
        for node in flattened
        if node.kind == "map"
        and node.get("kind") is not None
        and node.get("apiVersion") is not None
    ]
    if kubernetes:
        from advisor.readers.forms.kubernetes import read_kubernetes

        read_kubernetes(kubernetes, reading)
    done = {id(node) for node in kubernetes}
    for document in flattened:
        if id(document) in done:
            continue
        if document.kind == "scalar" and _is_command(document.text):
            _read_shell(literal(reading.source.text), reading)
        elif document.kind == "seq":
            _argument_list(document, reading)
        elif document.kind == "map":
            _read_mapping(document, reading)


def _read_mapping(document: Node, reading: Reading) -> None:
    """A YAML mapping that is no Kubernetes object: the reader of each form is imported where it is
    needed.
    """
    services = document.get("services")
    if services is not None and services.kind == "map":
        from advisor.readers.forms.compose import read_compose

        read_compose(document, reading)
        return
    from advisor.readers.forms.notebooks import is_notebook, read_notebook

    if is_notebook(document):
        read_notebook(document, reading)
        return
    from advisor.readers.forms.llama_swap import is_llama_swap, read_llama_swap

    if is_llama_swap(document):
        read_llama_swap(document, reading)
        return
    from advisor.readers.forms.ray_serve import is_ray_serve, read_ray_serve

    if is_ray_serve(document):
        read_ray_serve(document, reading)
        return
    from advisor.readers.forms.settings_yaml import (
        engine_of_settings,
        engine_of_settings_under,
        read_recipe,
        read_settings,
    )

    engine = engine_of_settings(document)
    if engine is not None and document.get("image") is None:
        read_settings(document, engine, reading)
        return
    if (under := engine_of_settings_under(document)) is not None:
        read_settings(under[1], under[0], reading)
        return
    if read_recipe(document, reading):
        return
    from advisor.readers.forms.kubernetes import read_containers

    read_containers(document, reading, "helm-values")


def _listed(document: Node) -> list[Node]:
    """The items of a Kubernetes `List`."""
    kind, items = (
        (document.get("kind"), document.get("items")) if document.kind == "map" else (None, None)
    )
    return (
        items.items
        if kind is not None and kind.text.endswith("List") and items is not None
        else [document]
    )


def _argument_list(document: Node, reading: Reading) -> None:
    """A YAML or JSON list: the words of one command, or containers and tasks."""
    from advisor.readers.command import read_command
    from advisor.readers.forms.kubernetes import read_containers
    from advisor.readers.syntax.yamlnodes import scalar

    if document.items and all(item.kind == "scalar" for item in document.items):
        read_command(
            [scalar(item, reading.source) for item in document.items], reading, at=document.start
        )
        return
    for item in document.items:
        if item.kind == "map":
            read_containers(item, reading, "helm-values")


def _is_command(text: str) -> bool:
    from advisor.readers.command import ENGINE_TEXT

    return bool(ENGINE_TEXT.search(text[:100_000]))


def read_inside(text: Mapped, reading: Reading, depth: int, name: str = "") -> None:
    """Read a text that stands inside another file (a here-document, a ConfigMap's value, a code
    block).
    """
    if depth > 4 or len(text) > 300_000 or not reading.step():
        return
    from advisor.readers.command import ENGINE_TEXT
    from advisor.readers.detect import form_of
    from advisor.readers.syntax.marks import unmarked

    if not (
        ENGINE_TEXT.search(text.text)
        or re.search(r"spec-type|speculative|vllm|sglang|llama", text.text)
    ):
        return
    text = unmarked(text)
    form = form_of(name, text.text)
    kept = reading.form
    if form == "shell":
        if ENGINE_TEXT.search(text.text):
            _read_shell(text, reading, depth)
    else:
        _read_copy(form, text, reading)
    reading.form = kept


def _read_copy(form: str, text: Mapped, reading: Reading) -> None:
    """Read an inner text by a reader that takes whole files, then move what it found to its place
    in this file.
    """
    inner = Reading(Source(text.text, reading.source.name), reading.redactor)
    inner.steps = reading.steps
    try:
        read_form(form, inner.source, inner)
    except AdvisorError as error:
        reading.note(str(error), text.first())
        return
    reading.steps = inner.steps
    for found in inner.found:
        found.words = [_moved(word, text) for word in found.words]
        found.pairs = [
            (_moved(key, text), None if value is None else _moved(value, text))
            for key, value in found.pairs
        ]
        found.env = {name: item._replace(value=_moved(item.value, text) if item.value is not None else None,
                                         at=_moved_at(item.at, text)) for name, item in found.env.items()}  # fmt: skip
        found.at = _moved_at(found.at, text)
        if found.around is not None:
            for name in ("image", "tag"):
                value = getattr(found.around, name)
                setattr(found.around, name, _moved(value, text) if value is not None else None)
        reading.add(found)
    for note in inner.notes:
        reading.note(note)


def _moved_at(at: int, text: Mapped) -> int:
    return text.pos[at] if 0 <= at < len(text.pos) else -1


def _moved(word: Mapped, text: Mapped) -> Mapped:
    return Mapped(word.text, [_moved_at(at, text) for at in word.pos])
