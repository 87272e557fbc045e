"""Regular expressions that are compiled when they are first used: an answer touches few of them."""

from __future__ import annotations

import re
from typing import Any, cast


def lazy_re(text: str, flags: int = 0) -> re.Pattern[str]:
    """`re.compile(text, flags)`, put off until the first use. Raises re.error then."""
    return cast("re.Pattern[str]", _LazyRe(text, flags))


class _LazyRe:
    """Stands for a compiled pattern; takes over its methods when one is first asked for."""

    def __init__(self, text: str, flags: int) -> None:
        self.pattern, self.flags = text, flags

    def __getattr__(self, name: str) -> Any:
        made = getattr(re.compile(self.pattern, self.flags), name)
        setattr(self, name, made)
        return made
