"""What a row's free text says, put into columns of its own: shared by training and batch prediction."""

from __future__ import annotations

from collections.abc import Mapping

_BACKENDS = ("vulkan", "rocm", "hip")


def row_text(row: Mapping[str, str]) -> dict[str, str]:
    """A copy of the row in which the notes' words on thinking mode and backend stand where they are read."""
    raw = dict(row)
    notes = (raw.get("notes") or "").lower()
    if not (raw.get("thinking") or "").strip():
        if any(word in notes for word in ("nonthinking", "non-thinking", "thinking off", "no thinking")):
            raw["thinking"] = "0"
        elif "thinking" in notes:
            raw["thinking"] = "1"
    extra = raw.get("spec_extra") or ""
    words = [word for word in _BACKENDS if word in notes and word not in extra.lower()]
    if words:
        raw["spec_extra"] = f"{extra} {words[0]}".strip()
    return raw
