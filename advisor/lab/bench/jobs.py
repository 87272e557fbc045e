"""Which engines a step-cost sweep starts and which loads each takes, from a file or by default.

A sweep file is JSON: a list of entries with the fields of `Job` (vLLM) or the keywords of
`served_jobs.llama_job` and `served_jobs.sglang_job`. `k` may be a list: one engine start each.
Points are objects with the fields of `Point` or `ServedPoint`, or lists in their order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from advisor.domain.nouns import AdvisorError

BLOCK_RATES = (0.08, 0.06, 0.045, 0.034, 0.025, 0.019, 0.014)  # of positions beyond eight
# Unconditional acceptance by position that the synthetic sampler is told to produce: the GB10
# seed's two positions, then a geometric tail. Acceptance is an input of the sweep, never a result.
RATES = (0.816, 0.635, 0.48, 0.36, 0.27, 0.2, 0.15, 0.11, *BLOCK_RATES)
MOST_GRAPH_TOKENS = 512  # vLLM captures no larger graphs unless told to


@dataclass(frozen=True)
class Point:
    """One closed-loop load: `concurrency` clients, `rounds` x concurrency prompts in all (at least
    worker.LEAST_PROMPTS).
    """

    concurrency: int
    input_tokens: int
    output_tokens: int
    prefix_share: float = 0.0
    rounds: int = 4

    @property
    def key(self) -> str:
        """The load as text, the key of its rows."""
        return f"{self.concurrency}:{self.input_tokens}:{self.output_tokens}:{self.prefix_share:g}"


@dataclass(frozen=True)
class Job:
    """One engine start and its points."""

    label: str
    model: str
    quant: str
    k: int
    points: tuple[Point, ...]
    prefix_caching: bool = False
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 8192
    max_model_len: int = 32_960
    env: dict[str, str] = field(default_factory=dict)
    rates: tuple[float, ...] = RATES
    method: str = "mtp"  # or "eagle3", "dflash", "ngram"
    kv_cache_dtype: str = "auto"
    # KV cache in GiB where engines share a GPU; None: what gpu_memory_utilization leaves
    kv_gib: float | None = None
    # token counts of the captured CUDA graphs; empty: the engine's own
    graph_sizes: tuple[int, ...] = ()
    # how often every point is taken in this one engine start; labels of later turns:
    # worker.turn_label
    turns: int = 1
    config: str = ""  # the model's config.json; empty: the shape that shapes.py knows
    draft_config: str = ""  # of a drafter that is a model of its own

    def as_dict(self) -> dict[str, Any]:
        """Return the job as JSON data."""
        return asdict(self)


def points_main(output_tokens: int = 128) -> tuple[Point, ...]:
    """Concurrency 1..128 at 2048 tokens, 1..32 at 8192, 1 and 8 at 32768."""
    short = [Point(c, 2048, output_tokens) for c in (1, 2, 4, 8, 16, 32, 64, 128)]
    middle = [Point(c, 8192, output_tokens) for c in (1, 4, 16, 32)]
    long = [Point(c, 32768, output_tokens) for c in (1, 8)]
    return tuple(short + middle + long)


def points_decode() -> tuple[Point, ...]:
    """Next to no prompt: the pure verify-cost curve T(B, k)."""
    return tuple(Point(c, 64, 512, rounds=2) for c in (1, 2, 4, 8, 16, 32, 64, 128))


def step_graphs(k: int, points: Sequence[Point]) -> tuple[int, ...]:
    """Sizes of the graphs that the points' steps need, as far as the engine captures them."""
    sizes = sorted({(k + 1) * point.concurrency for point in points})
    return tuple(size for size in sizes if size <= MOST_GRAPH_TOKENS)


def default_jobs(
    model: str = "qwen3.6-35b-a3b", quant: str = "fp8", turns: int = 1
) -> tuple[Job, ...]:
    """Draft lengths 0 to 4 over all loads, in order of value, each point taken `turns` times in its
    engine start.
    """
    points = points_main() + points_decode()
    jobs = (Job(f"{model}-{quant}-k{k}", model, quant, k, points) for k in (0, 2, 4, 1, 3))
    return tuple(replace(job, turns=turns) for job in jobs)


def read_sweep(path: Path, point: type, make: Any) -> tuple[Any, ...]:
    """The engine starts of a sweep file, made by `make` (a class or function) of their entries.

    Raises AdvisorError where the file is no such list.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        jobs = tuple(
            make(**entry)
            for listed in entries
            for entry in _each_k({**listed, "points": _points(listed["points"], point)})
        )
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AdvisorError(f"{path} is no sweep: {error}") from error
    if len({job.label for job in jobs}) < len(jobs):
        raise AdvisorError(f"{path} has two engine starts of one label")
    return jobs


def _points(listed: Sequence[Any], point: type) -> tuple[Any, ...]:
    names = [known.name for known in fields(point)]
    return tuple(
        point(**(one if isinstance(one, dict) else dict(zip(names, one, strict=False))))
        for one in listed
    )


def _each_k(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One entry per draft length; a label holds `{k}` where there are several."""
    lengths = entry["k"] if isinstance(entry["k"], list) else [entry["k"]]
    for k in lengths:
        label = {"label": entry["label"].replace("{k}", str(k))} if "label" in entry else {}
        yield {**entry, **label, "k": k}
