"""What rules ask of a case beside its flags, said once: numbers, models, data rows.

Rules hold relations only; releases, thresholds and names that a vendor may change stand in
knowledge/rules/*.json and in the engine catalogues.
"""

import re
from collections.abc import Mapping
from typing import Any

from advisor.domain.nouns import Case, Plan
from advisor.engines import names
from advisor.knowledge.rule_data import table
from advisor.rules.registry import GGUF_ENGINES


def is_gguf(case: Case) -> bool:
    """Whether the engine loads GGUF files."""
    return case.plan.engine in GGUF_ENGINES


def number(case: Case, *names: str) -> int | None:
    """The resolved value of a flag of the launch as a whole number."""
    return integer(case.value(*names))


def integer(text: str | None) -> int | None:
    """A whole number: 8192, 128k (x 1000), 128K (x 1024); None beyond 64 bits too."""
    match = re.fullmatch(r"\s*(-?\d{1,20}(?:\.\d{1,20})?)([kKmMgG]?)\s*", text or "")
    if match is None:
        return None
    scale = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
    read = int(float(match[1]) * scale[match[2]])
    return read if abs(read) < 1 << 63 else None


def decimal(text: str | None) -> float | None:
    """A number with a fraction; None for a text that is none."""
    try:
        return float(text or "")
    except ValueError:
        return None


def is_hybrid(case: Case) -> bool | None:
    """Whether the model has recurrent layers, by shape or name; None where neither tells."""
    if case.facts.model is not None:
        return case.facts.model.is_hybrid
    return names.hybrid(model_text(case)) or None


def k_words(plan: Plan) -> str:
    """The text " k=2" for messages; nothing where the number is not known."""
    return f" k={plan.k}" if plan.k else ""


def model_text(case: Case, made: bool = True) -> str:
    """All names of the model in the file; `made`: with the quantisation made at load."""
    texts = [case.plan.model or "", case.launch.model or ""]
    names = ["--model", "--hf-repo", "--hf-file", "--model-path", "--served-model-name", "--alias"]
    names += ["--quantization"] if made else []
    texts += [found.value or "" for found in case.launch.flags if found.name in names]
    return " ".join(texts)


def fp8_kv(case: Case) -> bool:
    """Whether the KV cache is stored in FP8."""
    return (case.plan.kv_cache_dtype or "").lower().startswith("fp8")


def compute_arch(case: Case) -> str | None:
    """sm_90, sm_120 ... of the hardware; None where it is not known."""
    return case.facts.hardware.arch if case.facts.hardware else None


def capability(case: Case) -> int | None:
    """The major compute capability of an NVIDIA card: 9 of sm_90, 12 of sm_120."""
    arch = compute_arch(case) or ""
    return int(arch[3:-1]) if arch.startswith("sm_") else None


def on_rocm(case: Case) -> bool | None:
    """Whether the server runs on ROCm; None where neither hardware nor image tells."""
    if case.facts.hardware is not None:
        return case.facts.hardware.vendor == "amd"
    container, text = case.launch.container, ""
    if container is not None:
        text = f"{case.launch.version_text or ''} {container.image or ''}:{container.tag or ''}"
    if "rocm" in text.lower() or "gfx" in text.lower():
        return True
    return False if "cu1" in text or "cuda" in text.lower() else None


def rows(name: str, key: str) -> tuple[Mapping[str, Any], ...]:
    """A list of rows of knowledge/rules/<name>.json, each with its own sources."""
    return tuple(table(name)[key])
