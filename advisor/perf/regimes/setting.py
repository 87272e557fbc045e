"""What a documented regime is told apart by: words and numbers of one case, or of a table of them.

The conditions (losses.py) are written once, with operators that take a number or an array, a word
or a column of words. A rule asks them of one case, the estimate of all its points at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from advisor.domain.records import NamedTuple
from advisor.knowledge.rule_data import number

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from advisor.domain.nouns import LLM, Plan

SUFFIX = "suffix"  # how a row names n-gram lookup by a suffix tree
Mask = Any  # a bool, or an array of them (N,)
Number = Any  # a float, NaN where it is not known, or an array of them (N,)


class Word(NamedTuple):
    """One word of one case; None where it is not known."""

    value: str | None

    def among(self, names: Container[str]) -> Mask:
        """Whether it is one of the names (N,); what is not known is none of them."""
        return self.value is not None and self.value in names

    def each(self, say: Callable[[str | None], bool]) -> Mask:
        """What a function says of the word (N,)."""
        return say(self.value)


class Column(NamedTuple):
    """The same for N cases, of words or of things: the distinct ones, None where it is not known,
    and which of them each case has (N,). What is asked of them is asked once for every distinct.
    """

    distinct: Sequence[Any]
    codes: npt.NDArray[np.int64]

    def among(self, names: Container[str]) -> npt.NDArray[np.bool_]:
        """Which of the cases have one of the names (N,)."""
        return self.holds(lambda word: word in names)

    def each(self, say: Callable[[Any], bool]) -> npt.NDArray[np.bool_]:
        """What a function says of each word (N,)."""
        import numpy as np

        return np.array([say(word) for word in self.distinct], dtype=bool)[self.codes]

    def holds(self, say: Callable[[Any], bool]) -> npt.NDArray[np.bool_]:
        """The same, which does not hold of what is not known (N,)."""
        return self.each(lambda thing: thing is not None and say(thing))

    def numbers(self, read: Callable[[Any], float | None]) -> npt.NDArray[np.float64]:
        """The number that each is read as, NaN where there is none (N,)."""
        import numpy as np

        made = [None if thing is None else read(thing) for thing in self.distinct]
        return np.array(made, dtype=np.float64)[self.codes]

    def map(self, say: Callable[[Any], Any]) -> Column:
        """What a function makes of each that is known."""
        made = [None if thing is None else say(thing) for thing in self.distinct]
        return Column(made, self.codes)

    def take(self, rows: npt.NDArray[np.int64] | slice) -> Column:
        """Those of some of the cases (M,)."""
        return Column(self.distinct, self.codes[rows])

    def of(self, row: int) -> Any:
        """The one of a case."""
        return self.distinct[int(self.codes[row])]


Words = Word | Column


class Setting(NamedTuple):
    """A case, or a table of N of them. Words that are not known are None, numbers NaN.

    `streams` are the requests of one replica, `ctx` the prompt tokens of each, `output` its answer;
    `accepted` is the stated share of accepted drafts at this k.
    """

    engine: Words
    method: Words
    hardware: Words
    vendor: Words
    hardware_class: Words
    arch: Words
    model: Words
    family: Words
    model_arch: Words
    quant: Words
    quant_family: Words
    workload: Words
    backend: Words  # of attention, in capitals; None where the engine chooses
    known: Mask  # whether the hardware is known
    unified: Mask
    sparse: Mask  # a mixture with few active parameters
    dense: Mask  # known to be none
    hybrid: Mask
    latent: Mask  # latent attention (MLA), which has kernels of its own
    wide_kv: Mask  # keys and values of 16 bits
    suffix: Mask  # n-gram by a suffix tree
    total_params_b: Number
    streams: Number
    ctx: Number
    output: Number
    k: Number


_NAMED = (
    "engine", "method", "hardware", "vendor", "hardware_class", "arch", "family", "model",
    "model_arch", "quant", "quant_family",
)  # fmt: skip
_RANGED = {"concurrency": "streams", "ctx_tokens": "ctx"} | {n: n for n in ("k", "total_params_b")}


def matches(row: Mapping[str, Any], s: Setting) -> Mask:
    """Whether a data row's filters fit each case (N,): a filter that is absent fits all, one whose
    fact is unknown does not. rules/kit/policy.py lists them.
    """
    fits: Mask = True
    for key in _NAMED:
        if key in row:
            fits = fits & getattr(s, key).among(row[key])
    if "sparse_moe" in row:
        fits = fits & (s.sparse if row["sparse_moe"] else s.dense)
    if "unified" in row:
        fits = fits & (s.unified if row["unified"] else s.known & negate(s.unified))
    for key, field in _RANGED.items():
        if key in row:
            low, high = row[key]
            value = getattr(s, field)
            fits = fits & is_known(value)
            fits = fits if low is None else fits & (value >= low)
            fits = fits if high is None else fits & (value <= high)
    return fits


def nearness(value: Number, limit: float) -> Number:
    """How far a value is into what was documented from `limit` on: 0 at half of it, 1 from there
    on, linear in the logarithm; 0 where it is not known. So a regime has no edge at which an answer
    jumps.
    """
    return between(value, limit / 2, limit)


def between(value: Number, none: float, all_of_it: float) -> Number:
    """0 up to one value, 1 from another that was documented on, linear in the log between."""
    if isinstance(value, int | float):
        known = max(value, 1e-9) if is_known(value) else 1e-9
        return min(max(math.log(known / none) / math.log(all_of_it / none), 0.0), 1.0)
    import numpy as np

    known = np.fmax(np.nan_to_num(value), 1e-9)
    return np.clip(np.log(known / none) / np.log(all_of_it / none), 0.0, 1.0)


def of_regime(key: str) -> float:
    """A number of knowledge/rules/regime.json."""
    return number("regime", key)


# ---------------------------------------------------------------- a number, or an array of them
# numpy comes in only with the first array: importing it costs more than judging a file.

# A number, or an array of them (N,)
Length = TypeVar("Length", float, "npt.NDArray[np.float64]")
_SCALAR = (int, float)  # a tuple: making `int | float` takes longer than the test


def _either(of_numbers: Callable[..., Any], of_arrays: str) -> Callable[..., Any]:
    def apply(*values: Any) -> Any:
        for value in values:
            if not isinstance(value, _SCALAR):
                import numpy as np

                return getattr(np, of_arrays)(*values)
        return of_numbers(*values)

    return apply


lesser, greater = _either(min, "fmin"), _either(max, "fmax")
round_up, round_down = _either(math.ceil, "ceil"), _either(math.floor, "floor")


def next_power(value: Any) -> Any:
    """The next power of two, of one whole number or of each of an array (N,)."""
    if isinstance(value, int):
        return 1 << (value - 1).bit_length()
    import numpy as np

    return np.exp2(np.ceil(np.log2(value)))


def holds(mask: Any) -> bool:
    """Whether a truth holds, or any of an array of them (N,)."""
    return bool(mask if isinstance(mask, bool) else mask.any())


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


# ---------------------------------------------------------------- words of one case


def is_sparse(model: LLM, shape: LLM | None) -> bool:
    """A mixture of experts with few active parameters (the A3B class)."""
    active = model.active_params_b or (shape or model).active_params_b
    few = active is not None and active <= of_regime("sparse_moe_active_params_b")
    return bool(model.is_moe and few)


def is_narrow(kv_cache_dtype: str | None) -> bool:
    """Whether keys and values are stored in FP8."""
    return (kv_cache_dtype or "").lower().startswith("fp8")


def is_suffix(plan: Plan) -> bool:
    """Whether n-gram stands for vLLM's suffix decoding in a plan that was read from a launch."""
    return any(SUFFIX in (value or "").lower() for _, value in plan.extra)
