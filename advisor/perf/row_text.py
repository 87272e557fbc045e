"""What a row says beside its columns, put into columns of its own: shared by training and batch
prediction.

Free text names the thinking mode and the backend. And an `output_tok_s` at a long prompt that is
just streams x
`request_tok_s` contains no prefill: such a row is about decode speed, whatever its column is
called.
"""

from __future__ import annotations

from collections.abc import Mapping

from advisor.domain.sourced import sourced

# Columns that are read or written here
READ = (
    "notes", "thinking", "spec_extra", "speedup_metric", "output_tok_s", "request_tok_s",
    "concurrency", "input_tokens",
)  # fmt: skip
_BACKENDS = ("vulkan", "rocm", "hip")
_SAME = sourced(
    0.03,
    "share",
    "Gap up to which output tok/s counts as streams x request tok/s: the replicate spread",
    "measured",
)

_NO_PREFILL = ("pd disaggregation", "disaggregated prefill")


def row_text(row: Mapping[str, str]) -> dict[str, str]:
    """A copy of the row in which thinking mode, backend and the real metric stand where they are
    read.
    """
    raw = dict(row)
    notes = (raw.get("notes") or "").lower()
    if not (raw.get("thinking") or "").strip():
        if any(
            word in notes for word in ("nonthinking", "non-thinking", "thinking off", "no thinking")
        ):
            raw["thinking"] = "0"
        elif "thinking" in notes:
            raw["thinking"] = "1"
    extra = raw.get("spec_extra") or ""
    words = [word for word in _BACKENDS if word in notes and word not in extra.lower()]
    if words:
        raw["spec_extra"] = f"{extra} {words[0]}".strip()
    if (raw.get("speedup_metric") or "").strip().lower() == "output_tok_s" and decode_only(raw):
        raw["speedup_metric"] = "request_tok_s"
    return raw


def decode_only(row: Mapping[str, str]) -> bool:
    """Whether the row's output tok/s has no prefill in it: said so, or equal to streams times one
    stream's decode speed.
    """
    if any(word in (row.get("notes") or "").lower() for word in _NO_PREFILL):
        return True
    try:
        total, each, streams = (
            float(row.get(name) or "") for name in ("output_tok_s", "request_tok_s", "concurrency")
        )
    except ValueError:
        return False
    prompt = row.get("input_tokens") or "0"
    long_prompt = (
        prompt.strip().isdigit() and int(prompt) >= 4096
    )  # for short prompts both readings agree
    return long_prompt and each * streams > 0 and abs(total / (each * streams) - 1) <= _SAME
