"""The sweeps of `advisor bench step-cost` by engine and name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from advisor.domain.nouns import AdvisorError
from advisor.engines.traits import gguf_engine
from advisor.lab.bench import cells, served_cells
from advisor.lab.bench.cells import Job
from advisor.lab.bench.served_cells import ServedJob
from advisor.lab.bench.shapes import VOCAB, config

# Each engine's sweeps; the first is the default.
SWEEPS = {
    "vllm": ("full", "shapes", "paths", "graphs", "deepgemm", "blocks", "cache", "short"),
    "sglang": ("full", "shapes"),
    "llama-server": ("full", "depth", "places", "ngram", "blocks"),
}
NAMES = tuple(dict.fromkeys(name for names in SWEEPS.values() for name in names))
Jobs = tuple[Job, ...] | tuple[ServedJob, ...]


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
    own = {
        "shapes": cells.shapes_sweep,
        "paths": cells.paths_sweep,
        "graphs": cells.graphs_sweep,
        "deepgemm": cells.deepgemm_sweep,
        "blocks": cells.blocks_sweep,
        "cache": cells.cache_sweep,
        "short": cells.short_sweep,
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
