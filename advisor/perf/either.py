"""Arithmetic on a number or on an array of them.

A rule asks a formula about one case, the estimate about a table of cases. numpy comes in only with
the first array: importing it costs more than judging a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# A number, or an array of them (N,)
Length = TypeVar("Length", float, "npt.NDArray[np.float64]")


def lesser(a: Any, b: Any) -> Any:
    """The smaller of two, of numbers or of arrays (N,)."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return min(a, b)
    import numpy as np

    return np.fmin(a, b)


def greater(a: Any, b: Any) -> Any:
    """The larger of two, of numbers or of arrays (N,)."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return max(a, b)
    import numpy as np

    return np.fmax(a, b)


def negate(mask: Any) -> Any:
    """The contrary, of one truth or of an array of them (N,)."""
    return not mask if isinstance(mask, int) else ~mask


def choose(mask: Any, a: Any, b: Any) -> Any:
    """`a` where the mask holds, else `b`: a number for one truth, an array for several (N,)."""
    if isinstance(mask, bool):
        return a if mask else b
    import numpy as np

    return np.where(mask, a, b)


def is_known(value: Any) -> Any:
    """Whether a number is one, not NaN; of an array each (N,)."""
    return value == value  # noqa: PLR0124 - NaN is what differs from itself
