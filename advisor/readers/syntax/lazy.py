"""Regular expressions that are compiled when they are first used: most files need few of them, and
the start is to be fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property


class Lazy:
    """What the readers need of `re.Pattern`."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self.text, self.flags = text, flags

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled expression."""
        return re.compile(self.text, self.flags)

    @property
    def pattern(self) -> str:
        """The source of the expression."""
        return self.text

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        """Same as `re.Pattern.match`."""
        return self.regex.match(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """Same as `re.Pattern.fullmatch`."""
        return self.regex.fullmatch(text)

    def search(self, text: str) -> re.Match[str] | None:
        """Same as `re.Pattern.search`."""
        return self.regex.search(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """Same as `re.Pattern.finditer`."""
        return self.regex.finditer(text)

    def findall(self, text: str) -> list[str]:
        """Same as `re.Pattern.findall`."""
        return self.regex.findall(text)

    def sub(self, new: str | Callable[[re.Match[str]], str], text: str) -> str:
        """Same as `re.Pattern.sub`."""
        return self.regex.sub(new, text)
