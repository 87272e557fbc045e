"""A model by its own config.json or GGUF header: the known one of the same shape with the file's
context and quantisation, else one of the file's own numbers.
"""

import os
import struct
from collections.abc import Mapping
from math import prod
from typing import IO, Any

from advisor.domain.facts import LLM, Checkpoint
from advisor.domain.files import open_safely
from advisor.domain.nouns import AdvisorError
from advisor.domain.printable import printable
from advisor.knowledge.model_config import check_number, count, read_config

MAX_HEADER = 1 << 26  # bytes of a GGUF before its tensors: vocabularies take 10 MB
MAX_ENTRIES = 1 << 17  # keys or tensors
MAX_STRINGS = 1 << 20  # of one list
_SAME = ("layers", "hidden", "heads", "kv_heads", "experts", "moe_ffn", "dense_ffn")
_SAME_IF_KNOWN = ("head_dim", "experts_per_token")
PADDING = 0.05  # of a vocabulary, that finetunes and padding add; another tokenizer differs by more
READ = "config"  # the source of what a model's own file says
_KEYS = {
    "layers": "block_count", "hidden": "embedding_length", "heads": "attention.head_count",
    "kv_heads": "attention.head_count_kv", "head_dim": "attention.key_length",
    "dense_ffn": "feed_forward_length", "experts": "expert_count",
    "experts_per_token": "expert_used_count", "moe_ffn": "expert_feed_forward_length",
    "shared_ffn": "expert_shared_feed_forward_length", "mtp_layers": "nextn_predict_layers",
    "max_context_tokens": "context_length",
}  # fmt: skip


def read_model(path: str, known: Mapping[str, LLM]) -> LLM:
    """The model of a file. Raises AdvisorError for one that cannot be read, or tells none."""
    path = path.strip()
    fields = _gguf(path) if path.lower().endswith(".gguf") else read_config(path)
    if not fields.get("layers") or not fields.get("hidden"):
        raise AdvisorError(f"{printable(path)} tells no layers or width: no model can be read")
    _check_together(fields, path)
    quant = fields.pop("quant", None)
    held = (Checkpoint(quant=quant, repository=path, source=READ),) if quant else ()
    for model in known.values():
        if model.proxy is None and _same_shape(model, fields):
            return model.replace(
                max_context_tokens=fields.get("max_context_tokens") or model.max_context_tokens,
                checkpoints=held or model.checkpoints,
                mtp_layers=model.mtp_layers if fields["mtp_layers"] != 0 else 0,  # it has no head
            )
    if fields.pop("state_space", None) or not fields.get("heads"):
        raise AdvisorError(f"{printable(path)}: how large state-space layers are is not known")
    folder = os.path.dirname(os.path.abspath(path)) if path.endswith(".json") else path
    name = str(fields.pop("name", "") or os.path.basename(folder))
    return LLM(
        id="".join(c if c.isalnum() or c in ".-" else "-" for c in name.lower())[:80],
        name=printable(name, 80),
        source=READ,
        checkpoints=held,
        note=f"Read from {printable(os.path.basename(path), 80)}.",
        **_parameter_counts(fields),
    )


def _same_shape(model: LLM, fields: Mapping[str, Any]) -> bool:
    pairs = [(getattr(model, n), fields.get(n)) for n in _SAME]
    alike = ((a or 0) == (b or 0) or (b is None and a is not None) for a, b in pairs)
    words, own = model.vocab, fields.get("vocab")
    if words and own and abs(words - own) > PADDING * words:
        return False
    return all(alike) and all(
        None in (getattr(model, n), fields.get(n)) or getattr(model, n) == fields[n]
        for n in _SAME_IF_KNOWN
    )


def _check_together(fields: Mapping[str, Any], path: str) -> None:
    """Raises AdvisorError for numbers that no model has together."""
    for part, whole, words in (
        ("experts_per_token", "experts", "experts a token than experts"),
        ("kv_heads", "heads", "key and value heads than attention heads"),
    ):
        if fields.get(whole) and (fields.get(part) or 0) > fields[whole]:
            raise AdvisorError(f"{printable(path)}: more {words}: {fields[part]}, {fields[whole]}")


