"""Rows of a served sweep (llama-server, SGLang) in the columns that the vLLM sweep's rows have."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]  # a measured point, as a sweep wrote it

LEAST_STEPS = 40  # of a point's decode steps: with fewer, a stray pause decides the figure
# Steps told apart by their arrival run together where prompts of others delay them for long.
OFF = 0.1  # tokens a step may differ from the forced mean before the forced mean is taken
DEFAULT_TEMPERATURE = "0.8"  # of llama-server
TEMPERATURES = {"greedy": "0", "t0": "0", "t1": "1"}
ENGINES = {
    # KV cache type, prompt tokens per batch: the server's defaults
    "llama-server": {"kv_cache_dtype": "f16", "max_num_batched_tokens": 2048},
    "sglang": {"kv_cache_dtype": "bf16", "max_num_batched_tokens": 8192},
}
NOTE = "random weights, forced (synthetic) acceptance; step cost only"
SAMPLERS = {"device": "; sampled on the GPU (backend_sampling)"}


def in_columns(row: Row) -> Row:
    """A measured point with the names and the facts that the importer asks for; a row of the vLLM
    sweep comes back as it is.
    """
    if row.get("engine") not in ENGINES:
        return row
    settings, sampling = row.get("settings", {}), row.get("sampling", "")
    flags = list(settings.get("flags", ()))
    cache = {"kv_cache_dtype": flags[flags.index("-ctk") + 1]} if "-ctk" in flags else {}
    return (
        row
        | ENGINES[row["engine"]]
        | cache
        | {
            "vllm": row["engine_version"],
            "prefix_caching": False,
            "prefix_share": 0.0,
            "max_num_seqs": settings.get("slots", 64),
            "method": settings.get("method", "mtp"),
            "temperature": TEMPERATURES.get(sampling, DEFAULT_TEMPERATURE),
            "notes": NOTE + SAMPLERS.get(sampling, ""),
            "acceptance_length": acceptance_length(row),
        }
    )


def acceptance_length(row: Row) -> float:
    """Tokens a step: as counted, or the forced mean where a closed loop's count has gone astray."""
    counted, forced = float(row["acceptance_length"]), 1.0 + float(sum(row["rates"][: row["k"]]))
    if row["kind"] == "closed" and row["k"] and abs(counted / forced - 1) > OFF:
        return round(forced, 4)
    return counted
