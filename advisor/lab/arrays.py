"""Arrays of the laboratory: one entry for each of M measured A/B runs, unless a name says so."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]  # (M,), or (M, columns): log speed-ups where no unit is named
Flags = npt.NDArray[np.bool_]  # (M,)
Words = npt.NDArray[np.str_]  # (M,): labels, such as the source that is left out
Index = npt.NDArray[np.intp]  # (T,): positions among the M
Codes = npt.NDArray[np.int8]  # (M,): positions in a vocabulary
