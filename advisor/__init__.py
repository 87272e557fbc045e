"""advisor: speculative decoding on or off, which k, why, how sure, and the exact flags.

Public door: `recommend`, `predict`, `validate`, `compose`, `explain`. Each is imported on first
use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_DOORS = {
    "recommend": "advisor.advice.recommend",
    "validate": "advisor.advice.recommend",
    "compose": "advisor.advice.recommend",
    "predict": "advisor.advice.recommend",
    "explain": "advisor.advice.recommend",
}
__all__ = ["compose", "explain", "predict", "recommend", "validate"]


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        return getattr(import_module(_DOORS[name]), name)
    raise AttributeError(f"module 'advisor' has no attribute '{name}'")
