"""YAML and JSON files: each document by its kind."""

from __future__ import annotations

from advisor.domain.nouns import AdvisorError
from advisor.readers.dispatch import reader
from advisor.readers.forms.scripts import read_shell
from advisor.readers.programs import ENGINE_TEXT
from advisor.readers.reading import Reading
from advisor.readers.slips import likely_key, respell
from advisor.readers.syntax.mapped import literal, placeholders_to_holes
from advisor.readers.syntax.templates import set_once
from advisor.readers.syntax.yamlnodes import Node, compose_all, scalar


def read_yaml(reading: Reading) -> None:
    """All documents of a file. Raises AdvisorError for what is no YAML."""
    try:
        documents = compose_all(reading.source)
    except AdvisorError:
        if reading.source.name.endswith((".yaml", ".yml", ".json")) or not _is_command(
            reading.source.text
        ):
            raise
        read_shell(literal(reading.source.text), reading)
        return
    if "vars:" in reading.source.text and "{{" in reading.source.text:
        reading.values = set_once(
            reading.source.text, placeholders_to_holes
        )  # a playbook's own names
    flattened = [item for document in documents for item in _list_items(document)]
    kubernetes = [
        node
        for node in flattened
        if node.kind == "map"
        and node.get("kind") is not None
        and node.get("apiVersion", "apiversion", "apiVerison", "ApiVersion") is not None
    ]
    if kubernetes:
        reader("kubernetes")(kubernetes, reading)
    done = {id(node) for node in kubernetes}
    for document in flattened:
        if id(document) in done:
            continue
        if document.kind == "scalar" and _is_command(document.text):
            read_shell(literal(reading.source.text), reading)
        elif document.kind == "seq":
            _argument_list(document, reading)
        elif document.kind == "map":
            if document.get("services") is None and any(
                _holds_images(v) and likely_key(key.text, "compose file") == "services"
                for key, v in document.pairs
            ):
                respell(document, "compose file", reading)
            services = document.get("services")
            form = "compose" if services is not None and services.kind == "map" else "mapping"
            reader(form)(document, reading)


def _holds_images(node: Node) -> bool:
    """Whether the parts of a mapping name images, as services do."""
    return node.kind == "map" and any(one.get("image") is not None for _, one in node.pairs[:50])


def _list_items(document: Node) -> list[Node]:
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
    if document.items and all(item.kind == "scalar" for item in document.items):
        words = [scalar(item, reading.source) for item in document.items]
        reading.command(words, at=document.start)
        return
    for item in document.items:
        if item.kind == "map":
            reader("containers")(item, reading, "helm-values")


def _is_command(text: str) -> bool:
    return bool(ENGINE_TEXT.search(text[:100_000]))
