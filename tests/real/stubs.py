"""Stand-ins for modules that a parser's import chain names but never uses while it parses."""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec


class Anything:
    """A value that can be called, indexed, subclassed, iterated and used as a decorator."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else Anything()

    def __getattr__(self, name):
        if (
            name.startswith("__") or name == "get_current_target"
        ):  # triton without a driver: callers fall back to the CPU
            raise AttributeError(name)
        return Anything()

    def __getitem__(self, key):
        return Anything()

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False

    def __or__(self, other):
        return other

    __ror__ = __or__

    def __get_pydantic_core_schema__(self, source, handler):
        from pydantic_core import core_schema

        return core_schema.any_schema()

    def __mro_entries__(self, bases):
        return (object,)


class Hollow(types.ModuleType):
    __path__: list = []
    __version__ = "0.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Finder:
    """Last on the path: a module that is really installed wins."""

    def __init__(self, names):
        self.names = frozenset(names)

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] in self.names:
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return Hollow(spec.name)

    def exec_module(self, module):
        pass


def install(*names):
    sys.meta_path.append(Finder(names))
