"""The step law of each engine: cycle time from requests, draft length, depth and acceptance.

`python -m advisor.lab.bench.laws.step_law` fits it to the raw points and prints it with the error
on points kept out of the fit. vLLM and SGLang: T = a + b E + c n + (d + e k if k > 0) + g c in ms,
with n = requests x (k + 1) tokens, E the share of experts that n tokens reach and c the thousands
of tokens that the requests hold together. llama-server: T = a + b n up to 8 tokens, a + c + d n
beyond, + e ms per million vocabulary entries sampled, + f k, + g c.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

from advisor.lab.bench.row_files import read_about, read_rows
from advisor.lab.bench.rows import is_decode_biased, reason_of
from advisor.lab.bench.shapes import VOCAB
from advisor.lab.measurements.schema import measurements_dir
from advisor.perf.kernels import LONGEST

EXPERTS, TOPK = 256, 8
DEPTH = 2048  # prompt tokens of the points
SPLITS = 20
Point = dict[str, Any]


Terms = Callable[[Point], list[float]]


class Law(NamedTuple):
    """Coefficients in ms, and the median error on kept-out halves for plain steps and cycles."""

    name: str
    points: int
    coefficients: tuple[float, ...]
    plain_error: float
    cycle_error: float


class Measured(NamedTuple):
    """The points of one engine, model and card, and the form of its law."""

    name: str
    points: list[Point]
    terms: Terms


MIXTURES = {"qwen3.6-35b-a3b": (EXPERTS, TOPK)}


def server_terms(point: Point) -> list[float]:
    """Terms of vLLM and SGLang; a dense model reaches no experts."""
    n = point["concurrency"] * (point["k"] + 1)
    experts = 0.0
    if found := MIXTURES.get(point.get("model", "qwen3.6-35b-a3b")):
        experts = 1 - (1 - found[1] / found[0]) ** n
    return [1.0, experts, n, float(point["k"] > 0), point["k"], held_tokens(point)]


def llama_terms(point: Point) -> list[float]:
    """Terms of llama-server."""
    n = point["concurrency"] * (point["k"] + 1)
    tiled = float(n > LONGEST)
    vocabulary = 32_000 if "v32" in point["label"] else VOCAB
    entries = point["concurrency"] * point["acceptance_length"] * vocabulary / 1e6
    return [1.0, (1 - tiled) * n, tiled, tiled * n, entries, point["k"], held_tokens(point)]


def held_tokens(point: Point) -> float:
    """Thousands of prompt tokens that the requests hold together beyond `DEPTH` each."""
    return float(point["concurrency"] * (point["input_tokens"] - DEPTH) / 1000)


def step_ms(point: Point) -> float:
    """The cycle of a point: the mean where nothing but decoding was timed, else the median."""
    name = "decode_step_mean_ms" if point.get("kind") == "decode" else "decode_step_p50_ms"
    return float(point[name])


def fit(name: str, points: Sequence[Point], terms: Terms) -> Law:
    """Least squares of relative errors, no coefficient below 0; half of the points kept out in
    turn.

    Parameters
    ----------
    name : str
        Of the law.
    points : Sequence[Point]
        Measured steps.
    terms : Terms
        What a point costs, term by term.

    Returns
    -------
    Law
        Coefficients and left-out errors.
    """
    x = np.array([terms(p) for p in points], dtype=float)
    y = np.array([step_ms(p) for p in points])

    def solve(rows: Any) -> Any:
        return nnls(x[rows] / y[rows, None], np.ones(len(rows)))[0]

    errors: dict[bool, list[float]] = {True: [], False: []}
    random = np.random.default_rng(0)
    for _ in range(SPLITS):
        order = random.permutation(len(points))
        known, kept = np.split(order, [len(order) // 2])
        for i, error in zip(kept, abs(x[kept] @ solve(known) / y[kept] - 1), strict=True):
            errors[points[i]["k"] == 0].append(float(error))
    whole = tuple(float(c) for c in solve(np.arange(len(points))))
    plain, cycle = (statistics.median(errors[side]) for side in (True, False))
    return Law(name, len(points), whole, plain, cycle)


def point_sets() -> list[Measured]:
    """The raw points in the repository where there are enough for a law, from 2,048 tokens on."""
    raw = measurements_dir() / "raw"
    llama = raw / "bench-h200-llama-b11312"
    slots = [*read_rows(llama), *read_rows(llama / "vocabulary-32k")]
    folders = ("b11312", "places", "ngram", "tiles")
    hopper = [p for part in folders for p in _trusted_points(raw / f"bench-h100-llama-{part}")]
    hopper = [p for p in hopper if p["method"] != "ngram"]
    sglang = read_rows(raw / "bench-h200-sglang-0517")
    sglang = [p for p in sglang if p["sampling"] == "t0" and "sync" not in p["label"]]
    vllm = [p for p in read_rows(raw / "h200-vllm-0251") if _plain_vllm(p)]
    newer = {e: _trusted_points(raw / f"bench-h200-{e}-shapes") for e in ("vllm", "sglang")}
    nine = {e: [p for p in points if p["model"] == "qwen3.5-9b"] for e, points in newer.items()}
    graphs = {card: _trusted_points(raw / f"bench-{card}-vllm-graphs") for card in ("h200", "h100")}
    listed = (
        ("vLLM, 35B-A3B FP8, H200", vllm, server_terms),
        ("SGLang, 35B-A3B FP8, H200", sglang, server_terms),
        ("vLLM, Qwen3.5-9B BF16, H200", nine["vllm"], server_terms),
        ("SGLang, Qwen3.5-9B BF16, H200", nine["sglang"], server_terms),
        ("llama-server, 35B-A3B Q4_K, H200", _slots(slots, "q4k-"), llama_terms),
        ("llama-server, 35B-A3B Q8_0, H200", _slots(slots, "q8-"), llama_terms),
        ("llama-server, 27B Q4_K, H200", _slots(slots, "27b-"), llama_terms),
        ("llama-server, 27B Q4_K, H100", _slots(hopper, "27b-q4k-"), llama_terms),
        ("llama-server, 27B Q8_0, H100", _slots(hopper, "27b-q8-"), llama_terms),
        ("vLLM, Llama 3.1 8B BF16, H200", graphs["h200"], server_terms),
        ("vLLM, Llama 3.1 8B BF16, H100", graphs["h100"], server_terms),
    )
    return [
        Measured(name, [p for p in points if _deep_enough(p)], terms)
        for name, points, terms in listed
    ]


def laws() -> list[Law]:
    """The law of each of `point_sets`."""
    return [fit(*one) for one in point_sets()]


def _deep_enough(point: Point) -> bool:
    return point["input_tokens"] >= DEPTH and not (
        point.get("kind") != "decode" and is_decode_biased(point)
    )


def _slots(points: Sequence[Point], label: str) -> list[Point]:
    """Plain decode points of one file; one KV buffer for all slots is another path."""
    return [
        p
        for p in points
        if p["kind"] == "decode"
        and not p["sampling"]
        and p["label"].startswith(label)
        and "unified" not in p["label"]
    ]


def _trusted_points(folder: Path) -> list[Point]:
    """The points of a folder whose decode step its about.yaml does not set apart."""
    about = read_about(folder, {})

    def counts(point: Point) -> bool:
        weak = reason_of(point, about)
        return weak is None or weak.decode_from is not None

    return [point for point in read_rows(folder) if counts(point)]


def _plain_vllm(point: Point) -> bool:
    labels = ("routing", "mnbt")
    return (
        (point["model"], point["quant"]) == ("qwen3.6-35b-a3b", "fp8")
        and not point["prefix_caching"]
        and not any(word in point["label"] for word in labels)
        and point["concurrency"] <= 64
        and point["k"] <= 4
        and bool(point.get("decode_step_p50_ms"))
    )


def main() -> None:
    """Print every law."""
    print("ms: fixed, experts or token to 8, token or tiles, drafting or token beyond,")
    print("    draft or sampled entries, 1,000 held tokens or draft, 1,000 held tokens\n")
    for law in laws():
        numbers = " ".join(f"{c:7.3f}" for c in law.coefficients)
        print(
            f"{law.name:33} {law.points:4} {numbers:55}  kept out: plain "
            f"{100 * law.plain_error:.1f} %, cycle {100 * law.cycle_error:.1f} %"
        )


if __name__ == "__main__":
    main()