def _parameter_counts(fields: dict[str, Any]) -> dict[str, Any]:
    """Parameter counts from the shape; what a GGUF counted stays."""
    layers, hidden, vocab = fields["layers"], fields["hidden"], fields.get("vocab") or 150_000
    heads, index = fields["heads"], fields.pop("index_dim", None)
    kv = fields.get("kv_heads") or heads
    width = fields.get("head_dim") or hidden // heads
    linear, state = fields.pop("linear_layers", 0) or 0, fields.pop("state", 0)
    full = layers - linear
    attention = 2 * hidden * width * (heads + kv)
    experts, moe = fields.get("experts"), fields.get("moe_ffn")
    expert = 3 * hidden * (moe or 0)
    shared = 3 * hidden * (fields.get("shared_ffn") or 0) * layers if experts else 0
    dense = 0 if experts else 3 * hidden * (fields.get("dense_ffn") or 4 * hidden) * layers
    mixer, head = attention * layers, vocab * hidden
    body = mixer + shared + dense + 2 * head
    total = fields.pop("total", None) or body + (experts or 0) * expert * layers
    active = body + (fields.get("experts_per_token") or 0) * expert * layers - head
    kind = "moe" if experts else "dense"
    return fields | {
        "arch": f"hybrid-gdn-{kind}" if linear else kind, "heads": heads, "kv_heads": kv,
        "head_dim": width, "vocab": vocab, "moe_layers": layers if experts else None,
        "full_attention_layers": full, "linear_layers": linear, "total_params_b": total / 1e9,
        "active_params_b": min(active, total) / 1e9, "mixer_params_b": mixer / 1e9,
        "dense_ffn_params_b": dense / 1e9, "expert_params_m": expert / 1e6 if experts else None,
        "shared_params_b": shared / 1e9, "lm_head_params_b": head / 1e9,
        "mtp_params_b": (mixer + shared + dense) / layers / 1e9 if fields["mtp_layers"] else None,
        "kv_elems_per_token": float(2 * kv * width * full),
        "index_bytes_per_token": float(layers * (index + 4)) if index else None,  # and a scale each
        "state_mb_per_seq": 4e-6 * state * linear if linear else None,
    }  # fmt: skip


# ---------------------------------------------------------------- GGUF

# bytes and format of the plain types of values, by code (ggml's gguf.md)
_PLAIN = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _LIST = 8, 9


class _Header:
    """Reads a GGUF header front to back, in bounds."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self.stream, self.name, self.read = stream, name, 0

    def take(self, size: int) -> bytes:
        self.read += size
        data = self.stream.read(size) if size >= 0 and self.read <= MAX_HEADER else b""
        if len(data) != size:
            raise AdvisorError(f"{self.name}: the header of this GGUF is cut off or too long")
        return data

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def string(self) -> str:
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """One value; of a list its numbers, or of strings their count."""
        if kind in _PLAIN:
            return self.number(_PLAIN[kind])
        if kind == _STRING:
            return self.string()
        inner, count = (self.number("I"), self.number("Q")) if kind == _LIST else (None, 0)
        if count > MAX_STRINGS or (inner != _STRING and inner not in _PLAIN):
            raise AdvisorError(f"{self.name}: this GGUF's header has a value of no known kind")
        if inner == _STRING:
            for _ in range(count):
                self.take(self.number("Q"))
            return count
        form = _PLAIN[inner]
        return struct.unpack(f"<{count}{form}", self.take(count * struct.calcsize("<" + form)))


def _gguf(path: str) -> dict[str, Any]:
    """The fields of a GGUF's header, with its tensors counted."""
    with open_safely(path) as stream:
        header = _Header(stream, printable(os.path.basename(path), 80))
        if header.take(4) != b"GGUF" or header.number("I") not in (2, 3):
            raise AdvisorError(f"{header.name} is no GGUF file of version 2 or 3")
        tensors, keys = header.number("Q"), header.number("Q")
        if max(tensors, keys) > MAX_ENTRIES:
            raise AdvisorError(f"{header.name}: the header of this GGUF is cut off or too long")
        values = {header.string(): header.value(header.number("I")) for _ in range(keys)}
        total = 0
        for _ in range(tensors):
            header.string()
            total += prod(header.number("Q") for _ in range(min(header.number("I"), 4)))
            header.take(12)
    arch = str(values.get("general.architecture", ""))
    found = {
        name: check_number(_most(values.get(f"{arch}.{key}")), name, f"{arch[:40]}.{key}", path)
        for name, key in _KEYS.items()
    }
    if found["experts"]:
        found["dense_ffn"] = None if found["moe_ffn"] else found["dense_ffn"]
    extra = found["mtp_layers"] = found["mtp_layers"] or 0  # counted among the blocks
    layers = found["layers"] = (found["layers"] or 0) - extra
    every = count(values.get(f"{arch}.full_attention_interval"))
    found["linear_layers"] = layers - layers // every if every else 0
    ssm = (values.get(f"{arch}.ssm.{key}") for key in ("state_size", "inner_size"))
    found["state"] = (count(next(ssm)) or 0) * (count(next(ssm)) or 0)
    vocab = count(values.get("tokenizer.ggml.tokens"))
    name = str(values.get("general.name") or "")[:80]
    return found | {"vocab": vocab, "total": total or None, "name": name, "family": arch[:40]}


def _most(value: Any) -> Any:
    """A value that may differ by layer: the largest."""
    return max(value, default=None) if isinstance(value, tuple) else value
