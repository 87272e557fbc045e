"""Turn measurement-table rows into `Points` (proposed plans: encode_plans).

Everything is read column by column, each distinct spelling once: a table repeats its words. What is
read here is only what a row says: no prior, no default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from advisor.domain.nouns import FORMS, METHODS
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import printable
from advisor.knowledge.imputed import table
from advisor.perf import arrays as P
from advisor.perf.arrays import Floats, Mask
from advisor.perf.encoding.cells import (
    NAN,
    UNKNOWN,
    CellReading,
    Columns,
    at_least_one,
    boolean,
    draft_tokens,
    fraction,
    normal,
    not_negative,
    positive,
    read_words,
    together,
    version_number,
)
from advisor.perf.encoding.encode_names import Vector, hardware_of, model_of, quant_of
from advisor.perf.kernels import kernel_path, tiled_kernels
from advisor.perf.regimes.setting import Column
from advisor.perf.sizes.weights import DRAFT_SIZE

Row = Mapping[str, str]


def _by_spelling(names: Mapping[str, str]) -> dict[str, str]:
    return {word: name for name, words in names.items() for word in words.split()}


ENGINE_ALIASES = _by_spelling(
    {
        "llama-server": "llama.cpp llamacpp llama-cpp llama_server llama-cpp-python",
        "ik_llama.cpp": "ik-llama.cpp ik_llama",
        "tensorrt-llm": "trtllm trt-llm",
        "mlx": "mlx-lm mlx_lm vllm-mlx omlx",
        "lmstudio": "lm-studio",
        "vllm": "vllm-ascend",
    }
)
METHOD_ALIASES = FORMS | _by_spelling(
    {
        "mtp": "nextn qwen3_next_mtp qwen3_5_mtp draft-mtp deepseek_mtp",
        "draft_model": "draft draft-model draft_simple standalone",
        "eagle3": "eagle-3",
        "eagle": "eagle-1 eagle2 eagle-2",
        "ngram": "n-gram lookup prompt-lookup ngram-mod ngram-cache",
        "none": "off baseline",
        "dflash": "draft-dflash",
    }
)
METRIC_ALIASES = {
    "tpot_ms": "tpot",
    "ttft_ms": "ttft",
    "throughput": "output_tok_s",
    "decode_tok_s": "request_tok_s",
    "": "output_tok_s",  # a row that names none
}
_TREE = lazy_re(r"topk (\d+)\D+?(\d+)", re.I)
_P_MIN = lazy_re(r"p[-_]min[ =](\d*\.\d+)")
WORDS = (
    "hardware", "model", "quant", "engine", "engine_version", "spec_method", "spec_extra",
    "speedup_metric", "interconnect", "workload", "kv_cache_dtype", "cuda_graphs",
)  # fmt: skip

NUMBER_COLUMNS: dict[str, tuple[str, CellReading]] = {
    "k": ("k", draft_tokens),
    "tp": ("tp", positive),
    "gpus": ("gpu_count", positive),
    "concurrency": ("concurrency", positive),
    "input_tokens": ("input_tokens", not_negative),
    "output_tokens": ("output_tokens", positive),
    "depth_tokens": ("depth_tokens", not_negative),
    "prefix_caching": ("prefix_caching", boolean),
    "prefix_share": ("prefix_share", fraction),
    "max_num_seqs": ("max_num_seqs", positive),
    "max_num_batched_tokens": ("max_num_batched_tokens", positive),
    "kv_pool_tokens": ("kv_pool_tokens", positive),
    "n_requests": ("n_requests", positive),
    "output_spread": ("output_spread", fraction),
    "temperature": ("temperature", not_negative),
    "thinking": ("thinking", boolean),
    "given_rate": ("acceptance_rate", fraction),
    "given_length": ("acceptance_length", at_least_one),
}
_MODEL_COLUMNS: dict[str, tuple[str, CellReading]] = {
    "total_params": ("total_params_b", positive),
    "active_params": ("active_params_b", positive),
    "is_moe": ("is_moe", boolean),
}
COLUMNS = (*WORDS, *(column for column, _ in (*NUMBER_COLUMNS.values(), *_MODEL_COLUMNS.values())))
NAMELESS = "neither the model nor total_params_b is known; give one of them"


def read_engine(text: str) -> str:
    """The engine that a cell names, in our spelling."""
    return ENGINE_ALIASES.get(normal(text), normal(text))


def method_word(text: str) -> str:
    """The method that a cell names, in our spelling."""
    return METHOD_ALIASES.get(normal(text), normal(text))


def _metric(text: str) -> str:
    return METRIC_ALIASES.get(normal(text), normal(text))


def _path(engine: str, hardware: str, extra: str, version: str) -> float:
    vector = hardware_of(hardware.strip())
    arch, hw_class = int(vector.get("arch", 0)), int(vector.get("hw_class", 0))
    return kernel_path(read_engine(engine), arch, f"{extra} {version}", hw_class)


def _graphs(text: str) -> Vector:
    """Whether the server has CUDA graphs; eager is a setting of the server, for both arms."""
    word = normal(text)
    eager = word in ("0", "off", "none", "eager")
    whole = eager or word.startswith(("full", "1"))
    piecewise = 1.0 if word == "piecewise" else 0.0 if whole else NAN
    return {"eager": 1.0 if eager else NAN, "piecewise": piecewise}


def _spec_extra(name: str, text: str, method: str) -> float:
    """What the free text of a method says: tree width, early stop, size of a draft model."""
    if name == "verify_tokens" and (tree := _TREE.search(text)) and int(tree[1]) > 1:
        return float(tree[2])
    if name == "p_min" and (p_min := _P_MIN.search(text)):
        return float(p_min[1])
    if name == "draft_params" and method_word(method) == "draft_model":
        size = DRAFT_SIZE.search(text)
        return float(size[1]) * 1e9 if size else NAN
    return NAN


def _first(errors: list[str | None], bad: Mask, say: Callable[[int], str]) -> None:
    """Write an error for the rows that are bad and have none."""
    for i in np.flatnonzero(bad).tolist():
        if errors[i] is None:
            errors[i] = say(i)


def _column(
    columns: Columns, name: str, read: CellReading, errors: list[str | None], count: int
) -> Floats:
    """One numeric column (N,), NaN = unknown. A cell that is no such number is an error."""
    if name not in columns:
        return np.full(count, NAN)
    cells = read_words(columns, name, count)
    values = cells.numbers(read)
    bad = np.isnan(values)
    _first(
        errors,
        bad & cells.each(lambda cell: normal(cell) not in UNKNOWN) if bad.any() else bad,
        lambda i: (
            f"{name} '{printable(cells.of(i).strip(), 40)}' is not {read.wanted}; "
            "correct it, or leave it empty if it is not known"
        ),
    )
    return values


def from_columns(columns: Columns, count: int) -> tuple[P.Points, list[str | None]]:
    """Points from a measurement table's columns (text, all optional), and an error or None each."""
    word = {name: read_words(columns, name, count) for name in WORDS}
    errors: list[str | None] = [None] * count
    made: dict[str, Any] = _fields(word["hardware"], lambda text: hardware_of(text.strip()))
    made |= _fields(word["model"], lambda text: model_of(text.strip())[0])
    released = made.get("bytes_mixer", NAN)
    made |= _fields(word["quant"], lambda text: quant_of(text.strip()))
    made["bytes_mixer"] = np.fmin(made.get("bytes_mixer", NAN), released)
    engine, version, extra = word["engine"], word["engine_version"], word["spec_extra"]
    made["engine"] = engine.numbers(lambda text: P.code(P.ENGINES, read_engine(text)))
    made["path"] = together((engine, word["hardware"], extra, version), _path)
    made["tiled"] = together((engine, version), lambda e, v: tiled_kernels(read_engine(e), v))
    made["version"] = together((engine, version), lambda e, v: version_number(read_engine(e), v))
    method, metric = word["spec_method"], word["speedup_metric"]
    made["method"] = method.numbers(lambda text: P.code(METHODS, method_word(text)))
    made["metric"] = metric.numbers(lambda text: P.code(P.METRICS, _metric(text)))
    made["link"] = word["interconnect"].numbers(lambda text: P.code(P.LINKS, normal(text)))
    made["workload"] = word["workload"].numbers(lambda text: P.code(P.WORKLOADS, normal(text)))
    kv_types = table("kv_cache_types")
    made["kv_bytes"] = word["kv_cache_dtype"].numbers(lambda text: kv_types.get(normal(text), NAN))
    for name in ("verify_tokens", "p_min", "draft_params"):
        made[name] = together((extra, method), partial(_spec_extra, name))
    made |= _fields(word["cuda_graphs"], _graphs)
    known_model = word["model"].each(lambda text: model_of(text.strip())[1])
    named: list[str | None] = [None] * count
    for name, (column, read) in NUMBER_COLUMNS.items():
        made[name] = _column(columns, column, read, errors, count)
    for name, (column, read) in _MODEL_COLUMNS.items():
        stated = _column(columns, column, read, errors, count)
        known = made.get(name, np.full(count, NAN))
        unit = 1e9 if column.endswith("_b") else 1.0
        made[name] = np.where(np.isnan(known), stated * unit, known)
        if name == "total_params":
            nameless = ~known_model & np.isnan(stated)
    for field, cells, read_word, words in (
        ("speedup_metric", metric, _metric, P.METRICS[1:]),
        ("spec_method", method, method_word, (*P.METHOD_CODE, *FORMS)),
    ):
        _first(
            named,
            cells.each(lambda text: read_word(text) not in words),  # noqa: B023
            lambda i: (
                f"unknown {field} '{printable(read_word(cells.of(i)))}'; "  # noqa: B023
                f"use one of {', '.join(words)}"  # noqa: B023
            ),
        )
    _first(named, nameless, lambda _: NAMELESS)
    return P.build(count, made), [mine or other for mine, other in zip(named, errors, strict=True)]


def _fields(column: Column, read: Callable[[str], Vector]) -> dict[str, Floats]:
    """The fields (N,) that `read` makes of each row's word, NaN (codes: 0) without one."""
    vectors = [read(word) for word in column.distinct]
    missing = {name: 0.0 if name in P.CODE_FIELDS else NAN for made in vectors for name in made}
    return {
        name: np.array([made.get(name, other) for made in vectors], np.float64)[column.codes]
        for name, other in missing.items()
    }


def from_rows(rows: Sequence[Row]) -> tuple[P.Points, list[str | None]]:
    """N points from N rows with the measurement table's columns (all optional, all text), and one
    error or None per row.

    A row with an error still gets a point, so that both have the length of `rows`. Never raises for
    a row's content.
    """
    return from_columns({name: [row.get(name) for row in rows] for name in COLUMNS}, len(rows))
