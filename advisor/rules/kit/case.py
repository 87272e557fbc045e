"""What rules ask of a case, said once: flags and where they stand, models, fixes, data rows.

Rules hold relations only; releases, thresholds and names that a vendor may change stand in
knowledge/rules/*.json and in the engine catalogues.
"""

import re
from collections.abc import Mapping
from typing import Any

from advisor.domain.nouns import Case, Flag, Launch, Plan
from advisor.engines import names
from advisor.knowledge.rule_data import table
from advisor.rules.registry import GGUF_ENGINES

SPECULATION = (
    *("--speculative-config", "--spec-method", "--spec-model", "--speculative-algorithm"),
    *("--spec-type", "--spec-draft-model", "--spec-draft-n-max"),
)


def is_gguf(case: Case) -> bool:
    """Whether the engine loads GGUF files."""
    return case.plan.engine in GGUF_ENGINES


_named: tuple[Launch | None, dict[str, Flag]] = (None, {})


def flag(case: Case, *names: str) -> Flag | None:
    """The last flag of the launch with one of these canonical names."""
    global _named  # noqa: PLW0603 - one slot: all rules ask for flags of the same launch in a row
    if _named[0] is not case.launch:
        _named = (case.launch, {found.name: found for found in case.launch.flags})
    held = _named[1]
    for name in names:
        if name in held:
            return held[name]
    return None


def certain(case: Case, *names: str) -> Flag | None:
    """The last flag with one of these names, unless only a variable knows its value."""
    given = flag(case, *names)
    return None if given is None or given.unresolved else given


def value(case: Case, *names: str) -> str | None:
    """The resolved value of a flag of the launch."""
    given = certain(case, *names)
    return given.value if given is not None else None


def number(case: Case, *names: str) -> int | None:
    """The resolved value of a flag of the launch as a whole number."""
    return integer(value(case, *names))


def open_value(case: Case, *names: str) -> bool:
    """Whether one of these options has a value that only a variable knows."""
    found = flag(case, *names)
    return found is not None and found.unresolved


def has_switch(case: Case, *names: str) -> bool:
    """Whether a switch is on: given bare or with a true value."""
    found = flag(case, *names)
    return found is not None and (found.value or "true").lower() not in ("false", "0", "off", "no")


def unread(case: Case) -> bool:
    """Whether more flags may come from a variable, or an image that adds its own."""
    launch, variable = case.launch, any(one.unresolved for one in case.launch.flags)
    return launch.image_adds_options or launch.open_end or variable


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


def spec_flag(case: Case) -> Flag | None:
    """The flag that turns speculation on, for the place of a finding."""
    return flag(case, *SPECULATION)


def k_flag(case: Case) -> Flag | None:
    """The flag that sets the number of draft tokens, else the one that turns speculation on."""
    block = "--speculative-dspark-block-size"
    names = ("--spec-tokens", "--speculative-num-steps", "--spec-draft-n-max", block)
    return flag(case, *names) or spec_flag(case)


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


def rows(name: str, key: str) -> tuple[Mapping[str, Any], ...]:
    """A list of rows of knowledge/rules/<name>.json, each with its own sources."""
    return tuple(table(name)[key])


def hardware_name(case: Case) -> str:
    """Return the hardware's name for a message."""
    hw = case.facts.hardware
    return (hw.name or hw.id) if hw else "this hardware"


def model_name(case: Case) -> str:
    """Return the model's name for a message."""
    model = case.facts.model
    return (model.name or model.id) if model else "this model"
