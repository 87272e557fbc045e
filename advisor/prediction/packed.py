"""Numbers of the artefact as text: 16 bit integers, each column in steps of its own.

What it does not know: what the columns are.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_MOST = 32767  # of a 16 bit integer
_UNKNOWN = -32768  # stands for NaN


def pack(rows: Floats, steps: Floats) -> str:
    """Rows (E, D) as text: little-endian 16 bit integers, row by row, in base64; `steps` (D,) in
    one unit of each column.
    """
    whole = np.round(rows * steps)
    whole = np.where(np.isnan(whole), _UNKNOWN, np.clip(whole, -_MOST, _MOST)).astype("<i2")
    return b64encode(whole.tobytes()).decode()


def unpack(text: str, steps: Floats) -> Floats:
    """The rows of what `pack` gives (E, D). Raises ValueError for text that is none."""
    whole = np.frombuffer(b64decode(text, validate=True), dtype="<i2").astype(np.float64)
    whole[whole == _UNKNOWN] = np.nan
    return np.asarray(whole.reshape(-1, len(steps)) / steps)
