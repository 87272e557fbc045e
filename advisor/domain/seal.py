"""Generated JSON that carries a hash of itself: a file that was cut off, edited or mixed up is told
when it is read, not by a wrong answer.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from advisor.domain.nouns import AdvisorError

_HEAD = re.compile(r'\{\s*"generated":\s*"[^"\n]*",\n')
_SEAL = re.compile(rb'\{\s*"generated":\s*"[^"\n]*",\n"sha256":\s*"([0-9a-f]{64})",\n')


def seal(text: str) -> str:
    """The text of a JSON object, whose first line says how it is generated, with the hash of what
    follows as its second key.
    """
    head = _HEAD.match(text)
    assert head is not None, "a generated file says so in line one"
    rest = text[head.end() :]
    return f'{head.group()}"sha256": "{hashlib.sha256(rest.encode()).hexdigest()}",\n{rest}'


def unseal(data: bytes, name: str, remedy: str) -> dict[str, Any]:
    """The object of a sealed file. Raises AdvisorError where the hash is missing or another one."""
    found = _SEAL.match(data)
    if found is None:
        raise AdvisorError(f"{name} is damaged, or of another release (it has no hash): {remedy}")
    if hashlib.sha256(memoryview(data)[found.end() :]).hexdigest().encode() != found.group(1):
        raise AdvisorError(f"{name} is damaged (its content does not match its hash): {remedy}")
    try:
        made: dict[str, Any] = json.loads(data)
    except ValueError:
        raise AdvisorError(f"{name} is damaged (it is no JSON): {remedy}") from None
    del made["sha256"]
    return made
