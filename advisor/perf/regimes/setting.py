"""What a documented regime is told apart by: words and numbers of one case, or of a table of them.

The conditions (losses.py) are written once, with operators that take a number or an array, a word
or a column of words. A rule asks them of one case, the estimate of all its points at once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from advisor.knowledge.rule_data import number

Floats = npt.NDArray[np.float64]
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
    """The same for N cases: the distinct words, and which of them each case has (N,)."""

    distinct: Sequence[str | None]
    codes: npt.NDArray[np.int64]

    def among(self, names: Container[str]) -> Mask:
        """Which of the cases have one of the names (N,)."""
        return self.each(lambda word: word is not None and word in names)

    def each(self, say: Callable[[str | None], bool]) -> Mask:
        """What a function says of each word, asked once for every distinct one (N,)."""
        return np.array([say(word) for word in self.distinct], dtype=bool)[self.codes]


Words = Word | Column


@dataclass(frozen=True)
class Setting:
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
    "engine",
    "method",
    "hardware",
    "vendor",
    "hardware_class",
    "arch",
    "family",
    "model",
    "model_arch",
    "quant",
    "quant_family",
)
_RANGED = {
    "concurrency": "streams",
    "ctx_tokens": "ctx",
    "k": "k",
    "total_params_b": "total_params_b",
}


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
            fits = fits & negate(np.isnan(value))
            fits = fits if low is None else fits & (value >= low)
            fits = fits if high is None else fits & (value <= high)
    return fits


def negate(mask: Mask) -> Mask:
    """The contrary, of one or of an array (N,)."""
    return ~mask if isinstance(mask, np.ndarray) else not mask


def lesser(a: Number, b: Number) -> Number:
    """The smaller of two, of numbers or of arrays."""
    return min(a, b) if isinstance(a, float) and isinstance(b, float) else np.fmin(a, b)


def greater(a: Number, b: Number) -> Number:
    """The larger of two, of numbers or of arrays."""
    return max(a, b) if isinstance(a, float) and isinstance(b, float) else np.fmax(a, b)


def nearness(value: Number, limit: float) -> Number:
    """How far a value is into what was documented from `limit` on: 0 at half of it, 1 from there
    on, linear in the logarithm; 0 where it is not known. So a regime has no edge at which an answer
    jumps.
    """
    known = np.fmax(np.nan_to_num(value), 1e-9)
    near = np.clip(np.log2(2 * known / limit), 0.0, 1.0)
    return near if isinstance(near, np.ndarray) else float(near)


def between(value: Number, none: float, all_of_it: float) -> Number:
    """The same between two measured values: 0 up to one that is free of it, 1 from the one that was
    documented on, linear in the logarithm.
    """
    known = np.fmax(np.nan_to_num(value), 1e-9)
    near = np.clip(np.log(known / none) / np.log(all_of_it / none), 0.0, 1.0)
    return near if isinstance(near, np.ndarray) else float(near)


def of_regime(key: str) -> float:
    """A number of knowledge/rules/regime.json."""
    return number("regime", key)
