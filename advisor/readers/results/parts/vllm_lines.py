"""What vLLM prints of itself at its start: release, model and speculation.

Source: `vllm/v1/engine/core.py` ("Initializing a V1 LLM engine") and the form of its
`SpeculativeConfig`, releases 0.9 to 0.33.
"""

from __future__ import annotations

import re
from typing import Any

_START = re.compile(
    r"Initializing an? (?:V\d )?LLM engine \(v?([0-9][\w.+-]*)\) with config: "
    r"model='([^'\n]{1,300})', (?:speculative_config|speculative_decoding_config)="
    r"(None|SpeculativeConfig\([^)\n]*\))"
)
_VERSION = re.compile(r"vLLM (?:API server )?version v?(\d+\.\d+\.\d+)")


def start_of(text: str) -> dict[str, Any]:
    """Fields of a run that the start of the engine states; what is not printed is left out."""
    found: dict[str, Any] = {}
    if version := _VERSION.search(text):
        found["engine_version"] = version[1]
    start = _START.search(text)
    if start is None:
        return found
    found |= {"engine_version": start[1], "model": start[2]}
    if start[3] == "None":
        return found | {"method": "none"}
    method = re.search(r"method='(\w+)'", start[3])
    tokens = re.search(r"num_spec_tokens=(\d{1,3})\b", start[3])
    if method:
        found["method"] = method[1]
    if tokens:
        found["k"] = int(tokens[1])
    return found
