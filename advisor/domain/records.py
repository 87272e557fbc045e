"""Records that are quick to declare, of which a start declares a hundred: `typing.NamedTuple`
compiles each annotation, and `dataclass` the text of each method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

__all__ = ["NamedTuple", "Record", "field"]
T = TypeVar("T")

if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from collections import namedtuple

    class _Declaring(type):
        """Makes of a class below `NamedTuple` a named tuple with what the class holds."""

        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, bases, space)
            if "__annotations__" not in space:  # from Python 3.14 on they are made when asked for
                space["__annotations__"] = space.pop("__annotate_func__")(1)  # values
            fields = space["__annotations__"]
            defaults = [space[field] for field in fields if field in space]
            made = namedtuple(name, fields, defaults=defaults, module=space["__module__"])
            for key in space.keys() - fields.keys() - {"__module__"}:
                setattr(made, key, space[key])
            return made

    class NamedTuple(metaclass=_Declaring):
        """As `typing.NamedTuple`."""


def field(*, default_factory: Callable[[], T]) -> T:
    """A field of a `Record` whose default is made anew each time."""
    return cast(T, _Made(default_factory))


class _Made(NamedTuple):
    make: Callable[[], Any]


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Record:
    """As `@dataclass(eq=False)`; arguments are not counted, defaults stay the class's."""

    _names: ClassVar[tuple[str, ...]]
    _made: ClassVar[dict[str, Callable[[], Any]]]

    def __init_subclass__(cls) -> None:
        cls._names = tuple(cls.__annotations__)
        cls._made = {n: m.make for n in cls._names if isinstance(m := getattr(cls, n, 0), _Made)}

    def __init__(self, *values: Any, **given: Any) -> None:
        here = vars(self)
        here.update({name: make() for name, make in self._made.items()})
        here.update(zip(self._names, values, strict=False))
        here.update(given)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**{name: getattr(self, name) for name in self._names} | changes)
