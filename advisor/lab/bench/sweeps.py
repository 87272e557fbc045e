"""The sweeps of `advisor bench step-cost` by engine and name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from advisor.domain.nouns import AdvisorError
from advisor.engines.traits import gguf_engine
from advisor.lab.bench import cells, served_cells
from advisor.lab.bench.cells import PROMPT_GRAPHS, Job, Point, step_graphs
from advisor.lab.bench.served_cells import ServedJob
from advisor.lab.bench.shapes import VOCAB, config

# Each engine's sweeps; the first is the default.
SWEEPS = {
    "vllm": ("full", "shapes", "paths", "graphs", "deepgemm", "blocks", "cache", "short", "dense"),
    "sglang": ("full", "shapes"),
    "llama-server": ("full", "depth", "places", "ngram", "blocks"),
}
NAMES = tuple(dict.fromkeys(name for names in SWEEPS.values() for name in names))
Jobs = tuple[Job, ...] | tuple[ServedJob, ...]


def short_dense_sweep() -> tuple[Job, ...]:
    """Short prompts on Llama 3.1 8B, none of whose layers has experts or recurrence: within graphs
    of 512 tokens, and beyond the 32 tokens that an install for 16 requests captures (`seqs16`). All
    three engines stand on an 80 GB card together.
    """
    made = []
    for k, method, seqs, gib, path in (
        (0, "mtp", 256, 7.8, "-short"),
        (0, "mtp", 16, 2.2, "-seqs16"),
        (2, "eagle3", 256, 8.2, "-short-eagle3"),
    ):
        few = seqs == 16
        points = tuple(
            # plain steps of one request take most of the time and say least
            Point(c, t, 128 if c > 1 else 48, rounds=2)
            for t in (64, 256, 512, 768, 2048)
            for c in (1, 4, 16, 64)
            if c <= seqs and not (few and t == 2048) and c * t < 64 * 2048
        )
        more = (24, 32) if few else (*PROMPT_GRAPHS, 496)
        graphs = tuple(sorted({*more, *step_graphs(k, points)}))
        most: dict[str, Any] = {"max_num_seqs": seqs, "max_model_len": 3072, "kv_gib": gib}
        name = f"llama-3.1-8b-bf16-k{k}{path}"
        made.append(
            Job(name, "llama-3.1-8b", "bf16", k, points, method=method, graph_sizes=graphs, **most)
        )
    return tuple(made)


def engine_starts(
    engine: str,
    name: str,
    *,
    model: str,
    quant: str,
    gguf: Path | None = None,
    server: str = "llama-server",
    version: str = "",
    vocabulary: int = VOCAB,
    turns: int = 1,
) -> Jobs:
    """The engine starts of one sweep, most valuable first.

    vLLM's and SGLang's sweeps bring their own models, all but `full`; `gguf` is the file that
    llama-server reads.

    Raises
    ------
    AdvisorError
        The engine has no such sweep, or llama-server no file.
    UnknownFact
        The model's shape is not known.
    """
    if name not in SWEEPS[engine]:
        raise AdvisorError(
            f"{engine} has no sweep '{name}'; its sweeps are {', '.join(SWEEPS[engine])}."
        )
    if gguf_engine(engine):
        if gguf is None:
            raise AdvisorError("llama-server needs a model file; give --gguf FILE.")
        about: dict[str, Any] = {"model": model, "quant": quant, "server": server}
        about |= {"campaign": gguf.stem, "vocabulary": vocabulary, "version": version}
        made = {
            "full": served_cells.llama_sweep,
            "depth": served_cells.llama_depth_sweep,
            "places": served_cells.llama_places_sweep,
            "ngram": served_cells.llama_ngram_sweep,
            "blocks": served_cells.llama_blocks_sweep,
        }
        return made[name](gguf, **about)
    config(model, quant)
    if engine == "sglang":
        return (
            served_cells.sglang_shapes(version)
            if name == "shapes"
            else served_cells.sglang_sweep(model, quant, version)
        )
    own: dict[str, Callable[[], tuple[Job, ...]]] = {
        "shapes": cells.shapes_sweep,
        "paths": cells.paths_sweep,
        "graphs": cells.graphs_sweep,
        "deepgemm": cells.deepgemm_sweep,
        "blocks": cells.blocks_sweep,
        "cache": cells.cache_sweep,
        "short": cells.short_sweep,
        "dense": short_dense_sweep,
    }
    if name in own:
        return own[name]()
    return cells.sweep(model, quant, turns)


def check_together(jobs: Sequence[Job | ServedJob], together: int) -> None:
    """Engines that stand side by side on a card need a memory bound and a port of their own.

    Raises
    ------
    AdvisorError
        They lack one.
    """
    if together == 1:
        return
    for start in range(0, len(jobs), together):
        group = jobs[start : start + together]
        own = [job for job in group if isinstance(job, Job)]
        ports = [job.port for job in group if isinstance(job, ServedJob)]
        if any(not job.kv_gib for job in own) or len(set(ports)) < len(ports):
            names = ", ".join(job.label for job in group)
            raise AdvisorError(
                f"{names} cannot stand on one GPU together: each takes all of its memory or the "
                f"same port. --together is for the sweeps that bring their own models."
            )
