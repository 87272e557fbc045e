"""Whether a model may be named by its own file: by the command line and the user's own Python,
never by what asks over a socket or a pipe.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

NO_FILE = "(no config.json of a model and no GGUF file is there)"
NOT_ITS_NAME = "(a model's configuration is read as config.json, in the folder that engines take)"
NOT_HERE = "(a model's file is read on the command line only; give the model's name)"
_MAY_READ: ContextVar[bool] = ContextVar("may read model files", default=False)


@contextmanager
def model_files() -> Iterator[None]:
    """Within it a model may be named by its own file or folder."""
    before = _MAY_READ.set(True)
    try:
        yield
    finally:
        _MAY_READ.reset(before)


def is_file_name(text: str) -> bool:
    """Whether a name ends as that of a model's file."""
    return text.lower().endswith((".json", ".gguf"))


def may_name(text: str) -> bool:
    """Whether such a name is looked up among the known ones, as a file of a repository is."""
    return _MAY_READ.get() or ":" in text


def refusal(text: str) -> str:
    """Why a name of a file is no model here; over a socket the same whether it is there or not."""
    return (NOT_ITS_NAME if os.path.isfile(text) else NO_FILE) if _MAY_READ.get() else NOT_HERE


def model_file(text: str, is_known: Callable[[], bool]) -> str | None:
    """The file that tells the model, if one may be read; a known name is no folder."""
    if not _MAY_READ.get() or not text or "\0" in text:
        return None
    if text.lower().endswith(("config.json", ".gguf")):
        return text if os.path.isfile(text) else None
    inside = os.path.join(text, "config.json")
    if not os.path.isfile(inside):
        return None
    # engines load ORG/NAME from such a folder where there is one
    return inside if "/" in text or text.startswith((".", "~")) or not is_known() else None
