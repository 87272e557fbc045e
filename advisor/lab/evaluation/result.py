"""What an evaluation holds: every table and figure of the model card is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from advisor.lab.training.dataset import Examples
from advisor.lab.training.left_out import LeftOut

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Everything that the card is made of."""

    examples: Examples
    shipped: LeftOut
    candidates: dict[str, LeftOut]
    baselines: dict[str, Floats]
    splits: dict[str, tuple[Words, LeftOut]]
    weak: tuple[Examples, LeftOut] | None
    acceptance: list[dict[str, Any]]
