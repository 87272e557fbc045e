"""Empty modules for those that a parser's imports name and never use; for `probe` alone."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from typing import Any


class Anything:
    """A value that can be called, indexed, subclassed, iterated and used as a decorator."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: object) -> Any:
        """Return a single callable argument unchanged, as a decorator would, else anything."""
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else Anything()

    def __getattr__(self, name: str) -> Any:
        if (
            name.startswith("__") or name == "get_current_target"
        ):  # triton without a driver: callers fall back to the CPU
            raise AttributeError(name)
        return Anything()

    def __getitem__(self, key: object) -> Any:
        return Anything()

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> Any:
        return importlib.import_module("pydantic_core").core_schema.any_schema()

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        return (object,)


class EmptyModule(types.ModuleType):
    """A module in which every name exists and does nothing."""

    __path__ = ()  # type: ignore[assignment]  # a package: its submodules are empty too
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Finder:
    """Last on the path: a module that is really installed wins."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = frozenset(names)

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Return a specification for the modules to replace, None for all others."""
        found = fullname.partition(".")[0] in self.names
        return ModuleSpec(fullname, self, is_package=True) if found else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Return an empty module."""
        return EmptyModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: an empty module has no code."""
        pass


def install(names: tuple[str, ...]) -> None:
    """Replace the named modules and their submodules by empty ones in this process."""
    sys.meta_path.append(Finder(names))
