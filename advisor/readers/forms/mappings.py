"""A YAML mapping that is neither a Kubernetes object nor a compose file: told by its keys."""

from __future__ import annotations

from advisor.readers.forms.documents import is_notebook, read_notebook
from advisor.readers.forms.kubernetes import read_containers
from advisor.readers.forms.llama_swap import is_llama_swap, read_llama_swap
from advisor.readers.forms.settings_yaml import (
    engine_of_settings,
    engine_of_settings_under,
    is_ray_serve,
    read_ray_serve,
    read_recipe,
    read_settings,
)
from advisor.readers.reading import Reading
from advisor.readers.syntax.yamlnodes import Node

_KINDS = (
    (is_notebook, read_notebook),
    (is_llama_swap, read_llama_swap),
    (is_ray_serve, read_ray_serve),
)


def read_mapping(document: Node, reading: Reading) -> None:
    """Read a mapping by the first kind that it has; else any containers in it."""
    for is_kind, read in _KINDS:
        if is_kind(document):
            read(document, reading)
            return
    engine = engine_of_settings(document)
    if engine is not None and document.get("image") is None:
        read_settings(document, engine, reading)
    elif (under := engine_of_settings_under(document)) is not None:
        read_settings(under[1], under[0], reading)
    elif not read_recipe(document, reading):
        read_containers(document, reading, "helm-values")
