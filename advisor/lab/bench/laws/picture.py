"""The picture of the step laws: cycle time over requests, points and law, an engine a panel.

`python -m advisor.lab.bench.laws.picture` draws docs/research/served.svg from the raw points.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from advisor.domain.paths import data_root
from advisor.lab.bench.laws.step_law import DEPTH, Law, Measured, fit, point_sets, step_ms

SHOWN = (
    "vLLM, 35B-A3B FP8, H200",
    "SGLang, 35B-A3B FP8, H200",
    "llama-server, 35B-A3B Q4_K, H200",
    "llama-server, 27B Q4_K, H100",
)
COLOURS = {0: "#333333", 1: "#5b8db8", 2: "#c1666b", 3: "#8a9a5b", 4: "#d4a24c", 6: "#7b6b9c"}
SIZES = (1, 2, 4, 8, 16, 32, 64)
VOCABULARY_WORD = "v32"  # labels of points whose vocabulary is another


def curve(law: Law, shown: Measured, k: int, requests: Sequence[int]) -> list[float]:
    """Cycle times of a law at `DEPTH` tokens of context.

    Parameters
    ----------
    law : Law
        Fitted to the points of `shown`.
    shown : Measured
        Its points and terms.
    k : int
        Draft tokens.
    requests : Sequence[int]
        Requests at once.

    Returns
    -------
    list[float]
        Milliseconds, one for each number of requests.
    """
    first = next(p for p in shown.points if p["k"] == k)
    tau = 1 + sum(first["rates"][:k])
    asked = {"label": "", "k": k, "acceptance_length": tau, "input_tokens": DEPTH}
    asked["model"] = first["model"]
    return [
        float(np.dot(law.coefficients, shown.terms(asked | {"concurrency": n}))) for n in requests
    ]


def draw(out: Path) -> None:
    """Write the picture as SVG, the same bytes from the same points and library.

    Parameters
    ----------
    out : Path
        The file.
    """
    import matplotlib  # half a second, and only here

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    with plt.rc_context({"svg.hashsalt": "served", "svg.fonttype": "none", "font.size": 9}):
        figure, axes = plt.subplots(1, len(SHOWN), figsize=(13, 3.6), sharey=True)
        by_name = {one.name: one for one in point_sets()}
        for axis, name in zip(axes, SHOWN, strict=True):
            _panel(axis, by_name[name])
        axes[0].set_ylabel("cycle, ms")
        figure.tight_layout()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)


def _panel(axis: Any, shown: Measured) -> None:
    law = fit(*shown)
    for k, colour in COLOURS.items():
        here = [
            p
            for p in shown.points
            if p["k"] == k and p["input_tokens"] == DEPTH and VOCABULARY_WORD not in p["label"]
        ]
        if not here:
            continue
        sizes = [n for n in SIZES if n <= max(p["concurrency"] for p in here)]
        axis.plot([p["concurrency"] for p in here], [step_ms(p) for p in here], "o", ms=3, c=colour)
        axis.plot(sizes, curve(law, shown, k, sizes), c=colour, lw=1, label=f"k = {k}")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set_xticks(SIZES, [str(n) for n in SIZES])
    axis.set_yticks([4, 8, 16, 32, 64, 128], ["4", "8", "16", "32", "64", "128"])
    axis.set_title(
        f"{shown.name}\nkept out: plain {100 * law.plain_error:.1f} %, "
        f"cycle {100 * law.cycle_error:.1f} %",
        fontsize=8,
    )
    axis.set_xlabel("requests at once")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7, frameon=False)


def main(argv: Sequence[str]) -> int:
    """Draw the picture of the documentation, or to the file that is named."""
    draw(Path(argv[0]) if argv else data_root() / "docs/research/served.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
