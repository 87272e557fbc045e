"""Values for what a row or a question does not say: knowledge/imputation.yaml, as compiled."""

from __future__ import annotations

from functools import cache
from typing import Any

from advisor.knowledge.names import architecture_among
from advisor.knowledge.store import index


@cache
def table(name: str, quantity: str | None = None) -> dict[str, float]:
    """Values by word of one table.

    Parameters
    ----------
    name : str
        "architectures", "classes", "links", "quant_families", "kv_cache_types" or "values".
    quantity : str, optional
        The quantity of each entry, where an entry holds several. Entries without it are left out.

    Returns
    -------
    dict of str to float
        In the units that knowledge/imputation.yaml states.
    """
    entries: dict[str, Any] = index()["imputation"][name]
    if quantity is None:
        return {word: float(entry["value"]) for word, entry in entries.items()}
    return {
        word: float(entry[quantity]["value"])
        for word, entry in entries.items()
        if quantity in entry
    }


@cache
def architecture(name: str) -> str:
    """The entry of an accelerator's architecture: sm_90a -> sm_90, gfx1151 -> gfx11, xe2 -> intel.

    Raises
    ------
    UnknownFact
        Where no entry names it: its rates would otherwise be guessed in silence.
    """
    return architecture_among(index()["imputation"]["architectures"], name)
