"""Turn measurement-table rows into `Points` (proposed plans: points_plans).

Names (hardware, model, quantisation) are resolved through `knowledge`, once per distinct spelling.
A name that is not known is not an error as long as something says how big the model is: the point
then carries NaN and `fill` says what stands in. What is read here is only what the row says: no
prior, no default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from advisor.domain.nouns import AdvisorError, UnknownFact
from advisor.domain.shown import shown
from advisor.engines.traits import gguf_engine
from advisor.knowledge import store as knowledge
from advisor.knowledge.imputed import architecture, table
from advisor.perf import arrays as P
from advisor.perf.kernel_paths import kernel_path, tiled_kernels

if TYPE_CHECKING:
    from advisor.domain.nouns import LLM, Hardware, Quant

NAN = float("nan")
Row = Mapping[str, str]
Vector = dict[str, float]

ENGINE_ALIASES = {
    "llama.cpp": "llama-server", "llamacpp": "llama-server", "llama-cpp": "llama-server",
    "llama_server": "llama-server",
    "ik-llama.cpp": "ik_llama.cpp", "ik_llama": "ik_llama.cpp", "trtllm": "tensorrt-llm", "trt-llm": "tensorrt-llm",
    "mlx-lm": "mlx", "mlx_lm": "mlx", "vllm-mlx": "mlx", "omlx": "mlx", "lm-studio": "lmstudio",
    "llama-cpp-python": "llama-server", "vllm-ascend": "vllm",
}  # fmt: skip
METHOD_ALIASES = {
    "nextn": "mtp", "qwen3_next_mtp": "mtp", "qwen3_5_mtp": "mtp", "draft-mtp": "mtp", "deepseek_mtp": "mtp",
    "draft": "draft_model", "draft-model": "draft_model", "draft_simple": "draft_model", "standalone": "draft_model",
    "eagle-3": "eagle3", "eagle-1": "eagle", "eagle2": "eagle", "eagle-2": "eagle", "n-gram": "ngram",
    "lookup": "ngram", "prompt-lookup": "ngram", "ngram-mod": "ngram", "ngram-cache": "ngram", "suffix": "ngram",
    "off": "none",
    "baseline": "none", "draft-dflash": "dflash",
}  # fmt: skip
METRIC_ALIASES = {
    "tpot_ms": "tpot",
    "ttft_ms": "ttft",
    "throughput": "output_tok_s",
    "decode_tok_s": "request_tok_s",
}
# What people write into a cell that they have no number for
_UNKNOWN = {"", "?", "-", "n/a", "na", "none", "null", "unknown", "auto", "default", "nan"}
_TRUE, _FALSE = {"1", "1.0", "on", "true", "yes"}, {"0", "0.0", "off", "false", "no"}
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)b(?:-a(\d+(?:\.\d+)?)b)?(?![a-z0-9])", re.I)
DRAFT_SIZE = re.compile(r"(\d+(?:\.\d+)?)b\b", re.I)
_TREE = re.compile(r"topk (\d+)\D+?(\d+)", re.I)
_P_MIN = re.compile(r"p[-_]min[ =](\d*\.\d+)")
MOST_DRAFTED = (
    256  # ours: four times the longest measured draft (64, lookups); more is a slip of the pen
)


def number(text: object) -> float:
    """A finite float from a cell, else NaN."""
    try:
        value = float(str(text).strip())
    except ValueError:
        return NAN
    return value if math.isfinite(value) else NAN


def positive(text: object) -> float:
    """A number above 0, else NaN."""
    value = number(text)
    return value if value > 0 else NAN


def not_negative(text: object) -> float:
    value = number(text)
    return value if value >= 0 else NAN


def draft_tokens(text: object) -> float:
    """A whole number of drafted tokens, else NaN."""
    value = number(text)
    return value if 0 <= value <= MOST_DRAFTED and value == round(value) else NAN


def at_least_one(text: object) -> float:
    value = number(text)
    return value if value >= 1 else NAN


def boolean(text: object) -> float:
    word = str(text).strip().lower()
    return 1.0 if word in _TRUE else 0.0 if word in _FALSE else NAN


def fraction(text: object) -> float:
    value = number(text)
    return value if 0 <= value <= 1 else NAN


_FIRST_RELEASES, _LATER_RELEASES = 10560.0, 10850.0


def version_number(engine: str, text: str) -> float:
    """A sortable number from a version text: 0.25.1 -> 2501, b9860 -> 9860, NaN if it does not say.

    llama.cpp counts builds, and since August 2026 releases too: 0.2 is taken as b10560, later ones
    as b10850.
    """
    found = re.match(r"[v~]?(\d+)\.(\d+)(?:\.(\d+))?", text.strip())
    if found and not gguf_engine(engine):
        major, minor, patch = (int(part or 0) for part in found.groups())
        return float(major * 10000 + minor * 100 + patch)
    built = re.search(r"\bb(\d{3,6})\b", text)
    if built:
        return float(built.group(1))
    if found and int(found.group(1)) == 0:
        return _FIRST_RELEASES if int(found.group(2)) <= 2 else _LATER_RELEASES
    return NAN


# ---------------------------------------------------------------- names


def _value(quantity: object, scale: float) -> float:
    value = getattr(quantity, "value", None)
    return NAN if value is None else float(value) * scale


def scaled(value: float | None, scale: float = 1.0) -> float:
    return NAN if value is None else float(value) * scale


def hardware_vector(hw: Hardware) -> Vector:
    """The fields of `Points` that one accelerator gives."""
    return {
        "bw": _value(hw.memory_bandwidth_gb_s, 1e9),
        "bw_measured": _value(hw.memory_bandwidth_measured_gb_s, 1e9),
        "bf16": _value(hw.bf16_tflops, 1e12),
        "fp8": _value(hw.fp8_tflops, 1e12),
        "int8": _value(hw.int8_tops, 1e12),
        "fp4": _value(hw.fp4_tflops, 1e12),
        "fp32": _value(hw.fp32_tflops, 1e12),
        "memory_bytes": _value(
            hw.memory_gb, 2.0**30
        ),  # vendors write GB where the device reports GiB
        "unified": float(hw.unified_memory),
        "link_bw": _value(hw.link_gb_s, 1e9),
        "arch": P.code(P.ARCHS, architecture(hw.gpu_family or hw.arch)),
        "hw_class": P.code(P.CLASSES, hw.hardware_class),
    }


def family_word(llm_id: str, family: str = "") -> str:
    """Model family as far as acceptance and kernels care: one recipe, one word."""
    text = f"{family} {llm_id}".lower()
    if re.search(r"qwen3[._]?[5-9]|qwen3-next|qwen3\.5-3\.6", text):
        return "qwen3.5"
    for part, word in (
        ("qwen", "qwen3"),
        ("qwq", "qwen3"),
        ("deepseek", "deepseek"),
        ("glm", "glm"),
        ("gemma", "gemma"),
    ):
        if part in text:
            return word
    return "llama" if "llama" in text else "other" if llm_id else "unknown"


def model_vector(llm: LLM, shape: LLM | None) -> Vector:
    """The fields of `Points` that one model gives; `shape` is its own or its proxy's, None where
    neither is known.
    """
    own = shape or llm
    state = scaled(own.state_mb_per_seq, 1e6)
    moe = llm.is_moe or own.is_moe
    known = own.layers is not None
    swa_head_dim = own.swa_head_dim or own.head_dim or 0
    return {
        "mixer_params": scaled(own.mixer_params_b, 1e9),
        "dense_ffn_params": scaled(own.dense_ffn_params_b, 1e9),
        "expert_params": scaled(own.expert_params_m, 1e6) if moe else 0.0,
        "experts": scaled(own.experts) if moe else 0.0,
        "topk": scaled(own.experts_per_token) if moe else 0.0,
        "moe_layers": scaled(own.moe_layers) if moe else 0.0,
        "shared_params": scaled(own.shared_params_b, 1e9),
        "lm_head_params": scaled(own.lm_head_params_b, 1e9),
        "mtp_params": scaled(own.assistant_params_b or own.mtp_params_b or None, 1e9),
        "draft_head_params": 0.0 if own.assistant_params_b else NAN,
        "layers": scaled(own.layers),
        "attn_layers": scaled((own.full_attention_layers or 0) + (own.swa_layers or 0) or None),
        "global_layers": scaled(own.full_attention_layers),
        "window": float(own.swa_window or 0),
        "swa_kv_elems": float(
            2 * (own.swa_layers or 0) * (own.swa_kv_heads or own.kv_heads or 0) * swa_head_dim
        ),
        "swa_head_dim": float(swa_head_dim),
        "linear_layers": scaled(own.linear_layers) if own.is_hybrid else (0.0 if known else NAN),
        "hidden": scaled(own.hidden),
        "heads": scaled(own.heads),
        "head_dim": scaled(own.head_dim),
        "state_bytes": state if own.is_hybrid else (0.0 if known else NAN),
        "kv_elems": scaled(own.kv_elems_per_token),
        "total_params": scaled(llm.total_params_b or own.total_params_b, 1e9),
        "active_params": scaled(llm.active_params_b or own.active_params_b, 1e9),
        "is_moe": float(moe) if known or moe else NAN,
        "is_hybrid": float(own.is_hybrid) if known or own.is_hybrid else NAN,
        "family": P.code(P.FAMILIES, family_word(llm.id, llm.family)),
    }


def quant_vector(quant: Quant) -> Vector:
    """The fields of `Points` that one quantisation gives."""
    return {
        "bytes_mixer": quant.bytes_mixer,
        "bytes_ffn": quant.bytes_ffn,
        "bytes_lm_head": quant.bytes_lm_head,
        "bytes_mtp": quant.bytes_mtp,
        "bytes_mtp_lm_head": quant.bytes_mtp_lm_head,
        "quant_bits": scaled(quant.bits),
        "quant_family": P.code(P.QUANT_FAMILIES, quant.family),
    }


@lru_cache(maxsize=4096)
def _hardware(name: str) -> Vector:
    try:
        return hardware_vector(knowledge.hardware(name)) if name else {}
    except UnknownFact:
        text = name.lower()
        kind = "apple" if "apple" in text else "unknown"
        return {"arch": P.code(P.ARCHS, kind), "unified": 1.0 if kind == "apple" else NAN}


def _known_shape(llm: LLM) -> LLM | None:
    try:
        shape: LLM = knowledge.shape_of(llm)
    except AdvisorError:
        return None
    return shape


@lru_cache(maxsize=4096)
def _model(name: str) -> tuple[Vector, bool]:
    """Fields of a model name, and whether the name means anything at all."""
    if not name:
        return {}, False
    try:
        llm = knowledge.llm(name)
        return model_vector(llm, _known_shape(llm)), True
    except UnknownFact:
        pass
    family = P.code(P.FAMILIES, family_word(name))
    size = _SIZE.search(name)
    if size:
        total, active = float(size.group(1)), float(size.group(2) or size.group(1))
        return {"total_params": total * 1e9, "active_params": active * 1e9, "family": family}, True
    return {"family": family}, P.FAMILIES[family] != "other"


@lru_cache(maxsize=4096)
def _quant(name: str) -> Vector:
    if not name:
        return {}
    try:
        return quant_vector(knowledge.quant(name))
    except UnknownFact:
        found = knowledge.quant_from_text(name)
        return quant_vector(found) if found else {}


# ---------------------------------------------------------------- words


def normal(text: object) -> str:
    return str(text or "").strip().lower()


def _row_words(row: Row) -> tuple[Vector, str | None]:
    """Codes, names and the error of one row."""
    engine = ENGINE_ALIASES.get(normal(row.get("engine")), normal(row.get("engine")))
    method = METHOD_ALIASES.get(normal(row.get("spec_method")), normal(row.get("spec_method")))
    metric = METRIC_ALIASES.get(
        normal(row.get("speedup_metric")), normal(row.get("speedup_metric"))
    )
    model, model_known = _model(str(row.get("model") or "").strip())
    hardware = _hardware(str(row.get("hardware") or "").strip())
    made: Vector = {**hardware, **model, **_quant(str(row.get("quant") or "").strip())}
    total, active = positive(row.get("total_params_b")), positive(row.get("active_params_b"))
    for name, value in (("total_params", total), ("active_params", active)):
        if math.isnan(made.get(name, NAN)):
            made[name] = value * 1e9
    if math.isnan(made.get("is_moe", NAN)):
        made["is_moe"] = boolean(row.get("is_moe"))
    version = str(row.get("engine_version") or "")
    hints = f"{row.get('spec_extra') or ''} {version}"
    made["engine"] = P.code(P.ENGINES, engine)
    made["path"] = kernel_path(
        engine, int(made.get("arch", 0)), hints, int(made.get("hw_class", 0))
    )
    made["tiled"] = tiled_kernels(engine, version)
    made["method"] = P.METHOD_CODE.get(method, 0)  # type: ignore[call-overload]
    made["metric"] = P.code(P.METRICS, metric)
    made["link"] = P.code(P.LINKS, normal(row.get("interconnect")))
    made["workload"] = P.code(P.WORKLOADS, normal(row.get("workload")))
    made["version"] = version_number(engine, version)
    made["kv_bytes"] = table("kv_cache_types").get(normal(row.get("kv_cache_dtype")), NAN)
    made.update(_spec_extra(str(row.get("spec_extra") or ""), method))
    graphs = normal(row.get("cuda_graphs"))
    eager = graphs in (
        "0",
        "off",
        "none",
        "eager",
    )  # a setting of the server: neither arm has graphs
    made["eager"] = 1.0 if eager else NAN
    made["piecewise"] = (
        1.0 if graphs == "piecewise" else 0.0 if eager or graphs.startswith(("full", "1")) else NAN
    )
    error = None
    if metric not in P.METRICS[1:]:
        error = f"unknown speedup_metric '{metric}'; use one of {', '.join(P.METRICS[1:])}"
    elif method not in P.METHOD_CODE:
        error = f"unknown spec_method '{method}'; use one of {', '.join(P.METHOD_CODE)}"
    elif not model_known and math.isnan(total):
        error = "neither the model nor total_params_b is known; give one of them"
    return made, error


def _spec_extra(text: str, method: str) -> Vector:
    """What the free text of a method says: tree width, early stop, size of a separate draft model."""
    made: Vector = {}
    tree = _TREE.search(text)
    if tree and int(tree.group(1)) > 1:
        made["verify_tokens"] = float(tree.group(2))
    p_min = _P_MIN.search(text)
    if p_min:
        made["p_min"] = float(p_min.group(1))
    size = DRAFT_SIZE.search(text) if method == "draft_model" else None
    if size:
        made["draft_params"] = float(size.group(1)) * 1e9
    return made


NUMBER_COLUMNS: dict[str, tuple[str, Callable[[object], float]]] = {
    "k": ("k", draft_tokens), "tp": ("tp", positive), "gpus": ("gpu_count", positive),
    "concurrency": ("concurrency", positive), "input_tokens": ("input_tokens", not_negative),
    "output_tokens": ("output_tokens", positive), "depth_tokens": ("depth_tokens", not_negative),
    "prefix_caching": ("prefix_caching", boolean), "prefix_share": ("prefix_share", fraction),
    "max_num_seqs": ("max_num_seqs", positive), "max_num_batched_tokens": ("max_num_batched_tokens", positive),
    "kv_pool_tokens": ("kv_pool_tokens", positive), "n_requests": ("n_requests", positive),
    "output_spread": ("output_spread", fraction), "temperature": ("temperature", not_negative),
    "thinking": ("thinking", boolean), "given_rate": ("acceptance_rate", fraction),
    "given_length": ("acceptance_length", at_least_one),
}  # fmt: skip
_MODEL_COLUMNS: dict[str, Callable[[object], float]] = {
    "total_params_b": positive, "active_params_b": positive, "is_moe": boolean,
}  # fmt: skip
_WANTED: dict[Callable[[object], float], str] = {
    positive: "a number above 0", not_negative: "a number of at least 0", at_least_one: "a number of at least 1",
    fraction: "a number from 0 to 1", boolean: "on or off", draft_tokens: f"a whole number from 0 to " f"{MOST_DRAFTED}",
}  # fmt: skip


def _column(
    rows: Sequence[Row], column: str, read: Callable[[object], float], errors: list[str | None]
) -> npt.NDArray[np.float64]:
    """One numeric column (N,), NaN = unknown. A cell that says something which is no such number is
    its row's error.
    """
    values = np.array([read(row.get(column)) for row in rows], dtype=np.float64)
    for i in np.flatnonzero(np.isnan(values)).tolist():
        cell = rows[i].get(column)
        if cell and errors[i] is None and normal(cell) not in _UNKNOWN:
            errors[i] = (
                f"{column} '{shown(str(cell).strip(), 40)}' is not {_WANTED[read]}; correct it, or leave it empty if it "
                f"is not known"
            )
    return values


def from_rows(rows: Sequence[Row]) -> tuple[P.Points, list[str | None]]:
    """Points from rows with the measurement table's columns (all optional, all text), and one error
    or None per row.

    A row with an error still gets a point, so that both have the length of `rows`. Never raises for
    a row's content.
    """
    words: list[Vector] = []
    errors: list[str | None] = []
    for row in rows:
        made, error = _row_words(row)
        words.append(made)
        errors.append(error)
    n = len(rows)
    columns: dict[str, object] = {}
    for name in {key for made in words for key in made}:
        missing = 0 if name in P.CODE_FIELDS else NAN
        columns[name] = np.array([made.get(name, missing) for made in words])
    for name, (column, read) in NUMBER_COLUMNS.items():
        columns[name] = _column(rows, column, read, errors)
    for column, read in _MODEL_COLUMNS.items():
        _column(
            rows, column, read, errors
        )  # read with the model's name; here only for what is wrong with it
    return P.build(n, columns), errors
