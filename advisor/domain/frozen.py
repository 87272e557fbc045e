"""The base of all nouns: an immutable record with the methods of pydantic's models that are used.
Building those takes longer than an answer, so pydantic checks data from outside only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from inspect import get_annotations
from typing import Any, ClassVar, NoReturn, Self, dataclass_transform

_MISSING: Any = object()


@dataclass_transform(kw_only_default=True, frozen_default=True, eq_default=True)
class Frozen:
    """Subclass it and annotate fields; a default makes a field optional. Instances are frozen."""

    model_fields: ClassVar[Mapping[str, Any]] = {}  # name -> default; _MISSING where there is none
    _names: ClassVar[frozenset[str]] = frozenset()
    _needed: ClassVar[frozenset[str]] = frozenset()
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = {name: cls.__dict__.get(name, _MISSING) for name in get_annotations(cls)}
        cls.model_fields = {**cls.model_fields, **own}
        cls._names = frozenset(cls.model_fields)
        cls._defaults = {name: d for name, d in cls.model_fields.items() if d is not _MISSING}
        cls._needed = cls._names - cls._defaults.keys()

    def __init__(self, **given: Any) -> None:
        """Make one by keyword. Raises TypeError for a field that is unknown or missing."""
        held = self.__dict__
        held.update(self._defaults)
        held.update(given)
        if not self._names.issuperset(given):
            strange = ", ".join(sorted(given.keys() - self._names))
            raise TypeError(f"{type(self).__name__} has no field {strange}")
        if len(held) != len(self._names):
            missing = ", ".join(sorted(self._needed - given.keys()))
            raise TypeError(f"{type(self).__name__} needs {missing}")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        # Equal nouns have one id.
        values = map(self.__dict__.get, ("id",) if "id" in self._names else self.model_fields)
        return hash((type(self), *(tuple(sorted(x)) if isinstance(x, dict) else x for x in values)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={self.__dict__[name]!r}" for name in self.model_fields)
        return f"{type(self).__name__}({fields})"

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """(field, value) in the order of declaration."""
        return ((name, self.__dict__[name]) for name in self.model_fields)

    def replace(self, **changes: Any) -> Self:
        """The same with some fields changed, unchecked."""
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.__dict__.update(changes)
        return new

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """`replace` as pydantic's models call it."""
        return self.replace(**update)

    def model_dump(
        self, *, mode: str = "python", exclude: Collection[str] = (), exclude_defaults: bool = False
    ) -> dict[str, Any]:
        """Plain dicts all the way down; `mode="json"` makes tuples lists."""
        return {
            name: _plain(self.__dict__[name], mode, exclude_defaults)
            for name, default in self.model_fields.items()
            if name not in exclude and not (exclude_defaults and self.__dict__[name] == default)
        }

    @classmethod
    def model_validate(cls, data: Any) -> Self:
        """One from outside data, checked and converted. Raises pydantic.ValidationError."""
        made: Self = _adapter(cls).validate_python(data)
        return made

    @classmethod
    def model_construct(cls, **given: Any) -> Self:
        """One by keyword: there is no check to leave out."""
        return cls(**given)

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of what `model_validate` takes."""
        made: dict[str, Any] = _adapter(cls).json_schema()
        return made

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Self:
        """One from our own compiled JSON, checked before: only nested nouns and tuples are made."""
        given, makers = dict(data), _makers(cls)
        for name in makers.keys() & given.keys():
            if given[name] is not None:
                given[name] = makers[name](given[name])
        return cls(**given)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import PydanticCustomError, core_schema

        fields = {}
        for name, kind in _hints(cls).items():
            schema = handler.generate_schema(kind)
            fields[name] = core_schema.typed_dict_field(schema, required=name in cls._needed)
        table = core_schema.typed_dict_schema(fields, extra_behavior="forbid")

        def make(data: Any, inner: Callable[[Any], Any]) -> Any:
            if isinstance(data, cls):
                return data
            if not isinstance(data, dict):
                raise PydanticCustomError(
                    "noun", "should be a table with the fields of {name}", {"name": cls.__name__}
                )
            return cls(**inner(data))

        return core_schema.no_info_wrap_validator_function(make, table, ref=cls.__qualname__)


def _plain(value: Any, mode: str, exclude_defaults: bool) -> Any:
    if isinstance(value, Frozen):
        return value.model_dump(mode=mode, exclude_defaults=exclude_defaults)
    if isinstance(value, dict):
        return {key: _plain(held, mode, exclude_defaults) for key, held in value.items()}
    if isinstance(value, tuple | list):
        items = [_plain(held, mode, exclude_defaults) for held in value]
        return items if mode == "json" or isinstance(value, list) else tuple(items)
    return value


def _make_adapter(cls: type[Frozen]) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(cls)


def _resolve_hints(cls: type[Frozen]) -> dict[str, Any]:
    """Field -> resolved annotation."""
    from typing import get_type_hints

    hints = get_type_hints(cls)
    return {name: hints[name] for name in cls.model_fields}


def _find_makers(cls: type[Frozen]) -> dict[str, Callable[[Any], Any]]:
    """Fields that JSON cannot hold, by the annotations' text: resolving them costs more."""
    makers: dict[str, Callable[[Any], Any]] = {}
    for base in reversed(cls.__mro__):
        space = vars(sys.modules[base.__module__])
        for name, text in get_annotations(base).items():
            kind = space.get(text.removeprefix("tuple[").split(",")[0].split(" ")[0].rstrip("]"))
            one = kind.from_plain if isinstance(kind, type) and issubclass(kind, Frozen) else None
            if text.startswith("tuple["):
                makers[name] = _tuple_of(one or _to_tuple)
            elif one is not None:
                makers[name] = one
    return makers


def _tuple_of(one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda items: tuple(one(item) for item in items)


def _to_tuple(item: Any) -> Any:
    return tuple(item) if isinstance(item, list) else item


# Typed as plain functions: a class is hashable, which the type of `cache` does not see for one
# whose instances define a hash.
_adapter: Callable[[Any], Any] = cache(_make_adapter)
_hints: Callable[[Any], dict[str, Any]] = cache(_resolve_hints)
_makers: Callable[[Any], dict[str, Callable[[Any], Any]]] = cache(_find_makers)
