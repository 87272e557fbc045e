"""What an evaluation holds: every table and figure of the model card is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from advisor.lab.arrays import Floats, Words
from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import LeftOut


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Left-out predictions of the measured runs, and what they are compared with, by name."""

    examples: Examples
    shipped: LeftOut
    candidates: dict[str, LeftOut]
    baselines: dict[str, Floats]
    splits: dict[str, tuple[Words, LeftOut]]
    weak: tuple[Examples, LeftOut] | None
    acceptance: list[dict[str, Any]]
